"""The `export` method of the estimators, which chooses the format by the suffix of the file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from tabgnm._files import paths
from tabgnm._files.errors import FileError
from tabgnm.estimators.machines import NoSingleMachine
from tabgnm.export.c import to_c
from tabgnm.export.onnx_model import onnx_model
from tabgnm.export.program import ExportError, program_of
from tabgnm.export.python_file import python_file
from tabgnm.export.sql import to_sql

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator


def _c_file(estimator: TabularEstimator, *, prefix: str = "model") -> str:
    return to_c(program_of(estimator), prefix=prefix)


def _sql_file(
    estimator: TabularEstimator, *, table: str | Sequence[str], dialect: str, keep: Sequence[str] = ()
) -> str:
    return to_sql(program_of(estimator), table, dialect, keep=keep) + ";\n"


# Suffix of a file -> function of the estimator and options that returns its content.
FORMATS: dict[str, Callable[..., bytes | str]] = {
    ".onnx": onnx_model,
    ".py": python_file,
    ".c": _c_file,
    ".sql": _sql_file,
}


def export(estimator: TabularEstimator, path: str | Path, **options: Any) -> None:
    """Write a fitted estimator to a file; see `MachineMethods.export`."""
    check_is_fitted(estimator, "fitted_")
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ExportError(
            f"the format of {str(path)!r} is not known; use a file name that ends in {', '.join(FORMATS)}"
        )
    _check_options(suffix, options)
    try:
        content = FORMATS[suffix](estimator, **options)
    except NoSingleMachine as error:
        raise ExportError(str(error)) from error
    try:
        paths.replace(path, [content.encode() if isinstance(content, str) else content])
    except FileError as error:
        raise ExportError(str(error)) from error


def _check_options(suffix: str, options: dict[str, Any]) -> None:
    known = {
        name: own for name, own in inspect.signature(FORMATS[suffix]).parameters.items() if own.kind is own.KEYWORD_ONLY
    }
    unknown = sorted(set(options) - set(known))
    missing = [name for name, own in known.items() if own.default is own.empty and name not in options]
    if unknown:
        raise TypeError(f"{unknown[0]!r} is not an option of exports to {suffix}; use {', '.join(known)}")
    if missing:
        raise TypeError(f"an export to {suffix} requires {' and '.join(f'{name}=...' for name in missing)}")
