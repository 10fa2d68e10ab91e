"""scikit-learn estimators for tables of any kind."""

from tabgnm.estimators.model_file import load as load
from tabgnm.estimators.models import GNMClassifier as GNMClassifier
from tabgnm.estimators.models import GNMRegressor as GNMRegressor
from tabgnm.estimators.models import MLPClassifier as MLPClassifier
from tabgnm.estimators.models import MLPRegressor as MLPRegressor
from tabgnm.estimators.search import FleetSearchCV as FleetSearchCV

__all__ = ["FleetSearchCV", "GNMClassifier", "GNMRegressor", "MLPClassifier", "MLPRegressor", "load"]
