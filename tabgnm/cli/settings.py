"""Parameters of an estimator from the command line: read, checked before any table is, and explained."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from tabgnm import GNMClassifier, GNMRegressor
from tabgnm.cli.metric_names import check_metric_of
from tabgnm.cli.options import DEFAULT_SEED
from tabgnm.cli.terminal import UsageProblem
from tabgnm.cli.wording import OPTIONS, in_file_terms
from tabgnm.estimators.checks import is_auto
from tabgnm.estimators.effort import effort_of
from tabgnm.table.settings import KINDS

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

ESTIMATORS = {"classification": GNMClassifier, "regression": GNMRegressor}
# Parameters that make no sense for one fit to one file.
_NOT_HERE = {"cv": "use --group, or n_folds", "warm_start": "each command fits once"}
_OF_COMMANDS = {"random_state": DEFAULT_SEED}  # defaults of options that differ from those of the estimators
_MAX_SUGGESTED = 3
_LISTED = "`tabgnm fit` lists all parameters with --print-settings"
_WORDS = {"true": True, "false": False, "none": None}


def _defaults(task: str) -> dict[str, Any]:
    """Return all parameters of an estimator with their defaults."""
    parameters = inspect.signature(ESTIMATORS[task]).parameters
    return {name: own.default for name, own in parameters.items()}


def value_of(text: str) -> Any:
    """Return the value that a text stands for: a number, true, false, none, a list or a dict; or else the text itself.

    Examples
    --------
    >>> value_of("50"), value_of("1e-3"), value_of("none"), value_of("relu"), value_of("[0.1, 0.9]")
    (50, 0.001, None, 'relu', [0.1, 0.9])
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, int | float | str | list | tuple | dict) else text


def named_value(text: str, option: str, example: str, known: Collection[str], listed: str) -> tuple[str, str]:
    """Return the name and the text of the value of NAME=VALUE; raise if there is no parameter of that name.

    `listed` says where all names are, if none is close.
    """
    name, equals, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or not name or not value.strip():
        raise UsageProblem(f"{option} {text!r} is invalid; expected NAME=VALUE, e.g. {example}")
    if name not in known:
        close = get_close_matches(name, sorted(known), n=_MAX_SUGGESTED, cutoff=0.6)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        raise UsageProblem(f"{option} {name}: unknown parameter; {hint}{listed}")
    return name, value.strip()


def _named(text: str, option: str, example: str) -> tuple[str, str]:
    """Return the name of a parameter of an estimator, and the text of its value."""
    name, value = named_value(text, option, example, set().union(*map(_defaults, ESTIMATORS)), _LISTED)
    if name in OPTIONS:
        raise UsageProblem(f"{option} {name}: use {OPTIONS[name]} instead")
    if name in _NOT_HERE:
        raise UsageProblem(f"{option} {name} is not available on the command line: {_NOT_HERE[name]}")
    return name, value


def check_values(task: str | None, values: Mapping[str, Any], in_grid: Collection[str] = ()) -> None:
    """Raise if no estimator takes these values; without a task, either of them may.

    `in_grid` has the names that `--grid` gives; all others without an option of their own come from `--set`.
    """
    problems = []
    check_metric_of(task, values)
    for own in ESTIMATORS if task is None else (task,):
        unknown = [name for name in values if name not in _defaults(own)]
        try:
            if unknown:
                raise ValueError(f"{unknown[0]} is not a parameter of {own}")
            ESTIMATORS[own](**values)._check_parameters()
        except (ValueError, TypeError) as error:
            problems.append(str(error))
        else:
            return
    problem = next((text for text in problems if "is not a parameter of" not in text), problems[0])
    raise UsageProblem(_with_option(in_file_terms(problem), values.keys() - OPTIONS.keys(), in_grid))


def _with_option(text: str, names: Collection[str], in_grid: Collection[str]) -> str:
    """Return an error about the value of a parameter with the option that gives it."""
    first = next(
        (word for word in re.findall(r"(?<![\w.-])[a-z]\w*(?==| is not a parameter)", text) if word in names), None
    )
    if first is None:
        return text
    option = "--grid" if first in in_grid else "--set"
    return f"{option} {text}" if text.startswith(first) else f"{option} {first}: {text}"


def _column_kinds(assignments: Sequence[str]) -> dict[str, str]:
    """Return the kinds of columns that are given as COLUMN=KIND; names of columns may contain equals signs."""
    kinds: dict[str, str] = {}
    for text in assignments:
        column, equals, kind = text.rpartition("=")
        if not equals or not column or kind not in KINDS:
            raise UsageProblem(
                f"--column-kind {text!r} is invalid; expected COLUMN=KIND, e.g. zip=category, and one of the kinds "
                f"{', '.join(KINDS)}"
            )
        if kinds.setdefault(column, kind) != kind:
            raise UsageProblem(f"--column-kind gives {column!r} the kinds {kinds[column]} and {kind}; use one of them")
    return kinds


@dataclass(frozen=True)
class FitSettings:
    """The task, and the parameters of an estimator that were given on the command line.

    Attributes
    ----------
    task : {"classification", "regression"} or None
        None where the target says it.
    values : dict
        Parameters, checked as far as possible without a table.
    """

    task: str | None
    values: Mapping[str, Any]

    @classmethod
    def of(
        cls, task: str, assignments: Sequence[str], options: Mapping[str, Any], column_kinds: Sequence[str] = ()
    ) -> FitSettings:
        """Read `--set`, `--column-kind` and the options that are parameters; raise if a value is invalid."""
        values = dict(options)
        if column_kinds:
            values["column_kinds"] = _column_kinds(column_kinds)
        for text in assignments:
            name, value = _named(text, "--set", "max_epochs=50")
            values[name] = value_of(value)
        own_task = None if task == "auto" else task
        check_values(own_task, values)
        return cls(own_task, values)

    def estimator(self, task: str, *, verbose: int = 0) -> TabularEstimator:
        """Return an unfitted estimator; raise if a parameter is not one of this task."""
        check_values(task, self.values)
        estimator: TabularEstimator = ESTIMATORS[task](**self.values, verbose=verbose)
        return estimator

    def explained(self, task: str, n_rows: int) -> list[dict[str, Any]]:
        """Return name, value, source and, for what is "auto", the resolved value of each parameter."""
        estimator = self.estimator(task)
        effort = effort_of(estimator, n_rows)
        resolved = {
            "n_candidates": effort.n_candidates,
            "n_folds": effort.n_folds,
            "max_epochs": effort.max_epochs,
            "patience": effort.patience,
            "n_nodes": f"{effort.n_nodes}, or more for wide tables",
            "batch_size": effort.batch_size(n_rows),
            "metric": "the loss",
        }
        rows = []
        for name, default in _defaults(task).items():
            if name == "verbose":
                continue
            value = getattr(estimator, name)
            given = name in self.values and value != _OF_COMMANDS.get(name, default)
            row = {"name": name, "value": value, "source": "command line" if given else "default"}
            if name == "device" and is_auto(value):
                from tabgnm.training.settings import torch_device

                row["resolved"] = str(torch_device("auto"))
            elif is_auto(value):
                row["resolved"] = resolved.get(name, "differs between candidates")
            rows.append(row)
        return rows


@dataclass(frozen=True)
class Grid:
    """Values to try for each parameter."""

    values: Mapping[str, list[Any]]

    @classmethod
    def of(cls, assignments: Sequence[str]) -> Grid:
        """Read `--grid`; a comma within brackets belongs to a value."""
        values: dict[str, list[Any]] = {}
        for text in assignments:
            name, several = _named(text, "--grid", "dropout=0,0.2")
            if name in values:
                raise UsageProblem(f"--grid {name} is given twice; list all values in one option: {name}=v1,v2")
            values[name] = [value_of(own) for own in _split(several)]
        return cls(values)

    @property
    def n_settings(self) -> int:
        """Number of combinations."""
        n = 1
        for own in self.values.values():
            n *= len(own)
        return n

    def check(self, task: str | None, base: Mapping[str, Any]) -> None:
        """Raise if a value is invalid, or given in `--set` as well."""
        for name in self.values:
            if name in base:
                raise UsageProblem(f"{name} is given by both --set and --grid; use one of them")
        # Each value once: all combinations may be very many.
        longest = max(map(len, self.values.values()))
        for place in range(longest):
            values = {**base, **{name: own[place % len(own)] for name, own in self.values.items()}}
            check_values(task, values, self.values.keys())


def _split(text: str) -> list[str]:
    """Split at commas that are not within brackets."""
    depths = itertools.accumulate((char in "[({") - (char in "])}") for char in text)
    marked = "".join("\0" if char == "," and depth == 0 else char for char, depth in zip(text, depths, strict=True))
    return [part.strip() for part in marked.split("\0") if part.strip()]
