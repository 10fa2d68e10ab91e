"""The data sets of the paper: registry, cache, downloads from the original sources, and verification.

Only `load_dataset` and `fetch_dataset` download anything, and only data sets that are not in the cache.

Examples
--------
>>> from tabgnm.datasets import load_dataset
>>> X, y = load_dataset("xor", return_X_y=True)
>>> X.shape
(200, 2)
"""

from tabgnm.datasets.errors import DatasetContentError, DatasetUnavailableError
from tabgnm.datasets.generated import make_noisy_moons, make_xor, xor_bayes_accuracy
from tabgnm.datasets.loading import load_dataset
from tabgnm.datasets.registry import dataset_info, dataset_names
from tabgnm.datasets.retrieval import fetch_dataset
from tabgnm.datasets.spec import DatasetSpec

__all__ = [
    "DatasetContentError",
    "DatasetSpec",
    "DatasetUnavailableError",
    "dataset_info",
    "dataset_names",
    "fetch_dataset",
    "load_dataset",
    "make_noisy_moons",
    "make_xor",
    "xor_bayes_accuracy",
]
