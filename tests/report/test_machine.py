"""The interactive page of a small machine, in a real browser: it draws what the estimator is and predicts what it predicts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import torch

from tabgnm import GNMRegressor
from tabgnm.estimators.model_file import from_bytes, to_bytes
from tabgnm.estimators.small_machines import at_place
from tabgnm.report.machine import MAX_EDGES, machine_data, machine_html
from tests.browser import browser, page
from tests.estimators.examples import numbers
from tests.export.program_examples import frame as every_kind
from tests.export.small_models import mixed_table, small_model

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["browser", "page"]  # fixtures

TEMPLATES = Path(__file__).parents[2] / "tabgnm" / "report" / "templates"
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a'b\n\u2028c",
    "__proto__",
    "🙂 {{ 7*7 }}",
    "</section>",
]


def table(n_rows: int = 240, seed: int = 0) -> pd.DataFrame:
    """A column of each kind, with missing cells."""
    rng = np.random.default_rng(seed)
    X = mixed_table(seed).iloc[:n_rows].drop(columns=["lambda", "relu", "h0", "y", "year of sale"])
    X["took"] = pd.to_timedelta(rng.integers(0, 5000, len(X)), unit="s")
    return X


@cache
def with_path(kind: str, n_more_columns: int = 0) -> Any:
    """An estimator with a path of machines of random weights, of which fewer and fewer are not 0; saved and loaded."""
    X = table()
    rng = np.random.default_rng(0)
    more = pd.DataFrame(rng.normal(size=(len(X), n_more_columns))).add_prefix("a column with the name ")
    X = pd.concat([X, more], axis=1)
    codes = np.arange(len(X))
    y: Any = {
        "numbers": codes * 0.5,
        "counts": codes % 5 * 1.0,
        "binary": np.array(["no", "yes"])[codes % 2],
        "multiclass": codes % 3,
        "two targets": np.column_stack([codes * 0.5, codes % 5 * 1.0]),
    }[kind]
    loss = {} if kind in ("binary", "multiclass") else {"loss": "poisson" if kind == "counts" else "mse"}
    model = small_model(X, y, density=0.9, n_nodes=45 + n_more_columns, n_layers=3, clamp_inputs=True, **loss)
    [group] = model.fitted_.groups
    order = {name: torch.as_tensor(rng.uniform(size=value.shape)) for name, value in group.parameters.items()}
    model._path, model._path_fitted = [], []
    for share in (1.0, 0.4, 0.25, 0.17, 0.12, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02):
        kept = {name: value * (order[name] < share) * 0.6 for name, value in group.parameters.items()}
        fitted = replace(model.fitted_, groups=[replace(group, parameters=kept)])
        model._path_fitted.append(fitted)
        model.fitted_ = fitted
        measures = {"loss": 1.0, "loss_se": 0.1, "score": 0.5 + share / 3, "score_std": 0.01}
        machine = model.machine_
        n_columns = len({group.encoder.owners[place] for place in machine.used_inputs})
        counts = {"edges": machine.n_edges, "columns": n_columns, "hidden": machine.n_hidden}
        model._path.append(counts | measures | {"chosen": False})
    return from_bytes(to_bytes(at_place(model, 2, model._names, True)))


def random_rows(X: pd.DataFrame, n_rows: int = 60, seed: int = 1) -> pd.DataFrame:
    """Rows whose cells are drawn column by column, some missing, some levels and numbers never seen."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({name: X[name].iloc[rng.integers(0, len(X), n_rows)].to_numpy() for name in X})
    for name in X:
        values = rows[name].astype(object)
        if X[name].dtype == object:
            values[rng.uniform(size=n_rows) < 0.15] = "never seen"
        elif X[name].dtype.kind == "f":
            far = rng.uniform(size=n_rows) < 0.15
            values[far] = rng.normal(scale=1000.0, size=int(far.sum()))
        missing = rng.uniform(size=n_rows) < 0.15
        values[missing] = None
        kept = X[name].dtype if X[name].dtype.kind in "fMm" else object
        rows[name] = pd.Series(values.to_list(), dtype=kept)
        if isinstance(X[name].dtype, pd.CategoricalDtype):
            rows[name] = rows[name].astype(X[name].dtype)
    return rows


def as_cells(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as the page takes them: dates as text, durations in seconds, None where a cell is missing."""

    def cell(value: Any) -> Any:
        if value is None or value is pd.NaT or value != value:
            return None
        if isinstance(value, pd.Timestamp):
            return value.isoformat()
        if isinstance(value, pd.Timedelta):
            return value.total_seconds()
        if hasattr(value, "isoformat"):
            return value.isoformat()
        return value.item() if isinstance(value, np.generic) else value

    return [{name: cell(row[name]) for name in rows} for _, row in rows.astype(object).iterrows()]


def open_page(page: Page, model: Any, tmp_path: Path, **options: Any) -> None:
    path = tmp_path / "machine.html"
    path.write_text(machine_html(model, **options), encoding="utf-8")
    page.goto(path.as_uri())


def predicted_in_page(page: Page, rows: pd.DataFrame, size: int | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate(
        "([rows, size]) => JSON.parse(rows).map((row) => window.tabgnmMachine.predict(row, size ?? undefined))",
        [json.dumps(as_cells(rows)), size],
    )
    return found


def assert_same_predictions(found: list[dict[str, Any]], model: Any, rows: pd.DataFrame) -> None:
    expected = model.predict(rows)
    if not hasattr(model, "classes_"):
        numbers = np.array([own["numbers"] for own in found])
        scale = 1e-4 * np.maximum(np.abs(expected), expected.std(axis=0))
        assert (np.abs(numbers.reshape(expected.shape) - expected) <= scale).all()
        return
    probabilities = model.predict_proba(rows)
    parts = probabilities if isinstance(probabilities, list) else [probabilities]
    if model.fitted_.targets.kind == "multilabel":
        parts = [np.column_stack([1 - part, part]) for part in probabilities.T]
    for target, part in enumerate(parts):
        np.testing.assert_allclose([own["probabilities"][target] for own in found], part, rtol=1e-4, atol=1e-6)
        clear = np.diff(np.sort(part, axis=1), axis=1)[:, -1:].ravel() > 1e-5 if part.shape[1] > 1 else slice(None)
        labels = np.array([own["labels"][target] for own in found])
        assert (labels == np.asarray(expected).reshape(len(rows), -1)[:, target])[clear].all()


# Data


def test_the_data_names_every_size_of_the_path_and_what_was_chosen() -> None:
    model = with_path("numbers")
    data = machine_data(model)
    assert data is not None
    path = model.sparsity_path_
    assert [own["edges"] for own in data["sizes"]] == list(path["edges"])
    assert [own["score"] for own in data["sizes"]] == list(path["score"])
    assert [own["chosen"] for own in data["sizes"]] == list(path["chosen"])
    for place, own in enumerate(data["sizes"]):
        machine = own["machine"]
        units = at_place(model, place, model._names, True).machine_.units
        assert [len(unit["sources"]) for unit in machine["units"]] == [len(unit.sources) for unit in units]


def test_each_unit_has_its_equation_in_the_names_of_the_table() -> None:
    model = with_path("numbers")
    data = machine_data(model)
    assert data is not None
    [chosen] = [own for own in data["sizes"] if own["chosen"]]
    whole = model.equations(digits=4)
    equations = [unit["equation"] for unit in chosen["machine"]["units"] if len(unit["sources"]) < 50]
    assert len(equations) > 10 and all(own in whole for own in equations)
    assert any("relu(" in own and "[city = Oslo]" in own for own in equations)


def test_a_machine_without_a_path_is_a_single_size(page: Page, tmp_path: Path) -> None:
    model = small_model(table(), np.arange(240) % 7 * 1.0)
    data = machine_data(model)
    assert data is not None and len(data["sizes"]) == 1
    open_page(page, model, tmp_path)
    assert not page.locator("#machine-size").is_visible() and page.locator("#machine-drawing .edge").count() > 0


def test_targets_have_the_names_that_y_had_unless_others_are_given() -> None:
    codes = np.arange(240) % 7 * 1.0
    model = small_model(table(), pd.DataFrame({"price": codes, "cost": -codes}))
    data, renamed = machine_data(model), machine_data(model, target=["Price", "Cost"])
    assert data is not None and data["targets"] == data["outputs"] == ["price", "cost"]
    assert renamed is not None and renamed["targets"] == ["Price", "Cost"]
    unnamed = machine_data(small_model(table(), codes))
    assert unnamed is not None and unnamed["targets"] == []


def test_packs_are_no_small_machine() -> None:
    model = GNMRegressor(n_candidates=1, n_folds=2, max_epochs=1, patience=None).fit(np.eye(20), np.arange(20.0))
    assert machine_data(model) is None
    with pytest.raises(ValueError, match=r"is not a single small machine.*call distill\(X\)"):
        machine_html(model)


def test_the_data_of_a_hundred_columns_stay_well_below_a_megabyte() -> None:
    data = machine_data(with_path("binary", n_more_columns=100))
    assert data is not None and len(data["columns"]) > 100
    sizes = data["sizes"]
    assert len(sizes) == 12 and sizes[0]["edges"] > MAX_EDGES and sizes[0]["machine"] is None
    assert sum(own["edges"] for own in sizes if own["machine"]) > 2_000
    assert len(json.dumps(data)) < 600_000


def test_templates_have_nothing_that_jinja_or_a_browser_would_take_for_its_own() -> None:
    for path in [*TEMPLATES.glob("machine*.js"), TEMPLATES / "machine.css"]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\{\{|\{%|\{#|</|innerHTML|insertAdjacentHTML|document\.write|eval\(", text), path.name


# Predictions


@pytest.mark.parametrize("kind", ["numbers", "counts", "binary", "multiclass", "two targets"])
def test_every_size_predicts_in_the_page_what_its_estimator_predicts(kind: str, page: Page, tmp_path: Path) -> None:
    model = with_path(kind)
    open_page(page, model, tmp_path)
    rows = random_rows(table())
    for place in range(0, len(model._path), 3):
        estimator = at_place(model, place, model._names, True)
        assert_same_predictions(predicted_in_page(page, rows, place), estimator, rows)


LABELS = ["no", "yes", "maybe"]


@pytest.mark.parametrize(
    ("scaling", "activation"), [("standard", "relu"), ("robust", "gelu"), ("quantile", "mish"), ("none", "silu")]
)
def test_every_kind_of_column_and_scaling_is_computed(
    scaling: str, activation: str, page: Page, tmp_path: Path
) -> None:
    X = every_kind(nasty=True)
    y = np.array(LABELS)[np.arange(len(X)) % 3]
    model = small_model(
        X, y, scaling=scaling, activation=activation, n_nodes=80, n_layers=3, density=0.08, max_one_hot=20
    )
    open_page(page, model, tmp_path)
    rows = every_kind(40, seed=5, nasty=True)
    assert_same_predictions(predicted_in_page(page, rows), model, rows)


@pytest.mark.parametrize("kind", ["multilabel", "joint", "one class", "quantiles", "two numbers"])
def test_every_kind_of_target_is_predicted(kind: str, page: Page, tmp_path: Path) -> None:
    X = table()
    codes = np.arange(len(X))
    several = {"loss": "quantile", "quantile": [0.1, 0.5, 0.9]} if kind == "quantiles" else {}
    y: Any = {
        "multilabel": np.column_stack([codes % 2, codes % 3 == 0]).astype(int),
        "joint": np.column_stack([codes % 3, codes % 2]),
        "one class": np.full(len(X), "only"),
        "quantiles": codes * 0.5,
        "two numbers": np.column_stack([codes * 0.5, codes % 5 * 1.0]),
    }[kind]
    model = small_model(X, y, **several)
    open_page(page, model, tmp_path)
    rows = random_rows(X)
    assert_same_predictions(predicted_in_page(page, rows), model, rows)


def test_an_absent_column_is_an_error_that_names_it(page: Page, tmp_path: Path) -> None:
    open_page(page, with_path("numbers"), tmp_path)
    message = page.evaluate(
        "() => { try { window.tabgnmMachine.predict({}); } catch (error) { return error.message; } }"
    )
    assert re.fullmatch(r'column ".*" is missing from the row', message)


# The drawing


def edges_shown(page: Page) -> int:
    return page.locator("#machine-drawing .edge").count()


def fact(page: Page, name: str) -> str:
    return page.locator(".fact", has_text=name).locator("strong").inner_text()


def test_the_slider_shows_every_size_with_its_edges_columns_and_score(page: Page, tmp_path: Path) -> None:
    model = with_path("numbers")
    open_page(page, model, tmp_path)
    path = model.sparsity_path_.iloc[::-1]
    slider = page.locator("#machine-size")
    assert slider.input_value() == str(list(path["chosen"]).index(True))
    slider.focus()
    page.keyboard.press("Home")
    seen = []
    for place, own in enumerate(path.itertuples()):
        assert slider.input_value() == str(place)
        assert int(fact(page, "edge").replace(",", "")) == own.edges
        assert int(fact(page, "column")) == own.columns
        assert fact(page, "R²") == f"{own.score:.3f} ± {own.score_std:.3f}"
        assert f"{own.edges:,} edge" in str(slider.get_attribute("aria-valuetext"))
        assert page.locator("#what-if-form .field").count() == own.columns
        seen.append(edges_shown(page))
        page.keyboard.press("ArrowRight")
    assert len(set(seen)) > 3 and seen[0] < seen[-1]
    page.locator("#machine-chosen").click()
    assert slider.input_value() == str(list(path["chosen"]).index(True))


def test_edges_are_told_apart_by_width_colour_and_dashes(page: Page, tmp_path: Path) -> None:
    open_page(page, with_path("multiclass"), tmp_path)
    styles = page.evaluate(
        """() => [...document.querySelectorAll("#machine-drawing .edge")].map((edge) => {
          const own = getComputedStyle(edge);
          return [edge.classList.contains("negative"), own.stroke, own.strokeDasharray, parseFloat(edge.getAttribute("stroke-width"))];
        })"""
    )
    looks = {
        negative: {(stroke, dashes) for own, stroke, dashes, _ in styles if own == negative}
        for negative in (True, False)
    }
    assert len(looks[True]) == len(looks[False]) == 1
    [(stroke, dashes)], [(other_stroke, other_dashes)] = looks[True], looks[False]
    assert stroke != other_stroke and dashes != "none" and other_dashes == "none"
    assert len({width for *_, width in styles}) > 5


def test_beyond_200_edges_the_strongest_are_drawn_and_all_on_demand(page: Page, tmp_path: Path) -> None:
    model = small_model(table(), np.arange(240) % 7 * 1.0, density=0.5, n_layers=2)
    n_edges = sum(len(unit.sources) for unit in model.machine_.units)
    assert 300 < n_edges < MAX_EDGES
    open_page(page, model, tmp_path)
    assert edges_shown(page) == 200
    note = page.locator("#machine-note")
    assert f"Of the other {n_edges:,} edges, the 200 strongest are drawn" in note.inner_text()
    note.get_by_role("button").click()
    assert edges_shown(page) == n_edges


def test_units_of_a_small_machine_show_what_moves_them_most(page: Page, tmp_path: Path) -> None:
    open_page(page, with_path("numbers"), tmp_path)
    page.locator("#machine-size").focus()
    page.keyboard.press("Home")
    numbers = [name for name in table() if table()[name].dtype.kind == "f"]
    for _ in with_path("numbers")._path:
        captions = page.locator("#machine-drawing .node.hidden .caption").all_text_contents()
        moved = [caption for caption in captions if caption.partition(" · ")[2] in numbers]
        if moved:
            break
        page.keyboard.press("ArrowRight")
    assert {caption.partition(" · ")[2] for caption in captions} <= {*table(), ""}
    node = page.locator("#machine-drawing .node.hidden", has_text=moved[0]).first
    assert len(str(node.locator(".mini").get_attribute("d")).split("L")) == 31
    before = node.locator(".mini-now").get_attribute("cx")
    field = page.get_by_label(moved[0].partition(" · ")[2], exact=True)
    field.fill(str(float(field.input_value()) * 1.1))
    assert node.locator(".mini-now").get_attribute("cx") != before


def test_of_many_classes_the_most_probable_are_listed(page: Page, tmp_path: Path) -> None:
    X = table()
    model = small_model(X, np.array(list("abcdefghijklmnop"))[np.arange(len(X)) % 16], n_nodes=70)
    open_page(page, model, tmp_path, examples=X.head(1))
    page.locator("#what-if-start").select_option("1")
    [row] = model.predict_proba(X.head(1))
    best = [str(model.classes_[place]) for place in np.argsort(-row)[:10]]
    assert [name.removeprefix("▸ ") for name in page.locator(".probability .name").all_inner_texts()] == best
    assert "6 other classes" in page.locator("#what-if-result").inner_text()
    assert page.locator("#machine-drawing .node.output").count() == 16


def test_pointing_at_an_edge_tells_its_ends_and_weight(page: Page, tmp_path: Path) -> None:
    open_page(page, with_path("binary"), tmp_path)
    page.locator("#machine-drawing .edge-area").last.dispatch_event("pointerenter")
    text = page.locator("#machine-tip").inner_text()
    assert re.search(r" → .*\nweight [+−][\d.]+", text)
    assert page.locator("#machine-drawing .edge.marked").count() == 1
    page.locator("#machine-drawing .edge-area").last.dispatch_event("pointerleave")
    assert not page.locator("#machine-tip").is_visible()


def test_a_node_opens_and_closes_by_mouse(page: Page, tmp_path: Path) -> None:
    open_page(page, with_path("numbers"), tmp_path)
    panel = page.locator("#machine-panel")
    assert not panel.is_visible()
    page.locator("#machine-drawing .node.hidden").first.click()
    assert panel.is_visible()
    text = panel.inner_text()
    for heading in ("Equation", "What it responds to", "Current terms of the sum", "Where it is used"):
        assert heading in text
    assert re.search(r"h\d+\S* = relu\(", text)
    assert panel.locator("svg.response").count() == 1
    page.locator("#machine-panel-close").click()
    assert not panel.is_visible()


def test_a_node_is_reached_opened_and_closed_by_keyboard(page: Page, tmp_path: Path) -> None:
    open_page(page, with_path("numbers"), tmp_path)
    page.locator("#machine-chosen").focus()
    page.locator("#machine-size").focus()
    for _ in range(6):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.closest('.node') !== null"):
            break
    first = page.evaluate("() => document.activeElement.dataset.value")
    assert first is not None, "the drawing is one stop of the tab key"
    page.keyboard.press("ArrowRight")
    node = page.evaluate(
        "() => [document.activeElement.dataset.value, document.activeElement.getAttribute('aria-label')]"
    )
    assert node[0] != first and "hidden unit" in node[1]
    page.keyboard.press("Enter")
    panel = page.locator("#machine-panel")
    assert panel.is_visible()
    assert page.evaluate("() => document.activeElement.id") == "machine-panel-title"
    page.locator(".edge-link").first.focus()
    assert page.locator("#machine-tip").is_visible(), "edges are reached through the panel"
    page.keyboard.press("Escape")
    assert not panel.is_visible()
    assert page.evaluate("() => document.activeElement.dataset.value") == node[0], "focus is back at the node"


# What if


def test_several_targets_have_their_names_in_the_drawing_and_the_predictions(page: Page, tmp_path: Path) -> None:
    X, _, target = numbers()
    model = small_model(X, np.column_stack([target, X[:, 2]]))
    open_page(page, model, tmp_path, target=["width", "mass"])
    assert page.locator("#what-if-result .name").all_inner_texts() == ["width", "mass"]
    assert {"width", "mass"} <= set(page.locator("#machine-drawing").inner_text().split("\n"))
    told = page.locator("#what-if-curves").inner_text()
    assert told.startswith("The small curves show the prediction of width over each column, with the other values")
    assert told.endswith("To see the curves of another output, select it in the drawing above.")
    assert str(page.locator(".spark").first.get_attribute("title")).startswith("The prediction of width over ")


@pytest.mark.parametrize(
    ("kind", "shown"), [("joint", "probability of first = "), ("multilabel", "probability of first")]
)
def test_curves_say_which_class_of_which_target_they_show(kind: str, shown: str, page: Page, tmp_path: Path) -> None:
    X, labels, target = numbers()
    first = labels if kind == "multilabel" else np.digitize(target, [40, 60])
    model = small_model(X, np.column_stack([first, (X[:, 2] > 0).astype(int)]))
    open_page(page, model, tmp_path, target=["first", "second"])
    told = page.locator("#what-if-curves").inner_text()
    likely = page.locator("#what-if-result .largest .name").first.inner_text().removeprefix("▸ ")
    assert f"the {shown}{likely if kind == 'joint' else ''} over each column" in told


def test_on_a_phone_predictions_of_two_targets_are_seen_at_once(page: Page, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 380, "height": 740})
    X, _, target = numbers()
    kinds = np.digitize(target, [40, 60])
    for model in (
        small_model(X, np.column_stack([target, X[:, 2]])),
        small_model(X, np.column_stack([kinds, (X[:, 2] > 0).astype(int)])),
    ):
        open_page(page, model, tmp_path, target=["width", "mass"])
        hidden = page.locator(".result-card").evaluate("(own) => own.scrollHeight - own.clientHeight")
        assert hidden <= 0


def test_changing_a_value_moves_the_prediction_to_that_of_the_estimator(page: Page, tmp_path: Path) -> None:
    model = with_path("numbers")
    X = table().head(3)
    open_page(page, model, tmp_path, examples=X, target="price")
    page.locator("#what-if-start").select_option("1")
    shown = page.locator(".prediction strong")
    row = X.iloc[[0]].copy()

    def expected() -> str:
        [number] = model.predict(row)
        n_digits = next((own for size, own in ((1000, 0), (100, 1), (1, 2)) if abs(number) >= size), 3)
        text = f"{number:,.{n_digits}f}".replace("-", "−")
        return text.rstrip("0").rstrip(".") if n_digits else text

    assert shown.inner_text() == expected()
    assert page.locator(".prediction .name").inner_text() == "price"
    age = page.get_by_label("age", exact=True)
    age.fill("33")
    row["age"] = 33.0
    assert shown.inner_text() == expected()
    page.get_by_label("Set age to missing").click()
    row["age"] = np.nan
    assert shown.inner_text() == expected() and age.input_value() == ""
    city = page.get_by_label("city", exact=True)
    for option, cell in (("Rome", "Rome"), ("(unknown level)", "elsewhere"), ("(missing)", None)):
        city.select_option(label=option)
        row["city"] = pd.Series([cell], dtype=object, index=row.index)
        assert shown.inner_text() == expected(), option
    page.locator("#what-if-live").get_by_text(f"Prediction: price {expected()}").wait_for(state="attached")
    page.locator("#what-if-reset").click()
    row = X.iloc[[0]].copy()
    assert shown.inner_text() == expected()


def test_probabilities_are_bars_that_move_and_the_drawing_lives(page: Page, tmp_path: Path) -> None:
    model = with_path("binary")
    open_page(page, model, tmp_path)
    before = page.locator(".probability .share").all_inner_texts()
    drawn = page.locator("#machine-drawing .output .value").text_content()
    strengths = "() => [...document.querySelectorAll('#machine-drawing .edge')].map((edge) => edge.style.getPropertyValue('--strength'))"
    edges = page.evaluate(strengths)
    page.get_by_label("age, slider").evaluate("(own) => { own.value = 20; own.dispatchEvent(new Event('input')); }")
    after = page.locator(".probability .share").all_inner_texts()
    assert before != after and drawn != page.locator("#machine-drawing .output .value").text_content()
    assert edges != page.evaluate(strengths)
    assert abs(sum(float(own.removesuffix(" %")) for own in after) - 100) < 0.11
    assert page.locator(".probability.largest .name").inner_text().startswith("▸")


def test_another_size_predicts_from_the_same_row(page: Page, tmp_path: Path) -> None:
    model = with_path("numbers")
    open_page(page, model, tmp_path, examples=table().head(1))
    page.locator("#what-if-start").select_option("1")
    page.locator("#machine-size").focus()
    page.keyboard.press("Home")
    smallest = at_place(model, len(model._path) - 1, model._names, True)
    shown = float(page.locator(".prediction strong").inner_text().replace(",", ""))
    assert shown == pytest.approx(smallest.predict(table().head(1))[0], abs=0.6)


# Safety and looks


def test_hostile_names_stay_text(page: Page, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({HOSTILE[0]: rng.normal(size=240), HOSTILE[3]: rng.normal(size=240)})
    X[HOSTILE[1]] = rng.choice(HOSTILE, 240)
    X[HOSTILE[2]] = rng.choice(HOSTILE[:2], 240)
    X[HOSTILE[4]] = rng.normal(size=240)
    y = np.array(HOSTILE)[rng.integers(0, 6, 240)]
    model = small_model(X, y, density=0.6, n_nodes=40)
    html = machine_html(model, title=HOSTILE[0], target=HOSTILE[1], examples=X.head(2))
    assert "<script>alert(1)" not in html and "<img" not in html and "\u2028" not in html
    alerts: list[str] = []
    page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
    open_page(page, model, tmp_path, title=HOSTILE[0], target=HOSTILE[1], examples=X.head(2))
    for kind in ("input", "hidden", "output"):
        page.locator(f"#machine-drawing .node.{kind}").first.click()
    assert not alerts and page.locator("img").count() == 0 and page.locator("script").count() == 2
    labels = page.locator("#what-if-form label").all_text_contents()
    assert set(labels) <= set(X) and HOSTILE[0] in labels and HOSTILE[3] in labels
    assert page.locator(".probability .name").count() == 6
    rows = random_rows(X, 20)
    assert_same_predictions(predicted_in_page(page, rows), model, rows)


def test_a_drawing_shrinks_beside_a_panel_and_shadows_show_where_it_continues(page: Page, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 1080, "height": 800})
    open_page(page, with_path("multiclass"), tmp_path)
    drawing, frame = page.locator("#machine-drawing"), page.locator(".machine-frame")
    page.locator("#machine-drawing .node.output").first.click()
    page.wait_for_function("() => document.getElementById('machine-drawing').clientWidth < 680")
    width = "(own) => own.firstChild.getBoundingClientRect().width - own.clientWidth"
    assert drawing.evaluate(width) <= 0
    assert "more" not in str(frame.get_attribute("class"))
    # Tips are where the nodes are, also of a smaller drawing.
    page.locator("#machine-drawing .node.output").first.focus()
    tip, node = page.locator("#machine-tip").bounding_box(), page.locator(".node.output").first.bounding_box()
    assert tip is not None and node is not None
    assert tip["x"] < node["x"] + node["width"] and tip["y"] < node["y"] + node["height"] + 40
    page.set_viewport_size({"width": 380, "height": 800})
    open_page(page, with_path("multiclass"), tmp_path)
    page.wait_for_function("() => document.querySelector('.machine-frame.more-right')")
    assert drawing.evaluate(width) > 0 and "more-left" not in str(frame.get_attribute("class"))
    drawing.evaluate("(own) => own.scrollTo(10_000, 0)")
    page.wait_for_function("() => document.querySelector('.machine-frame.more-left:not(.more-right)')")


@pytest.mark.parametrize("width", [360, 1400])
def test_only_the_drawing_scrolls_sideways(width: int, page: Page, tmp_path: Path) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    open_page(page, with_path("multiclass"), tmp_path, examples=table().head(2))
    page.locator("#machine-drawing .node.hidden").first.click()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    scrolls = page.evaluate(
        "() => { const own = document.getElementById('machine-drawing'); return own.scrollWidth > own.clientWidth; }"
    )
    assert scrolls == (width == 360)


def test_the_page_has_one_global_and_colours_of_the_page_around_it(page: Page, tmp_path: Path) -> None:
    open_page(page, with_path("numbers"), tmp_path)
    page.evaluate("() => document.documentElement.style.setProperty('--negative', 'rgb(1, 2, 3)')")
    stroke = "() => getComputedStyle(document.querySelector('.edge.negative')).stroke"
    assert page.evaluate(stroke) == "rgb(1, 2, 3)"
    own = page.evaluate(
        "() => Object.keys(window).filter((name) => /machine|app|SVG$/i.test(name) && window[name] && !name.startsWith('on'))"
    )
    assert "tabgnmMachine" in own and "app" not in own and "Machines" not in own
