"""What columns contribute to single predictions."""

from __future__ import annotations

import io
import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.inspection import permutation_importance

import tabgnm
from tabgnm.estimators.explanation import Explanation
from tests.estimators.examples import LEARNS, frame, gnm, gnmr, mlp, mlpr, numbers

TABLE = frame(80)
TARGET = TABLE["count"] + TABLE["size"].fillna(-3)


def completed(explanation: Explanation) -> Any:
    return explanation.base_values + explanation.values.sum(axis=1)


@pytest.mark.parametrize("n_base", [1, 7])
def test_contributions_to_a_linear_machine_are_weights_times_differences(n_base: int) -> None:
    X, _, target = numbers(60)
    model = gnmr(n_layers=1, n_nodes=6, numeric_embedding=None, scaling="standard", n_folds=0).fit(X, target)
    origin = model.predict(np.zeros((1, 4)))
    weights = model.predict(np.eye(4)) - origin
    base = X[:n_base]
    explanation = model.explain(X[10:30], base)
    np.testing.assert_allclose(explanation.values, (X[10:30] - base.mean(axis=0)) * weights, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(explanation.base_values, model.predict(base).mean(), rtol=1e-6)


def shapley_values(predict: Any, row: Any, base: Any) -> Any:
    """Return the mean over all orders of columns of what replacing a column of the base by that of the row changes."""
    n_columns = len(row)
    values = np.zeros(n_columns)
    for column in range(n_columns):
        others = [other for other in range(n_columns) if other != column]
        for size in range(n_columns):
            weight = math.factorial(size) * math.factorial(n_columns - size - 1) / math.factorial(n_columns)
            for subset in itertools.combinations(others, size):
                without = base.copy()
                without[list(subset)] = row[list(subset)]
                with_it = without.copy()
                with_it[column] = row[column]
                values[column] += weight * np.diff(predict(np.array([without, with_it], dtype=row.dtype)))[0]
    return values


@pytest.mark.parametrize("embedding", [None, "periodic", "piecewise"])
def test_contributions_to_an_additive_model_are_shapley_values(embedding: str | None) -> None:
    X, _, target = numbers(60)
    X = X.astype(object)
    X[:, 3] = np.where(X[:, 3].astype(float) > 0, "high", np.where(X[:, 2].astype(float) > 0, "middle", "low"))
    model = mlpr(hidden=(8,), n_folds=0, numeric_embedding=embedding).fit(X, target)
    [group] = model.fitted_.groups
    inputs = model.graph()[0].nodes(data=True)
    columns = [int(own["column"][1:]) for _, own in inputs if own["kind"] == "input"]
    [weights] = [value for value in group.parameters.values() if value.shape[-2:] == (len(columns), 8)]
    for place, column in enumerate(columns):  # each hidden unit reads one column
        weights[:, place, [unit for unit in range(8) if unit % 4 != column]] = 0
    explanation = model.explain(X[:3], X[10:11])
    for row, values in zip(X[:3], explanation.values, strict=True):
        np.testing.assert_allclose(values, shapley_values(model.predict, row, X[10]), atol=0.01)
    assert np.abs(explanation.values).max() > 1


def _graph(draw: Any) -> dict[str, Any]:
    variants = {"combine": st.sampled_from(["none", "residual", "gated"]), "clamp_inputs": st.booleans()}
    return {"n_nodes": 60, "n_layers": draw(st.integers(1, 3)), **{k: draw(v) for k, v in variants.items()}}


@st.composite
def models(draw: Any) -> tuple[Any, Any]:
    """Return a model with random settings that was trained for a moment, and its table."""
    make = draw(st.sampled_from([mlp, gnm, mlpr, gnmr]))
    classes = make in (mlp, gnm)
    options = {
        "activation": draw(st.sampled_from(["relu", "silu", "tanh"])),
        "numeric_embedding": draw(st.sampled_from([None, "periodic", "piecewise"])),
        "scaling": draw(st.sampled_from(["standard", "quantile", "robust"])),
        "max_one_hot": draw(st.sampled_from([1, 20])),
        "n_folds": draw(st.sampled_from([0, 2])),
        "max_epochs": 2,
        "random_state": draw(st.integers(0, 100)),
        **({"hidden": (8, 8)} if make in (mlp, mlpr) else _graph(draw)),
    }
    table = frame(40, seed=draw(st.integers(0, 5)))
    n_outputs = draw(st.integers(1, 3))
    target = table["count"].to_numpy() + np.arange(40.0)
    if classes:
        y = np.digitize(target, [np.median(target)] if n_outputs == 1 else np.quantile(target, [0.3, 0.6]))
    else:
        y = target if n_outputs == 1 else np.column_stack([target * place for place in range(n_outputs)])
    return make(**options).fit(table, y), table


@settings(max_examples=12, deadline=None)
@given(models(), st.sampled_from(["none", "row", "rows"]), st.booleans())
def test_contributions_add_up_to_the_prediction_of_any_model(
    model_and_table: tuple[Any, Any], base: str, log_odds: bool
) -> None:
    model, table = model_and_table
    base_rows = {"none": None, "row": table[5:6], "rows": table[:12]}[base]
    is_classifier = hasattr(model, "classes_")
    options = {"output": "log_odds"} if log_odds and is_classifier else {}
    explanation = model.explain(table[:10], base_rows, **options)
    expected, of_base = (_predicted(model, rows, **options) for rows in (table[:10], table[:1]))
    unit = 1.0 if is_classifier else float(np.abs(expected).max())
    np.testing.assert_allclose(completed(explanation), expected, atol=2e-5 * unit)
    assert explanation.values.shape[:2] == (10, 6) and explanation.values.shape[2:] == of_base.shape[1:]
    if base_rows is not None:
        of_base = _predicted(model, base_rows, **options).mean(axis=0)
        np.testing.assert_allclose(explanation.base_values, np.broadcast_to(of_base, expected.shape), atol=2e-5 * unit)
    # What had to be distributed was little: usually less than 0.1 %, and at most 0.5 %.
    size = np.maximum(np.abs(explanation.values).sum(axis=1), 1.0 if is_classifier else 0.0)
    errors = np.maximum(np.abs(explanation.residuals) - 1e-5 * unit, 0.0)
    assert (errors <= 5e-3 * size).all()
    assert (errors <= 1e-3 * size).mean() >= 0.8


def _predicted(model: Any, rows: Any, output: str = "prediction") -> Any:
    if not hasattr(model, "classes_"):
        return model.predict(rows)
    probabilities = model.predict_proba(rows)
    probabilities = probabilities[:, 1] if probabilities.shape[1] == 2 else probabilities
    return np.log(probabilities / (1 - probabilities)) if output == "log_odds" else probabilities


def test_small_steps_bring_kinks_within_the_tolerance_and_large_ones_leave_more_to_distribute() -> None:
    X, _, target = numbers(200)
    model = mlpr(hidden=(16, 16), activation="relu", numeric_embedding=None, n_folds=0, **LEARNS).fit(
        X, np.abs(target - 50)
    )
    few, many = (model.explain(X[:20], X[:1], n_steps=n_steps) for n_steps in (2, 1024))
    assert np.abs(many.residuals).max() < np.abs(few.residuals).max()
    for explanation in (few, many):
        np.testing.assert_allclose(completed(explanation), model.predict(X[:20]), rtol=1e-5)
    assert (np.abs(many.residuals) <= 1e-3 * np.abs(many.values).sum(axis=1)).all()


def test_errors_of_several_targets_and_many_bases_are_usually_less_than_a_thousandth() -> None:
    X, _, target = numbers(200)
    y = np.column_stack([target, np.abs(target - 50), X[:, 2] * X[:, 3]])
    model = mlpr(hidden=(16, 16), activation="relu", numeric_embedding=None, n_folds=0, **LEARNS).fit(X, y)
    explanation = model.explain(X[:40], X)
    errors = np.abs(explanation.residuals) / np.abs(explanation.values).sum(axis=1)
    assert errors.max() <= 5e-3 and (errors <= 1e-3).mean() >= 0.9


def test_the_base_without_rows_has_typical_numbers_and_equal_shares_of_levels() -> None:
    table = pd.DataFrame({"number": [1.0, 2.0, 6.0] * 20, "level": pd.Series(["a", "b", "c"] * 20, dtype=object)})
    target = table["number"] + (table["level"] == "a")
    linear = {"numeric_embedding": None, "scaling": "standard", "n_layers": 1, "n_nodes": 8, "n_folds": 0}
    model = gnmr(**linear).fit(table, target)
    explanation = model.explain(table[:1])
    mean = pd.DataFrame({"number": [3.0] * 3, "level": ["a", "b", "c"]})  # linear: the mean of all levels
    assert explanation.base_values[0] == pytest.approx(model.predict(mean).mean(), rel=1e-5)
    embedded = mlpr(max_one_hot=1).fit(table, target)
    spread = embedded.explain(mean).values[:, 1]
    assert spread.min() < 0 < spread.max()  # around the mean of the learned features


def test_columns_of_all_kinds_are_explained_as_wholes_and_those_not_used_by_nothing() -> None:
    table = frame(300).drop(columns="when").assign(constant=1.0)
    model = mlp(hidden=(32,), max_epochs=60, learning_rate=0.02, batch_size=32).fit(
        table, (table["colour"] == "red") ^ table["size"].isna()
    )
    explanation = model.explain(table, table, output="log_odds", n_base=10)
    assert explanation.feature_names == list(table.columns) and explanation.scale == "log_odds"
    np.testing.assert_allclose(completed(explanation), model.decision_function(table), atol=1e-4)
    size = np.abs(explanation.values).mean(axis=0)
    assert set(np.argsort(size)[-2:]) == {0, 2} and size[-1] == 0
    red, missing = (table["colour"] == "red").to_numpy(), table["size"].isna().to_numpy()
    colour, gap = explanation.values[:, 2], explanation.values[:, 0]
    assert colour[red & ~missing].mean() > 0 > colour[~red & ~missing].mean()
    assert gap[missing & ~red].mean() > 0.5  # of the indicator


def test_an_explanation_has_the_attributes_that_shap_expects() -> None:
    model = mlp().fit(TABLE, np.arange(80) % 3)
    explanation = model.explain(TABLE[:5])
    assert explanation.values.shape == (5, 6, 3) and explanation.base_values.shape == (5, 3)
    assert explanation.data.shape == (5, 6) and explanation.output_names == [0, 1, 2] and len(explanation) == 5
    assert list(explanation.data[:, 1]) == list(TABLE["count"][:5])
    assert list(explanation.data[:, 2]) == list(TABLE["colour"][:5])
    assert repr(explanation) == "Explanation(5 rows, 6 columns, probability of 0, 1, 2)"
    tidy = explanation.to_frame()
    assert list(tidy.columns) == ["row", "output", "column", "value", "contribution"] and len(tidy) == 5 * 6 * 3
    first = tidy[(tidy["row"] == 2) & (tidy["output"] == 1)]
    np.testing.assert_array_equal(first["contribution"], explanation.values[2, :, 1])
    only_numbers = mlpr().fit(numbers()[0], numbers()[2]).explain(numbers()[0][:3])
    assert only_numbers.data.dtype == np.float64 and only_numbers.feature_names == ["x0", "x1", "x2", "x3"]
    np.testing.assert_array_equal(only_numbers.data, numbers()[0][:3])


def test_columns_stand_in_the_order_of_the_table_whatever_its_library() -> None:
    model = mlpr().fit(TABLE, TARGET)
    straight = model.explain(TABLE[:5])
    turned = model.explain(pl.from_pandas(TABLE[TABLE.columns[::-1].to_list()][:5], nan_to_null=True))
    assert turned.feature_names == straight.feature_names[::-1]
    np.testing.assert_allclose(turned.values, straight.values[:, ::-1], rtol=1e-6)
    assert list(turned.data[:, 3]) == list(straight.data[:, 2])


def test_a_loaded_model_explains_the_same() -> None:
    model, file = mlp().fit(TABLE, np.arange(80) % 2), io.BytesIO()
    model.save(file)
    loaded = tabgnm.load(io.BytesIO(file.getvalue()))
    np.testing.assert_array_equal(loaded.explain(TABLE[:5]).values, model.explain(TABLE[:5]).values)


@pytest.mark.parametrize(
    ("make", "options", "y"),
    [
        (mlp, {}, np.tile([[0, 1], [1, 1], [0, 0]], (20, 1))),
        (mlp, {}, np.array([["a", "u"], ["b", "v"], ["c", "u"]] * 20)),
        (mlp, {"calibrated": True}, np.arange(60) % 3),
        (mlpr, {"loss": "poisson"}, np.arange(60.0) % 7),
        (mlpr, {"target_transform": "log"}, 1 + np.arange(60.0) % 7),
        (mlpr, {"loss": "quantile", "quantile": [0.2, 0.8]}, np.arange(60.0)),
        (mlpr, {}, np.ones(60)),
    ],
)
def test_targets_of_every_kind_are_explained(make: Any, options: dict[str, Any], y: Any) -> None:
    X = numbers(60)[0]
    model = make(**options).fit(X, y)
    explanation = model.explain(X[:8], X[20:25])
    expected = model.predict_proba(X[:8]) if make is mlp else model.predict(X[:8])
    expected = np.concatenate(expected, axis=1) if isinstance(expected, list) else expected
    np.testing.assert_allclose(completed(explanation), expected, rtol=1e-5, atol=1e-5)


def test_a_single_class_has_nothing_to_explain() -> None:
    X = numbers(30)[0]
    model = mlp().fit(X, np.zeros(30, int))
    explanation = model.explain(X)
    assert (explanation.values == 0).all() and (explanation.base_values == 1).all()
    with pytest.raises(ValueError, match="infinite for a model with a single class"):
        model.explain(X, output="log_odds")


@pytest.mark.filterwarnings("ignore:no column can be used")
def test_where_no_column_is_used_none_contributes() -> None:
    explanation = mlp().fit(np.ones((20, 4)), [0, 1] * 10).explain(np.ones((2, 4)))
    assert (explanation.values == 0).all()


def test_a_small_machine_is_explained_by_the_columns_that_it_uses() -> None:
    X, _, target = numbers(200)
    model = gnmr(n_nodes=8, n_layers=2, numeric_embedding=None, n_folds=0, **LEARNS).fit(X, target)
    weights = next(value for value in model.fitted_.groups[0].parameters.values() if value.shape[-2] == 4)
    weights[:, 2] *= 1e-6  # what the machine reads of the third column
    small = model.prune(1e-4)
    assert set(small.edges()["column"]) & {"x0", "x1", "x2"} == {"x0", "x1"}
    explanation = small.explain(X[:20])
    np.testing.assert_allclose(completed(explanation), small.predict(X[:20]), rtol=1e-5)
    assert (explanation.values[:, 2] == 0).all() and (explanation.values[:, 0] != 0).any()


def test_many_base_rows_are_represented_by_few() -> None:
    X, _, target = numbers(400)
    model = mlpr(**LEARNS).fit(X, target)
    explanation = model.explain(X[:3], X)
    assert explanation.base_values[0] == pytest.approx(model.predict(X).mean(), abs=0.05 * target.std())
    np.testing.assert_allclose(completed(explanation), model.predict(X[:3]), rtol=1e-5)


def test_small_pieces_return_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mlp().fit(TABLE, np.arange(80) % 3)
    at_once = model.explain(TABLE[:7], TABLE[:3]).values
    monkeypatch.setattr("tabgnm.estimators.integrated_gradients._PIECE_ELEMENTS", 1)
    monkeypatch.setattr("tabgnm.estimators.explanation._BLOCK_ROWS", 2)
    np.testing.assert_allclose(model.explain(TABLE[:7], TABLE[:3]).values, at_once, atol=1e-6)


def test_wrong_options_are_named() -> None:
    model = mlpr().fit(*numbers()[::2])
    with pytest.raises(ValueError, match=r"output='margin' is not known; use 'prediction' or 'log_odds'"):
        model.explain(numbers()[0], output="margin")
    with pytest.raises(
        ValueError, match=r"is only available for classifiers; use output='prediction' for a MLPRegressor"
    ):
        model.explain(numbers()[0], output="log_odds")
    with pytest.raises(ValueError, match="n_steps=0"):
        model.explain(numbers()[0], n_steps=0)
    with pytest.raises(ValueError, match="X has 3 features"):
        model.explain(numbers()[0], numbers()[0][:, :3])


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_tools_that_call_predict_with_plain_arrays_get_the_predictions_of_the_frame() -> None:
    table = TABLE.drop(columns="when").assign(when=TABLE["when"].astype("datetime64[ns]"))
    model = mlp().fit(table, np.arange(80) % 2)
    np.testing.assert_array_equal(model.predict_proba(table.to_numpy()), model.predict_proba(table))
    only_numbers = table[["size", "count"]]
    model = mlp().fit(only_numbers, np.arange(80) % 2)
    np.testing.assert_array_equal(model.predict_proba(only_numbers.to_numpy()), model.predict_proba(only_numbers))
    assert permutation_importance(model, only_numbers, np.arange(80) % 2, n_repeats=1).importances.shape == (2, 1)


def test_plain_arrays_for_a_model_fitted_on_a_frame_get_the_warning_of_scikit_learn() -> None:
    model = mlp().fit(TABLE, np.arange(80) % 2)
    with pytest.warns(UserWarning, match="X does not have valid feature names, but MLPClassifier was fitted with"):
        model.explain(TABLE.to_numpy()[:2])
