"""The settings of the paper, for `.paper()`."""

from __future__ import annotations

from typing import Any

# Raw features, one model, Adam with a constant learning rate, and the
# weights of the epoch with the lowest validation loss.
PAPER: dict[str, Any] = {
    "n_candidates": 1,
    "n_folds": 1,
    "max_epochs": 300,
    "activation": "relu",
    "learning_rate": 1e-3,
    "batch_size": 64,
    "dropout": 0.0,
    "weight_decay": 0.0,
    "optimizer": "adam",
    "schedule": "constant",
    "warmup": 0.0,
    "patience": None,
    "scaling": "none",
    "numeric_embedding": None,
    "screen_columns": False,
    "integer_codes": False,
    # One-hot encode all categories, except for those with even more levels.
    "max_one_hot": 10_000,
}
PAPER_GNM = PAPER | {
    "n_nodes": 100,
    "n_layers": 2,
    "init": "paper",
    "combine": "none",
    "clamp_inputs": False,
    "persistent_outputs": False,
    "tied": False,
}
PAPER_MLP = PAPER | {"hidden": (128,), "init": "torch"}
PAPER_CLASSIFIER = {"calibrated": False}
PAPER_REGRESSOR = {"scale_target": False, "target_transform": "none"}
