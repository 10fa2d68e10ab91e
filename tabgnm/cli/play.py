"""``tabgnm play``: the playground in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tabgnm.cli.terminal import UsageProblem, table_is_to_blame

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

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
        if target is None:
            raise UsageProblem("name the column to predict with --target")
        _check_names(columns or [], target)
        frame = _read(source, reading, columns or [], target)
    elif columns or target is not None:
        raise UsageProblem("--column and --target need a table; name it as the first argument")
    with table_is_to_blame():
        serve(data=frame, columns=columns, target=target, port=port, open_browser=open_browser)


def _check_names(columns: list[str], target: str) -> None:
    """Raise unless two columns besides the target are named, or none."""
    if columns and (len(columns) != 2 or columns[0] == columns[1]):
        raise UsageProblem(
            f"--column {' --column '.join(columns)}: the playground draws two different columns; use --column twice, "
            "or not at all for the first two columns of numbers"
        )
    if target in columns:
        raise UsageProblem(f"column {target!r} is given by both --column and --target; use one of them")


def _read(source: str, reading: Reading, columns: list[str], target: str) -> pd.DataFrame:
    """Read a table that has two columns of numbers and a target with few classes."""
    from tabgnm.cli.tablefiles import TableFileError, read_table, require_columns
    from tabgnm.cli.tablefiles.errors import listed
    from tabgnm.play.points import MAX_CLASSES

    frame = read_table(source, **reading.keywords())
    require_columns(list(frame.columns), [*columns, target], source)
    for name in frame.columns:
        if name != target:
            frame[name] = _numbers_in_text(frame[name], name)
    n_classes = frame[target].nunique()
    if not 2 <= n_classes <= MAX_CLASSES:
        raise TableFileError(
            f"--target {target}: the column has {n_classes:,} different {'value' if n_classes == 1 else 'values'}; the "
            f"playground learns 2 to {MAX_CLASSES} classes: choose another column"
        )
    numeric = [name for name in frame.columns if name != target and frame[name].dtype.kind in "iuf"]
    if len(numeric) < 2:
        raise TableFileError(
            f"{source!r} has fewer than two columns of numbers besides the target {target!r}, but the playground draws "
            "two; use another table or target"
        )
    for name in columns:
        if name not in numeric:
            raise TableFileError(f"--column {name}: the column does not have numbers; use two of {listed(numeric)}")
    for name in columns or numeric[:2]:
        if frame[name].nunique() < 2:
            raise TableFileError(f"column {name!r} has the same number in all rows; choose two others with --column")
    return frame


def _numbers_in_text(cells: Any, name: str) -> Any:
    """Return the numbers of a column of text, such as 12,5, as `tabgnm fit` reads them; other columns as they are."""
    from tabgnm.table.detection import detected_reading
    from tabgnm.table.text import TextReading
    from tabgnm.table.values import as_numbers, values_of_array

    if cells.dtype.kind in "biufMm":
        return cells
    reading = detected_reading(cells)
    if not isinstance(reading, TextReading) or reading.kind != "number":
        return cells
    return as_numbers(values_of_array(cells.to_numpy(dtype=object), name), name, reading=reading)
