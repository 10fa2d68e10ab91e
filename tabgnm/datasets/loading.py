"""`load_dataset`: a data set as scikit-learn's loaders give theirs."""

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

    A data set that is neither generated nor part of scikit-learn is looked for in the cache. If it is not there, the
    original archive is downloaded, read, checked and cached. UCI publishes no checksums of its archives, so it is the
    parsed content that is checked: the numbers of rows, columns, classes and missing values and, where tabgnm knows
    it, a checksum of the values. `checked` of the result says which.

    Parameters
    ----------
    name : str
        One of `dataset_names`.
    variant : {"clean", "paper", "sample"}, default="clean"
        ``"clean"`` leaves out the columns from which the target is computed; ``"paper"`` is the table as the paper
        used it, with these columns in Electrical Grid (``stab``) and Bike Sharing (``casual``, ``registered``).
        All other data sets are the same in both but Diabetes, which scikit-learn scales by default.
        ``"sample"`` is what a cache has of SUSY or YearPredictionMSD in place of all rows.
    data_home : path-like, optional
        The cache; by default the environment variable ``TABGNM_DATA``, and without it the user's cache folder.
    as_frame : bool, default=False
        Whether to give pandas objects, with categories as such, in place of arrays.
    return_X_y : bool, default=False
        Whether to give ``(data, target)`` only.
    verify : bool, default=True
        Whether the rows have to be the expected ones. False takes any rows with the right columns, and the result
        says so.

    Returns
    -------
    sklearn.utils.Bunch
        With the attributes

        data : ndarray of shape (n_samples, n_features), or DataFrame
            float64 where all features are numbers. Otherwise objects: floats, and text in the columns of categories.
            Missing values are NaN in both.
        target : ndarray of shape (n_samples,), or Series
            Class labels as the data set has them (text or integers), or numbers.
        frame : DataFrame or None
            Features and target together, with ``as_frame=True``.
        feature_names : list of str
            The columns of `data`.
        target_names : list
            The sorted class labels; for regression the name of the target.
        categorical_features : list of str
            The columns of `data` that are categories.
        name, title, task, variant : str
            Of the data set.
        leaking_features : list of str
            The columns of `data` from which the target is computed. Empty in the clean variant.
        is_sample : bool
            Whether rows of the original data set are missing here.
        n_samples_original, n_samples_paper : int
            How many rows the original data set has, and how many of them the paper uses.
        checked : {"values", "counts", "nothing"} or None
            How far the rows of the file were compared with the expected ones.
        filename : pathlib.Path or None
            The file in the cache.
        DESCR, license, citation : str
            For people.
    (data, target) : tuple
        With ``return_X_y=True``.

    Raises
    ------
    DatasetUnavailableError
        When it is not in the cache and cannot be downloaded. The message says which file to put where.
    DatasetContentError
        When a file is there but is damaged or another one.

    Examples
    --------
    >>> moons = load_dataset("noisy_moons")
    >>> moons.data.shape, moons.task, moons.target_names
    ((1000, 2), 'classification', [0, 1])
    """
    spec = dataset_info(name)
    if variant not in spec.variants:
        allowed = ", ".join(map(repr, spec.variants))
        raise ValueError(f"variant={variant!r} is not one of {name}; use one of {allowed}")
    if as_frame:
        _pandas()  # before a download, not after it
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
    # Text labels as a text array: comparing and sorting them needs no objects.
    return values.astype(str) if values.dtype == object else values


def _matrix(columns: Columns, features: Sequence[str], *, any_text: bool) -> NDArray[Any]:
    if not any_text:
        return np.column_stack([columns[name] for name in features])
    matrix = np.empty((len(columns[features[0]]), len(features)), dtype=object)
    for index, name in enumerate(features):
        matrix[:, index] = columns[name]
    return matrix


def _pandas() -> Any:
    return import_extra("pandas", "pandas", "loading a data set as a frame")


def _frame(
    spec: DatasetSpec, columns: Columns, features: Sequence[str], target: NDArray[Any], labels: list[Any]
) -> Any:
    pandas = _pandas()
    table = {
        name: pandas.Categorical(columns[name]) if name in spec.categorical else columns[name] for name in features
    }
    table[spec.target] = pandas.Categorical(target, categories=labels) if spec.task == "classification" else target
    return pandas.DataFrame(table)
