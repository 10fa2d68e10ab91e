"""`export` of the estimators: the format by the suffix of a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from tabgnm.export.onnx_model import onnx_model
from tabgnm.export.program import ExportError
from tabgnm.export.python_file import python_file
from tabgnm.modelfile import ModelFileError, files

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

# Suffix of a file -> function of the estimator and options that returns its content.
FORMATS: dict[str, Callable[..., bytes | str]] = {
    ".onnx": onnx_model,
    ".py": python_file,
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
    known = [
        name for name, own in inspect.signature(FORMATS[suffix]).parameters.items() if own.kind is own.KEYWORD_ONLY
    ]
    unknown = sorted(set(options) - set(known))
    if unknown:
        allowed = f"use {', '.join(known)}" if known else "it has none"
        raise TypeError(f"{unknown[0]!r} is not an option of exports to {suffix}; {allowed}")
    content = FORMATS[suffix](estimator, **options)
    try:
        files.replace(path, content.encode() if isinstance(content, str) else content)
    except ModelFileError as error:
        raise ExportError(str(error)) from error
