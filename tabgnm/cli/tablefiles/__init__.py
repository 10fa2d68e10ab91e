"""Tables in files, as the commands read and write them.

CSV, TSV, JSON lines, Parquet, Feather (Arrow) and SQLite, also gzipped, from paths or standard streams; whole, or in
frames of bounded size. Every problem with a file is a `TableFileError`, one line with the cause and the remedy.
"""

from tabgnm.cli.tablefiles.errors import OutputClosedError, TableFileError, TableOptionError
from tabgnm.cli.tablefiles.reading import CHUNK_ROWS, TableReader, open_table, read_table
from tabgnm.cli.tablefiles.targets import check_target, require_columns, without_missing_targets
from tabgnm.cli.tablefiles.writing import TableWriter, open_writer, output_format_of

__all__ = [
    "CHUNK_ROWS",
    "OutputClosedError",
    "TableFileError",
    "TableOptionError",
    "TableReader",
    "TableWriter",
    "check_target",
    "open_table",
    "open_writer",
    "output_format_of",
    "read_table",
    "require_columns",
    "without_missing_targets",
]
