"""Levels of categories that a network has not seen in training, because all their rows are in its validation fold."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from tabgnm.training import FleetResult, TrainedModel


def with_neutral_levels(model: TrainedModel, x: Tensor, train: Tensor | None, val: Tensor | None) -> TrainedModel:
    """Set the embeddings of levels without training rows to the mean of the other levels of their column.

    Without this, they would keep their random initial values. Weights are changed in place; `val_outputs` are computed
    again for rows of such levels. `train` and `val` are row numbers of the table `x`; None is all and no rows.
    """
    embedding = model.shape.embedding
    if embedding is None or not embedding.levels:
        return model
    table, first = model.parameters["embed_level"], 0  # (levels, dim)
    is_changed = torch.zeros(0 if val is None else len(val), dtype=torch.bool)
    for column, n_levels in enumerate(embedding.levels, start=embedding.n_plain + embedding.n_numeric):
        seen, codes = torch.zeros(n_levels, dtype=torch.bool), x[:, column].to(torch.int64)
        seen[codes if train is None else codes[train]] = True
        if not seen.all():
            own = table[first : first + n_levels]  # a view
            own[~seen] = own[seen].mean(dim=0)
            if val is not None:
                is_changed |= ~seen[codes[val]]
        first += n_levels
    if model.val_outputs is None or val is None or not is_changed.any():
        return model
    outputs = model.val_outputs.clone()
    outputs[is_changed] = FleetResult(model.shape, [model]).predict(x[val[is_changed]])[0]
    return replace(model, val_outputs=outputs)
