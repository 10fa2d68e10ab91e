"""The figures of a report are those that scikit-learn and the model's own attributes give."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    confusion_matrix,
    d2_pinball_score,
    log_loss,
    mean_absolute_error,
    mean_pinball_loss,
    mean_poisson_deviance,
    mean_squared_error,
    median_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tabgnm.estimators.folds import k_folds
from tabgnm.report import report_html
from tests.estimators.examples import LEARNS, gnm, gnmr, numbers
from tests.report.reading import figure, figures, legend, note, number, plain, table, tiles, titles

X, LABELS, TARGET = numbers()
NEW_X, _, NEW_TARGET = numbers(n_rows=90, seed=1)
# Labels that are not separated perfectly, so that every score has something to measure.
NOISE = np.random.default_rng(5).normal(size=120) * 12
NAMES = np.array(["low", "middle", "high"])


def classes_of(target: Any, noise: Any) -> Any:
    return NAMES[np.digitize(target + noise[: len(target)], [40, 60])]


Y3, NEW_Y3 = classes_of(TARGET, NOISE), classes_of(NEW_TARGET, NOISE)
Y2, NEW_Y2 = (np.where(own == "high", "yes", "no") for own in (Y3, NEW_Y3))
Y, NEW_Y = TARGET + NOISE, NEW_TARGET + NOISE[:90]


@cache
def written(kind: str) -> tuple[Any, str]:
    """Return a model and its report: of new rows, or of those of the fit ("own")."""
    y, new_y = {"two": (Y2, NEW_Y2), "three": (Y3, NEW_Y3), "number": (Y, NEW_Y), "own": (Y, Y)}[kind]
    options = LEARNS | {"n_candidates": 3, "max_epochs": 15}
    model = (gnmr if kind in ("number", "own") else gnm)(n_nodes=40, **options).fit(X, y)
    return model, report_html(model, X if kind == "own" else NEW_X, new_y, machine=False)


def close(shown: str, expected: float, digits: int = 3) -> bool:
    """Return whether a text is a number, as far as its digits go."""
    decimals = len(shown.replace("\u00a0%", "").partition(".")[2])
    unit = 0.01 if shown.endswith("%") else 1.0
    assert len(re.sub(r"[^0-9]", "", shown).lstrip("0")) >= digits or expected in (0, 1) or decimals >= digits
    return abs(number(shown) - expected) <= 0.51 * unit * 10.0**-decimals


def test_the_table_of_candidates_is_the_pack() -> None:
    model, page = written("two")
    pack = model.pack_.sort_values(["weight", "loss"], ascending=[False, True])
    rows = table(page, 'aria-label="Candidates"')
    assert [int(row[0]) for row in rows] == list(pack["candidate"])
    assert [row[1] for row in rows] == [f"{100 * weight:.0f} %" for weight in pack["weight"]]
    for row, (_, own) in zip(rows, pack.iterrows(), strict=True):
        loss, spread = row[2].split(" ± ")
        assert close(loss, own["loss"]) and number(spread) == pytest.approx(
            own["loss_std"], abs=0.5 * 10 ** -len(loss[2:])
        )
        assert int(row[3]) == own["networks"]
        assert row[4] == f"{own['best_epoch']:.0f} of {own['epochs']:.0f}"
    widths = re.findall(r'<span class="meter"><i style="width:([\d.]+)%">', page)[: len(rows)]
    np.testing.assert_allclose(list(map(float, widths)), 100 * pack["weight"], atol=0.051)
    assert f"3 candidates were trained, and {(pack['weight'] > 0).sum()} " in plain(page)


def test_settings_of_candidates_are_those_of_the_pack() -> None:
    model, page = written("two")
    body = page.split('aria-label="Candidates"', 1)[1].split("</table>")[0]
    pack = model.pack_.set_index("candidate")
    found = 0
    for row in re.findall(r"<tr.*?</tr>", body.split("<tbody>")[1], flags=re.DOTALL):
        candidate = int(plain(re.findall(r"<td.*?</td>", row)[0]))
        for chip in re.findall(r'<code class="chip">(.*?)</code>', row):
            name, _, value = chip.partition(" ")
            own = pack.loc[candidate, name]
            assert value == ("none" if own is None or own != own else str(own))
            found += 1
    assert found >= 3


def test_learning_curves_mark_the_epochs_and_losses_that_the_history_has() -> None:
    model, page = written("two")
    kept = model.pack_[model.pack_["weight"] > 0].sort_values("weight", ascending=False)
    for group, (_, own) in zip(model.fitted_.groups, kept.iterrows(), strict=True):
        card = figure(page, f"Candidate {own['candidate']}")
        marks = [re.fullmatch(r"best epoch (\d+), loss (.*)", title) for title in titles(card)]
        assert len(marks) == len(group.histories)
        for mark, history in zip(marks, group.histories, strict=True):
            assert mark is not None and int(mark[1]) == history["best_epoch"]
            assert number(mark[2]) == pytest.approx(history["val_loss"][history["best_epoch"] - 1], rel=5e-3)
        assert note(card) == f"weight {100 * own['weight']:.0f} %, {own['networks']} networks"


@pytest.mark.parametrize(("kind", "y"), [("two", NEW_Y2), ("three", NEW_Y3)])
def test_scores_of_a_classifier_are_those_of_scikit_learn(kind: str, y: Any) -> None:
    model, page = written(kind)
    probabilities, shown = model.predict_proba(NEW_X), tiles(page)
    assert close(shown["Accuracy"], accuracy_score(y, model.predict(NEW_X)))
    assert close(shown["Balanced accuracy"], balanced_accuracy_score(y, model.predict(NEW_X)))
    assert close(shown["Log-loss"], log_loss(y, probabilities, labels=model.classes_))
    of_area = probabilities[:, 1] if kind == "two" else probabilities
    assert close(shown["ROC AUC"], roc_auc_score(y, of_area, multi_class="ovr", labels=model.classes_))
    assert 0.6 < number(shown["Accuracy"]) < 1 and 0.6 < number(shown["ROC AUC"]) < 1


@pytest.mark.parametrize(("kind", "y"), [("two", NEW_Y2), ("three", NEW_Y3)])
def test_the_confusion_matrix_counts_the_rows(kind: str, y: Any) -> None:
    model, page = written(kind)
    card = figure(page, "Confusion matrix")
    counted: dict[tuple[str, str], int] = {}
    for title in titles(card):
        [(n_rows, true, share, predicted)] = re.findall(r"([\d,]+) rows of (\w+) \((.*?)\) predicted as (\w+)", title)
        counted[true, predicted] = int(n_rows.replace(",", ""))
        assert close(share, counted[true, predicted] / (y == true).sum(), digits=1)
    expected = confusion_matrix(y, model.predict(NEW_X), labels=model.classes_)
    found = [[counted[true, predicted] for predicted in model.classes_] for true in model.classes_]
    np.testing.assert_array_equal(found, expected)
    written_counts = [int(own.replace(",", "")) for own in re.findall(r'class="count middle">([\d,]+)<', card)]
    assert written_counts == [own for own in expected.ravel().tolist() if own]


@pytest.mark.parametrize(("kind", "y"), [("two", NEW_Y2), ("three", NEW_Y3)])
def test_the_curves_of_classes_have_the_areas_of_scikit_learn(kind: str, y: Any) -> None:
    model, page = written(kind)
    probabilities = model.predict_proba(NEW_X)
    classes = [1] if kind == "two" else [0, 1, 2]
    areas, precisions = legend(figure(page, "ROC")), legend(figure(page, "Precision and recall"))
    assert len(areas) == len(precisions) == len(classes)
    for code, area, precision in zip(classes, areas, precisions, strict=True):
        label, positive = model.classes_[code], y == model.classes_[code]
        assert area.startswith(f"{label} AUC ") and precision.startswith(f"{label} average precision ")
        assert close(area.split()[-1], roc_auc_score(positive, probabilities[:, code]))
        assert close(precision.split()[-1], average_precision_score(positive, probabilities[:, code]))


def test_points_of_the_calibration_curve_are_means_of_their_rows() -> None:
    model, page = written("two")
    stated, happened = model.predict_proba(NEW_X)[:, 1], NEW_Y2 == "yes"
    groups = [
        re.fullmatch(r"(\d+) rows: stated (.*), observed (.*)", own) for own in titles(figure(page, "Calibration"))
    ]
    points = [(int(own[1]), number(own[2]), number(own[3])) for own in groups if own is not None]
    assert len(points) > 2 and sum(n_rows for n_rows, _, _ in points) == 90
    order, first = np.argsort(stated, kind="stable"), 0
    for n_rows, of_stated, observed in points:
        rows = order[first : first + n_rows]
        assert of_stated == pytest.approx(stated[rows].mean(), abs=6e-4)
        assert observed == pytest.approx(happened[rows].mean(), abs=6e-4)
        first += n_rows


def folds(n_rows: int, strata: Any) -> list[tuple[Any, Any]]:
    return [(fold.train.numpy(), fold.val.numpy()) for fold in k_folds(n_rows, strata, 5, 0) if fold.val is not None]


def test_baselines_of_a_classifier_are_those_of_scikit_learn() -> None:
    _, page = written("three")
    classes, codes = np.unique(NEW_Y3, return_inverse=True)
    shown = {name: (score, loss) for name, score, loss in table(page, "Score and loss")}
    models = {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
        "majority class": DummyClassifier(strategy="prior"),
    }
    for name, model in models.items():
        predicted = cross_val_predict(model, NEW_X, codes, cv=folds(90, codes), method="predict_proba")
        score, loss = (own.replace(" %", "\u00a0%") for own in shown[name])
        assert close(score, accuracy_score(codes, predicted.argmax(axis=1)))
        assert close(loss, log_loss(codes, predicted, labels=np.arange(len(classes))))
    assert number(shown["logistic regression"][0]) > number(shown["majority class"][0])


def test_baselines_of_a_regressor_are_those_of_scikit_learn() -> None:
    _, page = written("number")
    shown = {name: (score, loss) for name, score, loss in table(page, "Score and loss")}
    linear = make_pipeline(StandardScaler(), Ridge(alpha=1.0))
    models = {
        "ridge regression": TransformedTargetRegressor(linear, transformer=StandardScaler()),
        "mean": DummyRegressor(),
    }
    for name, model in models.items():
        predicted = cross_val_predict(model, NEW_X, NEW_Y, cv=folds(90, None))
        assert close(shown[name][0], r2_score(NEW_Y, predicted))
        assert close(shown[name][1], mean_squared_error(NEW_Y, predicted))
    drawn = plain(figure(page, "Comparison with baselines"))
    assert shown["ridge regression"][0] in drawn and shown["GNMRegressor"][0] in drawn


@pytest.mark.parametrize("kind", ["number", "own"])
def test_scores_of_a_regressor_are_those_of_scikit_learn(kind: str) -> None:
    model, page = written(kind)
    y, predicted = (Y, model.oof_prediction_) if kind == "own" else (NEW_Y, model.predict(NEW_X))
    shown = tiles(page)
    assert close(shown["R²"], r2_score(y, predicted))
    assert close(shown["RMSE"], root_mean_squared_error(y, predicted))
    assert close(shown["MAE"], mean_absolute_error(y, predicted))
    assert close(shown["Median absolute error"], median_absolute_error(y, predicted))


def test_charts_of_residuals_show_every_row() -> None:
    model, page = written("number")
    predicted = model.predict(NEW_X)
    residuals = NEW_Y - predicted
    for heading in ("Predicted against true", "Residuals"):
        assert figure(page, heading).split('class="points')[0].count("h0") == 90
    card = figure(page, "Distribution of residuals")
    counted = 0
    for title in titles(card):
        [(n_rows, low, high)] = re.findall(r"([\d,]+) rows from (\S+) to (\S+)", title)
        counted += int(n_rows)
        assert number(low) < number(high)
    assert counted == 90
    assert f"smaller than {np.median(np.abs(residuals)):.3g}." in note(card)
    reach = np.abs(np.quantile(residuals, [0.005, 0.995])).max()
    n_beyond = int((np.abs(residuals) > reach).sum())
    assert f"The outermost bars include {n_beyond} row" in note(card) and n_beyond > 0


def test_the_chart_of_intervals_has_their_coverage_and_the_targets_outside() -> None:
    model, page = written("number")
    ends = model.predict_interval(NEW_X, 0.9)
    inside = (ends[:, 0] <= NEW_Y) & (ends[:, 1] >= NEW_Y)
    card = figure(page, "Intervals")
    share = note(card).split(" of the targets")[0]
    assert number(share) == pytest.approx(inside.mean(), abs=6e-4) and not inside.all()
    drawn = np.sort(np.random.default_rng(0).choice(90, 60, replace=False))
    outside = [title for title in titles(card) if title.startswith("true ")]
    assert len(outside) == (~inside[drawn]).sum() > 0
    for title in outside:
        [(true, low, high)] = re.findall(r"true (\S+), interval (\S+) to (\S+)", title)
        assert not number(low) <= number(true) <= number(high)


def test_scores_of_quantiles_and_counts_are_those_of_scikit_learn() -> None:
    levels = [0.1, 0.5, 0.9]
    model = gnmr(loss="quantile", quantile=levels, **LEARNS).fit(X, Y)
    page = report_html(model, NEW_X, NEW_Y, machine=False)
    predicted = model.predict(NEW_X)
    inside = (predicted[:, 0] <= NEW_Y) & (predicted[:, 2] >= NEW_Y)
    assert close(tiles(page)["Coverage"], inside.mean())
    assert close(tiles(page)["MAE"], mean_absolute_error(NEW_Y, predicted[:, 1]))
    # D² of all quantiles is that of the sums of their losses.
    singles = [1 - d2_pinball_score(NEW_Y, own, alpha=level) for own, level in zip(predicted.T, levels, strict=True)]
    assert min(singles) <= 1 - number(tiles(page)["D²"]) <= max(singles)
    assert "The prediction is the quantile 0.5." in note(figure(page, "Predicted against true"))
    model = gnmr(loss="quantile", quantile=0.9, **LEARNS).fit(X, Y)
    page = report_html(model, NEW_X, NEW_Y, machine=False)
    predicted = model.predict(NEW_X)
    assert close(tiles(page)["D²"], d2_pinball_score(NEW_Y, predicted, alpha=0.9))
    assert close(tiles(page)["Quantile loss"], mean_pinball_loss(NEW_Y, predicted, alpha=0.9))
    assert close(tiles(page)["Share below"], (predicted >= NEW_Y).mean())
    assert "R²" not in page and "variance" not in plain(page) and "Quantile loss" in page
    assert [row[0] for row in table(page, "Score and loss")][-2:] == ["shifted ridge regression", "0.9 quantile"]
    counts, new_counts = (np.maximum(own // 10, 0) for own in (Y, NEW_Y))
    model = gnmr(loss="poisson", **LEARNS).fit(X, counts)
    page = report_html(model, NEW_X, new_counts, machine=False)
    assert close(tiles(page)["Poisson deviance"], mean_poisson_deviance(new_counts, model.predict(NEW_X)))
    assert "Poisson deviance" in plain(page.split("Out-of-fold scores")[1]) and "Loss poisson" in plain(page)


def test_several_targets_are_told_apart_by_their_names_and_scores() -> None:
    y, new_y = (pd.DataFrame({"width": own, "mass": 1e6 * table[:, 2]}) for own, table in ((Y, X), (NEW_Y, NEW_X)))
    model = gnmr(**LEARNS).fit(X, y)
    page, predicted = report_html(model, NEW_X, new_y, machine=False), model.predict(NEW_X)
    assert "<title>Predicting width and mass</title>" in page
    rows = table(page, "Scores by target")
    assert [row[0] for row in rows] == ["width", "mass"]
    for place, row in enumerate(rows):
        true, own = new_y.iloc[:, place], predicted[:, place]
        assert close(row[1], r2_score(true, own)) and close(row[2], mean_absolute_error(true, own))
    assert len(figures(page, "Residuals")) == 2
    # Effects are in standard deviations: otherwise the target with the larger unit would hide the other one.
    effects = page.split('<ol class="grid effects">')[1].split("</ol>")[0]
    ticks = [number(own) for own in re.findall(r'class="tick end">([−\d.,]+)</text>', effects)]
    assert max(map(abs, ticks)) < 5
    assert "prediction of each target, in standard deviations from the mean of the target, changes with" in plain(page)


def rows_to_look_at(page: str, heading: str) -> list[int]:
    return [int(row[0]) for row in table(page, f"<h3>{heading}</h3>")]


def test_uncertainty_and_errors_of_several_numbers_are_compared_in_standard_deviations() -> None:
    y, new_y = (pd.DataFrame({"width": own, "mass": 1e6 * table[:, 2]}) for own, table in ((Y, X), (NEW_Y, NEW_X)))
    model = gnmr(**LEARNS).fit(X, y)
    page = report_html(model, NEW_X, new_y, machine=False)
    predicted, deviations = model.predict(NEW_X, return_std=True)
    units = new_y.to_numpy().std(axis=0)
    for heading, found in (
        ("Most uncertain", deviations / units),
        ("Largest errors", np.abs(new_y.to_numpy() - predicted) / units),
    ):
        order = np.argsort(-found.max(axis=1), kind="stable")
        assert rows_to_look_at(page, heading) == order[:8].tolist()
    assert plain(page).count(", relative to the standard deviation of the target.") == 2
    unscaled = np.argsort(-deviations.max(axis=1), kind="stable")[:8].tolist()
    assert rows_to_look_at(page, "Most uncertain") != unscaled


def test_rows_have_their_positions_in_the_table_or_in_the_file_it_was_read_from() -> None:
    model, page = written("number")
    chosen = np.arange(10, 90, 2)
    part = report_html(model, NEW_X[chosen], NEW_Y[chosen], machine=False, file_rows=chosen)
    errors = np.abs(NEW_Y - model.predict(NEW_X))
    worst = np.argsort(-errors, kind="stable")
    assert rows_to_look_at(page, "Largest errors") == worst[:8].tolist()
    assert "Row numbers are positions in the table, starting at 0." in page
    assert rows_to_look_at(part, "Largest errors") == [row + 1 for row in worst if row in chosen][:8]
    with pytest.raises(ValueError, match=r"file_rows has shape \(39,\); expected one position for each of the 40 rows"):
        report_html(model, NEW_X[chosen], NEW_Y[chosen], machine=False, file_rows=chosen[1:])


def test_columns_of_numbers_are_aligned_at_the_right_also_if_they_are_text_with_a_minus() -> None:
    as_text = pd.DataFrame({"temperature": [f"{own:.2f}" for own in NEW_X[:, 0]], "kind": "-a"})
    as_numbers = as_text.assign(temperature=NEW_X[:, 0])
    model = gnmr(**LEARNS).fit(as_numbers.assign(kind=np.where(NEW_X[:, 1] > 0, "-a", "b")), NEW_Y)
    page = report_html(model, as_text, NEW_Y, machine=False).split('<table class="rows">')[1]
    headings = re.findall(
        r'<th scope="col" class="([a-z -]*)"><span title="(kind|temperature)">', page.split("</thead>")[0]
    )
    classes = {name: own for own, name in headings}
    assert re.search(">-[0-9]", page)
    assert "number" in classes["temperature"] and "number" not in classes["kind"]


def test_the_legend_of_effects_on_several_targets_has_their_names() -> None:
    y, new_y = (
        pd.DataFrame({"kind": kinds, "churn": np.where(table[:, 2] > 0, "yes", "no")})
        for kinds, table in ((Y3, X), (NEW_Y3, NEW_X))
    )
    page = report_html(gnm(n_nodes=40, **LEARNS).fit(X, y), NEW_X, new_y, machine=False)
    shown = legend(page.split('id="columns-heading"')[1].split("<ol")[0])
    assert shown == ["kind = high", "kind = low", "kind = middle", "churn = no", "churn = yes"]


def test_few_of_many_classes_with_curves_are_counted() -> None:
    codes = np.arange(120) % 8
    page = report_html(gnm(n_nodes=60, n_folds=1).fit(X, codes), X, codes, machine=False)
    assert "how the probability of each of the 6 most affected classes changes with" in plain(page)
    assert "Stronger colors mean larger shares" in note(figure(page, "Confusion matrix"))
