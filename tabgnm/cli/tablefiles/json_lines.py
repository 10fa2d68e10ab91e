"""Tables in JSON lines: one object per line, whose keys are the columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tabgnm.cli.tablefiles.dialect import refuse_bad_names
from tabgnm.cli.tablefiles.errors import TableFileError, quoted, suggestion
from tabgnm.cli.tablefiles.input_bytes import InputBytes
from tabgnm.cli.tablefiles.object_columns import frame_of
from tabgnm.cli.tablefiles.text_lines import TextLines, end_of_lines

_SHOWN = 60


class JsonLinesTable:
    """A table of which each row is an object; the keys of the first row are the columns.

    Parameters
    ----------
    source : InputBytes
    encoding : str or None

    Attributes
    ----------
    columns : list of str
    """

    def __init__(self, source: InputBytes, encoding: str | None) -> None:
        self._name = source.name
        lines = TextLines(source, encoding)
        if lines.start().text.lstrip().startswith(b"["):
            raise TableFileError(
                f"{self._name} is a JSON array; expected one object per line: jq -c '.[]' in.json > out.jsonl"
            )
        self._rows = self._parsed(lines)
        self._first = next(self._rows, None)
        if self._first is None:
            raise TableFileError(f"{self._name} has only blank lines; expected one object per line")
        self.columns = list(self._first)
        refuse_bad_names(self.columns, f"{self._name}, line 1")
        self._known = set(self.columns)
        if not self.columns:
            raise TableFileError(f"{self._name}: the first object has no keys; expected the columns of a table")

    def frames(self, chunk_rows: int | None) -> Iterator[Any]:
        """Yield frames of at most so many rows; None: one frame of all."""
        cells: list[list[Any]] = [[] for _ in self.columns]
        n_rows = 0
        assert self._first is not None
        rows = iter([self._first])
        for source in (rows, self._rows):
            for row in source:
                for name, column in zip(self.columns, cells, strict=True):
                    column.append(row.get(name))
                n_rows += 1
                if n_rows == chunk_rows:
                    yield frame_of(self.columns, cells)
                    cells, n_rows = [[] for _ in self.columns], 0
        if n_rows:
            yield frame_of(self.columns, cells)

    def frame(self) -> Any:
        """Return all rows."""
        return next(self.frames(None))

    def _parsed(self, lines: TextLines) -> Iterator[dict[str, Any]]:
        known: frozenset[str] | None = None
        for piece in lines.pieces(end_of_lines):
            for number, line in enumerate(piece.text.splitlines(), start=piece.line):
                if not line.strip():
                    continue
                row = self._object(line, number)
                known = frozenset(row) if known is None else known
                self._check(row, known, number)
                yield row

    def _object(self, line: bytes, number: int) -> dict[str, Any]:
        where = f"{self._name}, line {number:,}"
        try:
            row = json.loads(line, object_pairs_hook=_unrepeated)
        except RecursionError:
            raise TableFileError(f"{where}: values are nested too deeply; expected numbers and text") from None
        except _RepeatedKey as error:
            raise TableFileError(f"{where}: the key {quoted(str(error))} occurs twice; remove one") from None
        except ValueError as error:
            said = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            column = f", column {error.pos + 1:,}" if isinstance(error, json.JSONDecodeError) else ""
            raise TableFileError(
                f"{where}{column}: not JSON ({said}) in {quoted(line.decode()[:_SHOWN])}; expected one object per line"
            ) from None
        if not isinstance(row, dict):
            raise TableFileError(
                f"{where}: {quoted(line.decode()[:_SHOWN])} is not an object; expected one object per line, such as "
                '{"age": 41}'
            )
        return row

    def _check(self, row: dict[str, Any], known: frozenset[str], number: int) -> None:
        for key, value in row.items():
            if isinstance(value, dict | list):
                what = "an object" if isinstance(value, dict) else "a list"
                raise TableFileError(
                    f"{self._name}, line {number:,}: {quoted(key)} is {what}; "
                    "expected a number, text, true, false or null: spread it over several keys"
                )
        if not row.keys() <= known:
            new = next(key for key in row if key not in known)
            raise TableFileError(
                f"{self._name}, line {number:,}: the key {quoted(new)} is not in the first line"
                f"{suggestion(new, known)}; give the first line all keys, with null where there is no value"
            )


class _RepeatedKey(Exception):
    """A key that an object has twice."""


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        seen: set[str] = set()
        raise _RepeatedKey(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return row
