"""scikit-learn estimators that take a table as it is."""

from tabgnm.estimators.models import GNMClassifier as GNMClassifier
from tabgnm.estimators.models import GNMRegressor as GNMRegressor
from tabgnm.estimators.models import MLPClassifier as MLPClassifier
from tabgnm.estimators.models import MLPRegressor as MLPRegressor
from tabgnm.estimators.search import FleetSearchCV as FleetSearchCV

__all__ = ["FleetSearchCV", "GNMClassifier", "GNMRegressor", "MLPClassifier", "MLPRegressor"]
