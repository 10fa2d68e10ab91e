"""What the cells of text files are: missing, and, decided from all cells of a column, numbers or booleans."""

from __future__ import annotations

from typing import Any

from tabgnm._extras import import_extra
from tabgnm.table.text import MISSING_TEXTS

# Without a leading zero, which codes have: "01234" is not the number 1234.
_PLAIN_NUMBER = r"^[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"


def without_missing(column: Any) -> Any:
    """Return a column of text (a pyarrow array) with null for the texts that `tabgnm.table` takes as missing."""
    pa, pc = _arrow()
    said = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    missing = pc.is_in(said, value_set=pa.array(sorted(MISSING_TEXTS)))
    return pc.if_else(missing, pa.scalar(None, pa.string()), column) if pc.any(missing).as_py() else column


def typed(column: Any) -> Any:
    """Return a column of text as numbers or booleans if all its cells are such, else as it is."""
    pa, pc = _arrow()
    if column.null_count == len(column):
        return column
    trimmed = pc.utf8_trim_whitespace(column)
    for kind in (pa.int64(), pa.float64()):
        try:
            numbers = pc.cast(trimmed, kind)
        except pa.ArrowInvalid:
            continue
        return numbers if pc.all(pc.match_substring_regex(trimmed, _PLAIN_NUMBER)).as_py() else column
    lower = pc.utf8_lower(trimmed)
    if pc.all(pc.is_in(lower, value_set=pa.array(["true", "false"], pa.string()), skip_nulls=True)).as_py():
        return pc.equal(lower, "true")
    return column


def _arrow() -> tuple[Any, Any]:
    return import_extra("pyarrow", "cli", "reading tables"), import_extra("pyarrow.compute", "cli", "reading tables")
