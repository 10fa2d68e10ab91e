"""Encoding of tables as numbers: column kinds, missing values, categories, scaling and embedded columns."""

from tabgnm.table.columns import ColumnInfo, ColumnTable
from tabgnm.table.encoder import TableEncoder
from tabgnm.table.errors import CellTypeError, TableError
from tabgnm.table.layout import EmbeddingNumbers
from tabgnm.table.matching import match_columns
from tabgnm.table.raw import RawTable
from tabgnm.table.reading import read_table
from tabgnm.table.settings import TableSettings

__all__ = [
    "CellTypeError",
    "ColumnInfo",
    "ColumnTable",
    "EmbeddingNumbers",
    "RawTable",
    "TableEncoder",
    "TableError",
    "TableSettings",
    "match_columns",
    "read_table",
]
