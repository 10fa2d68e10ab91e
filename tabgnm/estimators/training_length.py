"""Shorter training on a CPU if the first networks soon stopped improving.

On tables with much noise or many rows, the best epoch is one of the first. There, networks that are trained for a
quarter of the epochs, with a schedule of this length, are as accurate; `docs/recipe.md` has the figures. Networks that
are hardly better than a constant may not have begun to learn, so their best epoch says nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tabgnm.estimators.checks import is_auto
from tabgnm.estimators.fitting import PreparedFit
from tabgnm.estimators.number_targets import weighted_quantiles
from tabgnm.nn.losses import AbsoluteError, CrossEntropy, Loss, Pinball, Quantiles
from tabgnm.training import TrainedModel

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

_log = logging.getLogger("tabgnm")

_SOON = 0.2  # largest best epoch of the first networks, as a fraction of the epochs
_SHARE = 0.25  # fraction of the epochs for the other networks
_MIN_EPOCHS, _MIN_PATIENCE = 4, 10
_LEARNED = 0.98  # largest loss of the first networks, as a fraction of that of the best constant
_MAX_ROWS = 10_000  # for the best constant


def depends_on_first(estimator: TabularEstimator, prepared: PreparedFit) -> bool:
    """Whether the number of epochs depends on the first networks."""
    return (
        prepared.effort.is_short
        and is_auto(estimator.max_epochs)
        and is_auto(estimator.patience)
        and prepared.rows.validated
        and prepared.previous is None
        and not prepared.spare  # otherwise, a time limit has already determined the epochs
    )


def reduced(prepared: PreparedFit, first: Iterable[TrainedModel]) -> PreparedFit:
    """Return the fit with fewer epochs, or unchanged if the first networks needed more or have not learned."""
    candidate, models = prepared.candidates[0], list(first)
    n_epochs, loss = candidate.fleet.max_epochs, candidate.fleet.loss
    best = max((model.history.best_epoch for model in models), default=n_epochs)
    if best > _SOON * n_epochs:
        return prepared
    table, weights = candidate.data.table, prepared.rows.weights
    by_constant = constant_loss(
        loss, table.y, candidate.shape.n_outputs, None if weights is None else torch.from_numpy(weights)
    )
    # Not a product: deviances may have any sign and any minimum, but differ little among networks that learn nothing.
    if max(model.history.best_val_loss for model in models) > by_constant - (1 - _LEARNED) * abs(by_constant):
        return prepared
    fewer = min(n_epochs, max(_MIN_EPOCHS, round(_SHARE * n_epochs)))
    _log.info("the first networks were best after at most %d epochs; training the others for %d", best, fewer)
    return replace(prepared, candidates=[own.with_epochs(fewer, _MIN_PATIENCE) for own in prepared.candidates])


def constant_loss(loss: Loss, y: Tensor, n_outputs: int, weights: Tensor | None) -> float:
    """Return the lowest mean loss of outputs that are the same for all rows, from at most 10,000 of them."""
    rows = torch.linspace(0, len(y) - 1, min(len(y), _MAX_ROWS)).round().long()
    y = y[rows].double() if y.is_floating_point() else y[rows]
    shares = torch.ones(len(rows), dtype=torch.float64) if weights is None else weights[rows].double()
    shares = shares / shares.sum()
    constants = _first_constants(loss, y, n_outputs, shares)
    slope = torch.zeros_like(constants)

    def mean_loss() -> Tensor:
        outputs = constants.expand(len(y), -1)
        slope.copy_((loss.gradient(outputs, y) * shares.unsqueeze(1)).sum(dim=0))
        return (loss.per_row(outputs, y) * shares).sum()

    constants.grad = slope
    if isinstance(loss, AbsoluteError | Pinball | Quantiles):  # not smooth, but the constants are the best ones already
        return float(mean_loss())
    search = torch.optim.LBFGS([constants], max_iter=50, line_search_fn="strong_wolfe")
    search.step(lambda: float(mean_loss()))  # type: ignore[no-untyped-call]
    return float(mean_loss())


def _first_constants(loss: Loss, y: Tensor, n_outputs: int, shares: Tensor) -> Tensor:
    """Return quantiles or logarithms of class frequencies, with which the search begins, otherwise zeros."""
    constants = torch.zeros(n_outputs, dtype=torch.float64)
    if isinstance(loss, Quantiles):
        constants += torch.as_tensor(weighted_quantiles(y[:, 0].numpy(), loss.quantiles, shares.numpy()))
    elif isinstance(loss, AbsoluteError | Pinball):
        quantile = loss.quantile if isinstance(loss, Pinball) else 0.5
        for column, own in enumerate(y.T):
            constants[column] = float(weighted_quantiles(own.numpy(), (quantile,), shares.numpy())[0])
    elif isinstance(loss, CrossEntropy):
        constants += torch.log(torch.bincount(y, shares, minlength=n_outputs) + 1e-9)
    return constants
