"""The data sets of the paper: a registry, a cache, downloads from the original sources, and checks of the content.

Nothing is downloaded but by `load_dataset` and `fetch_dataset`, and only what the cache does not have.

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
