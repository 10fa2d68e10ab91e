"""The Graph Neural Machine for tabular data.

Importing the package is cheap: PyTorch and scikit-learn are loaded when a name that needs them is used.

Examples
--------
>>> import tabgnm
>>> net = tabgnm.nn.GNM(n_inputs=4, n_outputs=3, n_nodes=20, n_layers=2)
>>> net.n_parameters()
760
"""

import importlib
import logging
from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"

# Applications configure logging; without a handler, Python would print warnings to stderr.
logging.getLogger("tabgnm").addHandler(logging.NullHandler())

# Public name -> the module that defines it; a public module maps to itself. The imports below repeat these names for
# type checkers.
_LAZY = {
    "FleetSearchCV": "tabgnm.estimators",
    "GNMClassifier": "tabgnm.estimators",
    "GNMRegressor": "tabgnm.estimators",
    "MLPClassifier": "tabgnm.estimators",
    "MLPRegressor": "tabgnm.estimators",
    "estimators": "tabgnm.estimators",
    "load": "tabgnm.estimators",
    "cli": "tabgnm.cli",
    "datasets": "tabgnm.datasets",
    "export": "tabgnm.export",
    "modelfile": "tabgnm.modelfile",
    "nn": "tabgnm.nn",
    "paper": "tabgnm.paper",
    "plots": "tabgnm.plots",
    "report": "tabgnm.report",
    "sparsity": "tabgnm.sparsity",
    "table": "tabgnm.table",
    "training": "tabgnm.training",
}

__all__ = ["__version__", *_LAZY]

if TYPE_CHECKING:
    from tabgnm import cli as cli
    from tabgnm import datasets as datasets
    from tabgnm import estimators as estimators
    from tabgnm import export as export
    from tabgnm import modelfile as modelfile
    from tabgnm import nn as nn
    from tabgnm import paper as paper
    from tabgnm import plots as plots
    from tabgnm import report as report
    from tabgnm import sparsity as sparsity
    from tabgnm import table as table
    from tabgnm import training as training
    from tabgnm.estimators import FleetSearchCV as FleetSearchCV
    from tabgnm.estimators import GNMClassifier as GNMClassifier
    from tabgnm.estimators import GNMRegressor as GNMRegressor
    from tabgnm.estimators import MLPClassifier as MLPClassifier
    from tabgnm.estimators import MLPRegressor as MLPRegressor
    from tabgnm.estimators import load as load
else:
    # Hidden from type checkers, which would accept any misspelt name with a module-level __getattr__.
    def __getattr__(name: str) -> object:
        if name not in _LAZY:
            raise AttributeError(f"module 'tabgnm' has no attribute {name!r}; public names are {sorted(__all__)}")
        home = importlib.import_module(_LAZY[name])
        value = home if home.__name__ == f"tabgnm.{name}" else getattr(home, name)
        globals()[name] = value  # the next access does not call __getattr__
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
