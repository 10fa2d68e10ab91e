"""``tabgnm play``: the playground in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabgnm.cli.terminal import UsageProblem, table_is_to_blame

if TYPE_CHECKING:
    from tabgnm.cli.options import Reading


def run_play(
    source: str | None,
    reading: Reading,
    columns: list[str] | None,
    target: str | None,
    port: int,
    *,
    open_browser: bool,
) -> None:
    """Serve the playground until Ctrl-C."""
    from tabgnm.play import serve

    frame = None
    if source is not None:
        from tabgnm.cli.tablefiles import read_table, require_columns

        if target is None:
            raise UsageProblem("name the column to predict with --target")
        frame = read_table(source, **reading.keywords())
        require_columns(list(frame.columns), [*(columns or []), target], source)
    elif columns or target is not None:
        raise UsageProblem("--column and --target need a table; name it as the first argument")
    with table_is_to_blame():
        serve(data=frame, columns=columns, target=target, port=port, open_browser=open_browser)
