"""scikit-learn's own checks, over all estimators."""

from typing import Any

from sklearn.model_selection import KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from tabgnm import FleetSearchCV, GNMClassifier, GNMRegressor, MLPClassifier, MLPRegressor

# Small and quick; what the checks ask does not depend on the size.
QUICK: dict[str, Any] = {
    "n_candidates": 1,
    "n_folds": 2,
    "max_epochs": 30,
    "learning_rate": 0.01,
    "batch_size": 16,
    "random_state": 0,
}
ESTIMATORS = [
    GNMClassifier(n_nodes=120, n_layers=2, **QUICK),
    GNMRegressor(n_nodes=120, n_layers=2, **QUICK),
    MLPClassifier(hidden=(32,), **QUICK),
    MLPRegressor(hidden=(32,), **QUICK),
    FleetSearchCV(MLPClassifier(hidden=(32,), **QUICK), {"dropout": [0.0]}, cv=KFold(2)),
]

_WEIGHTS = (
    "a row of weight 2 counts twice in a batch, but the same row given twice is shuffled into two batches and may be "
    "drawn for validation once: training in mini-batches cannot be the same"
)
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": _WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": _WEIGHTS,
}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)
