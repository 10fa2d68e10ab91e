"""Binary formats, told by their first bytes: what a file is although its name says something else."""

from __future__ import annotations

# In the order in which they are tried; what it is called, and what to do with it.
_SIGNATURES: tuple[tuple[bytes, str, str], ...] = (
    (b"PAR1", "a Parquet file", "rename it to .parquet or add --format parquet"),
    (b"ARROW1", "an Arrow file", "rename it to .arrow or add --format arrow"),
    (b"FEA1", "a Feather file of the first version", "write it again with a current version of pyarrow"),
    (b"SQLite format 3\0", "an SQLite database", "rename it to .sqlite or add --format sqlite"),
    (b"\x1f\x8b", "compressed with gzip", "let its name end in .gz"),
    (b"PK\x03\x04", "a zip archive or a spreadsheet (.xlsx)", "unpack it, or save the sheet as CSV"),
    (b"PK\x05\x06", "an empty zip archive", "give a table"),
    (b"\xd0\xcf\x11\xe0", "an old spreadsheet or document (.xls)", "save the sheet as CSV"),
    (b"\x89PNG", "a PNG picture", "give a table"),
    (b"\xff\xd8\xff", "a JPEG picture", "give a table"),
    (b"GIF8", "a GIF picture", "give a table"),
    (b"%PDF", "a PDF document", "give a table"),
    (b"BZh", "compressed with bzip2", "unpack it, or compress it with gzip"),
    (b"\xfd7zXZ", "compressed with xz", "unpack it, or compress it with gzip"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "unpack it, or compress it with gzip"),
    (b"\x89HDF", "an HDF5 file", "save the table as Parquet"),
    (b"\x93NUMPY", "a NumPy array", "save the table as Parquet"),
    (b"\x7fELF", "a program", "give a table"),
    (b"\x80\x02", "a pickle of Python", "save the table as Parquet"),
    (b"\x80\x03", "a pickle of Python", "save the table as Parquet"),
    (b"\x80\x04", "a pickle of Python", "save the table as Parquet"),
    (b"\x80\x05", "a pickle of Python", "save the table as Parquet"),
)


def recognised(start: bytes) -> tuple[str, str] | None:
    """Return what a file with this beginning is and the remedy; None if it may be text or is unknown.

    Examples
    --------
    >>> recognised(b"PAR1...")
    ('a Parquet file', 'rename it to .parquet or add --format parquet')
    """
    for signature, what, remedy in _SIGNATURES:
        if start.startswith(signature):
            return what, remedy
    return None
