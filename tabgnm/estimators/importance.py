"""Importance of the columns: by gradients, and by permutation."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import inspection
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tabgnm.estimators.checks import check_integer, check_lengths, random_numbers, sample_weights
from tabgnm.estimators.metrics import check_metric, scorer_of, scores_predictions_only, takes_weights
from tabgnm.estimators.prediction import map_outputs
from tabgnm.estimators.targets import ClassTargets
from tabgnm.nn.embeddings import embed
from tabgnm.nn.message_passing import forward
from tabgnm.nn.shapes import EmbeddedShape
from tabgnm.table import read_table

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator
    from tabgnm.estimators.fitting import FittedPack, NetworkGroup, PreparedFit

Array = NDArray[Any]

GRADIENT_ROWS = 1024
_SHUFFLED_ELEMENTS = 2**24  # encoded numbers of shuffled rows per block


def gradient_times_input(fitted: FittedPack, prepared: PreparedFit) -> Array:
    """Return the mean of |gradient x input| over rows and networks for each column, scaled to a sum of 1.

    This is the gradient of the output with the largest absolute value with respect to the inputs of message passing:
    encoded numbers, one-hot columns, and learned features of embedded columns. Products are summed over the inputs that
    belong to one column of the table. Candidates are averaged by weight.
    """
    n_columns, n_rows = len(prepared.names), prepared.rows.n_rows
    total = np.zeros(n_columns)
    for group in fitted.groups:
        table = next(own.data.table for own in prepared.candidates if own.data.encoder is group.encoder)
        own = importance_of_group(group, table.x[:n_rows], n_columns)
        total += group.weight * (own / own.sum() if own.sum() > 0 else own)
    return np.asarray(total / total.sum() if total.sum() > 0 else total)


def importance_of_group(group: NetworkGroup, x: Tensor, n_columns: int) -> Array:
    """Return the mean of |gradient x input| over encoded rows and the networks of one candidate, for each column."""
    rows = x[:: max(1, len(x) // GRADIENT_ROWS)][:GRADIENT_ROWS]
    rows = rows.expand(group.n_networks, *rows.shape)
    owners = np.asarray(group.encoder.owners)
    shape = group.shape
    with torch.inference_mode(False), torch.enable_grad():
        parameters = {name: value.clone() for name, value in group.parameters.items()}
        if isinstance(shape, EmbeddedShape):
            inputs, body = embed(shape.embedding, parameters, rows), shape.body
            owners = owners[np.asarray(shape.embedding.owners())]
        else:
            inputs, body = rows.clone(), shape
        inputs = inputs.detach().requires_grad_()
        output = forward(body, parameters, inputs).output
        (gradient,) = torch.autograd.grad(output.abs().amax(dim=-1).sum(), inputs)
        products = (gradient * inputs.detach()).to(torch.float64)  # (networks, rows, inputs)
    total = torch.zeros(*products.shape[:2], n_columns, dtype=torch.float64)
    total.index_add_(2, torch.as_tensor(owners), products)
    mean = total.abs().mean(dim=(0, 1)).numpy()
    return np.where(np.isfinite(mean), mean, 0.0)


def permutation_importance(
    estimator: TabularEstimator,
    X: Any,
    y: Any,
    *,
    scoring: Any,
    n_repeats: int,
    sample_weight: Any,
    random_state: Any,
) -> Bunch:
    """Return how much the score drops when a column of X is shuffled.

    Encoded rows are shuffled, so that the table is encoded once and many columns share a pass. Results are in the order
    of the columns of X.
    """
    check_is_fitted(estimator, "fitted_")
    given = read_table(X)
    targets = estimator._check_y(y, "y")
    check_lengths(given.n_rows, targets)
    estimator._check_scored(targets)
    n_repeats = check_integer("n_repeats", n_repeats)
    weights, random = sample_weights(sample_weight, given.n_rows), random_numbers(random_state)
    score_of = _score_function(estimator, X, targets, scoring, weights)
    if score_of is None:
        return _with_shuffled_tables(estimator, X, targets, scoring, n_repeats, weights, random)
    raw = estimator._matched(given)
    encoders = estimator.fitted_.encoders
    encoded = [torch.as_tensor(encoder.encode(raw, dtype=estimator.fitted_.dtype)) for encoder in encoders]
    owners = [torch.as_tensor(np.asarray(encoder.owners)) for encoder in encoders]
    n_rows, n_columns = raw.n_rows, raw.n_columns
    importances = np.zeros((n_columns, n_repeats))
    used = [column for column in range(n_columns) if any(bool((own == column).any()) for own in owners)]
    tasks = [(column, repeat) for column in used for repeat in range(n_repeats)]
    n_predicted = n_rows * (len(tasks) + 1)  # also for the first score, so that all are computed in the same way
    score = score_of(map_outputs(estimator, [encoded], estimator._reduce, n_predicted))
    at_once = max(1, _SHUFFLED_ELEMENTS // max(x.numel() for x in encoded))
    for first in range(0, len(tasks), at_once):
        group = tasks[first : first + at_once]
        orders = [torch.as_tensor(random.permutation(n_rows)) for _ in group]
        shuffled = []
        for x, of_columns in zip(encoded, owners, strict=True):
            copies = x.expand(len(group), *x.shape).clone()
            for place, (column, _) in enumerate(group):
                own = (of_columns == column).nonzero().flatten()
                copies[place, :, own] = x[:, own][orders[place]]
            shuffled.append(copies.reshape(-1, x.shape[1]))
        parts = map_outputs(estimator, [shuffled], estimator._reduce, n_predicted)
        for place, (column, repeat) in enumerate(group):
            own_parts = [part[place * n_rows : (place + 1) * n_rows] for part in parts]
            importances[column, repeat] = score - score_of(own_parts)
    if raw is not given:  # columns were reordered by name
        in_fit = {name: column for column, name in enumerate(raw.names)}
        importances = importances[[in_fit[name] for name in given.names]]
    return Bunch(
        importances=importances,
        importances_mean=importances.mean(axis=1),
        importances_std=importances.std(axis=1),
    )


def _score_function(
    estimator: TabularEstimator, X: Any, y: Array, scoring: Any, sample_weight: Array | None
) -> Callable[[list[Array]], float] | None:
    """Return a function from reduced outputs of the networks to a score; None if a scorer may look at X itself."""
    check_metric(scoring, "scoring", None)
    if scoring is None:
        return lambda parts: estimator._score_reduced(parts, y, sample_weight)
    targets = estimator.fitted_.targets
    scorer = scorer_of(scoring, len(targets.classes[0]) if isinstance(targets, ClassTargets) else 2)
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    if weights and not takes_weights(scorer):
        raise ValueError(f"scoring={scoring!r:.80} does not support sample weights; use sample_weight=None")
    if not scores_predictions_only(scorer):
        return None

    def score(parts: list[Array]) -> float:
        known = copy(estimator)  # with all methods for predictions, of which none computes anything
        known.__dict__["_predicted"] = lambda *_: parts
        return float(scorer(known, X, y, **weights))

    return score


def _with_shuffled_tables(
    estimator: TabularEstimator,
    X: Any,
    y: Array,
    scoring: Callable[..., float],
    n_repeats: int,
    sample_weight: Array | None,
    random: np.random.RandomState,
) -> Bunch:
    """Call a user's function with shuffled copies of X, one after the other."""
    if not (hasattr(X, "iloc") or isinstance(X, np.ndarray | list | tuple)):
        raise TypeError(
            f"X is a {type(X).__name__}, which cannot be shuffled for a scoring function; pass X as a pandas DataFrame "
            "or NumPy array, or use a scorer of sklearn.metrics.make_scorer"
        )
    return inspection.permutation_importance(
        estimator, X, y, scoring=scoring, n_repeats=n_repeats, sample_weight=sample_weight, random_state=random
    )
