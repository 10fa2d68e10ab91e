"""Which format a table file has: by the end of its name, or as the user says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tabgnm.cli.tablefiles.errors import TableFileError, TableOptionError, quoted

Kind = Literal["csv", "tsv", "parquet", "feather", "jsonl", "sqlite"]

STANDARD_STREAM = "-"

_KINDS: dict[str, Kind] = {
    "csv": "csv",
    "txt": "csv",
    "tsv": "tsv",
    "parquet": "parquet",
    "pq": "parquet",
    "feather": "feather",
    "arrow": "feather",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "sqlite": "sqlite",
    "sqlite3": "sqlite",
    "db": "sqlite",
}
# What people give instead, and what to do about it.
_REMEDIES = {
    "xlsx": "save the sheet as CSV",
    "xls": "save the sheet as CSV",
    "ods": "save the sheet as CSV",
    "json": "write one object per line and call the file .jsonl",
    "zip": "unpack it first",
    "bz2": "unpack it, or compress it with gzip",
    "xz": "unpack it, or compress it with gzip",
    "zst": "unpack it, or compress it with gzip",
    "pkl": "save it with pandas as .parquet",
    "pickle": "save it with pandas as .parquet",
    "dat": "if it is text with a delimiter, add --format csv",
    "data": "if it is text with a delimiter, add --format csv",
}

LABELS: dict[Kind, str] = {
    "csv": "CSV",
    "tsv": "TSV",
    "parquet": "Parquet",
    "feather": "Feather",
    "jsonl": "JSON lines",
    "sqlite": "SQLite",
}


@dataclass(frozen=True)
class FileFormat:
    """The format of a file.

    Attributes
    ----------
    kind : str
    gzipped : bool or None
        None for standard input, where the first bytes tell.
    """

    kind: Kind
    gzipped: bool | None

    @property
    def is_delimited(self) -> bool:
        """Whether cells are text between delimiters."""
        return self.kind in ("csv", "tsv")

    @property
    def is_text(self) -> bool:
        """Whether the file consists of lines of text."""
        return self.is_delimited or self.kind == "jsonl"


def stem_of_table(name: str) -> str | None:
    """Return the name of a file without the ending of a table; None if it does not have one.

    Examples
    --------
    >>> stem_of_table("houses.CSV.gz"), stem_of_table("houses.svg")
    ('houses', None)
    """
    base = name[: -len(".gz")] if name.lower().endswith(".gz") else name
    stem, dot, ending = base.rpartition(".")
    return stem if dot and ending.lower() in _KINDS else None


def format_of(source: str, given: str | None, option: str = "--format") -> FileFormat:
    """Return the format of a file by its name, or the `given` one ("csv", "parquet", "csv.gz", ...).

    Parameters
    ----------
    source : str
    given : str or None
    option : {"--format", "--output-format"}, default="--format"
        The option that says it, for messages; that of files that are written is another one.

    Examples
    --------
    >>> format_of("houses.CSV.gz", None)
    FileFormat(kind='csv', gzipped=True)
    """
    name = Path(source).name.lower()
    if given is not None:
        wanted = given.lower().removeprefix(".")
        kind = _KINDS.get(wanted.removesuffix(".gz"))
        if kind is None:
            raise TableOptionError(f"{option}: unknown format {quoted(given)}; expected one of {', '.join(_KINDS)}")
        if source == STANDARD_STREAM:
            return FileFormat(kind, True if wanted.endswith(".gz") else None)
        return FileFormat(kind, wanted.endswith(".gz") or name.endswith(".gz"))
    if source == STANDARD_STREAM:
        return FileFormat("csv", None)
    ends = name.removesuffix(".gz").rpartition(".")
    kind = _KINDS.get(ends[2]) if ends[1] else None
    if kind is None:
        if os.path.isdir(source):  # noqa: PTH112 - that of pathlib raises if a name is too long
            raise TableFileError(f"{quoted(source, 300)} is a folder; give the name of a file in it")
        remedy = f"use one of these endings, or set the format with {option}, for instance {option} csv"
        if option == "--format":
            remedy = _REMEDIES.get(ends[2] if ends[1] else "", remedy)
        known = ", ".join(f".{end}" for end in _KINDS)
        raise TableFileError(f"{quoted(source, 300)} has no known ending ({known}, each also with .gz); {remedy}")
    return FileFormat(kind, name.endswith(".gz"))
