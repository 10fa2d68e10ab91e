"""Charts of a classifier: confusion matrix, ROC, precision and recall, calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import precision_recall_curve, roc_curve

from tabgnm.estimators.metrics import calibration_error
from tabgnm.estimators.score_intervals import wilson_interval
from tabgnm.report.evaluation import ClassesOfTarget
from tabgnm.report.scores import auc
from tabgnm.report.svg import N_SERIES, Panel, Scale, Svg, coordinate, escaped, label, opening, thinned
from tabgnm.report.wording import decimals, percent, shortened

Array = NDArray[Any]

MAX_CLASSES = 12  # of a confusion matrix; the rarest share one row beyond
_MAX_POINTS = 150  # of a curve
_CALIBRATION_BINS = 10
_MIN_CALIBRATED = 10  # rows of a point of a calibration curve
_UNIT = Scale(0.0, 1.0)
_SHARES = [(0.0, "0"), (0.25, ""), (0.5, "50 %"), (0.75, ""), (1.0, "100 %")]


@dataclass(frozen=True)
class Key:
    """An entry of a legend."""

    series: int
    name: str
    value: str


@dataclass(frozen=True)
class Chart:
    """A drawing with a heading, a legend and a sentence below it."""

    heading: str
    svg: Svg
    note: str = ""
    legend: tuple[Key, ...] = ()


def class_charts(target: ClassesOfTarget) -> list[Chart]:
    """Return the charts of one target; those that need two classes among the rows are left out without."""
    if len(target.labels) < 2:
        return []
    charts = [_confusion(target)]
    shown = _curve_classes(target)
    if shown:
        charts += [_roc(target, shown), _precision_recall(target, shown)]
    return [*charts, _calibration(target)]


def _curve_classes(target: ClassesOfTarget) -> list[int]:
    """Return the classes with a curve: the second of two, or else the most frequent ones among the rows."""
    counts = np.bincount(target.codes, minlength=len(target.labels))
    found = [code for code in range(len(counts)) if 0 < counts[code] < len(target.codes)]
    if len(target.labels) == 2:
        return [1] if found else []
    return sorted(sorted(found, key=lambda code: -counts[code])[:N_SERIES])


def _merged(target: ClassesOfTarget) -> tuple[Array, list[str]]:
    """Return the counts (true, predicted), with the rarest classes in one if there are many."""
    n_classes = len(target.labels)
    table = np.zeros((n_classes, n_classes), dtype=np.int64)
    np.add.at(table, (target.codes, target.predicted), 1)
    if n_classes <= MAX_CLASSES:
        return table, target.labels
    frequent = np.sort(np.argsort(-table.sum(axis=1), kind="stable")[: MAX_CLASSES - 1])
    place = np.full(n_classes, MAX_CLASSES - 1)
    place[frequent] = np.arange(MAX_CLASSES - 1)
    merged = np.zeros((MAX_CLASSES, MAX_CLASSES), dtype=np.int64)
    np.add.at(merged, (place[:, None], place[None, :]), table)
    others = f"{n_classes - MAX_CLASSES + 1} others"
    return merged, [*(target.labels[code] for code in frequent), others]


def _confusion(target: ClassesOfTarget) -> Chart:
    table, labels = _merged(target)
    n_classes = len(labels)
    longest = 14 if n_classes <= 6 else 9
    left = 14 + 6.2 * min(longest, max(map(len, labels)))
    side = (340 - left - 4) / n_classes
    row_height = min(side, 106.0)
    roomy = side >= 48 and row_height >= 40  # for a second line in a cell
    top, height = 36.0, 36 + row_height * n_classes + 4
    title = f"Confusion matrix of {target.name}: rows are true classes, columns are predicted ones"
    parts = [
        opening(340, height, title),
        label(2, 12, "true ↓   predicted →", "label"),
    ]
    room = max(2, int(side / 6.4))
    for place, name in enumerate(labels):
        parts.append(label(left + (place + 0.5) * side, 29, name, "tick middle", room))
        parts.append(label(left - 6, top + (place + 0.5) * row_height + 3.5, name, "tick end", longest))
    totals = np.maximum(table.sum(axis=1, keepdims=True), 1)
    shares = table / totals
    for true in range(n_classes):
        for predicted in range(n_classes):
            n_rows, share = int(table[true, predicted]), float(shares[true, predicted])
            x, y = left + predicted * side, top + true * row_height
            kind = "right" if true == predicted else "wrong"
            told = f"{n_rows:,} rows of {labels[true]} ({percent(share)}) predicted as {labels[predicted]}"
            strength = 0 if n_rows == 0 else 0.12 + 0.88 * share
            parts.append(
                f'<rect x="{coordinate(x + 1)}" y="{coordinate(y + 1)}" width="{coordinate(side - 2)}" '
                f'height="{coordinate(row_height - 2)}" rx="2" class="cell {kind}" '
                f'style="--share:{strength:.2f}"><title>{escaped(told)}</title></rect>'
            )
            if n_rows and side >= 22:
                middle = y + row_height / 2
                parts.append(label(x + side / 2, middle + (0 if roomy else 4), f"{n_rows:,}", "count middle"))
                if roomy:
                    parts.append(label(x + side / 2, middle + 14, percent(share, 0), "middle"))
    shown = "Percentages are shares" if roomy else "Stronger colors mean larger shares"
    note = f"{shown} of the true class. Correct predictions are on the diagonal."
    return Chart("Confusion matrix", Svg("".join((*parts, "</svg>"))), note)


def _roc(target: ClassesOfTarget, shown: list[int]) -> Chart:
    title = f"ROC curves of {target.name}" if len(shown) > 1 else f"ROC curve of {target.name}"
    panel = Panel(_UNIT, _UNIT, title, "false positive rate", "true positive rate", 340, 280, _SHARES, _SHARES)
    panel.line([0, 1], [0, 1], "chance")
    keys = []
    for series, code in enumerate(shown):
        positive, scores = target.codes == code, target.probabilities[:, code]
        false_rate, true_rate, _ = roc_curve(positive, scores)
        keep = thinned(len(false_rate), _MAX_POINTS)
        area = auc(positive, scores)
        panel.line(false_rate[keep], true_rate[keep], f"s{series}", f"{target.labels[code]}: AUC {decimals(area)}")
        keys.append(Key(series, target.labels[code], f"AUC {decimals(area)}"))
    note = "The dotted line shows random guessing." + _of_classes(target, shown)
    return Chart("ROC", panel.drawn(), note, tuple(keys))


def _precision_recall(target: ClassesOfTarget, shown: list[int]) -> Chart:
    title = f"Precision and recall of {target.name}"
    panel = Panel(_UNIT, _UNIT, title, "recall", "precision", 340, 280, _SHARES, _SHARES)
    keys = []
    for series, code in enumerate(shown):
        positive = target.codes == code
        precision, recall, _ = precision_recall_curve(positive, target.probabilities[:, code])
        mean = float(-np.sum(np.diff(recall) * precision[:-1]))
        xs, ys = _steps(*(own[thinned(len(own), _MAX_POINTS)][::-1] for own in (recall, precision)))
        panel.line(xs, ys, f"s{series}", f"{target.labels[code]}: {decimals(mean)}")
        if len(shown) == 1:
            panel.line([0, 1], [positive.mean()] * 2, "chance")
        keys.append(Key(series, target.labels[code], f"average precision {decimals(mean)}"))
    note = "The dotted line shows the share of this class among the rows." if len(shown) == 1 else ""
    return Chart("Precision and recall", panel.drawn(), note, tuple(keys))


def _steps(recall: Array, precision: Array) -> tuple[Array, Array]:
    """Return the points of a curve with steps: straight lines between values of recall would promise too much."""
    return np.repeat(recall, 2)[:-1], np.repeat(precision, 2)[1:]


def _of_classes(target: ClassesOfTarget, shown: list[int]) -> str:
    if len(target.labels) == 2:
        return f" The positive class is {shortened(target.labels[1], 40)}."
    if len(shown) < len(target.labels):
        return f" The {len(shown)} most frequent classes, each against the rest."
    return " Each class against the rest."


def _calibration(target: ClassesOfTarget) -> Chart:
    """Draw how often predictions are right by stated probability, with the number of rows below."""
    binary = len(target.labels) == 2
    stated = target.probabilities[:, 1] if binary else target.confidence
    happened = target.codes == 1 if binary else target.predicted == target.codes
    what = (
        f"predicted probability of {shortened(target.labels[1], 16)}"
        if binary
        else "probability of the predicted class"
    )
    observed = "observed share" if binary else "share of correct predictions"
    title = f"Calibration of {target.name}: {observed} by {what}"
    panel = Panel(_UNIT, _UNIT, title, what, observed, 340, 280, _SHARES, _SHARES)
    panel.line([0, 1], [0, 1], "chance")
    counts, _ = np.histogram(stated, _CALIBRATION_BINS, (0, 1))
    for place, n_rows in enumerate(counts.tolist()):
        low, high = place / _CALIBRATION_BINS, (place + 1) / _CALIBRATION_BINS
        told = f"{n_rows:,} rows from {percent(low)} to {percent(high)}"
        panel.bar(low + 0.006, high - 0.006, 0, 0.14 * n_rows / counts.max(), "faint", told)
    points = []
    for rows in _groups(stated):
        n_rows, x, y = len(rows), float(stated[rows].mean()), float(happened[rows].mean())
        low, high = wilson_interval(y, n_rows)
        panel.line([x, x], [low, high], "whisker")
        points.append((x, y, f"{n_rows:,} rows: stated {percent(x)}, observed {percent(y)}"))
    panel.line([x for x, _, _ in points], [y for _, y, _ in points], "s0")
    for x, y, told in points:
        panel.marker(x, y, 0, told)
    error = calibration_error(target.probabilities, target.codes)
    note = (
        "The dotted line shows perfect calibration. Bars show the number of rows, whiskers 95 % intervals. "
        f"Calibration error {percent(error)}."
    )
    return Chart("Calibration", panel.drawn(), note)


def _groups(stated: Array) -> list[Array]:
    """Return rows of similar probabilities: equal bins, joined until each has enough rows to say something."""
    bins = np.minimum((stated * _CALIBRATION_BINS).astype(int), _CALIBRATION_BINS - 1)
    groups: list[Array] = []
    waiting = np.empty(0, dtype=np.intp)
    for own in range(_CALIBRATION_BINS):
        waiting = np.concatenate([waiting, np.flatnonzero(bins == own)])
        if len(waiting) >= _MIN_CALIBRATED:
            groups.append(waiting)
            waiting = np.empty(0, dtype=np.intp)
    if not groups:
        return [waiting] if len(waiting) else []
    if len(waiting):
        groups[-1] = np.concatenate([groups[-1], waiting])
    return groups
