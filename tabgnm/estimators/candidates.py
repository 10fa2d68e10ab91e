"""The candidates of a pack: different settings; those that suit a table are kept.

There are two lists, for long and for short training. Their candidates were chosen on half of the data sets by the
out-of-fold loss of the weighted pack; `docs/recipe.md` has the figures. If more candidates are needed than a list has,
they are drawn at random.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tabgnm.estimators.checks import is_auto
from tabgnm.estimators.effort import MAX_NUMERIC_INPUTS

# Default settings of the listed candidates. These parameters of the estimators are "auto" by default.
BASE: dict[str, Any] = {
    "n_layers": 3,
    "activation": "silu",
    "combine": "none",
    "clamp_inputs": False,
    "persistent_outputs": False,
    "tied": False,
    "learning_rate": 3e-3,
    "dropout": 0.3,
    "weight_decay": 0.01,
    "scaling": "quantile",
    "numeric_embedding": "periodic",
    "n_basis": 16,
    "numeric_dim": 4,
    "frequency_scale": 0.1,
    "screen_columns": False,
    "target_transform": "none",
}
# Columns can be left out (screen_columns) only if these settings are as in BASE.
VARIANTS = ("combine", "clamp_inputs", "persistent_outputs", "tied")
_PIECEWISE = {"numeric_embedding": "piecewise", "n_basis": 32, "numeric_dim": 8}
LIST: tuple[dict[str, Any], ...] = (
    {"learning_rate": 6e-3},
    {**_PIECEWISE, "weight_decay": 0.1},
    {"screen_columns": True, "numeric_embedding": None, "weight_decay": 0.1},  # only for tables with many columns
    {"activation": "relu", "dropout": 0.1},
    {"target_transform": "log"},  # only for positive targets with a long tail
    {"n_layers": 4},
    {"numeric_embedding": None, "scaling": "robust", "weight_decay": 0.1},
    {"frequency_scale": 1.0, "dropout": 0.1},
    {"activation": "tanh"},
    {"clamp_inputs": True, "frequency_scale": 0.3, "dropout": 0.1},
    {**_PIECEWISE, "activation": "relu"},
    {"activation": "gelu", "frequency_scale": 0.3},
    {"dropout": 0.5, "weight_decay": 0.1},
    {"combine": "residual"},
    {"scaling": "robust", "frequency_scale": 0.3, "dropout": 0.1},
    {"tied": True, "n_layers": 4},
    {"persistent_outputs": True},
)
# For training with few steps, which requires higher learning rates.
SHORT_LIST: tuple[dict[str, Any], ...] = (
    {"learning_rate": 6e-3},
    {"screen_columns": True, "numeric_embedding": None, "weight_decay": 0.1},  # only for tables with many columns
    {**_PIECEWISE, "weight_decay": 0.1, "learning_rate": 6e-3},
    {"clamp_inputs": True, "frequency_scale": 0.3, "dropout": 0.1, "learning_rate": 1.2e-2},
    {"target_transform": "log", "learning_rate": 6e-3},
    {"activation": "tanh", "learning_rate": 1.2e-2},
    {"activation": "relu", "learning_rate": 1.2e-2},
    {"n_layers": 4, "learning_rate": 6e-3},
    {"numeric_embedding": None, "scaling": "robust", "weight_decay": 0.1, "learning_rate": 1.2e-2},
    {"frequency_scale": 1.0, "dropout": 0.1, "learning_rate": 1.2e-2},
    {**_PIECEWISE, "activation": "relu", "learning_rate": 6e-3},
    {"activation": "gelu", "frequency_scale": 0.3, "learning_rate": 6e-3},
    {"dropout": 0.5, "weight_decay": 0.1, "learning_rate": 1.2e-2},
    {"combine": "residual", "learning_rate": 6e-3},
    {"scaling": "robust", "frequency_scale": 0.3, "dropout": 0.1, "learning_rate": 6e-3},
    {"tied": True, "n_layers": 4, "learning_rate": 6e-3},
    {"persistent_outputs": True, "learning_rate": 6e-3},
)
_DRAWN: dict[str, Sequence[Any]] = {
    "n_layers": (2, 3, 3, 4),
    "activation": ("silu", "relu", "gelu", "tanh"),
    "learning_rate": (1e-3, 2e-3, 3e-3, 6e-3),
    "dropout": (0.0, 0.1, 0.2, 0.3, 0.5),
    "weight_decay": (1e-3, 1e-2, 0.1, 0.3),
    "scaling": ("quantile", "quantile", "robust"),
    "numeric_embedding": ("periodic", "periodic", "piecewise", None),
    "frequency_scale": (0.03, 0.1, 0.3, 1.0, 3.0),
    "clamp_inputs": (False, False, True),
}
_NUMERIC = ("scaling", "numeric_embedding", "n_basis", "numeric_dim", "frequency_scale")


@dataclass(frozen=True)
class TableFacts:
    """The properties of a table and its targets that the choice of candidates depends on.

    Attributes
    ----------
    n_numbers : int
        The number of columns that are encoded as numbers.
    long_tail : bool
        Whether all targets are positive and right-skewed, and their logarithms are less skewed.
    screened : bool
        Whether to add a candidate that leaves out unrelated columns (screening).
    narrowed : bool
        Whether all candidates leave out unrelated columns.
    """

    n_numbers: int
    long_tail: bool = False
    screened: bool = False
    narrowed: bool = False


def candidate_settings(
    given: Mapping[str, Any], n: int, facts: TableFacts, listed: Sequence[dict[str, Any]] = LIST
) -> list[dict[str, Any]]:
    """Return the settings of up to n different candidates.

    Parameters
    ----------
    given : mapping
        The parameters of an estimator. A value other than "auto" replaces that of all candidates. Candidates that are
        equal as a result, or because the table has no numbers, count once.
    n : int
        The maximum number of candidates.
    facts : TableFacts
    listed : sequence of dict, default=LIST
        The settings that come first, `LIST` or `SHORT_LIST`.
    """
    fixed = {name: value for name, value in given.items() if not is_auto(value)}
    open_names = [name for name in BASE if name in given and name not in fixed]
    found: dict[str, dict[str, Any]] = {}
    for own in itertools.chain(listed, _drawn(n)):
        if len(found) == n:
            break
        if own.get("target_transform") == "log" and not facts.long_tail:
            continue
        if own.get("screen_columns") and not facts.screened:
            continue
        settings = {name: own.get(name, BASE[name]) for name in open_names} | {
            name: value for name, value in fixed.items() if name in BASE
        }
        if facts.narrowed or (fixed.get("screen_columns") and "numeric_embedding" in open_names):
            settings |= {"screen_columns": True, "numeric_embedding": None}  # embedded columns cannot be left out
        if settings["screen_columns"] and any(settings.get(name, BASE[name]) != BASE[name] for name in VARIANTS):
            continue
        embeds = not is_auto(given.get("numeric_embedding")) or not is_auto(given.get("numeric_dim"))
        if not embeds and 2 * facts.n_numbers > MAX_NUMERIC_INPUTS:
            settings["numeric_embedding"] = None
        if is_auto(given.get("numeric_dim")):
            most = max(1, MAX_NUMERIC_INPUTS // max(1, facts.n_numbers))
            settings["numeric_dim"] = min(settings["numeric_dim"], most)
        found.setdefault(repr(_what_matters(settings, facts)), settings)
    return list(found.values())


def _drawn(n: int) -> Iterator[dict[str, Any]]:
    random = np.random.default_rng(0)  # a fixed seed: the same candidates in every fit
    for _ in range(20 * n):  # enough draws for n different candidates
        drawn = {name: values[int(random.integers(len(values)))] for name, values in _DRAWN.items()}
        if drawn["numeric_embedding"] == "piecewise":
            drawn |= {"n_basis": int(random.choice([16, 32, 48])), "numeric_dim": int(random.choice([4, 8, 12]))}
        yield drawn


def _what_matters(settings: Mapping[str, Any], facts: TableFacts) -> list[tuple[str, Any]]:
    """Return the settings without those that have no effect on this table."""
    unused: tuple[str, ...] = ()
    if not facts.n_numbers:
        unused = _NUMERIC
    elif settings["numeric_embedding"] is None:
        unused = ("n_basis", "numeric_dim", "frequency_scale")
    elif settings["numeric_embedding"] == "piecewise":
        unused = ("frequency_scale",)
    return sorted((name, value) for name, value in settings.items() if name not in unused)
