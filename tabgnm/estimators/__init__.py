"""scikit-learn estimators for tables of any kind."""

from tabgnm.estimators.gnm_classifier import GNMClassifier as GNMClassifier
from tabgnm.estimators.gnm_regressor import GNMRegressor as GNMRegressor
from tabgnm.estimators.mlp_classifier import MLPClassifier as MLPClassifier
from tabgnm.estimators.mlp_regressor import MLPRegressor as MLPRegressor
from tabgnm.estimators.model_file import load as load
from tabgnm.estimators.search import FleetSearchCV as FleetSearchCV

__all__ = ["FleetSearchCV", "GNMClassifier", "GNMRegressor", "MLPClassifier", "MLPRegressor", "load"]
