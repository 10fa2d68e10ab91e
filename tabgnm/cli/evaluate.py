"""``tabgnm evaluate``: how good a model is on a table, with intervals and beside simple models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table
from sklearn.metrics import mean_absolute_error, roc_auc_score

from tabgnm._printable import brief, printable
from tabgnm.cli.models import inputs_and_targets, load_model, targets_of
from tabgnm.cli.progress import showing_steps
from tabgnm.cli.score_tables import (
    READABLE,
    ScoreRow,
    baseline_row,
    is_classification,
    meaning_of_score,
    score_names,
    score_records,
    score_table,
    shown_score,
)
from tabgnm.cli.target_scores import (
    classes_of_targets,
    log_losses,
    numbers_of_targets,
    row_of_numbers,
    table_of_targets,
)
from tabgnm.cli.terminal import Output, table_is_to_blame
from tabgnm.cli.training_table import names_in_words, one_or_all
from tabgnm.estimators.baselines import baselines
from tabgnm.estimators.score_intervals import wilson_interval

if TYPE_CHECKING:
    from tabgnm.cli.options import Reading

Array = NDArray[Any]

_MAX_CLASSES = 10  # of a confusion matrix in the terminal
_MAX_CONFUSIONS = 10
_LONGEST_LABEL = 16
_MUCH_LESS = 2 / 3  # times the error out of fold: less is too good for new rows


def run_evaluate(
    model_path: Path, source: str, reading: Reading, target: Sequence[str], *, seed: int, quiet: bool, as_json: bool
) -> None:
    """Score a model on the rows of a table."""
    out = Output(as_json=as_json)
    with (
        out.showing_warnings(),
        showing_steps("reading the table", wanted=not quiet and not as_json) as say,
        table_is_to_blame(),
    ):
        model = load_model(model_path)
        targets = targets_of(model, target)
        X, y = inputs_and_targets(source, reading, model, targets)
        say("predicting")
        labels = model._check_y(y, "y")
        model._check_scored(labels)
        row, further = _scores(model, targets, X, labels, seed)
        names = score_names(model)
        say("fitting simple models to compare with")
        simple = [baseline_row(own, squared=names[1] == "rmse") for own in baselines(model, X, y, random_state=seed)]
    rows = [row, *simple]
    n_rows = "1 row" if len(X) == 1 else f"{len(X):,} rows"
    compared = " Baselines are cross-validated on the same rows." if simple else ""
    out.show(score_table(rows, names))
    out.text(f"{n_rows} of {names_in_words(targets)}.{meaning_of_score(model)}{compared}")
    if model.fitted_.scores:
        out.text(_compared_with_fit(model, row, names[0]))
    for key, value in further.items():
        if key == "confusion":
            out.show(_confusion_table(value))
        elif key == "targets":
            out.show(table_of_targets(value))
        else:
            name, shown = READABLE[key], f"{value:,.4g}" if key == "mae" else shown_score(value, key)
            out.text(f"{name[0].upper()}{name[1:]}: {shown}.")
    out.finish({"target": one_or_all(targets), "rows": len(X), "scores": score_records(rows, names), **further})


def _compared_with_fit(model: Any, row: ScoreRow, name: str) -> str:
    """Say what the model reached when it was fitted, which rows that it has learned from exceed."""
    then = f"Out-of-fold {READABLE.get(name, name)} when it was fitted: {shown_score(model.oof_score_, name)}."
    known = model.oof_score_
    # Both scores are at most 1, and both are estimates.
    better = row.interval is not None and row.interval[0] > known and 1 - row.score < _MUCH_LESS * (1 - known)
    return f"{then} This is clearly better: was the model fitted to these rows?" if better else then


def _scores(model: Any, targets: list[str], X: Any, labels: Array, seed: int) -> tuple[ScoreRow, dict[str, Any]]:
    """Return the scores of a model, and what else is told about its predictions."""
    if len(targets) > 1:
        row, of_targets = (
            classes_of_targets(model, targets, X, labels)
            if is_classification(model)
            else numbers_of_targets(model, targets, X, labels, seed)
        )
        return row, {"targets": of_targets}
    return _classes(model, X, labels) if is_classification(model) else _numbers(model, X, labels, seed)


def _classes(model: Any, X: Any, labels: Array) -> tuple[ScoreRow, dict[str, Any]]:
    probabilities = model.predict_proba(X)
    classes = model.classes_
    predicted = classes[probabilities.argmax(axis=1)]
    right = np.asarray(predicted == labels)
    accuracy = float(right.mean())
    loss = float(log_losses(classes, probabilities, labels).mean())
    row = ScoreRow("this model", accuracy, loss, wilson_interval(accuracy, len(labels)))
    recalls = [float(right[labels == label].mean()) for label in np.unique(labels)]
    further: dict[str, Any] = {"balanced_accuracy": float(np.mean(recalls))}
    if len(classes) == 2 and set(labels.tolist()) == set(classes.tolist()):
        further["roc_auc"] = float(roc_auc_score(labels == classes[1], probabilities[:, 1]))
    further["confusion"] = _confusion(labels, predicted, classes)
    return row, further


def _confusion(labels: Array, predicted: Array, classes: Array) -> dict[str, Any]:
    """Return how many rows of each true class were predicted as which."""
    known = classes.tolist()
    names = [*known, *sorted({label for label in labels.tolist() if label not in set(known)}, key=str)]
    places = {label: place for place, label in enumerate(names)}
    counts = np.zeros((len(names), len(known)), dtype=np.int64)
    np.add.at(counts, ([places[own] for own in labels.tolist()], [places[own] for own in predicted.tolist()]), 1)
    return {"true": names, "predicted": known, "counts": counts.tolist()}


def _confusion_table(confusion: dict[str, Any]) -> Table:
    counts = np.array(confusion["counts"])
    true, predicted = (
        [brief(printable(str(own)), _LONGEST_LABEL) for own in confusion[key]] for key in ("true", "predicted")
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    if len(true) <= _MAX_CLASSES:
        table.add_column("true \\ predicted", no_wrap=True)
        for name in predicted:
            table.add_column(name, justify="right", no_wrap=True)
        for name, own in zip(true, counts, strict=True):
            table.add_row(name, *(f"{n:,}" if n else "·" for n in own))
        return table
    table.title = "Most frequent confusions"
    for heading in ("true", "predicted", "rows"):
        table.add_column(heading, no_wrap=True)
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    for flat in np.argsort(-wrong, axis=None, kind="stable")[:_MAX_CONFUSIONS]:
        row, column = np.unravel_index(flat, wrong.shape)
        if wrong[row, column]:
            table.add_row(true[row], predicted[column], f"{wrong[row, column]:,}")
    return table


def _numbers(model: Any, X: Any, y: Array, seed: int) -> tuple[ScoreRow, dict[str, Any]]:
    predicted = model.predict(X)
    row = row_of_numbers(model, y, predicted, seed)
    if model.fitted_.targets.predicted_quantiles:
        return row, {}
    return row, {"mae": float(mean_absolute_error(y, predicted))}
