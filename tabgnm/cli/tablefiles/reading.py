"""Tables from files, whole or in frames of bounded size."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from tabgnm._extras import import_extra
from tabgnm.cli.tablefiles.arrow_files import ArrowTable
from tabgnm.cli.tablefiles.delimited import DelimitedTable
from tabgnm.cli.tablefiles.dialect import checked_delimiter
from tabgnm.cli.tablefiles.errors import TableOptionError
from tabgnm.cli.tablefiles.formats import LABELS, FileFormat, format_of
from tabgnm.cli.tablefiles.input_bytes import InputBytes
from tabgnm.cli.tablefiles.json_lines import JsonLinesTable
from tabgnm.cli.tablefiles.sqlite_tables import SqliteTable
from tabgnm.cli.tablefiles.text_lines import checked_encoding

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

CHUNK_ROWS = 50_000


class _Table(Protocol):
    """What each format provides."""

    columns: list[str]

    def frames(self, chunk_rows: int) -> Iterator[Any]: ...

    def frame(self) -> Any: ...


class TableReader:
    """Iterates over the frames of a table; made by `open_table`, and a context manager.

    Attributes
    ----------
    columns : list of str
        Names of the columns, known before the first frame.
    source : str
        The name of the file for messages.
    """

    def __init__(self, source: str, file_format: FileFormat, options: dict[str, Any], chunk_rows: int) -> None:
        self._chunk_rows = chunk_rows
        self._bytes = InputBytes(source, file_format)
        try:
            self._table = _opened(self._bytes, file_format, options)
        except BaseException:
            self._bytes.close()
            raise
        self._frames: Iterator[Any] | None = None
        self.source = self._bytes.name
        self.columns = list(self._table.columns)

    def __iter__(self) -> Iterator[pd.DataFrame]:
        if self._frames is None:
            self._frames = self._table.frames(self._chunk_rows)
        return self._frames

    def whole(self, text: Collection[str] = ()) -> pd.DataFrame:
        """Return all rows as one frame; see `read_table`."""
        return self._table.frame(text) if isinstance(self._table, DelimitedTable) else self._table.frame()

    def close(self) -> None:
        """Close the file."""
        close = getattr(self._table, "close", None)
        if close is not None:
            close()
        self._bytes.close()

    def __enter__(self) -> TableReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def open_table(
    source: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - the name of the option
    table: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool = True,
    strip: bool | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> TableReader:
    """Open a table to read it in frames of bounded size, for instance to predict more rows than fit into memory.

    Cells of CSV files are text, or None where they are missing, whatever the other cells of their column are: a fitted
    model knows how to read them, so a row gets the same prediction in whatever frame it comes. Other formats have
    types of their own.

    Parameters
    ----------
    source : path or str
        A file; "-" is standard input.
    format : str, default=None
        "csv", "tsv", "parquet", "feather", "jsonl" or "sqlite", with ".gz" where it is gzipped. By default as the name
        of the file ends; CSV for standard input.
    table : str, default=None
        A table of a database; can be left out where there is only one.
    delimiter : str, default=None
        Of CSV files; by default comma, semicolon, tab or pipe, as the first rows say.
    encoding : str, default=None
        Of text; by default UTF-8, or what a byte order mark says.
    header : bool, default=True
        Whether the first line of a CSV file has the names of the columns. They are x0, x1, ... otherwise.
    strip : bool or None, default=None
        Whether spaces before the cells of CSV files are removed. None: if a space follows each delimiter in the first
        rows. Rows for a fitted model should be read as those that it was fitted to.
    chunk_rows : int, default=50000
        The largest number of rows of a frame; frames may have fewer.

    Returns
    -------
    TableReader

    Raises
    ------
    TableOptionError
        Before the file is opened: an argument is invalid, or not one of the format.
    TableFileError
        Here, or while frames are read; says what is wrong, and where.
    """
    if chunk_rows < 1:
        raise ValueError(f"chunk_rows must be a positive integer; got {chunk_rows}")
    import_extra("pandas", "cli", "reading tables")
    import_extra("pyarrow", "cli", "reading tables")
    name = os.fspath(source)
    file_format = format_of(name, format)
    options = {"table": table, "delimiter": delimiter, "encoding": encoding, "header": header, "strip": strip}
    _check_options(file_format, options)
    return TableReader(name, file_format, options, chunk_rows)


def read_table(
    source: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - the name of the option
    table: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool = True,
    strip: bool | None = None,
    text: Collection[str] = (),
) -> pd.DataFrame:
    """Read a whole table, for instance to fit a model to it.

    Types of the columns of CSV files are decided from all cells: a column of nothing but numbers without leading zeros
    is one of numbers, a column of "true" and "false" one of booleans. All others stay text, for `tabgnm.table` to
    read. Empty cells and cells that contain NA, N/A, NaN, null, None or similar are missing; in columns of numbers, so
    are those that contain ?, -, none or missing.

    Parameters
    ----------
    source, format, table, delimiter, encoding, header, strip
        See `open_table`.
    text : collection of str, default=()
        Columns of CSV files whose cells stay text, as in the frames of `open_table`. For columns that a fitted model is
        to read: it took their types from the rows of its own table, and other rows could suggest others.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    TableFileError
        Says what is wrong with the file, and where.
    """
    with open_table(
        source, format=format, table=table, delimiter=delimiter, encoding=encoding, header=header, strip=strip
    ) as reader:
        return reader.whole(text)


def _opened(source: InputBytes, file_format: FileFormat, options: dict[str, Any]) -> _Table:
    if file_format.is_delimited:
        return DelimitedTable(
            source,
            delimiter=options["delimiter"],
            preferred="\t" if file_format.kind == "tsv" else None,
            encoding=options["encoding"],
            header=options["header"],
            strip=options["strip"],
        )
    if file_format.kind == "jsonl":
        return JsonLinesTable(source, options["encoding"])
    if file_format.kind == "sqlite":
        return SqliteTable(source, options["table"])
    return ArrowTable(source, file_format.kind)


def _check_options(file_format: FileFormat, options: dict[str, Any]) -> None:
    """Raise for an option that the format does not have, rather than ignore it, and for invalid values."""
    of_others = []
    if file_format.kind != "sqlite" and options["table"] is not None:
        of_others.append(("--table", "SQLite databases"))
    if not file_format.is_delimited and options["delimiter"] is not None:
        of_others.append(("--delimiter", "CSV files"))
    if not file_format.is_delimited and not options["header"]:
        of_others.append(("--no-header", "CSV files"))
    if not file_format.is_text and options["encoding"] is not None:
        of_others.append(("--encoding", "text files"))
    for option, files in of_others:
        raise TableOptionError(f"{option} is for {files}, and this is a {LABELS[file_format.kind]} file; leave it out")
    if options["delimiter"] is not None:
        checked_delimiter(options["delimiter"])
    if options["encoding"] is not None:
        checked_encoding(options["encoding"])
