"""Warnings and errors of the library in terms of the command line: options instead of parameters of Python."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tabgnm.table.advice import ColumnWarning

# Parameters of the estimators, and of their `fit`, that have options of their own.
OPTIONS = {
    "effort": "--effort",
    "time_limit": "--time-limit",
    "metric": "--metric",
    "random_state": "--seed",
    "device": "--device",
    "verbose": "--quiet",
    "column_kinds": "--column-kind",
    "sample_weight": "--weight",
}
_MOST_SHOWN = 3  # columns that a remedy is written out for


def in_options(text: str) -> str:
    """Return a text with options instead of the parameters that have one.

    Names that are ordinary words, such as device, are parameters only before an equals sign.

    Examples
    --------
    >>> in_options("time_limit=5 stopped training; use a larger time_limit")
    '--time-limit 5 stopped training; use a larger --time-limit'
    """
    for name, option in OPTIONS.items():
        text = re.sub(rf"(?<![\w.-]){name}=(?=\S)", f"{option} ", text)
        if "_" in name:
            text = re.sub(rf"(?<![\w.-]){name}\b", option, text)
    return text


def warning_text(warning: Warning | str) -> str:
    """Return what a warning says, with a remedy that the command line has."""
    from tabgnm.table.advice import ColumnWarning

    if isinstance(warning, ColumnWarning):
        return f"{warning.finding}. {_remedy(warning)}"
    text = in_options(str(warning))
    named = _first_parameter(text)
    return text if named is None else f"{text}; set parameters with --set, for instance --set {named}=VALUE"


def _first_parameter(text: str) -> str | None:
    """Return the first parameter without an option of its own that a text names."""
    from tabgnm.cli.settings import ESTIMATORS

    known = {name for estimator in ESTIMATORS.values() for name in estimator().get_params()} - OPTIONS.keys()
    for found in re.finditer(r"(?<![\w.-])([a-z]\w*)(=?)", text):
        if found[1] in known and (found[2] or "_" in found[1]):
            return found[1]
    return None


def _remedy(warning: ColumnWarning) -> str:
    """Return what to do about columns."""
    names = list(warning.kinds)
    keep = f"to keep them as categories, use {_kinds(dict.fromkeys(names, 'category'))}"
    leave_out = f"leave them out with {_options('--ignore', names)}"
    remedies = {
        "read as": f"Confirm this with {_kinds(warning.kinds)}; {keep}",
        "like numbers": "Remove units and signs from the file, leave cells empty that are not numbers, and use "
        f"{_kinds(warning.kinds)}; {keep}",
        "like dates": f"Write them as 2024-01-31 or 2024-01-31 12:30:00 in the file; {keep}",
        "ambiguous": f"Write numbers as 1234.5 and dates as 2024-01-31 in the file; {keep}",
        "identifiers": f"A model cannot generalize from them to new rows; {leave_out}; {keep}",
        "not used": f"To use them, pass --set min_level_count=1, or another kind, such as number, with --column-kind; "
        f"otherwise {leave_out}",
        "no column": "Use other columns",
    }
    return remedies[warning.subject]


def _kinds(kinds: Mapping[str, str]) -> str:
    return _options("--column-kind", [f"{name}={kind}" for name, kind in kinds.items()])


def _options(option: str, values: list[str]) -> str:
    """Return an option for each value, to copy; only the first ones if there are very many."""
    shown = " ".join(f"{option} {shlex.quote(value)}" for value in values[:_MOST_SHOWN])
    return shown if len(values) <= _MOST_SHOWN else f"{shown} and so on"
