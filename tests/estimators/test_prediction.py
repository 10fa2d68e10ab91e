"""Predictions depend on the content of a row only: not on the container, the order of columns, or other rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from tabgnm import MLPClassifier
from tests.estimators.examples import LEARNS, frame, gnm, gnmr, mlp, mlpr, numbers

X, Y, T = numbers()
F = frame()
CONTAINERS = {
    "pandas": lambda: F,
    "polars": lambda: pl.from_pandas(F),
    "lazy polars": lambda: pl.from_pandas(F).lazy(),
    "pyarrow": lambda: pa.Table.from_pandas(F, preserve_index=False),
    "numpy objects": lambda: F.to_numpy(dtype=object),
    "list of rows": lambda: [list(row) for row in F.itertuples(index=False)],
}


@pytest.fixture(scope="module")
def from_pandas() -> Any:
    return gnm(n_nodes=120).fit(F, Y)


@pytest.mark.parametrize("container", list(CONTAINERS))
def test_the_same_model_from_any_container(container: str, from_pandas: Any) -> None:
    table = CONTAINERS[container]()
    model = gnm(n_nodes=120).fit(table, Y)
    assert (model.predict_proba(table) == from_pandas.predict_proba(F)).all()
    if container not in ("numpy objects", "list of rows"):  # which have no names
        assert (from_pandas.predict_proba(table) == from_pandas.predict_proba(F)).all()
        assert model.feature_names_in_.tolist() == list(F.columns)
    else:
        assert not hasattr(model, "feature_names_in_")


def test_columns_are_matched_by_name_in_any_order(from_pandas: Any) -> None:
    expected = from_pandas.predict_proba(F)
    for seed in range(3):
        shuffled = F.sample(frac=1, axis=1, random_state=seed)
        assert (from_pandas.predict_proba(shuffled) == expected).all()
        assert from_pandas.score(shuffled, Y) == from_pandas.score(F, Y)


def test_a_level_without_training_rows_counts_as_the_mean_of_the_others() -> None:
    model = mlp(n_folds=2, max_one_hot=0).fit(F[["town"]], Y)
    (group,) = model.fitted_.groups
    table, untrained = group.parameters["embed_level"], group.encoder.untrained_levels
    assert untrained
    trained = [level for level in range(table.shape[1]) if level not in untrained]
    for level in untrained:
        np.testing.assert_allclose(table[:, level], table[:, trained].mean(dim=1), rtol=1e-6)
    strange = model.predict_proba(pd.DataFrame({"town": ["nowhere", None]}))
    assert (strange[0] == strange[1]).all()


def test_wrong_names_are_listed(from_pandas: Any) -> None:
    wrong = F.rename(columns={"size": "Size", "town": "city"})
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- Size\n- city\n.*now missing:\n- size\n- town\n"):
        from_pandas.predict(wrong)


def test_missing_names_are_a_warning(from_pandas: Any) -> None:
    with pytest.warns(UserWarning, match="X does not have valid feature names, but GNMClassifier was fitted with"):
        from_pandas.predict(F.to_numpy(dtype=object))
    with pytest.warns(UserWarning, match="X has feature names, but MLPClassifier was fitted without feature names"):
        mlp().fit(X, Y).predict(pd.DataFrame(X, columns=list("abcd")))


@pytest.mark.parametrize("make", [mlp, gnm, mlpr, gnmr])
def test_a_rows_prediction_does_not_depend_on_the_rows_beside_it(make: Any) -> None:
    classifies = make in (mlp, gnm)
    model = make(n_folds=3, **({} if make in (mlp, mlpr) else {"n_nodes": 40})).fit(X, Y if classifies else T)
    predict = model.predict_proba if classifies else model.predict
    together = predict(X)
    alone = np.concatenate([predict(X[row : row + 1]) for row in range(30)])
    np.testing.assert_allclose(alone, together[:30], rtol=0, atol=1e-12 * np.abs(together).max())
    np.testing.assert_allclose(predict(X[7:99:3]), together[7:99:3], rtol=0, atol=1e-12 * np.abs(together).max())
    np.testing.assert_allclose(predict(X[::-1])[::-1], together, rtol=0, atol=1e-12 * np.abs(together).max())


MANY = 1500  # rows; more than are predicted in float64
PACKS: dict[str, Any] = {
    "pack of classifiers": lambda x, y, t: gnm(n_candidates=4, n_nodes=60, n_layers="auto", **LEARNS).fit(x, y),
    "variant that only torch computes": lambda x, y, t: gnm(n_nodes=60, persistent_outputs=True, **LEARNS).fit(x, y),
    "one network": lambda x, y, t: mlp(n_folds=1, **LEARNS).fit(x, y),
    "raw columns": lambda x, y, t: MLPClassifier.paper(max_epochs=40, random_state=0).fit(10 * x + 1000, y),
    "regressor": lambda x, y, t: mlpr(n_candidates=3, **LEARNS).fit(x, t),
    "logarithm": lambda x, y, t: mlpr(target_transform="log", **LEARNS).fit(x, np.exp(t / 20)),
    "double precision": lambda x, y, t: mlpr(precision="float64", **LEARNS).fit(x, t),
}


@pytest.fixture(scope="module", params=list(PACKS))
def predicted(request: Any) -> tuple[Any, Any, Any]:
    """A function that predicts, many rows, and their predictions in one call."""
    model = PACKS[request.param](*numbers(400))
    rows = numbers(MANY, seed=1)[0]
    rows = 10 * rows + 1000 if request.param == "raw columns" else rows
    predict = model.predict_proba if hasattr(model, "classes_") else model.predict
    return predict, rows, predict(rows)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_row_is_predicted_alike_alone_in_a_small_and_in_a_large_table(predicted: Any, data: st.DataObject) -> None:
    """Within 1e-6: of probabilities, or of the larger of a number and the spread of all of them."""
    predict, rows, expected = predicted
    size = data.draw(st.sampled_from([1, 2, 7, 512, 513, MANY]))
    order = np.random.default_rng(data.draw(st.integers(0, 2**31))).permutation(MANY)[:size]
    found, wanted = predict(rows[order]), expected[order]
    scale = 1.0 if wanted.ndim == 2 else np.maximum(np.abs(wanted), expected.std())
    assert (np.abs(found - wanted) <= 1e-6 * scale).all()


@pytest.mark.parametrize("make", [mlp, gnmr])
def test_many_rows_are_predicted_to_the_same_bits_by_any_number_of_threads(make: Any) -> None:
    model = make(**({"n_nodes": 40} if make is gnmr else {})).fit(X, Y)
    rows = numbers(MANY, seed=1)[0]
    alone = model.set_params(n_jobs=1).predict(rows)
    assert (model.set_params(n_jobs=3).predict(rows) == alone).all()


def test_predicting_in_blocks_is_predicting_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier, regressor = mlp().fit(F, Y), mlpr().fit(F, T)
    expected = classifier.predict_proba(F), regressor.predict(F), regressor.predict(F, return_std=True)[1]
    monkeypatch.setattr("tabgnm.estimators.prediction._BLOCK_ROWS", 7)
    monkeypatch.setattr("tabgnm.estimators.prediction._PIECE_ELEMENTS", 500)
    found = classifier.predict_proba(F), regressor.predict(F), regressor.predict(F, return_std=True)[1]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_wide_rows_are_encoded_a_few_at_a_time() -> None:
    from tabgnm.estimators.prediction import block_rows

    assert block_rows(10) == 16_384 and block_rows(10**5) == 167 and block_rows(10**9) == 1


def peak_memory() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def test_two_million_rows_are_predicted_in_bounded_memory() -> None:
    clear = Path("/proc/self/clear_refs")
    model = mlpr(numeric_embedding=None, scaling="standard", hidden=(32,)).fit(X[:, :1], T)
    many = np.resize(X[:, :1].astype(np.float32), (2_000_000, 1))
    try:
        clear.write_text("5")  # the peak is what is used now
    except OSError:
        pytest.skip("the kernel does not let the peak of memory be measured")
    before = peak_memory()
    predicted = model.predict(many)
    grown = peak_memory() - before
    at_once = 2_000_000 * 32 * 8 * 2  # rows x width x float64 x members: 1 GB
    assert grown < at_once / 4, f"{grown / 1e6:.0f} MB"
    np.testing.assert_allclose(predicted[:120], model.predict(X[:, :1]), rtol=1e-5)


def test_threads_may_predict_with_one_model() -> None:
    model = mlp().fit(F, Y)
    expected = model.predict_proba(F)
    model = mlp().fit(F, Y)  # a fresh one, whose weights nobody has asked for yet
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: model.predict_proba(F), range(16)):
            assert (found == expected).all()


def test_fitted_attributes_do_not_exist_before_fit() -> None:
    for name in ("classes_", "columns_", "history_", "feature_importances_", "members_", "n_features_in_"):
        assert not hasattr(mlp(), name)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        mlp().decision_function(X)


def test_columns_says_what_each_column_was_taken_for(from_pandas: Any) -> None:
    kinds = {column.name: column.kind for column in from_pandas.columns_}
    assert kinds == {
        "size": "number",
        "count": "number",
        "colour": "category",
        "town": "category",
        "flag": "boolean",
        "when": "datetime",
    }
    assert "one-hot" in repr(from_pandas.columns_) and "<table>" in from_pandas.columns_._repr_html_()


def test_nothing_of_the_callers_is_written_to() -> None:
    weights = np.ones(len(F))
    weights[3] = 0
    for table, y in ((X, Y), (F, pd.Series(Y)), (pl.from_pandas(F), pl.Series(Y)), (np.asfortranarray(X), Y)):
        copies = [
            item.clone() if isinstance(item, pl.DataFrame | pl.Series) else item.copy() for item in (table, y, weights)
        ]
        model = mlp(class_weight="balanced").fit(table, y, weights, X_val=table, y_val=y)
        model.predict_proba(table)
        model.score(table, y, weights)
        model.permutation_importance(table, y, n_repeats=1)
        model.encode(table)
        for item, copy in zip((table, y, weights), copies, strict=True):
            if isinstance(item, pl.DataFrame | pl.Series):
                assert item.equals(copy, null_equal=True)
            else:
                pd.testing.assert_frame_equal(pd.DataFrame(item), pd.DataFrame(copy))


def test_a_level_that_a_network_has_not_seen_is_as_good_as_the_mean_of_the_others() -> None:
    """Also if other networks have seen it: all rows of a level may be in one fold."""
    towns = pd.DataFrame({"town": ["rare"] * 4 + [f"t{i % 12}" for i in range(116)]})
    rows = np.arange(120)
    model = mlp(n_folds="auto", cv=[(rows[4:], rows[:4]), (rows[:90], rows[90:])], max_one_hot=0).fit(towns, Y)
    (group,) = model.fitted_.groups
    codes = model.encode(towns)[:, 0].astype(int)
    for position, fold in enumerate(group.folds):
        table = group.parameters["embed_level"][position]
        train = model._prepare(towns, Y).rows.folds[fold].train.numpy()
        seen = np.unique(codes[train])
        unseen = np.setdiff1d(np.arange(len(table)), seen)
        expected = table[seen].mean(dim=0).expand(len(unseen), -1)
        np.testing.assert_allclose(table[unseen], expected, atol=1e-6)
