"""The registry of data sets, by name."""

from __future__ import annotations

import difflib

from tabgnm.datasets.classification_sets import CLASSIFICATION_SETS
from tabgnm.datasets.regression_sets import REGRESSION_SETS
from tabgnm.datasets.spec import TASKS, DatasetSpec, Task

REGISTRY = {spec.name: spec for spec in (*CLASSIFICATION_SETS, *REGRESSION_SETS)}


def dataset_names(task: Task | None = None) -> list[str]:
    """Return the names of the data sets, in the order of the paper's tables.

    Parameters
    ----------
    task : {"classification", "regression"}, optional
        The task of the data sets. If None, all data sets are returned.

    Returns
    -------
    list of str
        Names for `load_dataset`.

    Examples
    --------
    >>> dataset_names("regression")
    ['wine', 'auto_mpg', 'bike_sharing', 'diabetes', 'california', 'year']
    """
    if task is not None and task not in TASKS:
        raise ValueError(f"task={task!r} is not known; use one of {', '.join(map(repr, TASKS))}, or None for all")
    return [spec.name for spec in REGISTRY.values() if task in (None, spec.task)]


def dataset_info(name: str) -> DatasetSpec:
    """Return the description of a data set, without loading it.

    Parameters
    ----------
    name : str
        The name of the data set, one of `dataset_names()`.

    Returns
    -------
    DatasetSpec
        Its task, columns, counts, license, citation and source.

    Examples
    --------
    >>> car = dataset_info("car")
    >>> car.n_samples, car.n_features, car.n_classes, car.uci_id
    (1728, 6, 4, 19)
    """
    spec = REGISTRY.get(name) if isinstance(name, str) else None
    if spec is None:
        close = difflib.get_close_matches(str(name), REGISTRY, n=1)
        hint = f"did you mean {close[0]!r}? The names" if close else "the names"
        raise ValueError(f"{name!r} is not a data set; {hint} are {', '.join(REGISTRY)}")
    return spec
