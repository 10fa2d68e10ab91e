"""Validation of the parameters of an estimator, and of their combinations, before a table is read.

Most rules are part of the settings of fleets, tables and networks, so validation creates these settings and discards
them. Rules that depend on the table, such as the minimum number of nodes, are checked after it has been read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tabgnm._printable import shown
from tabgnm.estimators.candidates import BASE, VARIANTS
from tabgnm.estimators.checks import (
    check_cv,
    check_device,
    check_flag,
    check_flag_or_auto,
    check_integer,
    check_number,
    check_random,
    check_verbose,
    is_auto,
)
from tabgnm.estimators.effort import check_effort
from tabgnm.estimators.metrics import check_metric
from tabgnm.nn.losses import SquaredError
from tabgnm.table import TableSettings
from tabgnm.table.settings import NUMERIC_EMBEDDINGS, SCALINGS, check_choice, checked_kinds
from tabgnm.training import FleetSettings, Member
from tabgnm.training.threads import thread_count

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator
    from tabgnm.estimators.parameters import TrainingParameters

# Smallest and largest values of counts. The largest are far beyond what is useful; how large networks may be depends
# on the table and the memory, see `memory`.
_COUNTS = {
    "n_candidates": (1, 1000),
    "n_folds": (0, 1000),
    "max_epochs": (1, None),
    "patience": (1, None),
    "batch_size": (1, None),
    "n_basis": (1, 10_000),
    "numeric_dim": (1, 10_000),
    "level_dim": (1, 10_000),
}
_OF_FLEETS = ("optimizer", "schedule", "warmup", "precision", "device")
_OF_MEMBERS = ("learning_rate", "weight_decay", "dropout", "l1", "l2", "l0")
_OF_TABLES = ("n_basis", "numeric_dim", "frequency_scale", "max_one_hot", "level_dim", "min_level_count")


def check_training(own: TrainingParameters) -> None:
    """Validate the parameters that all estimators have."""
    check_effort(own.effort)
    if own.time_limit is not None:
        check_number("time_limit", own.time_limit, 0, math.inf, "60, or None")
    for name, (smallest, largest) in _COUNTS.items():
        value = getattr(own, name)
        if not _is_open(own, name) and not (name == "patience" and value is None):
            check_integer(name, value, smallest=smallest, largest=largest)
    check_metric(own.metric)
    check_cv(own.cv)
    if own.cv is not None and not is_auto(own.n_folds):
        raise ValueError(f"cv and n_folds={own.n_folds} cannot both be given; use n_folds='auto' with cv, or cv=None")
    check_device(own.device)
    thread_count(own.n_jobs)
    FleetSettings(loss=SquaredError(), **_given(own, _OF_FLEETS)).torch_device()
    Member(**_given(own, _OF_MEMBERS))
    check_choice("numeric_embedding", own.numeric_embedding, ("auto", *NUMERIC_EMBEDDINGS))
    check_choice("scaling", own.scaling, ("auto", *SCALINGS))
    checked_kinds("column_kinds", own.column_kinds)
    TableSettings(**_given(own, _OF_TABLES))
    for name in ("screen_columns", "integer_codes"):
        check_flag_or_auto(name, getattr(own, name))
    check_flag("warm_start", own.warm_start)
    check_random(own.random_state)
    check_verbose(own.verbose)


def check_network(own: TabularEstimator) -> None:
    """Validate the parameters of the networks; how many nodes they need depends on the table."""
    settings = {name: _value(own, name) for name in BASE}
    own._network_shape(1, 1, settings, n_auto=1)
    unsuitable = [name for name in VARIANTS if settings[name] != BASE[name]]
    if getattr(own, "learn_initial", False):
        unsuitable.append("learn_initial")
    if not is_auto(own.screen_columns) and own.screen_columns and unsuitable:
        name = unsuitable[0]
        raise ValueError(
            f"screen_columns=True cannot be combined with {name}={shown(getattr(own, name))}: columns can be left out "
            "only if inputs are used in the first layer alone; use screen_columns=False or "
            f"{name}={shown(BASE.get(name, False))}"
        )


def _value(own: TabularEstimator, name: str) -> Any:
    """Return a parameter that candidates may differ in, or its value in BASE if it is "auto"."""
    return BASE[name] if not hasattr(own, name) or is_auto(getattr(own, name)) else getattr(own, name)


def _is_open(own: TrainingParameters, name: str) -> bool:
    """Whether a parameter is "auto" and may be: parameters that accept "auto" have it as the default."""
    return is_auto(getattr(own, name)) and is_auto(getattr(type(own), name))


def _given(own: TrainingParameters, names: tuple[str, ...]) -> Mapping[str, Any]:
    return {name: getattr(own, name) for name in names if not _is_open(own, name) or name == "device"}
