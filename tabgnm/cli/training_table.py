"""A table with its target from a file: which columns are what, and whether the target is a class or a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tabgnm.cli.options import Reading
from tabgnm.cli.tablefiles import TableFileError, check_target, read_table, require_columns
from tabgnm.cli.tablefiles.errors import quoted as quoted_name
from tabgnm.cli.terminal import UsageProblem

MOST_CLASSES_OF_NUMBERS = 10  # whole numbers with more different values are amounts or counts


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are not for learning from."""

    targets: tuple[str, ...]
    ignore: tuple[str, ...] = ()
    weight: str | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        repeated = [name for name in self.targets if self.targets.count(name) > 1]
        if repeated:
            raise UsageProblem(f"--target {repeated[0]} is given twice; name each target once")
        roles = {"--target": self.targets, "--ignore": self.ignore, "--weight": [self.weight], "--group": [self.group]}
        seen: dict[str, str] = {}
        for option, names in roles.items():
            for name in names:
                if name is not None and seen.setdefault(name, option) != option:
                    raise UsageProblem(f"column {name!r} is given by both {seen[name]} and {option}; use one of them")


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """Columns to learn from, the target, and weights and groups of the rows if there are any.

    Frames and series of pandas; several targets are a frame.
    """

    X: Any
    y: Any
    weights: Any
    groups: Any


def read_training_table(source: str, reading: Reading, columns: Columns) -> TrainingTable:
    """Read a table with its target; raise `TableFileError` if a column is not there or cannot be used."""
    frame = read_table(source, **reading.keywords())
    extra = [name for name in (columns.weight, columns.group) if name is not None]
    require_columns(list(frame.columns), [*columns.targets, *columns.ignore, *extra], source)
    for name in columns.targets:
        check_target(frame, name, source)
    X = frame.drop(columns=list(dict.fromkeys([*columns.targets, *columns.ignore, *extra])))
    if X.shape[1] == 0:
        raise TableFileError(
            f"{source!r} has no columns to learn from besides {names_in_words(columns.targets)}; add at least one"
        )
    return TrainingTable(
        X,
        target_columns(frame, columns.targets),
        None if columns.weight is None else frame[columns.weight],
        None if columns.group is None else frame[columns.group],
    )


def target_columns(frame: Any, names: Sequence[str]) -> Any:
    """Return a target as a series, or several as a frame."""
    return frame[names[0]] if len(names) == 1 else frame[list(names)]


def one_or_all(names: Sequence[str]) -> str | list[str]:
    """Return the names of targets for JSON."""
    return names[0] if len(names) == 1 else list(names)


def names_in_words(names: Sequence[str]) -> str:
    """Return names of columns for a sentence.

    Examples
    --------
    >>> names_in_words(["a"]), names_in_words(["a", "b", "c"])
    ("'a'", "'a', 'b' and 'c'")
    """
    quoted = [quoted_name(name) for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def task_of_all(y: Any) -> tuple[str, str]:
    """Return the task of a target, or of several if it is the same for all of them, and why.

    Parameters
    ----------
    y : pandas.Series or pandas.DataFrame

    Raises
    ------
    UsageProblem
        If some targets are classes, and others numbers.
    """
    if y.ndim == 1:
        return task_of(y)
    found = {name: task_of(y[name]) for name in y.columns}
    tasks = {task for task, _ in found.values()}
    if len(tasks) == 1:
        return tasks.pop(), ""
    by_task = {task: next(name for name, own in found.items() if own[0] == task) for task in sorted(tasks)}
    classes, numbers = by_task["classification"], by_task["regression"]
    raise UsageProblem(
        f"the target {classes!r} is one of classes ({found[classes][1]}), but {numbers!r} one of numbers "
        f"({found[numbers][1]}); use --task regression if all of them are numbers, or fit a model to each"
    )


def task_of(y: Any) -> tuple[str, str]:
    """Return what a target is to be learned as, "classification" or "regression", and why.

    Parameters
    ----------
    y : pandas.Series

    Examples
    --------
    >>> import pandas as pd
    >>> task_of(pd.Series(["red", "blue"]))
    ('classification', 'its values are text')
    >>> task_of(pd.Series([0.5, 1.5]))
    ('regression', 'its values are numbers with fractions')
    """
    kind = getattr(y.dtype, "kind", "O")
    if str(y.dtype) == "category":
        return "classification", "its values are categories"
    if kind == "b" or str(y.dtype) == "boolean":
        return "classification", "its values are true or false"
    if kind in "Mm":
        return "regression", "its values are dates or durations"  # which the estimator says how to convert
    if kind not in "iufO" or (kind == "O" and not _are_numbers(y)):
        return "classification", "its values are text"
    numbers = y.to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.array_equal(numbers, np.round(numbers), equal_nan=True):
        return "regression", "its values are numbers with fractions"
    n_different = len(np.unique(numbers[~np.isnan(numbers)]))
    different = f"its values are {n_different:,} different whole numbers"
    most = min(MOST_CLASSES_OF_NUMBERS, max(2, len(numbers) // 2))  # five rows with five numbers are not five classes
    return ("classification" if n_different <= most else "regression"), different


def _are_numbers(y: Any) -> bool:
    return all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in y.dropna())
