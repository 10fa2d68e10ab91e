"""Detection of missing values, numbers and booleans in columns of text files.

The type of a column is decided from all of its cells. Columns are arrays of pyarrow. The first bytes of all cells are
looked at together, and one by one only those cells that need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm._extras import import_extra
from tabgnm.table.text import MISSING_TEXTS, says_nothing

# In text, fewer cells are missing than in numbers and dates: those that pandas.read_csv treats as missing, so that a
# model reads the same levels from a file as from a DataFrame. "none", "-" or "?" may be a level.
_MISSING_IN_TEXT = frozenset(
    {"", "#N/A", "#N/A N/A", "#NA", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)
_LONGEST_MISSING = max(map(len, MISSING_TEXTS | _MISSING_IN_TEXT))
_BLANK = np.zeros(256, dtype=np.bool_)
_BLANK[:33] = True
_BLANK[128:] = True  # perhaps: a space beyond ASCII
_DIGIT = np.zeros(256, dtype=np.bool_)
_DIGIT[ord("0") : ord("9") + 1] = True
_AFTER_ZERO = _DIGIT.copy()
_AFTER_ZERO[[ord("x"), ord("X")]] = True
_SIGN = np.zeros(256, dtype=np.bool_)
_SIGN[[ord("+"), ord("-")]] = True
_MISSING_START = _BLANK.copy()
_MISSING_START[[ord(first) for text in MISSING_TEXTS for first in (text[:1], text[:1].upper()) if first]] = True


class _CellBytes:
    """The bytes of the cells of an array of text; a cell without a first or second byte has 0 there."""

    def __init__(self, array: Any) -> None:
        _, offsets, data = array.buffers()
        starts = np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
        self._data = np.frombuffer(data, dtype=np.uint8) if data is not None and len(data) else np.zeros(1, np.uint8)
        self._starts = starts[:-1]
        self.lengths = np.diff(starts)

    def at(self, place: int) -> NDArray[np.uint8]:
        """Return the byte at this place of every cell; the last one for -1."""
        places = self._starts + (self.lengths - 1 if place < 0 else place)
        exists = self.lengths > max(place, 0)
        found: NDArray[np.uint8] = self._data[np.where(exists, places, 0)]
        found[~exists] = 0
        return found

    def have_spaces(self) -> NDArray[np.bool_]:
        """Return which cells may begin or end with a space."""
        spaces: NDArray[np.bool_] = (_BLANK[self.at(0)] | _BLANK[self.at(-1)]) & (self.lengths > 0)
        return spaces


def without_leading_spaces(array: Any) -> Any:
    """Return text without the spaces before it."""
    _, pc = _arrow()
    return pc.utf8_ltrim(array, " ") if (_CellBytes(array).at(0) == ord(" ")).any() else array


def without_missing(array: Any) -> Any:
    """Return text with null where a cell of any column is missing: empty cells, NA, N/A, NaN, null, None, ..."""
    return _without(array, lambda text: text.strip() in _MISSING_IN_TEXT)


def without_missing_numbers(array: Any) -> Any:
    """Return text with null for what `tabgnm.table` treats as a missing number or date, including ?, - and none."""
    return _without(array, says_nothing)


def _without(array: Any, is_missing: Callable[[str], bool]) -> Any:
    pa, pc = _arrow()
    cells = _CellBytes(array)
    short = (cells.lengths <= _LONGEST_MISSING) | cells.have_spaces()
    is_there = array.is_valid().to_numpy(zero_copy_only=False)
    possible = np.flatnonzero(is_there & _MISSING_START[cells.at(0)] & ~_DIGIT[cells.at(1)] & short)
    if len(possible) == 0:
        return array
    texts = array.take(pa.array(possible)).dictionary_encode()
    says = np.array([is_missing(text) for text in texts.dictionary.to_pylist()], dtype=np.bool_)
    missing = np.zeros(len(array), dtype=np.bool_)
    missing[possible] = says[texts.indices.to_numpy()]
    return pc.if_else(pa.array(missing), pa.scalar(None, pa.string()), array)


def typed(column: Any) -> Any:
    """Return a column (chunked) as numbers or booleans if all its cells are written as such, else as it is.

    A number with a leading zero is more likely a code: "01234" is not 1234.
    """
    pa, pc = _arrow()
    given = column
    column = pa.chunked_array(list(map(without_missing_numbers, column.chunks)), pa.string())
    if column.null_count == len(column):
        return column
    trimmed = column
    if any(_CellBytes(chunk).have_spaces().any() for chunk in column.chunks):
        trimmed = pc.utf8_trim_whitespace(column)
    for kind in (pa.int64(), pa.float64()):
        try:
            numbers = pc.cast(trimmed, kind)
        except pa.ArrowInvalid:
            continue
        return given if _are_codes(trimmed) or _are_words(numbers, trimmed) else numbers
    return _booleans(trimmed) or given


def _are_codes(column: Any) -> bool:
    """Whether a cell has a leading zero, as 007, -01, 00.5 and 0x10 have."""
    for chunk in column.chunks:
        cells = _CellBytes(chunk)
        first, second = cells.at(0), cells.at(1)
        signed = _SIGN[first]
        zero, after = np.where(signed, second, first) == ord("0"), np.where(signed, cells.at(2), second)
        if (zero & _AFTER_ZERO[after]).any():
            return True
    return False


def _are_words(numbers: Any, column: Any) -> bool:
    """Whether a cell says inf or nan, which Arrow reads as numbers."""
    pa, pc = _arrow()
    if not pa.types.is_floating(numbers.type) or pc.all(pc.is_finite(numbers)).as_py():
        return False
    return bool(pc.any(pc.match_substring_regex(column, "[a-df-zA-DF-Z]")).as_py())


def _booleans(column: Any) -> Any:
    pa, pc = _arrow()
    distinct = [text.lower() for text in column.slice(0, 100).to_pylist() if text is not None]
    if not {"true", "false"}.issuperset(distinct):  # almost always known after the first rows
        return None
    lower = pc.utf8_lower(column)
    known = pc.is_in(lower, value_set=pa.array(["true", "false", None], pa.string()))
    return pc.equal(lower, "true") if pc.all(known).as_py() else None


def _arrow() -> tuple[Any, Any]:
    return import_extra("pyarrow", "cli", "reading tables"), import_extra("pyarrow.compute", "cli", "reading tables")
