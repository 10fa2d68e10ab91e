"""Sets of parameters by what depends on them: the rows and folds of a fit, and the weights of its networks."""

from __future__ import annotations

from dataclasses import fields

from tabgnm.estimators.parameters import GNMParameters, MLPParameters

# Neither the encoded rows nor the shape of the weights depend on these.
_HOW_TRAINED = frozenset(
    [
        "max_epochs",
        "learning_rate",
        "batch_size",
        "dropout",
        "l1",
        "l2",
        "l0",
        "weight_decay",
        "optimizer",
        "schedule",
        "warmup",
        "patience",
        "time_limit",
        "metric",
        "calibrated",
        "device",
        "n_jobs",
        "verbose",
    ]
)
_ENCODING = frozenset(
    [
        "scaling",
        "numeric_embedding",
        "n_basis",
        "numeric_dim",
        "frequency_scale",
        "screen_columns",
        "integer_codes",
        "max_one_hot",
        "level_dim",
        "min_level_count",
        "column_kinds",
        "target_transform",
    ]
)
# These determine what is learned from the targets.
LOSS_PARAMETERS = frozenset(["class_weight", "label_smoothing", "loss", "quantile", "huber_delta", "tweedie_power"])
# Fits that differ only in these have the same rows and folds.
NOT_OF_ROWS = (
    _HOW_TRAINED
    | (_ENCODING - {"column_kinds", "min_level_count"})  # copies of rows and integer codes depend on these
    | {"n_candidates"}
    | {own.name for group in (GNMParameters, MLPParameters) for own in fields(group)}
)
# These may change between fits with `warm_start` or calls of `partial_fit`; the weights depend on all others.
FREE_PARAMETERS = _HOW_TRAINED | {
    "effort",
    "n_candidates",
    "warm_start",
    "random_state",
    *LOSS_PARAMETERS,
}
