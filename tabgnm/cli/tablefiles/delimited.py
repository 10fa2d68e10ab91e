"""Tables in text with delimiters (CSV, TSV): parsed by Arrow piece by piece, and line by line only to find an error."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from tabgnm._extras import import_extra
from tabgnm.cli.tablefiles.cell_types import typed, without_leading_spaces, without_missing
from tabgnm.cli.tablefiles.dialect import dialect_of, quote_error
from tabgnm.cli.tablefiles.errors import TableFileError, quoted
from tabgnm.cli.tablefiles.input_bytes import InputBytes
from tabgnm.cli.tablefiles.quoting import QuoteProblem, end_of_rows, quote_problem, rows_of
from tabgnm.cli.tablefiles.text_lines import Piece, TextLines

_AFTER_LAST = "\0"  # what follows the delimiter at the end of each line; no column can have this name


class DelimitedTable:
    """A table of text cells.

    Parameters
    ----------
    source : InputBytes
    delimiter : str or None
        None to find it.
    preferred : str or None
        See `dialect_of`.
    encoding : str or None
    header : bool
    strip : bool or None
        Whether spaces before cells are removed; None if a space follows each delimiter in the first rows.

    Attributes
    ----------
    columns : list of str
    """

    def __init__(
        self,
        source: InputBytes,
        *,
        delimiter: str | None,
        preferred: str | None,
        encoding: str | None,
        header: bool,
        strip: bool | None,
    ) -> None:
        self._name = source.name
        self._lines = TextLines(source, encoding)
        self._dialect = dialect_of(self._lines.start(), self._name, delimiter, preferred, header=header)
        self._strip = self._dialect.spaced if strip is None else strip
        self.columns = self._dialect.columns

    def frames(self, chunk_rows: int) -> Iterator[Any]:
        """Yield frames of text cells, None where one is missing."""
        for table in self._tables():
            for start in range(0, len(table), chunk_rows):
                yield table.slice(start, chunk_rows).to_pandas()

    def frame(self, text: Collection[str] = ()) -> Any:
        """Return all rows; columns of nothing but numbers or booleans have such a type, unless in `text`."""
        pa = import_extra("pyarrow", "cli", "reading tables")
        tables = list(self._tables())
        columns = []
        for place, name in enumerate(self.columns):
            column = pa.chunked_array([table.column(place).chunk(0) for table in tables])
            columns.append(column if name in text else typed(column))
        return pa.table(columns, names=self.columns).to_pandas()

    def _tables(self) -> Iterator[Any]:
        """Yield Arrow tables of text."""
        start = self._dialect.start
        n_rows = 0
        for piece in self._lines.pieces(partial(end_of_rows, delimiter=self._dialect.delimiter)):
            table = self._parsed(Piece(piece.text[start:], piece.line_at(start)) if start else piece)
            start = 0
            n_rows += len(table)
            if len(table):
                yield table
        if n_rows == 0:
            raise TableFileError(f"{self._name} has a header but no rows; expected at least one")

    def _parsed(self, piece: Piece) -> Any:
        pa, csv = import_extra("pyarrow", "cli", "reading tables"), import_extra("pyarrow.csv", "cli", "reading tables")
        problem = quote_problem(piece, self._dialect.delimiter)
        if problem is not None:
            raise quote_error(self._name, problem)
        names = [*self.columns, _AFTER_LAST] if self._dialect.trailing else self.columns
        if not piece.text.strip(b"\r\n"):
            return pa.table({name: pa.array([], pa.string()) for name in self.columns})
        try:
            table = csv.read_csv(
                pa.BufferReader(piece.text),
                read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=len(piece.text) + 1),
                parse_options=csv.ParseOptions(
                    delimiter=self._dialect.delimiter.decode(), newlines_in_values=b'"' in piece.text
                ),
                convert_options=csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False, check_utf8=False
                ),
            )
        except pa.ArrowInvalid as error:
            raise self._diagnosed(piece, len(names), str(error)) from None
        if self._dialect.trailing and any(cell.strip() for cell in table.column(_AFTER_LAST).unique().to_pylist()):
            raise self._unnamed_cell(piece)
        columns = [table.column(place).combine_chunks() for place in range(len(self.columns))]
        if self._strip:
            columns = list(map(without_leading_spaces, columns))
        return pa.table(list(map(without_missing, columns)), names=self.columns)

    def _unnamed_cell(self, piece: Piece) -> TableFileError:
        """Return the error of the first row with a cell after the last name of the header."""
        row = next(row for row in rows_of(piece, self._dialect.delimiter) if row.cells[-1].strip())
        cell = quoted(row.cells[-1].decode())
        return TableFileError(
            f"{self._name}, line {row.line:,}: the last column has {cell}, but no name in the header; name it"
        )

    def _diagnosed(self, piece: Piece, n_columns: int, cause: str) -> TableFileError:
        """Return the error of the first row that does not have a cell for each column."""
        try:
            for row in rows_of(piece, self._dialect.delimiter):
                n_cells = len(row.cells)
                if n_cells == n_columns:
                    continue
                header = "the header has" if self._dialect.start else "the first line has"
                if n_cells == n_columns + 1 and not row.cells[-1]:
                    remedy = "delete the delimiter at the end of the line"
                elif n_cells > n_columns:
                    remedy = "put cells that contain the delimiter into double quotes"
                else:
                    remedy = "add the missing cells, or delete the line if it is not a row of the table"
                delimiter = quoted(self._dialect.delimiter.decode())
                return TableFileError(
                    f"{self._name}, line {row.line:,}: {n_cells:,} {'cell' if n_cells == 1 else 'cells'}, but {header} "
                    f"{n_columns:,} (delimiter {delimiter}); {remedy}"
                )
        except QuoteProblem as problem:
            return quote_error(self._name, problem)
        return TableFileError(f"{self._name}, after line {piece.line:,}: {quoted(cause, 200)}; check these lines")
