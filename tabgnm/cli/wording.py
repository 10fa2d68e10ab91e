"""Warnings and errors of the library in terms of the command line: options and files instead of Python."""

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
# Options of `tabgnm sparsify` and `export`.
_MACHINE_OPTIONS = {
    "n_edges": "--edges",
    "max_megabytes": "--max-megabytes",
    "prefix": "--prefix",
    "keep": "--keep",
}
# What the library says to those who write Python, and what people with a file can do.
FILE_TERMS = {
    "convert the column first, for instance with pandas.to_datetime, or replace the cell with None if": "write it in "
    "this form, or leave the cell empty if",
    "replace it with None if": "leave the cell empty if",
    "or with None if": "or leave the cell empty if",
    "or with NaN if": "or leave the cell empty if",
    "; convert the column to its type in fit, or fit again": "; write it as in the table that the model was fitted to, "
    "or fit again",
    "convert the column first, for instance with the arguments thousands and decimal of pandas.read_csv": "write them "
    "as 1234.5 in the file",
    "convert the column first, for instance with the argument format of pandas.to_datetime": "write them as 2024-01-31 "
    "in the file",
    "convert it first, for instance with pandas.to_datetime and its argument unit": "write them as 2024-01-31 in the "
    "file",
    "Input X contains infinity or a value too large for dtype('float64'): column": "a number is infinite or too large: "
    "column",
    "60, or None": "60, or omit the option",
    "a file written by `save`": "a model file written by `tabgnm fit`",
    "save the model again": "write it again with `tabgnm fit`",
    "call distill(X) for a small machine that imitates it, or fit_sparse(X, y) for one that learns from the "
    "labels": "run `tabgnm sparsify`",
    "use distill or fit_sparse first": "run `tabgnm sparsify` first",
    "for instance fit_sparse(X, y, n_edges=500)": "for instance with `tabgnm sparsify --edges 500`",
    "fit with target_transform='none'": "fit with --set target_transform=none",
    "matrix=True requires": "--matrix requires",
    "use matrix=False, which": "use --columns, which",
    "remain numbers with integer_codes=False": "remain numbers if the model is fitted with --set integer_codes=false",
}
_SMALL_OF_MLP = re.compile(r"use \w+\(\)\.fit_sparse\(X, y\), or \w+\(\)\.fit\(X, y\)\.distill\(X\)")
# The last one: before it, a cell is quoted, which may contain the same words.
_ROW = re.compile(r"\bin row (\d+)(?!.*\bin row \d)", re.DOTALL)
_UNSUITABLE_METRIC = re.compile(r"cannot score these targets \(.*\); .*", re.DOTALL)
_KIND = re.compile(r"(?<![\w.-])column_kinds=\{'([^{}'\\]*)': '(\w+)'\}")
_MAX_SHOWN = 3  # columns that a remedy is written out for


def in_options(text: str) -> str:
    """Return a text with options instead of the parameters that have one.

    Names that are ordinary words, such as device, are parameters only before an equals sign.

    Examples
    --------
    >>> in_options("time_limit=5 stopped training; use a larger time_limit")
    '--time-limit 5 stopped training; use a larger --time-limit'
    >>> in_options("fit with column_kinds={'day': 'number'}")
    'fit with --column-kind day=number'
    """
    text = _KIND.sub(lambda found: _kinds({found[1]: found[2]}), text)
    for name, option in (OPTIONS | _MACHINE_OPTIONS).items():
        text = re.sub(rf"(?<![\w.-]){name}>?=(?=\S)", f"{option} ", text)
        if "_" in name:
            text = re.sub(rf"(?<![\w.-]){name}\b", option, text)
    return text


def in_file_terms(text: str, rows_before: int = 0) -> str:
    """Return a text with options, with remedies for a file, and with rows that count from 1.

    Parameters
    ----------
    text : str
        Of the library, whose rows count from 0.
    rows_before : int, default=0
        Rows of the file before those that the library was given.

    Examples
    --------
    >>> in_file_terms("'x' has '?!' in row 0; write it like 12.5, or replace it with None if the value is missing")
    "'x' has '?!' in row 1; write it like 12.5, or leave the cell empty if the value is missing"
    """
    for python, file in FILE_TERMS.items():
        text = text.replace(python, file)
    text = in_options(text)
    text = _SMALL_OF_MLP.sub("fit a GNM with `tabgnm fit`, and run `tabgnm sparsify`", text)
    if _UNSUITABLE_METRIC.search(text):
        from tabgnm.cli.metric_names import usual_metrics

        text = _UNSUITABLE_METRIC.sub(f"cannot score this target; use auto, {usual_metrics()}", text)
    return _ROW.sub(lambda found: f"in row {int(found[1]) + rows_before + 1:,}", text)


def worth_showing(warning: Warning | str) -> Warning | str | None:
    """Return a warning without columns of dates such as 2024-01-31; None if it is only about such columns.

    All cells of a CSV file are text, and there is no other way to write a date in it.
    """
    from tabgnm.table.advice import ColumnWarning, read_as

    if not isinstance(warning, ColumnWarning) or warning.subject != "read as":
        return warning
    return read_as([own for own in warning.columns if own.topic != "read as dates" or own.detail])


def warning_text(warning: Warning | str, rows_before: int = 0) -> str:
    """Return what a warning says, with a remedy that the command line has."""
    from tabgnm.table.advice import ColumnWarning

    if isinstance(warning, ColumnWarning):
        return f"{warning.finding}. {_remedy(warning)}"
    text = in_file_terms(str(warning), rows_before)
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
    shown = " ".join(f"{option} {shlex.quote(value)}" for value in values[:_MAX_SHOWN])
    return shown if len(values) <= _MAX_SHOWN else f"{shown} and so on"
