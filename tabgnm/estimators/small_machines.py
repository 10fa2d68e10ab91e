"""Small machines: training a path of sizes, its scores, and the choice of a size."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold
from torch import Tensor

from tabgnm.estimators.candidates import BASE
from tabgnm.estimators.checks import is_auto
from tabgnm.estimators.constant_targets import constant_outputs, machine_of
from tabgnm.estimators.fitting import FittedPack, NetworkGroup
from tabgnm.estimators.folds import Fold, with_copies
from tabgnm.estimators.importance import importance_of_group
from tabgnm.estimators.lessons import Lesson
from tabgnm.estimators.metrics import number_score
from tabgnm.estimators.targets import ClassTargets, NumberTargets, Targets
from tabgnm.nn import GNM
from tabgnm.nn.losses import LogLinkLoss
from tabgnm.sparsity.path import PathPoint, PathSettings, learn_path, training_loss
from tabgnm.table import RawTable
from tabgnm.training.progress import ProgressLine

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

Array = NDArray[Any]

_ROUNDING = 1e-12  # relative squared errors below this are rounding


def learn(
    estimator: TabularEstimator,
    lesson: Lesson,
    raw: RawTable,
    settings: PathSettings,
    *,
    n_edges: int | None,
    tolerance: float | None,
    n_folds: int,
    n_starts: int,
    rng: np.random.RandomState,
) -> TabularEstimator:
    """Train a path of machines, evaluate it on folds, and return an estimator with the machine of the chosen size.

    On all rows, the path is trained `n_starts` times, and the best machine of each size is kept.
    """
    folds = _folds(lesson, n_folds, rng)
    everything = torch.arange(len(lesson.table.x))
    # Augmented rows of a held-out row are held out, too, because they are almost copies of it.
    row_sets = [everything[~torch.isin(lesson.source, rows)] for rows in folds]
    weights = lesson.sample_weight
    line = ProgressLine(shows_best=False) if estimator.verbose else None
    is_constant = all(constant_outputs(lesson.targets))
    if is_constant:
        points = [PathPoint(None, [_network_without_edges(lesson, settings)] * (len(folds) + 1))]
    else:
        with nullcontext() if line is None else line.shown(0, 0):  # learn_path sets the totals
            points = learn_path(
                lesson.table,
                lesson.loss,
                lesson.targets.n_outputs,
                [*row_sets, *[everything] * n_starts],
                lesson.encoder.owners,
                settings,
                seed=int(rng.randint(2**31)),
                sample_weight=weights,
                progress=line,
            )
        points = [_with_best_start(point, lesson, len(folds)) for point in points]
    path = _judged(points, lesson, folds)
    chosen = choose(path, n_edges, tolerance)
    if is_constant:
        warnings.warn("the machine is a constant, because the target has only one value", stacklevel=4)
    warn_if_constant(path, chosen, n_edges, stacklevel=4)
    small: TabularEstimator = clone(estimator)
    small.set_params(**small_parameters(estimator, lesson, settings))
    small._path = path
    small._path_fitted = [_fitted(small, lesson, raw, point.networks[-1]) for point in points]
    return at_place(small, chosen, raw.names, raw.has_names)


def _with_best_start(point: PathPoint, lesson: Lesson, n_folds: int) -> PathPoint:
    """Keep the networks of the folds, and the network on all rows with the lowest training loss."""
    everything = torch.arange(len(lesson.table.x))

    def loss(network: GNM) -> float:
        value = training_loss(network, lesson.loss, lesson.table, everything, lesson.sample_weight)
        return value if math.isfinite(value) else math.inf

    return PathPoint(point.budget, [*point.networks[:n_folds], min(point.networks[n_folds:], key=loss)])


def _network_without_edges(lesson: Lesson, settings: PathSettings) -> GNM:
    network = GNM(**settings.shape(lesson.table.x.shape[1], lesson.targets.n_outputs).settings())
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    return network


def at_place(small: TabularEstimator, place: int, names: list[str], has_names: bool) -> TabularEstimator:
    """Return the estimator with the machine at a place of its path."""
    chosen = copy.copy(small)
    chosen._path = [own | {"chosen": i == place} for i, own in enumerate(small._path)]
    chosen._n_calls = 1
    chosen._set_fitted(small._path_fitted[place], names, has_names)
    return chosen


def _folds(lesson: Lesson, n_folds: int, rng: np.random.RandomState) -> list[Tensor]:
    """Return the held-out real rows of each fold."""
    seed = int(rng.randint(2**31))

    def divide(n_rows: int, strata: Array | None) -> list[Fold]:
        if n_rows < n_folds:
            which = "" if lesson.copies is None else "different "
            counted = "" if lesson.sample_weight is None else " of positive weight"
            enough = f"use more rows, or n_folds={n_rows}" if n_rows > 1 else "use at least 2 rows"
            raise ValueError(
                f"X has {n_rows} {which}{'row' if n_rows == 1 else 'rows'}{counted}, too few for n_folds={n_folds}; "
                f"expected at least one row per fold: {enough}"
            )
        splitter: Any = KFold(n_folds, shuffle=True, random_state=seed)
        if strata is not None and np.unique(strata, return_counts=True)[1].max() >= n_folds:
            splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
            splits = list(splitter.split(np.zeros(n_rows), strata))
        return [Fold(torch.as_tensor(train), torch.as_tensor(held_out)) for train, held_out in splits]

    folds = with_copies(lesson.n_real, lesson.strata, lesson.copies, divide)
    return [fold.val for fold in folds if fold.val is not None]


def _judged(points: Sequence[PathPoint], lesson: Lesson, folds: Sequence[Tensor]) -> list[dict[str, Any]]:
    """Return the record of `sparsity_path_` for each point: size, held-out loss and score."""
    owners = np.array(lesson.encoder.owners)
    weights = None if lesson.sample_weight is None else lesson.sample_weight[: lesson.n_real].numpy()
    counts = np.ones(lesson.n_real) if weights is None else weights
    if lesson.copies is not None:  # their losses are equal, not independent
        counts = np.bincount(lesson.copies, counts)
    n_effective = counts.sum() ** 2 / (counts**2).sum()
    has_one_class = isinstance(lesson.targets, ClassTargets) and lesson.targets.kind == "one"
    rows = []
    for point in points:
        losses = np.zeros(lesson.n_real)
        scores = []
        for network, held_out in zip(point.networks, folds, strict=False):
            with torch.inference_mode():
                outputs = network(lesson.table.x[held_out]).to(torch.float64)
            predicted = lesson.targets.out_of_fold(outputs)
            if not has_one_class:  # otherwise the loss is 0
                losses[held_out.numpy()] = lesson.targets.row_losses(predicted, lesson.judged[held_out])
            own_weights = None if lesson.score_weight is None else lesson.score_weight[held_out.numpy()]
            scores.append(_score(lesson.targets, predicted, lesson.judged[held_out], own_weights))
        machine = machine_of(point.networks[-1], lesson.targets)
        spread = float(np.sqrt(np.cov(losses, aweights=weights) / n_effective))
        rows.append(
            {
                "edges": machine.n_edges,
                "columns": len(set(owners[list(machine.used_inputs)])),
                "hidden": machine.n_hidden,
                "loss": float(np.average(losses, weights=weights)),
                "loss_se": spread,
                "score": float(np.mean(scores)),
                "score_std": float(np.std(scores)),
                "judged_by": lesson.judged_by,
            }
        )
    return rows


def _score(targets: Targets, predicted: Array, judged: Tensor, weights: Array | None) -> float:
    """Return the accuracy, R² or D². If all targets are equal, R² is 1 or 0, as in scikit-learn."""
    if isinstance(targets, NumberTargets):
        # With a log link, `judged` is the target divided by its mean, not its logarithm.
        with_log = isinstance(targets.loss, LogLinkLoss)
        actual = targets.center * judged.numpy().astype(np.float64) if with_log else targets.numbers(judged)
        if targets.predicted_quantiles:
            return number_score(targets, actual, predicted, weights)
        unit = np.maximum(np.abs(actual).max(axis=0), np.finfo(float).tiny)  # squares of huge numbers would overflow
        actual, predicted = actual / unit, predicted / unit
        left = np.average((actual - predicted) ** 2, axis=0, weights=weights)
        spread = np.average((actual - np.average(actual, axis=0, weights=weights)) ** 2, axis=0, weights=weights)
        equal = np.where(left < _ROUNDING, 1.0, 0.0)
        return float(np.mean(np.where(spread > 0, 1 - left / np.where(spread > 0, spread, 1.0), equal)))
    codes = judged.numpy().reshape(len(judged), -1).round().astype(np.int64)
    right = [part.argmax(axis=1) == own for part, own in zip(targets.parts(predicted), codes.T, strict=True)]
    return float(np.average(np.all(right, axis=0), weights=weights))


def score_name(small: TabularEstimator) -> str:
    """Return the name of the scores in the path of a small machine."""
    name = {"accuracy": "accuracy", "r2": "R²", "d2": "D²"}[small.fitted_.targets.metric_name]
    by_model = hasattr(small, "_path") and small._path[0]["judged_by"] == "model"
    return f"{name} against the model's predictions" if by_model else name


def choose(path: Sequence[dict[str, Any]], n_edges: int | None, tolerance: float | None) -> int:
    """Return the position of the chosen size in the path."""
    edges, loss = (np.array([own[name] for own in path]) for name in ("edges", "loss"))
    if n_edges is not None:
        fits = np.flatnonzero(edges <= n_edges)
        if not len(fits):
            raise ValueError(
                f"n_edges={n_edges} is too small: the smallest machine of the path has {edges.min()} edges; use "
                f"n_edges>={edges.min()}"
            )
        return int(fits[loss[fits].argmin()])
    best = int(loss.argmin())
    most = loss[best] + (path[best]["loss_se"] if tolerance is None else tolerance * abs(loss[best]))
    good = np.flatnonzero(loss <= most)
    return int(good[edges[good].argmin()])


def warn_if_constant(path: Sequence[dict[str, Any]], chosen: int, n_edges: int | None, stacklevel: int) -> None:
    """Warn if the chosen machine uses no column, but others of the path do."""
    using = [own["edges"] for own in path if own["columns"]]
    if path[chosen]["columns"] or not using:
        return
    smallest = min(using)
    if n_edges is not None and smallest > n_edges:
        why = f"n_edges={n_edges} is too small to use a column"
    else:
        why = "machines of this size that use columns do not have a clearly lower loss on held-out rows"
    larger = smallest if n_edges is None else max(smallest, n_edges + 1)
    warnings.warn(
        f"the machine is a constant, because {why}; the smallest one that uses columns has {smallest} edges: use "
        f"n_edges>={larger} for a larger one",
        stacklevel=stacklevel + 1,
    )


def small_parameters(estimator: TabularEstimator, lesson: Lesson, settings: PathSettings) -> dict[str, Any]:
    """Return the parameters of an estimator that describe its small machine; the others do not change."""
    shape = settings.shape(lesson.table.x.shape[1], lesson.targets.n_outputs)
    parameters = {
        "n_nodes": shape.n_nodes,
        "n_layers": shape.n_layers,
        "activation": shape.activation,
        "init": shape.init,
        "clamp_inputs": shape.clamp_inputs,
        "combine": shape.combine,
        "persistent_outputs": shape.persistent_outputs,
        "tied": shape.tied,
        "learn_initial": shape.learn_initial,
        "dropout": 0.0,
        "scaling": lesson.encoder.settings.scaling,
        "numeric_embedding": None,
        "max_one_hot": lesson.encoder.settings.max_one_hot,
        "n_folds": 0,
        "n_candidates": 1,
        "precision": "float32",
        "calibrated": False,
        "target_transform": "none",
    }
    known = estimator.get_params(deep=False)
    return {name: value for name, value in parameters.items() if name in known}


def _fitted(small: TabularEstimator, lesson: Lesson, raw: RawTable, network: GNM) -> FittedPack:
    """Return the result of a fit whose only network is the small one."""
    parameters = {name: value.detach().clone().unsqueeze(0) for name, value in network.named_parameters()}
    metric = f"val_{lesson.targets.metric_name}"
    history = {"train_loss": [], "val_loss": [], metric: [], "best_epoch": 0, "status": "completed"}
    group = NetworkGroup(
        _settings(small), 1.0, lesson.encoder, lesson.targets, network.shape, parameters, [0], [0], [history]
    )
    importances = importance_of_group(group, lesson.table.x[: lesson.n_real], raw.n_columns)
    total = importances.sum()
    shares = importances / total if total > 0 else importances
    return FittedPack([group], lesson.targets, shares, weighted=lesson.score_weight is not None)


def _settings(estimator: TabularEstimator) -> dict[str, Any]:
    """Return the settings of the only candidate, the same as after a fit with these parameters."""
    given = estimator.get_params(deep=False)
    return {name: given[name] if not is_auto(given.get(name, "auto")) else BASE[name] for name in BASE}
