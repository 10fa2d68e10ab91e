"""The points of the plane: generated ones, or two columns of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from tabgnm.play.settings import OWN_DATA

Array = NDArray[Any]

N_POINTS = 400
HELD_OUT = 0.4  # share of the points that the machine does not learn from
MAX_CLASSES = 6
MAX_ROWS = 1_000  # of a table: a sample of them shows the same, and an epoch stays short
MIN_ROWS = 10
_MARGIN = 0.12  # of the width of the window, at each side
_SEED = 7


@dataclass(frozen=True, eq=False)
class Points:
    """Points with their classes.

    Attributes
    ----------
    rows : ndarray of shape (n, 2)
        Standardized: what the machine is given.
    labels : ndarray of shape (n,)
        Numbers of classes.
    n_train : int
        The machine learns from the first ones; the others are held out.
    names : tuple of str
        What the two axes are.
    class_names : tuple of str
    center, scale : ndarray of shape (2,)
        A value of the table is center + scale * row.
    window : ndarray of shape (2, 2)
        The part of the plane that is shown, in standardized units: lowest and highest of each axis.
    """

    rows: Array
    labels: Array
    n_train: int
    names: tuple[str, str]
    class_names: tuple[str, ...]
    center: Array
    scale: Array
    window: Array


def generated(name: str, noise: float) -> Points:
    """Draw one of the data sets; `noise` from 0 to 1 says how much the classes overlap."""
    draw = {"xor": _xor, "moons": _moons, "circles": _circles, "spiral": _spiral}[name]
    X, y = draw(noise)
    order = np.random.default_rng(_SEED).permutation(len(X))
    return _standardized(X[order], y[order], ("x₁", "x₂"), ("orange", "blue"))


def _xor(noise: float) -> tuple[Array, Array]:
    from tabgnm.datasets import make_xor

    return make_xor(N_POINTS, variance=0.03 + 0.4 * noise, random_state=_SEED)


def _moons(noise: float) -> tuple[Array, Array]:
    from tabgnm.datasets import make_noisy_moons

    return make_noisy_moons(N_POINTS, noise=0.03 + 0.3 * noise, random_state=_SEED)


def _circles(noise: float) -> tuple[Array, Array]:
    from sklearn.datasets import make_circles

    X, y = make_circles(N_POINTS, noise=0.02 + 0.2 * noise, factor=0.4, random_state=_SEED)
    return X, y


def _spiral(noise: float) -> tuple[Array, Array]:
    generator = np.random.default_rng(_SEED)
    y = np.arange(N_POINTS) % 2
    radius = generator.uniform(0.05, 1.0, N_POINTS)
    angle = 3.5 * math.pi * radius + math.pi * y
    X = np.column_stack([radius * np.sin(angle), radius * np.cos(angle)])
    return X + (0.005 + 0.08 * noise) * generator.standard_normal(X.shape), y


def from_table(data: Any, columns: Sequence[str] | None, target: str | None) -> Points:
    """Return the points of two numeric columns of a table and the classes of a third one.

    Parameters
    ----------
    data : DataFrame of pandas, polars or pyarrow
    columns : sequence of two str or None
        None for the first two numeric columns.
    target : str or None
        Column with the classes.

    Raises
    ------
    ValueError
        If columns are unknown or not numeric, or there are too few rows, or too few or too many classes.
    """
    if target is None:
        raise ValueError("target=None: name the column with the classes to learn")
    frame = nw.from_native(data, eager_only=True)
    if target not in frame.columns:
        raise ValueError(f"target={target!r} is not a column of the table; its columns are {_listed(frame.columns)}")
    numeric = [name for name, kind in frame.schema.items() if name != target and kind.is_numeric()]
    chosen = list(numeric[:2] if columns is None else columns)
    if len(chosen) != 2 or chosen[0] == chosen[1]:
        raise ValueError(f"columns={chosen!r}; expected two different numeric columns, such as {_listed(numeric)}")
    for name in chosen:
        if name not in numeric:
            raise ValueError(
                f"columns={chosen!r}: {name!r} is not a numeric column besides the target; "
                f"use two of {_listed(numeric)}"
            )
    complete = frame.select([*chosen, target]).drop_nulls()
    values = np.column_stack([complete[name].to_numpy().astype(float) for name in chosen])
    is_finite = np.isfinite(values).all(axis=1)
    values, labels = values[is_finite], complete[target].to_numpy()[is_finite]
    if len(values) < MIN_ROWS:
        raise ValueError(f"{len(values)} rows have values in all three columns; expected at least {MIN_ROWS}")
    classes, numbers = np.unique(labels.astype(str), return_inverse=True)
    if not 2 <= len(classes) <= MAX_CLASSES:
        raise ValueError(f"target={target!r} has {len(classes)} different values; expected 2 to {MAX_CLASSES} classes")
    order = np.random.default_rng(_SEED).permutation(len(values))[:MAX_ROWS]
    if not (values[order].std(axis=0) > 0).all():
        raise ValueError(f"columns={chosen!r}: one of them is constant; use columns with different values")
    return _standardized(
        values[order], numbers[order], (str(chosen[0]), str(chosen[1])), tuple(str(name) for name in classes)
    )


def _listed(names: Sequence[str]) -> str:
    shown = [repr(str(name)) for name in names[:8]]
    return ", ".join(shown) + (", ..." if len(names) > len(shown) else "") if shown else "(none)"


def _standardized(X: Array, y: Array, names: tuple[str, str], class_names: tuple[str, ...]) -> Points:
    center, scale = X.mean(axis=0), X.std(axis=0)
    rows = (X - center) / scale
    # A single far point must not squeeze all others into a corner.
    low, high = np.quantile(rows, [0.005, 0.995], axis=0)
    margin = _MARGIN * (high - low)
    return Points(
        rows=rows.astype(np.float32),
        labels=y.astype(np.int64),
        n_train=len(rows) - round(HELD_OUT * len(rows)),
        names=names,
        class_names=class_names,
        center=center,
        scale=scale,
        window=np.column_stack([low - margin, high + margin]),
    )


def points_of(dataset: str, noise: float, own: Points | None) -> Points:
    """Return the points of a data set of the page."""
    if dataset == OWN_DATA and own is not None:
        return own
    return generated(dataset, noise)
