"""Folds: the training and validation rows of each network of a candidate."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold
from torch import Tensor

from tabgnm.estimators.copies import copies_of_rows
from tabgnm.table.raw import RawTable

Array = NDArray[Any]

_HOLD_OUT = 0.1  # fraction of validation rows with a single fold


@dataclass(frozen=True, eq=False)
class Fold:
    """Training and validation rows of the networks of one fold; `val` is None without validation.

    `val_halves` is the half of the validation rows, False or True, to which each of them belongs, see
    `tabgnm.training.Member`.
    """

    train: Tensor
    val: Tensor | None
    val_halves: Tensor | None = None


def hold_out(n_rows: int, strata: Array | None, seed: int) -> list[Fold]:
    """Return one fold whose validation rows are a tenth of each stratum."""
    return [_fold(n_rows, validation_rows(n_rows, strata, _HOLD_OUT, seed))]


def without_validation(n_rows: int, n_folds: int) -> list[Fold]:
    """Return folds that use all rows for training, without validation."""
    return [Fold(torch.arange(n_rows), None) for _ in range(n_folds)]


def halves(strata: Array | None, units: Array | None, n_rows: int, seed: int) -> NDArray[np.bool_]:
    """Divide rows into two random halves, with the rows of a unit (an integer) in one of them; return that of each row.

    The halves are stratified as far as the units allow.
    """
    units = np.arange(n_rows) if units is None else units
    _, first, index = np.unique(units, return_index=True, return_inverse=True)
    order = np.random.default_rng([seed, 0x4A1F]).permutation(len(first))
    if strata is not None:
        order = order[np.argsort(strata[first][order], kind="stable")]
    of_unit = np.zeros(len(first), dtype=bool)
    of_unit[order[1::2]] = True
    return np.asarray(of_unit[index.reshape(-1)])


def k_folds(n_rows: int, strata: Array | None, n_folds: int, seed: int, repeat: int = 0) -> list[Fold]:
    """Divide the rows into folds of equal size, each with its share of every stratum.

    A stratum with a single row is never used for validation, because no network would be trained on it.
    """
    random = np.random.default_rng([seed, 0x5EED, repeat])
    n_folds = min(n_folds, n_rows)
    if n_folds < 2:
        return without_validation(n_rows, 1)
    order = random.permutation(n_rows)
    if strata is not None:
        order = order[np.argsort(strata[order], kind="stable")]
        n_own = np.unique(strata, return_inverse=True, return_counts=True)
        counts = n_own[2][n_own[1]]
        order = order[counts[order] > 1]
    folds = [_fold(n_rows, np.sort(order[number::n_folds])) for number in range(n_folds)]
    folds = [fold for fold in folds if fold.val is not None]
    return folds or without_validation(n_rows, 1)


def find_copies(raw: RawTable, y: Array, kinds: Mapping[Any, str] | None, classes: Array | None) -> Array | None:
    """Return the distinct row that each row is a copy of, or None; columns of the kind "ignore" do not matter."""
    return copies_of_rows(raw, y, [column for column, kind in (kinds or {}).items() if kind == "ignore"], classes)


def with_copies(
    n_rows: int, strata: Array | None, copies: Array | None, divide: Callable[[int, Array | None], list[Fold]]
) -> list[Fold]:
    """Return folds in which the copies of a row are together.

    Parameters
    ----------
    n_rows : int
    strata : array of int of shape (rows,) or None
    copies : array of int of shape (rows,) or None
        The distinct row that each row is a copy of, see `find_copies`.
    divide : callable
        Returns folds of the distinct rows, given their number and their strata.
    """
    if copies is None:
        return divide(n_rows, strata)
    first = np.unique(copies, return_index=True)[1]
    expanded = []
    for fold in divide(len(first), None if strata is None else strata[first]):
        is_val = np.zeros(len(first), dtype=bool)
        if fold.val is not None:
            is_val[fold.val.numpy()] = True
        expanded.append(_fold(len(copies), np.flatnonzero(is_val[copies])))
    return expanded


def group_numbers(groups: Any, n_rows: int) -> Array:
    """Return the number of the group of each row; raise if the groups do not fit the rows."""
    labels = np.asarray(groups)
    if labels.shape != (n_rows,):
        raise ValueError(f"groups has shape {labels.shape}; expected one label for each of {n_rows} rows")
    try:
        return np.asarray(np.unique(labels, return_inverse=True)[1])
    except TypeError as error:
        raise TypeError(
            f"groups has labels that cannot be sorted ({error}); use labels of one type, such as str"
        ) from None


def group_folds(n_rows: int, labels: Array, n_folds: int, strata: Array | None = None, seed: int = 0) -> list[Fold]:
    """Divide the rows into folds so that rows of one group are in the same fold.

    The folds are stratified as far as the groups allow.
    """
    n_groups = len(np.unique(labels))
    if n_groups < 2:
        raise ValueError("groups has only one distinct label; expected at least two groups, or groups=None")
    n_folds = min(n_folds, n_groups)
    parts = [test for _, test in GroupKFold(n_folds).split(np.zeros(n_rows), groups=labels)]
    if strata is not None and np.bincount(strata).max() >= n_folds:
        splitter = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about strata with fewer rows than folds
            stratified = [test for _, test in splitter.split(np.zeros(n_rows), strata, labels)]
        if all(len(test) for test in stratified):
            parts = stratified
    return [_fold(n_rows, test) for test in parts]


def splitter_folds(
    cv: Any, n_rows: int, y: Array, groups: Array | None, kept: Array | None, n_given: int
) -> list[Fold]:
    """Return the folds of a scikit-learn splitter, or of an iterable of pairs of training and validation rows.

    A splitter divides the rows with positive weight (`kept`); an iterable refers to rows of the given table.
    """
    splits = list(cv.split(np.zeros((n_rows, 1)), y, groups) if hasattr(cv, "split") else cv)
    if not splits:
        raise ValueError(f"cv={cv!r:.80} yields no folds; expected at least one pair of training and validation rows")
    place = np.arange(n_rows)  # position of each row of the table among those with positive weight
    if kept is not None and not hasattr(cv, "split"):
        place = np.full(n_given, -1)
        place[kept] = np.arange(n_rows)
    folds = []
    for split in splits:
        try:
            train, val = split
        except (TypeError, ValueError):
            raise ValueError(
                f"cv={cv!r:.80} yields {split!r:.80}; expected pairs of training and validation rows"
            ) from None
        rows = [_positions(part, place, cv) for part in (train, val)]
        if not len(rows[0]) or not len(rows[1]):
            raise ValueError(
                f"cv={cv!r:.80} has a fold without rows; expected training and validation rows in each fold"
            )
        both = np.intersect1d(rows[0], rows[1])
        if len(both):
            raise ValueError(
                f"cv={cv!r:.80} has a fold with {len(both)} rows that are both training and validation rows; expected "
                "disjoint sets of rows, because networks are compared on rows they were not trained on"
            )
        folds.append(Fold(torch.from_numpy(rows[0]), torch.from_numpy(rows[1])))
    # The largest fold first: a race or a time limit may use only the first folds, the shortest ones of time series.
    return sorted(folds, key=lambda fold: -len(fold.train))


def _positions(rows: Any, place: Array, cv: Any) -> Array:
    given = np.asarray(rows)
    positions = np.flatnonzero(given) if given.dtype == bool else given
    if positions.dtype.kind not in "iu" and len(positions):
        raise TypeError(
            f"cv={cv!r:.80} yields rows as {given.dtype} values; expected integer positions, or a boolean mask"
        )
    wrong = (positions < 0) | (positions >= len(place))
    if wrong.any():
        raise ValueError(
            f"cv={cv!r:.80} yields row {int(positions[wrong][0])}; expected positions from 0 to {len(place) - 1}"
        )
    found = place[positions.astype(np.int64)]
    return np.sort(found[found >= 0])


def _fold(n_rows: int, val: Array) -> Fold:
    is_train = np.ones(n_rows, dtype=bool)
    is_train[val] = False
    train = torch.from_numpy(np.flatnonzero(is_train))
    return Fold(train, torch.from_numpy(np.asarray(val, dtype=np.int64)) if len(val) else None)


def validation_rows(n_rows: int, strata: Array | None, fraction: float, seed: int) -> Array:
    """Draw a fraction of the rows of each stratum for validation, but never all of them.

    The number of rows per stratum is rounded up or down at random, so rare classes are sometimes validated as well. At
    least one row is drawn if any stratum has two.
    """
    random = np.random.default_rng([seed, 0x5EED])
    if n_rows < 2:
        return np.arange(0)
    groups = [np.arange(n_rows)]
    if strata is not None:
        # Sort only once: there may be many strata.
        order = np.argsort(strata, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(strata[order])) + 1)
    chosen = []
    for rows in groups:
        share = fraction * len(rows)
        n_own = int(share) + (random.random() < share % 1)
        chosen.append(random.permutation(rows)[: min(n_own, len(rows) - 1)])
    drawn = np.concatenate(chosen)
    if len(drawn) == 0:
        largest = max(groups, key=len)
        if len(largest) > 1:
            drawn = random.choice(largest, 1)
    return np.sort(drawn)
