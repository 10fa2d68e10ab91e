"""A query in stages: each is a common table expression that computes columns from those of earlier stages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tabgnm.export.program import ExportError

_MAX_COLUMNS = 1500  # PostgreSQL allows 1,664, SQLite 2,000


class Stages:
    """Columns by stage, and the columns that each of them reads.

    A stage has only the columns that later stages read. Stages are MATERIALIZED: otherwise databases would substitute
    expressions for their names, and a query would grow exponentially with the number of stages.

    Parameters
    ----------
    source : str
        The FROM clause of the first stage.
    table : str
        The name of the table, which the stages must not hide.
    """

    def __init__(self, source: str, table: str) -> None:
        self._source = source
        self._prefix = "stage"
        while table.lower().startswith(self._prefix):
            self._prefix = f"tabgnm_{self._prefix}"
        self._columns: dict[int, dict[str, tuple[str, frozenset[str]]]] = {0: {}}

    def add(self, stage: int, name: str, expression: str, reads: Iterable[str] = ()) -> str:
        """Add a column to a stage and return its name; `reads` are columns of earlier stages."""
        self._columns.setdefault(stage, {})[name] = (expression, frozenset(reads))
        return name

    def add_after(self, columns: Sequence[tuple[str, str, Collection[str]]]) -> list[str]:
        """Add columns (name, expression, reads) in a stage after all others; return their names."""
        stage = max(self._columns) + 1
        return [self.add(stage, *column) for column in columns]

    def text(self, selected: Sequence[str], reads: Iterable[str]) -> str:
        """Return the query that selects these expressions, which read columns of any stages."""
        needed = set(reads)
        stages: list[list[str]] = []
        for number in sorted(self._columns, reverse=True):
            own = {name: column for name, column in self._columns[number].items() if name in needed}
            passed = sorted(needed - set(own))
            needed = set(passed).union(*(read for _, read in own.values()))
            if own or number == 0:
                stages.insert(0, [*passed, *(f"{expression} AS {name}" for name, (expression, _) in own.items())])
        if max(map(len, stages)) > _MAX_COLUMNS:
            raise ExportError(
                f"the query needs {max(map(len, stages))} columns at a time, more than databases support; use a "
                "smaller machine, for instance fit_sparse(X, y, n_edges=500)"
            )
        tables, previous = [], self._source
        for number, columns in enumerate(stages):
            # A stage without columns still needs the rows of the table.
            listed = ",\n    ".join(columns or ["1 AS one"])
            tables.append(f"{self._prefix}_{number} AS MATERIALIZED (\n  SELECT\n    {listed}\n  FROM {previous}\n)")
            previous = f"{self._prefix}_{number}"
        listed = ",\n  ".join(selected)
        return f"WITH {', '.join(tables)}\nSELECT\n  {listed}\nFROM {previous}"
