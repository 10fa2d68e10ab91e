"""A table with its target from a file: which columns are what, and whether the target is a class or a number."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tabgnm.cli.options import Reading
from tabgnm.cli.tablefiles import TableFileError, check_target, read_table, require_columns, without_missing_targets
from tabgnm.cli.tablefiles.errors import quoted as quoted_name
from tabgnm.cli.tablefiles.targets import target_in
from tabgnm.cli.target_values import (
    ambiguous_numbers,
    as_numbers,
    has_text,
    parsed,
    readable_numbers,
    refuse_dates,
    refuse_infinite,
)
from tabgnm.cli.terminal import UsageProblem
from tabgnm.table.detection import Ambiguous, detected_reading
from tabgnm.table.text import TextReading

MAX_CLASSES_OF_NUMBERS = 10  # whole numbers with more different values are amounts or counts
_LABELS_REMEDY = "use --task classification if the values are labels"
_NUMBER_REMEDY = (
    "write numbers like 1234.5 in the file, leave the cell empty and use --drop-missing-target if it is unknown, or "
    f"{_LABELS_REMEDY}"
)


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


def read_training_table(source: str, reading: Reading, columns: Columns, *, task: str | None = None) -> TrainingTable:
    """Read a table with its target; raise `TableFileError` if a column is not there or cannot be used.

    The target is what the task needs: numbers for regression, also if the file has them with signs, and what the file
    has for classification. Without a task, text that is written like numbers is numbers.
    """
    frame = read_table(source, **reading.keywords())
    extra = [name for name in (columns.weight, columns.group) if name is not None]
    require_columns(list(frame.columns), [*columns.targets, *columns.ignore, *extra], source)
    if reading.drop_missing_target:
        frame = without_missing_targets(frame, columns.targets, source)
    for name in columns.targets:
        check_target(frame, name, source, droppable=True)
    read = {name: learned_target(frame[name], task, source) for name in columns.targets}
    frame = frame.reset_index(drop=True)
    X = frame.drop(columns=list(dict.fromkeys([*columns.targets, *columns.ignore, *extra])))
    if X.shape[1] == 0:
        raise TableFileError(
            f"{source!r} has no columns to learn from besides {names_in_words(columns.targets)}; add at least one"
        )
    return TrainingTable(
        X,
        target_columns(read).reset_index(drop=True),
        None if columns.weight is None else frame[columns.weight],
        None if columns.group is None else frame[columns.group],
    )


def learned_target(column: Any, task: str | None, source: str) -> Any:
    """Return a target as a task needs it.

    Parameters
    ----------
    column : pandas.Series
    task : {"classification", "regression"} or None
        None: text that is written like numbers is numbers.
    source : str
        The file, for messages.

    Raises
    ------
    TableFileError
        If it cannot be numbers; without a task also if it is unlikely that text is labels.
    """
    if task == "classification":
        return column
    if task == "regression":
        numbers, reading = as_numbers(column, source, _NUMBER_REMEDY)
        if reading is not None:
            _warn_of_numbers(column, numbers, reading)
        return numbers
    refuse_dates(column, source)
    if not has_text(column) or str(column.dtype) == "category":
        refuse_infinite(column, source)
        return column
    found = detected_reading(column)
    if isinstance(found, TextReading | Ambiguous) and found.kind == "datetime":
        raise TableFileError(
            f"{target_in(source, column.name)} looks like dates, such as {quoted_name(str(column.iloc[0]))}; write a "
            f"number into the file instead, such as the days until then, or {_LABELS_REMEDY}"
        )
    if isinstance(found, TextReading) and task_of(parsed(column, found))[0] == "regression":
        numbers = readable_numbers(column, found, source, _NUMBER_REMEDY)
        _warn_of_numbers(column, numbers, found)
        return numbers
    if isinstance(found, Ambiguous):
        numbers = parsed(column, TextReading("number", found.formats[0]))
        if task_of(numbers)[0] == "regression":
            raise TableFileError(f"{ambiguous_numbers(column, source)}, or {_LABELS_REMEDY}")
    _refuse_identifiers(column, source)
    return column


def _warn_of_numbers(column: Any, numbers: Any, reading: TextReading) -> None:
    warnings.warn(
        f"the target {quoted_name(str(column.name))} is read as numbers, written like {reading.format}: "
        f"{quoted_name(str(column.iloc[0]))} is {numbers.iloc[0]:g}; {_LABELS_REMEDY}",
        stacklevel=2,
    )


def _refuse_identifiers(column: Any, source: str) -> None:
    """Raise if most rows have a label that no other row has."""
    n_single = int((column.value_counts() == 1).sum())
    if n_single > max(MAX_CLASSES_OF_NUMBERS, len(column) / 2):  # a few rows may well have a class each
        raise TableFileError(
            f"{target_in(source, column.name)} is text, and {n_single:,} of {len(column):,} rows have a value that no "
            f"other row has, such as {quoted_name(str(column.iloc[0]))}; choose another target, write numbers like "
            f"1234.5 in the file, or {_LABELS_REMEDY}"
        )


def target_columns(targets: Mapping[str, Any]) -> Any:
    """Return one target as a series, or several as a frame."""
    import pandas as pd  # type: ignore[import-untyped]

    return next(iter(targets.values())) if len(targets) == 1 else pd.DataFrame(targets)


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
        f"the target {classes!r} has classes ({found[classes][1]}), but the target {numbers!r} has numbers "
        f"({found[numbers][1]}); use --task regression if all targets have numbers, or fit one model to each target"
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
    most = min(MAX_CLASSES_OF_NUMBERS, max(2, len(numbers) // 2))  # five rows with five numbers are not five classes
    return ("classification" if n_different <= most else "regression"), different


def _are_numbers(y: Any) -> bool:
    return all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in y.dropna())
