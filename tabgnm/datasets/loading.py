"""`load_dataset`, with the interface of scikit-learn's dataset loaders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm._extras import import_extra
from tabgnm.datasets.cache import data_folder
from tabgnm.datasets.describe import describe
from tabgnm.datasets.formats import Columns
from tabgnm.datasets.registry import dataset_info
from tabgnm.datasets.retrieval import DatasetRows, complete_rows, sampled_rows
from tabgnm.datasets.spec import DEFAULT_VARIANT, Archive, DatasetSpec, Variant


def load_dataset(
    name: str,
    variant: Variant = DEFAULT_VARIANT,
    *,
    data_home: str | os.PathLike[str] | None = None,
    as_frame: bool = False,
    return_X_y: bool = False,  # noqa: N803 - scikit-learn's name
    verify: bool = True,
) -> Any:
    """Load a data set of the paper.

    A data set that is neither generated nor part of scikit-learn is loaded from the cache. If it is not in the cache,
    the original archive is downloaded, parsed, verified and cached. UCI does not publish checksums of its archives, so
    the parsed content is verified: the number of rows, columns, classes and missing values and, if known, a checksum of
    the values; see `checked` of the result.

    Parameters
    ----------
    name : str
        The name of the data set, one of `dataset_names()`.
    variant : {"clean", "paper", "sample"}, default="clean"
        ``"clean"`` omits columns from which the target is computed. ``"paper"`` is the table as used in the paper, with
        these columns in Electrical Grid (``stab``) and Bike Sharing (``casual``, ``registered``). Apart from Diabetes,
        which scikit-learn scales by default, all other data sets are the same in both variants. ``"sample"`` is a
        sample of the rows of SUSY or YearPredictionMSD, if the cache has one.
    data_home : path-like, optional
        The cache folder. By default, the environment variable ``TABGNM_DATA`` or, if it is not set, the user's cache
        folder.
    as_frame : bool, default=False
        Whether to return pandas objects, with categorical columns, instead of arrays.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.
    verify : bool, default=True
        Whether to verify that the rows are the expected ones. If False, any rows with the right columns are accepted,
        and `checked` of the result is "nothing".

    Returns
    -------
    sklearn.utils.Bunch
        A dictionary-like object with the attributes

        data : ndarray of shape (n_samples, n_features), or DataFrame
            The features: float64 if all are numbers; otherwise objects, with floats in numeric columns and text in
            categorical columns. Missing values are NaN.
        target : ndarray of shape (n_samples,), or Series
            The class labels of the data set (text or integers), or numbers.
        frame : DataFrame or None
            Features and target together, if ``as_frame=True``.
        feature_names : list of str
            The columns of `data`.
        target_names : list
            The sorted class labels; for regression, the name of the target.
        categorical_features : list of str
            The columns of `data` that are categorical.
        name, title, task, variant : str
            Name, title, task and variant of the data set.
        leaking_features : list of str
            The columns of `data` from which the target is computed. Empty in the clean variant.
        is_sample : bool
            Whether `data` has only a sample of the rows.
        n_samples_original, n_samples_paper : int
            The number of rows of the original data set, and the number that the paper uses.
        checked : {"values", "counts", "nothing"} or None
            What was verified: the values, or only counts of rows, classes and missing values (of samples, only rows).
            None for data sets without a file.
        filename : pathlib.Path or None
            The path of the file in the cache.
        DESCR, license, citation : str
            Description, terms of use, and the work to cite.
    (data, target) : tuple
        If ``return_X_y=True``.

    Raises
    ------
    DatasetUnavailableError
        If the data set is not in the cache and cannot be downloaded. The message names the file to save and its place.
    DatasetContentError
        If a file is damaged, or is not the data set.

    Examples
    --------
    >>> moons = load_dataset("noisy_moons")
    >>> moons.data.shape, moons.task, moons.target_names
    ((1000, 2), 'classification', [0, 1])
    """
    spec = dataset_info(name)
    if variant not in spec.variants:
        allowed = ", ".join(map(repr, spec.variants))
        raise ValueError(f"variant={variant!r} is not a variant of {name}; use one of {allowed}")
    if as_frame:
        _pandas()  # raises before a download, not after it
    rows = _rows(spec, variant, data_home, verify)
    features = spec.feature_names(variant)
    categorical = [feature for feature in features if feature in spec.categorical]
    target = _target(rows.columns[spec.target])
    n_rows = len(target)
    data: Any = _matrix(rows.columns, features, any_text=bool(categorical))
    labels = np.unique(target).tolist() if spec.task == "classification" else [spec.target]
    frame = None
    if as_frame:
        frame = _frame(spec, rows.columns, features, target, labels)
        data, target = frame[list(features)], frame[spec.target]
    if return_X_y:
        return data, target
    from sklearn.utils import Bunch

    return Bunch(
        data=data,
        target=target,
        frame=frame,
        feature_names=list(features),
        target_names=labels,
        categorical_features=categorical,
        name=spec.name,
        title=spec.title,
        task=spec.task,
        variant=variant,
        leaking_features=[feature for feature in features if feature in spec.leaking],
        is_sample=n_rows < spec.n_rows_published,
        n_samples_original=spec.n_rows_published,
        n_samples_paper=spec.n_samples,
        checked=rows.checked,
        filename=rows.path,
        DESCR=describe(spec, variant, n_rows=n_rows, checked=rows.checked),
        license=spec.license,
        citation=spec.citation,
    )


def _rows(spec: DatasetSpec, variant: Variant, data_home: str | os.PathLike[str] | None, verify: bool) -> DatasetRows:
    if not isinstance(spec.source, Archive):
        X, y = spec.source.make(variant)
        columns = {name: X[:, index] for index, name in enumerate(spec.columns[:-1])}
        return DatasetRows({**columns, spec.target: y})
    folder = data_folder(data_home)
    if variant == "sample":
        return sampled_rows(spec, folder, verify=verify)
    return complete_rows(spec, spec.source, folder, verify=verify)


def _target(values: NDArray[Any]) -> NDArray[Any]:
    # Text labels become a text array, which can be compared and sorted without objects.
    return values.astype(str) if values.dtype == object else values


def _matrix(columns: Columns, features: Sequence[str], *, any_text: bool) -> NDArray[Any]:
    if not any_text:
        return np.column_stack([columns[name] for name in features])
    matrix = np.empty((len(columns[features[0]]), len(features)), dtype=object)
    for index, name in enumerate(features):
        matrix[:, index] = columns[name]
    return matrix


def _pandas() -> Any:
    return import_extra("pandas", "pandas", "loading a data set as a DataFrame")


def _frame(
    spec: DatasetSpec, columns: Columns, features: Sequence[str], target: NDArray[Any], labels: list[Any]
) -> Any:
    pandas = _pandas()
    table = {
        name: pandas.Categorical(columns[name]) if name in spec.categorical else columns[name] for name in features
    }
    table[spec.target] = pandas.Categorical(target, categories=labels) if spec.task == "classification" else target
    return pandas.DataFrame(table)
