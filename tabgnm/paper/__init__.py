"""The experiments of the paper: protocol, store of results, engines, and all tables and figures.

Examples
--------
>>> from tabgnm.paper import Setting, plan
>>> work = plan([("noisy_moons", "paper")], Setting(max_epochs=2), folds=[0])
>>> len(work.units), work.n_models
(24, 96)
"""

from tabgnm.paper.engines import Engine, WorkerLostError
from tabgnm.paper.protocol import Setting, Unit
from tabgnm.paper.published import Published, published
from tabgnm.paper.run import ExperimentPlan, Progress, data_sets, missing_units, plan, run
from tabgnm.paper.store import ResultStore
from tabgnm.paper.store_file import StoreError
from tabgnm.paper.summary import Cell, Comparison, compare, summarize
from tabgnm.paper.work import Result, run_unit

__all__ = [
    "Cell",
    "Comparison",
    "Engine",
    "ExperimentPlan",
    "Progress",
    "Published",
    "Result",
    "ResultStore",
    "Setting",
    "StoreError",
    "Unit",
    "WorkerLostError",
    "compare",
    "data_sets",
    "missing_units",
    "plan",
    "published",
    "run",
    "run_unit",
    "summarize",
]
