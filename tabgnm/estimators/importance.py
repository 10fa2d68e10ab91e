"""How much each column matters: by gradients, and by shuffling it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import Bunch
from torch import Tensor

from tabgnm.nn.embeddings import embed
from tabgnm.nn.message_passing import forward
from tabgnm.nn.shapes import EmbeddedShape

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator
    from tabgnm.estimators.fitting import FittedNetworks
    from tabgnm.table import RawTable

Array = NDArray[Any]

_GRADIENT_ROWS = 1024
_SHUFFLED_ELEMENTS = 2**24  # numbers of shuffled rows at a time


def gradient_times_input(fitted: FittedNetworks, x: Tensor, n_columns: int) -> Array:
    """Mean over rows and members of |gradient x input| of each column, scaled to a sum of 1.

    The gradient is that of the largest output by what message passing starts from: encoded numbers, one-hots, and
    learned features of embedded columns, of which those that belong to one column of the table are summed.
    """
    rows = x[:: max(1, len(x) // _GRADIENT_ROWS)][:_GRADIENT_ROWS]
    n_members = len(fitted.seeds)
    rows = rows.expand(n_members, *rows.shape)
    owners = np.asarray(fitted.encoder.owners)
    shape = fitted.shape
    with torch.inference_mode(False), torch.enable_grad():
        parameters = {name: value.clone() for name, value in fitted.parameters.items()}
        if isinstance(shape, EmbeddedShape):
            inputs, body = embed(shape.embedding, parameters, rows), shape.body
            owners = owners[np.asarray(shape.embedding.owners())]
        else:
            inputs, body = rows.clone(), shape
        inputs = inputs.detach().requires_grad_()
        output = forward(body, parameters, inputs).output
        (gradient,) = torch.autograd.grad(output.abs().amax(dim=-1).sum(), inputs)
        products = (gradient * inputs.detach()).to(torch.float64)  # (members, rows, inputs)
    total = torch.zeros(*products.shape[:2], n_columns, dtype=torch.float64)
    total.index_add_(2, torch.as_tensor(owners), products)
    mean = total.abs().mean(dim=(0, 1)).numpy()
    mean = np.where(np.isfinite(mean), mean, 0.0)
    return np.asarray(mean / mean.sum() if mean.sum() > 0 else np.zeros(n_columns))


def permutation_importance(
    estimator: TabularEstimator,
    given: RawTable,
    y: Array,
    n_repeats: int,
    sample_weight: Array | None,
    random: np.random.RandomState,
) -> Bunch:
    """Score lost by shuffling a column, on encoded rows: nothing is encoded twice, and many columns share a pass.

    Columns are shuffled in the order of `fit`, but what comes back is in the order of the given table.
    """
    raw = estimator._matched(given)
    encoder = estimator.fitted_.encoder
    x = torch.as_tensor(encoder.encode(raw, dtype=estimator.fitted_.dtype))
    owners = torch.as_tensor(np.asarray(encoder.owners))
    n_rows, n_columns = len(x), raw.n_columns
    score = estimator._score_outputs(estimator._outputs_of(x), y, sample_weight)
    importances = np.zeros((n_columns, n_repeats))
    used = [column for column in range(n_columns) if bool((owners == column).any())]
    tasks = [(column, repeat) for column in used for repeat in range(n_repeats)]
    at_once = max(1, _SHUFFLED_ELEMENTS // x.numel())
    for first in range(0, len(tasks), at_once):
        group = tasks[first : first + at_once]
        shuffled = x.expand(len(group), *x.shape).clone()
        for place, (column, _) in enumerate(group):
            order = torch.as_tensor(random.permutation(n_rows))
            own = (owners == column).nonzero().flatten()
            shuffled[place, :, own] = x[:, own][order]
        outputs = estimator._outputs_of(shuffled.reshape(-1, x.shape[1]))
        for place, (column, repeat) in enumerate(group):
            part = outputs[:, place * n_rows : (place + 1) * n_rows]
            importances[column, repeat] = score - estimator._score_outputs(part, y, sample_weight)
    if raw is not given:  # columns were matched by name
        in_fit = {name: column for column, name in enumerate(raw.names)}
        importances = importances[[in_fit[name] for name in given.names]]
    return Bunch(
        importances=importances,
        importances_mean=importances.mean(axis=1),
        importances_std=importances.std(axis=1),
    )
