"""Levels of a category and their codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.table.cells import canonical, canonical_cells, former_text

UNKNOWN = "(missing or unknown)"
RARE = "(rare)"


class Levels:
    """The levels of one category.

    Code 0 is the code of missing cells and unknown levels. The levels have the codes 1, 2, ... in their order. Rare
    levels, if any, share the next code. Their names are not stored, so unseen levels are then treated as rare, too.

    Parameters
    ----------
    names : sequence of str
        The levels with their own codes.
    rare : bool, default=False
        Whether some levels of the training rows were too rare for their own codes.

    Examples
    --------
    >>> Levels(["red", "blue"]).codes(["blue", None, "green", "red"])
    array([2, 0, 0, 1])
    >>> Levels(["red", "blue"], rare=True).codes(["blue", None, "green", "red"])
    array([2, 0, 3, 1])
    """

    def __init__(self, names: Sequence[str], rare: bool = False) -> None:
        self.names = tuple(names)
        self.rare = rare
        self._code: dict[str | None, int] = {None: 0}
        self._code.update((name, code) for code, name in enumerate(self.names, start=1))
        self._other = len(self.names) + 1 if rare else 0

    @property
    def n_codes(self) -> int:
        """The number of codes, including the code for missing cells and unknown levels."""
        return 1 + len(self.names) + self.rare

    def codes(self, cells: Iterable[Any]) -> NDArray[np.int64]:
        """Return the code of each cell."""
        get, other = self._code.get, self._other
        return np.array([get(level, other) for level in canonical_cells(cells, self._text)], dtype=np.int64)

    def has_named(self, codes: NDArray[np.int64]) -> bool:
        """Whether any of the codes is that of a named level."""
        return bool(((codes > 0) & (codes <= len(self.names))).any())

    def unknown(self, cells: Iterable[Any]) -> NDArray[np.bool_]:
        """Return which cells are not missing and have a level without a name."""
        return np.array([level not in self._code for level in canonical_cells(cells, self._text)], dtype=np.bool_)

    def _text(self, cell: Any) -> str | None:
        # An older model file may store a level under a text that `canonical` no longer returns for it.
        text = canonical(cell)
        former = None if text is None else former_text(cell)
        return text if former is None or former not in self._code else former


def count_levels(cells: Iterable[Any]) -> tuple[Counter[str], int]:
    """Return the number of cells with each level, and the number of missing cells."""
    counts: Counter[Any] = Counter(canonical_cells(cells))
    n_missing = counts.pop(None, 0)
    return counts, n_missing


def ranks(cells: Iterable[Any], order: Sequence[str]) -> NDArray[np.float64]:
    """Return the rank of each cell in the order of levels; NaN if it is missing or unknown.

    Examples
    --------
    >>> ranks(["high", None, "low", "other"], ["low", "middle", "high"])
    array([ 2., nan,  0., nan])
    """
    place: dict[str | None, float] = {level: float(rank) for rank, level in enumerate(order)}
    return np.array([place.get(level, np.nan) for level in canonical_cells(cells)], dtype=np.float64)


def frequent_levels(counts: Counter[str], min_count: int, max_levels: int) -> Levels:
    """Keep at most `max_levels` levels with at least `min_count` rows each, the most frequent first."""
    kept = [name for name, count in counts.items() if count >= min_count]
    kept.sort(key=lambda name: (-counts[name], name))
    del kept[max_levels:]
    return Levels(kept, rare=len(kept) < len(counts))
