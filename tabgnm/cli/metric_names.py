"""Names of metrics for `--metric`, by task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabgnm.cli.terminal import UsageProblem
from tabgnm.estimators.metrics import check_metric

# The usual ones, for messages; scikit-learn knows others, which can be used as well.
METRICS = {
    "classification": ("accuracy", "balanced_accuracy", "f1_macro", "log_loss", "roc_auc"),
    "regression": ("mae", "mape", "mse", "r2", "rmse"),
}
_DOCUMENTED = "scikit-learn's documentation lists more (string names of scorers)"


def usual_metrics(task: str | None = None) -> str:
    """Return the usual metrics of a task, or of both, in words."""
    return " or ".join(f"{', '.join(names)} for {own}" for own, names in METRICS.items() if task in (None, own))


def check_metric_of(task: str | None, values: Mapping[str, Any]) -> None:
    """Raise if the metric among the values of parameters is not known, or is one of the other task."""
    metric = values.get("metric", "auto")
    try:
        check_metric(metric)
    except ValueError:
        raise UsageProblem(
            f"--metric {metric!r} is not known; use auto, {usual_metrics(task)}; {_DOCUMENTED}"
        ) from None
    for own, names in METRICS.items():
        if task is not None and own != task and metric in names:
            raise UsageProblem(f"--metric {metric} is for {own}, but this is {task}; use auto, {usual_metrics(task)}")
