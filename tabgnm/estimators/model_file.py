"""Saving estimators to model files and loading them, in the format of `tabgnm.modelfile`."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from sklearn.utils.validation import check_is_fitted

from tabgnm._files import paths
from tabgnm._files.errors import FileError, cause
from tabgnm._files.paths import PathOrFile
from tabgnm._files.streams import InputStream
from tabgnm.estimators.base import TabularEstimator
from tabgnm.estimators.model_description import described
from tabgnm.estimators.model_reading import ESTIMATORS, estimator_of
from tabgnm.modelfile.container import pack, unpack
from tabgnm.modelfile.errors import ModelFileError


def save(estimator: TabularEstimator, file: PathOrFile) -> None:
    """Write a fitted estimator to a file, see `TabularEstimator.save`."""
    content = to_bytes(estimator)
    try:
        paths.write(file, [content])
    except FileError as error:
        raise ModelFileError(str(error)) from error.__cause__


def load(file: PathOrFile) -> Any:
    """Load an estimator from a model file that was written by its `save` method.

    Loading does not run any code from the file.

    Parameters
    ----------
    file : str, path or binary file
        A path of a regular file, or a file that is open for reading in binary mode, such as `io.BytesIO`. An open file
        is read from its current position to its end, without seeking, and is not closed.

    Returns
    -------
    GNMClassifier, GNMRegressor, MLPClassifier or MLPRegressor
        The fitted estimator. On the same machine, its predictions are identical to those of the saved estimator. Its
        `n_jobs` and `cv` are None.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged, not a model file, or written in a newer format.
    TypeError
        If `file` is neither a path nor a binary file, for instance a file in text mode.

    Examples
    --------
    >>> import tabgnm
    >>> model = tabgnm.MLPRegressor(hidden=(4,), max_epochs=2).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> model.save("small.tabgnm")
    >>> same = tabgnm.load("small.tabgnm")
    >>> bool((same.predict([[0.5]]) == model.predict([[0.5]])).all())
    True
    """
    try:
        with paths.opened(file) as stream:
            return _guarded(paths.name_of(file), lambda: estimator_of(unpack(stream)))
    except ModelFileError:
        raise
    except FileError as error:
        raise ModelFileError(str(error)) from error.__cause__


def to_bytes(estimator: TabularEstimator) -> bytes:
    """Return the content of the model file of a fitted estimator."""
    if ESTIMATORS.get(type(estimator).__name__) is not type(estimator):
        raise ModelFileError(f"{type(estimator).__name__} cannot be saved; expected one of {', '.join(ESTIMATORS)}")
    check_is_fitted(estimator, "fitted_")
    try:
        content = pack(*described(estimator))
    except FileError as error:
        raise ModelFileError(f"this model cannot be saved: {error}") from error.__cause__
    # Check that the new file can be loaded before it replaces an existing one.
    _guarded("this model cannot be saved", lambda: from_bytes(content))
    return content


def from_bytes(content: bytes) -> TabularEstimator:
    """Return the estimator of a model file; raise ModelFileError if it is invalid."""
    return _guarded("the model file", lambda: estimator_of(unpack(InputStream(io.BytesIO(content)))))


def _guarded(subject: str, read: Callable[[], TabularEstimator]) -> TabularEstimator:
    try:
        return read()
    except FileError as error:
        raise ModelFileError(f"{subject}: {error}") from error.__cause__
    except Exception as error:  # the content is not trusted, so any failure means that the file is invalid
        raise ModelFileError(f"{subject} does not describe a model: {type(error).__name__}: {cause(error)}") from error
