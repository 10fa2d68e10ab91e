"""``tabgnm info``: what is in a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tabgnm import load
from tabgnm._printable import brief, printable
from tabgnm.cli.score_tables import column_records, columns_in_short, is_classification
from tabgnm.cli.terminal import Output
from tabgnm.cli.training_table import names_in_words, one_or_all
from tabgnm.export.small import is_small

_MAX_LABELS = 10
_MAX_IMPORTANT = 5


def run_info(model_path: Path, *, as_json: bool) -> None:
    """Describe a model file."""
    out = Output(as_json=as_json)
    model = load(model_path)
    fitted = model.fitted_
    n_weights = sum(value.numel() for group in fitted.groups for value in group.parameters.values())
    targets = model._target_names()
    what = "classes" if is_classification(model) else "numbers"
    labels = [own.tolist() for own in fitted.targets.classes] if is_classification(model) else None
    defaults = type(model)().get_params()
    changed = {name: own for name, own in model.get_params().items() if own != defaults[name] and name != "verbose"}
    n_bytes = model_path.stat().st_size
    networks = f"{fitted.n_networks} network{'s' if fitted.n_networks > 1 else ''} of {len(fitted.groups)} settings"
    small = is_small(model)
    out.text(f"{model_path}: {type(model).__name__}, {n_bytes:,} bytes, {networks}, {n_weights:,} weights")
    out.text(f"Predicts {what} of {names_in_words(targets) if targets else 'an unnamed target'}.")
    if labels is not None:
        shown = ", ".join(brief(printable(str(own)), 30) for own in labels[0][:_MAX_LABELS])
        more = f" and {len(labels[0]) - _MAX_LABELS:,} more" if len(labels[0]) > _MAX_LABELS else ""
        several = f" (the first of {len(labels)} targets)" if len(labels) > 1 else ""
        out.text(f"Classes: {shown}{more}{several}")
    for name, value in fitted.scores.items():
        out.text(f"Out-of-fold {name.replace('_', ' ')}: {value:.4g}")
    out.text(f"Reads {model.n_features_in_:,} columns:")
    for line in columns_in_short(model):
        out.text(f"  {line}")
    important = _important(model)
    shares = ", ".join(f"{own['name']} ({own['share']:.0%})" for own in important)
    out.text(f"Most important columns, by their share of gradient x input: {shares}")
    if changed:
        out.text("Settings: " + ", ".join(f"{name}={own}" for name, own in changed.items()))
    if small:
        out.text(model.describe())
    out.finish(
        {
            "file": str(model_path),
            "bytes": n_bytes,
            "estimator": type(model).__name__,
            "target": one_or_all(targets) if targets else None,
            "classes": labels,
            "columns": column_records(model),
            "importances": dict(zip(model._names, model.feature_importances_.tolist(), strict=True)),
            "out_of_fold": dict(fitted.scores),
            "networks": fitted.n_networks,
            "weights": n_weights,
            "settings": changed,
            "small": small,
        }
    )


def _important(model: Any) -> list[dict[str, Any]]:
    shares = model.feature_importances_
    order = (-shares).argsort(kind="stable")[:_MAX_IMPORTANT]
    return [{"name": model._names[place], "share": float(shares[place])} for place in order]
