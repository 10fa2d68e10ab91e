"""A readable summary of the inferred properties of the columns of a table."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, overload

from tabgnm.table.errors import printable
from tabgnm.table.layout import EncodedLayout
from tabgnm.table.plans import ColumnPlan
from tabgnm.table.settings import TableSettings

_HEADINGS = ("column", "kind", "encoding", "levels", "missing", "encoded columns", "note")


@dataclass(frozen=True)
class ColumnInfo:
    """The inferred properties of a raw column.

    Attributes
    ----------
    name : str
    kind : str
        "number", "boolean", "category", "datetime", "duration", "time" or "ignore".
    encoding : str
        How the column is encoded; "" if it is not used.
    n_levels : int or None
        The number of distinct levels of a category in the training rows.
    n_missing : int
        The number of missing cells in the training rows.
    encoded : tuple of int
        Positions of its encoded columns.
    note : str
        Further remarks.
    """

    name: str
    kind: str
    encoding: str
    n_levels: int | None
    n_missing: int
    encoded: tuple[int, ...]
    note: str

    def _cells(self) -> tuple[str, ...]:
        levels = "" if self.n_levels is None else f"{self.n_levels:,}"
        missing = f"{self.n_missing:,}" if self.n_missing else ""
        return self.name, self.kind, self.encoding, levels, missing, _spans(self.encoded), self.note


class ColumnTable(Sequence[ColumnInfo]):
    """A list of `ColumnInfo`, one per raw column, that prints as a table."""

    def __init__(self, columns: Iterable[ColumnInfo]) -> None:
        self._columns = tuple(columns)

    @classmethod
    def of_plans(cls, plans: Sequence[ColumnPlan], layout: EncodedLayout, settings: TableSettings) -> ColumnTable:
        """Describe fitted columns."""
        encoded: list[list[int]] = [[] for _ in plans]
        if not layout.is_empty:
            for position, owner in enumerate(layout.owners):
                encoded[owner].append(position)
        return cls(
            ColumnInfo(
                name=plan.name,
                kind=plan.kind,
                encoding=_encoding(plan, settings),
                n_levels=plan.n_levels,
                n_missing=plan.n_missing,
                encoded=tuple(positions),
                note=plan.note,
            )
            for plan, positions in zip(plans, encoded, strict=True)
        )

    @overload
    def __getitem__(self, index: int) -> ColumnInfo: ...
    @overload
    def __getitem__(self, index: slice) -> ColumnTable: ...
    def __getitem__(self, index: int | slice) -> ColumnInfo | ColumnTable:
        return ColumnTable(self._columns[index]) if isinstance(index, slice) else self._columns[index]

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        return self._columns == other._columns if isinstance(other, ColumnTable) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._columns)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row per column, and the attributes of `ColumnInfo` as columns."""
        import pandas as pd  # type: ignore[import-untyped]

        names = [own.name for own in fields(ColumnInfo)]
        return pd.DataFrame([vars(column) for column in self._columns], columns=names)

    def __repr__(self) -> str:
        rows = [_HEADINGS, *(column._cells() for column in self._columns)]
        shown = [place for place in range(len(_HEADINGS)) if place < 3 or any(row[place] for row in rows[1:])]
        widths = [max(len(_one_line(row[place])) for row in rows) for place in shown]
        lines = ["  ".join(_one_line(row[p]).ljust(w) for p, w in zip(shown, widths, strict=True)) for row in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        def row(tag: str, cells: Iterable[Any]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(printable(str(cell)))}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(row("td", column._cells()) for column in self._columns)
        return f"<table><thead>{row('th', _HEADINGS)}</thead><tbody>{body}</tbody></table>"


def _encoding(plan: ColumnPlan, settings: TableSettings) -> str:
    said = []
    if plan.encoding:
        said.append({"indicator": "missing or not"}.get(plan.encoding, plan.encoding))
    roles = {feature.role for feature in plan.features}
    if plan.order is not None:
        said.append("rank")
        roles = set()
    if "embedded" in roles:
        said.append(f"{settings.numeric_embedding}")
    if "plain" in roles:
        scaled = plan.kind != "boolean" and settings.scaling != "none"
        said.append(settings.scaling if scaled else "0 or 1" if plan.kind == "boolean" else "as it is")
    if plan.kind == "datetime" and said:
        said.insert(0, f"{len(plan.features)} parts")
    if plan.indicator and plan.encoding != "indicator":
        said.append("missing or not")
    return ", ".join(said)


def _one_line(text: str, longest: int = 60) -> str:
    text = printable(" ".join(text.split()))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _spans(positions: Sequence[int]) -> str:
    """Return ascending positions as text: 3, 5-8."""
    spans: list[list[int]] = []
    for position in positions:
        if spans and position == spans[-1][1] + 1:
            spans[-1][1] = position
        else:
            spans.append([position, position])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
