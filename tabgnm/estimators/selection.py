"""Selection of the candidates of a pack by their out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
# Takes predictions of shape (candidates, rows, ...); returns the loss of each candidate.
Losses = Callable[[Array], Array]

_STEPS = 30
_STEPS_WITHOUT_GAIN = 10
_SMALLEST_GAIN = 1e-6  # relative to the loss; smaller gains are rounding errors


def greedy_weights(predictions: Array, losses: Losses, most: int) -> Array:
    """Choose weights by greedy forward selection with replacement (Caruana et al., 2004).

    Starting with the best candidate, each step adds the candidate that results in the lowest loss of the mean; a
    candidate may be added several times. The weights are those of the step with the lowest loss.

    Parameters
    ----------
    predictions : array of shape (candidates, rows, ...)
    losses : callable
        Takes predictions of shape (candidates, rows, ...); returns the loss of each candidate.
    most : int
        The maximum number of candidates with a positive weight.

    Returns
    -------
    array of shape (candidates,)
        The weights, with a sum of 1.
    """
    n_candidates = len(predictions)
    if n_candidates == 1:
        return np.ones(1)
    counts = np.zeros(n_candidates)
    best_counts, best_loss, best_step = counts, np.inf, 0
    mean = np.zeros_like(predictions[0])
    for step in range(1, _STEPS + 1):
        allowed = np.arange(n_candidates)
        if np.count_nonzero(counts) == most:
            allowed = np.flatnonzero(counts)
        # One candidate at a time to save memory.
        found = np.array([float(losses((mean + (predictions[i] - mean) / step)[None])[0]) for i in allowed])
        found = np.where(np.isfinite(found), found, np.inf)
        place = int(np.argmin(found))
        chosen = int(allowed[place])
        counts = counts.copy()
        counts[chosen] += 1
        mean = mean + (predictions[chosen] - mean) / step
        if step == 1 or found[place] < best_loss - _SMALLEST_GAIN * abs(best_loss):
            best_counts, best_loss, best_step = counts, float(found[place]), step
        if step - best_step >= _STEPS_WITHOUT_GAIN:
            break
    return np.asarray(best_counts / best_counts.sum())


def standard_error(values: Array, weights: Array | None) -> Array:
    """Return the standard error of the weighted mean over the last axis."""
    if values.shape[-1] == 0:
        return np.zeros(values.shape[:-1])
    weights = np.ones(values.shape[-1]) if weights is None else weights
    shares = weights / weights.sum()
    mean = np.average(values, axis=-1, weights=shares)
    variance = np.average((values - mean[..., None]) ** 2, axis=-1, weights=shares)
    return np.asarray(np.sqrt(variance * np.sum(shares**2)))


def survivors(row_losses: Array, weights: Array, row_weights: Array | None, most: int) -> list[int]:
    """Return the candidates that stay in the race after the first folds, the best first.

    A candidate stays if the greedy selection assigns a weight to it, or if its mean loss exceeds that of the best
    candidate by at most one standard error of the differences between their row losses. At most `most` candidates stay:
    those with the largest weights, then those with the lowest losses.

    Parameters
    ----------
    row_losses : array of shape (candidates, rows)
    weights : array of shape (candidates,)
        The weights of the greedy selection on the same rows.
    row_weights : array of shape (rows,) or None
    most : int
    """
    row_losses = np.where(np.isfinite(row_losses), row_losses, np.inf)
    means = np.average(row_losses, axis=1, weights=row_weights)
    best = int(np.argmin(means))
    finite = np.isfinite(means)
    with np.errstate(invalid="ignore"):
        differences = row_losses - row_losses[best]
    error = np.where(finite, standard_error(np.where(finite[:, None], differences, 0.0), row_weights), 0.0)
    stays = (weights > 0) | (finite & (means - means[best] <= error))
    ranked = sorted(np.flatnonzero(stays).tolist(), key=lambda i: (-weights[i], means[i]))
    return ranked[:most]
