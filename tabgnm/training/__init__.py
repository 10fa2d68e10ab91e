"""The fleet: many models of one shape trained together, and a plan that groups models into fleets."""

from tabgnm.training.callbacks import Callback, EpochReport
from tabgnm.training.checkpoint import CheckpointError
from tabgnm.training.data import Table
from tabgnm.training.fleet import Fleet
from tabgnm.training.history import History
from tabgnm.training.plan import FleetPlan, Job, PlannedFleet
from tabgnm.training.progress import ProgressBar
from tabgnm.training.result import FleetResult, TrainedModel
from tabgnm.training.settings import FleetSettings, Member

__all__ = [
    "Callback",
    "CheckpointError",
    "EpochReport",
    "Fleet",
    "FleetPlan",
    "FleetResult",
    "FleetSettings",
    "History",
    "Job",
    "Member",
    "PlannedFleet",
    "ProgressBar",
    "Table",
    "TrainedModel",
]
