"""Scores beside those of simple models, and what they say in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.estimators.baselines import Baseline, baselines
from tabgnm.estimators.metrics import d2_of_quantiles, scaled_r2
from tabgnm.estimators.score_intervals import Bootstrap, scores_of_resamples
from tabgnm.estimators.targets import NumberTargets
from tabgnm.report.evaluation import Evaluation
from tabgnm.report.scores import (
    Score,
    accuracy_of_rows,
    auc,
    number_score_name,
    scores_of,
    share_of_rows,
)
from tabgnm.report.svg import N_SERIES, Panel, Scale, Svg, coordinate, label, marker, scale_of, tick_labels, ticks
from tabgnm.report.wording import count, decimals, number, percent

Array = NDArray[Any]

BASELINE_ROWS = 5_000
BASELINE_FOLDS = 5
MIN_ROWS = 30  # below which the page says that scores mean little
_OOF_NAMES = {
    "accuracy": "accuracy",
    "log_loss": "log-loss",
    "calibration_error": "calibration error",
    "r2": "R²",
    "d2": "D²",
    "mse": "mean squared error",
    "mae": "MAE",
    "quantile": "quantile loss",
    "huber": "Huber loss",
    "poisson_deviance": "Poisson deviance",
    "gamma_deviance": "gamma deviance",
    "tweedie_deviance": "Tweedie deviance",
    "metric": "chosen metric",
}
_SHARES = {"accuracy", "calibration_error"}
_BEST_IS_ONE = {"r2", "d2"}


@dataclass(frozen=True)
class ScoreSection:
    """What the page shows of scores."""

    headline: str
    tiles: list[Score]
    intervals: str
    comparison: Svg | None
    baselines: str
    origin: str
    compared: tuple[list[str], list[list[str]]] | None
    out_of_fold: str
    of_targets: tuple[list[str], list[list[str]]] | None


def score_section(evaluation: Evaluation) -> ScoreSection:
    """Score the predictions and compare them with baselines."""
    bootstrap = Bootstrap(evaluation.n_rows)
    scores = scores_of(evaluation, bootstrap)
    n_compared = min(evaluation.n_rows, BASELINE_ROWS)
    chosen = evaluation.sampled_rows(n_compared)
    y = evaluation.y[chosen]
    simple = baselines(evaluation.model, evaluation.raw.take(chosen), y, cv=BASELINE_FOLDS)
    compared = Bootstrap(n_compared)
    judged = [_judged(evaluation, scores[0], own, y, compared) for own in simple]
    gain = _gain(evaluation, simple, chosen, compared) if evaluation.out_of_fold else None
    return ScoreSection(
        headline=_headline(evaluation, scores[0], judged, scores, gain),
        tiles=scores,
        intervals=_about_intervals(scores, bootstrap),
        comparison=_comparison(evaluation, scores[0], judged) if judged else None,
        baselines=_about_baselines(evaluation, n_compared) if judged else "",
        origin=_origin(evaluation),
        compared=_compared(evaluation, scores, simple) if simple else None,
        out_of_fold=_own_scores(evaluation),
        of_targets=_of_targets(evaluation) if len(evaluation.targets) > 1 else None,
    )


def _judged(evaluation: Evaluation, score: Score, baseline: Baseline, y: Array, bootstrap: Bootstrap) -> Score:
    """Return the score of a baseline with its interval, in the form of the model's own score."""
    if evaluation.classes:
        return share_of_rows(baseline.name, _right(evaluation, baseline.prediction, y), "")
    ends = bootstrap.interval(_resampled(evaluation, baseline.prediction, y, bootstrap))
    return Score(baseline.name, baseline.score, ends, "", score.is_share, score.best_is_one)


def _resampled(evaluation: Evaluation, prediction: Any, y: Array, bootstrap: Bootstrap) -> Array:
    """Return R² or D² of each resample."""
    targets = evaluation.model.fitted_.targets
    assert isinstance(targets, NumberTargets)
    return scores_of_resamples(targets, y, np.asarray(prediction), bootstrap)


def _right(evaluation: Evaluation, prediction: Any, y: Array) -> Array:
    """Return for which rows a classifier predicts all labels correctly."""
    targets = evaluation.model.fitted_.targets
    codes = targets.codes(y).reshape(len(y), -1)  # type: ignore[union-attr] # of a classifier
    if evaluation.kind == "multilabel":
        right = (np.asarray(prediction) > 0.5) == codes
    else:
        parts = prediction if evaluation.kind == "joint" else [prediction]
        right = np.stack([np.argmax(part, axis=1) for part in parts], axis=1) == codes
    return np.asarray(right.all(axis=1))


def _gain(
    evaluation: Evaluation, simple: list[Baseline], chosen: Array, bootstrap: Bootstrap
) -> tuple[float, float] | None:
    """Return the interval of the model's lead over the linear model, both judged in the same resamples of the rows."""
    if len(simple) < 2:
        return None
    if evaluation.classes:
        right = _right(evaluation, simple[-1].prediction, evaluation.y[chosen])
        gains = bootstrap.means(accuracy_of_rows(evaluation.classes)[chosen] - right)
    else:
        y, predicted = (
            np.stack([getattr(target, name)[chosen] for target in evaluation.numbers], axis=1)
            for name in ("y", "predicted")
        )
        own, linear = (_resampled(evaluation, each, y, bootstrap) for each in (predicted, simple[-1].prediction))
        gains = own - linear
    return bootstrap.interval(gains) or (-np.inf, np.inf)


def _about_intervals(scores: list[Score], bootstrap: Bootstrap) -> str:
    """Say what the ranges below scores are."""
    of_shares = [own.name.lower() for own in scores if own.ends is not None and own.method == "Wilson"]
    n_resampled = sum(own.ends is not None and own.method == "bootstrap" for own in scores)
    said = f"percentile bootstrap with {bootstrap.n_resamples:,} resamples of the rows"
    if of_shares:
        said = f"Wilson score interval of the {of_shares[0]}" + (f"; {said} for the others" if n_resampled else "")
    return f"The range below a score is its 95 % interval ({said})." if of_shares or n_resampled else ""


def _about_baselines(evaluation: Evaluation, n_compared: int) -> str:
    rows = "these rows" if n_compared == evaluation.n_rows else f"{n_compared:,} of these rows"
    said = f"Baselines are cross-validated on {rows} ({BASELINE_FOLDS} folds)"
    if evaluation.out_of_fold:
        return f"{said}, like the model."
    n_fitted = n_compared - n_compared // BASELINE_FOLDS
    return (
        f"{said}: each was fitted on about {n_fitted:,} of them. A model that was fitted on more rows has an "
        "advantage, and the comparison is meaningless if the model was fitted on these rows. For a fair comparison, "
        "see the scores that tabgnm fit prints, or write the report right after fit in Python."
    )


def _origin(evaluation: Evaluation) -> str:
    """Say which rows are judged, and by which predictions."""
    drawn = ", drawn at random" if evaluation.sampled else ""
    if evaluation.out_of_fold:
        rows = "all" if evaluation.n_rows == evaluation.n_given else f"{evaluation.n_rows:,} of"
        return (
            f"Scores on {rows} {count(evaluation.n_given, 'training row')}{drawn}. Each row is predicted out of fold, "
            "by networks that were not trained on it."
        )
    some = f"{evaluation.n_rows:,} of " if evaluation.sampled else ""
    return (
        f"Scores on {some}{count(evaluation.n_given, 'row')}{drawn}, predicted by the whole model. If the model was "
        "fitted on these rows, the scores are too good: use rows that it has not seen."
    )


def _headline(
    evaluation: Evaluation,
    score: Score,
    simple: list[Score],
    scores: list[Score],
    gain: tuple[float, float] | None,
) -> str:
    """Say in one or two sentences how good the model is."""
    by_name = {own.name: own for own in scores}
    unseen = " that its networks were not trained on" if evaluation.out_of_fold else ""
    rows = f"{count(evaluation.n_rows, 'row')}{unseen}"
    if evaluation.kind == "one":
        return "All training rows have the same target, so the model always predicts this class."
    if evaluation.classes:
        what = "the correct class" if len(evaluation.classes) == 1 else "all labels correctly"
        said = f"The model predicts {what} for {score.shown} of {rows}"
    elif evaluation.kind == "quantiles":
        covered, own = by_name["Coverage"], evaluation.numbers[0]
        return (
            f"For {covered.shown} of {rows}, the target lies between the lowest and the highest predicted quantile; "
            f"the nominal coverage is {percent(own.coverage)}."
        )
    elif "Quantile loss" in by_name:
        said = f"On {rows}, the quantile loss is {by_name['Quantile loss'].shown} (D² {score.shown})"
        said += f", and {by_name['Share below'].shown} of the targets are not above their prediction"
    else:
        error = by_name["MAE"]
        said = f"On {rows}, the mean absolute error is {error.shown}"
        if np.isfinite(score.value):
            explained = percent(max(score.value, 0.0), 0)
            said += f", and predictions explain {explained} of the variance (R² {score.shown})"
    few = " So few rows say little about a model." if evaluation.n_rows < MIN_ROWS else ""
    return f"{said}.{few} {_beside(evaluation, score, simple, gain)}".strip()


def _beside(evaluation: Evaluation, score: Score, simple: list[Score], gain: tuple[float, float] | None) -> str:
    """Compare with the linear model; which is better is only said where both learned from the same rows."""
    if len(simple) < 2 or evaluation.n_rows < MIN_ROWS:
        return ""
    linear = simple[-1]
    shown = linear.shown if score.is_share else f"{score.name} {linear.shown}"
    if gain is None:
        return f"For comparison: {linear.name}, cross-validated on these rows, reaches {shown}."
    better = "better than" if gain[0] > 0 else "worse than" if gain[1] < 0 else "about as good as"
    return f"This is {better} {linear.name} ({shown})."


def _own_scores(evaluation: Evaluation) -> str:
    """Say what the out-of-fold scores of the fit are; nothing where they are the scores of the page itself."""
    found = evaluation.model.fitted_.scores
    if not found or evaluation.out_of_fold:
        return ""
    shown = [
        f"{_OOF_NAMES.get(name, name.replace('_', ' '))} {_own_score(name, value)}" for name, value in found.items()
    ]
    return f"Out-of-fold scores on the training rows: {', '.join(shown)}."


def _own_score(name: str, value: float) -> str:
    return Score(name, value, None, "", name in _SHARES, name in _BEST_IS_ONE).shown


def _compared(evaluation: Evaluation, scores: list[Score], simple: list[Baseline]) -> tuple[list[str], list[list[str]]]:
    """Return a table of the model and of baselines with score and loss."""
    by_name, own = {score.name: score.value for score in scores}, type(evaluation.model).__name__
    if evaluation.classes:
        what, key, loss = "Log-loss", "log_loss", by_name.get("Log-loss", 0.0)
    elif "Quantile loss" in by_name:
        what, key, loss = "Quantile loss", "quantile", by_name["Quantile loss"]
    else:
        what, key, loss = "Mean squared error", "mse", by_name["RMSE"] ** 2
    lines = [(own, scores[0].value, loss)]
    fitted = evaluation.model.fitted_.scores
    if not evaluation.out_of_fold and key in fitted:
        score = fitted[evaluation.model.fitted_.targets.metric_name]
        lines.append((f"{own}, out of fold", score, fitted[key]))
    lines += [(baseline.name, baseline.score, baseline.loss) for baseline in reversed(simple)]
    headings = ["Model", scores[0].name, what]
    return headings, [[name, scores[0].text(value), number(lost, trimmed=False)] for name, value, lost in lines]


def _comparison(evaluation: Evaluation, score: Score, simple: list[Score]) -> Svg:
    """Draw the score of the model and of baselines with their intervals, one below the other."""
    lines = [(type(evaluation.model).__name__, score), *((own.name, own) for own in reversed(simple))]
    ends = [end for _, own in lines for end in (own.value, *(own.ends or ()))]
    lowest = min(end for end in ends if np.isfinite(end))
    # A model can be worse than the mean without bound; the others would be at one point.
    values = scale_of([max(end, -1.0) if lowest < -1 else end for end in ends if np.isfinite(end)], margin=0.08)
    if score.is_share:
        values = Scale(max(0.0, values.low), min(1.0, values.high))
    unit = 100 if score.is_share else 1
    places = ticks(Scale(values.low * unit, values.high * unit), 4)
    shown = [f"{own} %" if score.is_share else own for own in tick_labels(places)]
    height = 38.0 * len(lines) + 40
    title = f"{score.name} of the model and of baselines"
    panel = Panel(
        values,
        Scale(0, 1),
        title,
        f"{score.name} with 95 % interval",
        "",
        340,
        height,
        [(place / unit, own) for place, own in zip(places, shown, strict=True)],
        [],
    )
    for place, (name, own) in enumerate(lines):
        y = 30 + 38.0 * place
        value = own.shown
        panel.add(label(panel.left, y - 11, name, "label"))
        panel.add(label(panel.right, y - 11, value, "count end"))
        panel.add(f'<path d="M{coordinate(panel.left)} {y}H{coordinate(panel.right)}" class="grid"/>')
        if own.ends is not None:
            low, high = panel.x(np.clip(own.ends, values.low, values.high)).tolist()
            panel.add(f'<path d="M{coordinate(low)} {y}H{coordinate(high)}" class="whisker s{place % N_SERIES}"/>')
        (across,) = panel.x([max(own.value, values.low)]).tolist()
        panel.add(marker(across, y, place % N_SERIES, f"{name}: {value}"))
    return panel.drawn()


def _of_targets(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Return a table with a row for each target."""
    if evaluation.classes:
        return ["Target", "Classes", "Accuracy", "ROC AUC"], [
            [
                own.name,
                f"{len(own.labels):,}",
                percent(float(accuracy_of_rows([own]).mean()), trimmed=False),
                decimals(auc(own.codes == 1, own.probabilities[:, 1])) if len(own.labels) == 2 else "–",
            ]
            for own in evaluation.classes
        ]
    targets = evaluation.model.fitted_.targets
    if number_score_name(evaluation) == "D²":
        assert isinstance(targets, NumberTargets)
        level = targets.predicted_quantiles[0]
        return ["Target", "D²", "Share below"], [
            [
                own.name,
                decimals(d2_of_quantiles(own.y, own.predicted[:, None], (level,), None)),
                percent(float((own.y <= own.predicted).mean()), trimmed=False),
            ]
            for own in evaluation.numbers
        ]
    return ["Target", "R²", "MAE", "RMSE"], [
        [
            own.name,
            decimals(_r2(own.y, own.predicted)),
            number(float(np.abs(own.y - own.predicted).mean()), trimmed=False),
            number(float(np.sqrt(np.mean((own.y - own.predicted) ** 2))), trimmed=False),
        ]
        for own in evaluation.numbers
    ]


def _r2(y: Array, predicted: Array) -> float:
    return scaled_r2(y[:, None], predicted[:, None], None) if len(y) > 1 else float("nan")
