import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tabgnm
from tabgnm import GNMClassifier, MLPClassifier, MLPRegressor
from tabgnm.estimators.model_file import to_bytes
from tabgnm.export import ExportError, onnx_model
from tabgnm.export.onnx_dates import date_part, split_moments
from tabgnm.export.onnx_graph import GraphBuilder
from tabgnm.export.small import is_small
from tabgnm.table.values import DATE_PARTS, date_parts
from tests.export.examples import (
    ACTIVATIONS,
    HOSTILE,
    PLAIN,
    SMALL,
    hostile,
    later,
    mixed,
    small,
    sparse,
    table_of_small,
)
from tests.export.onnx_runs import loaded, metadata, run
from tests.modelfile.examples import CASES, QUICK, codes, fitted, numbers, table_for, target


def assert_same(estimator: Any, table: Any, outputs: dict[str, Any], tolerance: float = 1e-5) -> None:
    if "variable" in outputs:
        expected = estimator.predict(table).reshape(len(table), -1)
        assert outputs["variable"].shape == expected.shape
        assert np.abs(outputs["variable"] - expected).max() <= tolerance * max(np.abs(expected).max(), 1.0)
        return
    expected = estimator.predict_proba(table)
    joint = isinstance(expected, list)
    suffixes = [f"_{target}" for target in range(len(expected))] if joint else [""]
    assert set(outputs) == {f"{what}{suffix}" for what in ("label", "probabilities") for suffix in suffixes}
    predicted = estimator.predict(table)
    for place, suffix in enumerate(suffixes):
        probabilities = expected[place] if joint else expected
        np.testing.assert_allclose(outputs[f"probabilities{suffix}"], probabilities, rtol=0, atol=tolerance)
        labels = outputs[f"label{suffix}"]
        wanted = predicted[:, place] if joint else predicted
        np.testing.assert_array_equal(labels, wanted.astype(str) if labels.dtype == object else wanted)


@pytest.mark.filterwarnings("ignore:no column can be used")
@pytest.mark.parametrize("case", CASES)
def test_a_pack_gives_the_same_predictions_in_onnxruntime(case: str) -> None:
    estimator = fitted(case)
    content = onnx_model(estimator)
    loaded(content)
    assert_same(estimator, table_for(estimator), run(content, table_for(estimator)))


@pytest.mark.parametrize("case", SMALL)
def test_a_small_machine_gives_the_same_predictions_in_onnxruntime(case: str) -> None:
    estimator = small(case)
    assert is_small(estimator)
    content = onnx_model(estimator)
    loaded(content)
    assert_same(estimator, table_of_small(case), run(content, table_of_small(case)))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_is_the_same_in_float_and_double(activation: str) -> None:
    X, y = numbers(), target()
    single = sparse(GNMClassifier(**PLAIN | {"activation": activation, "n_nodes": 12}), X, codes(2), 1.0)
    [group] = single.fitted_.groups
    for values in group.parameters.values():
        values.mul_(5)  # to reach the tails
    assert_same(single, 5 * X, run(onnx_model(single), 5 * X))
    pack = MLPRegressor(hidden=(5,), **QUICK, activation=activation).fit(X, y)
    assert_same(pack, 5 * X, run(onnx_model(pack), 5 * X))


@pytest.mark.parametrize("embedding", [None, "periodic", "piecewise"])
def test_gaps_and_unknown_levels_are_encoded_as_in_the_estimator(embedding: str | None) -> None:
    settings = QUICK | {"numeric_embedding": embedding, "n_candidates": 2}
    estimator = MLPClassifier(hidden=(5,), **settings).fit(mixed(), codes(3))
    assert_same(estimator, later(), run(onnx_model(estimator), later()))


def test_rare_levels_and_missing_ones_differ() -> None:
    towns = pd.DataFrame({"town": [*"aaaabbbbccccddddeeee", "f", "g", None], "x": np.arange(23.0)})
    estimator = MLPRegressor(hidden=(5,), **QUICK).fit(towns, np.arange(23.0))
    new = pd.DataFrame({"town": ["a", "f", "new", None], "x": [1.0, 1.0, 1.0, 1.0]})
    outputs = run(onnx_model(estimator), new)
    assert_same(estimator, new, outputs)
    assert outputs["variable"][1] == outputs["variable"][2] != outputs["variable"][3]


@pytest.mark.parametrize("level", ["", "<missing>"])
def test_an_empty_text_is_missing_unless_it_is_a_level(level: str) -> None:
    texts = ["", level, "b", "c", None]
    table = pd.DataFrame({"a": texts * 10, "x": np.arange(50.0)})
    estimator = MLPRegressor(hidden=(5,), **QUICK).fit(table, np.arange(50) % 5)
    content = onnx_model(estimator)
    [_, own] = sorted(json.loads(metadata(content)["columns"]), key=lambda column: column["kind"] == "category")
    assert own["missing"] not in texts
    outputs = run(content, table)
    assert_same(estimator, table, outputs)
    of_texts = {text: float(outputs["variable"][place, 0]) for place, text in enumerate(texts)}
    assert of_texts[None] != of_texts[""]


@given(st.lists(st.integers(-(10**17), 10**17), min_size=1, max_size=20))
@settings(deadline=None, max_examples=20)
def test_parts_of_dates_are_those_of_the_table(micros: list[int]) -> None:
    import onnxruntime

    graph = GraphBuilder(["when", *DATE_PARTS])
    moments = split_moments(graph, graph.input("when", "int64", 1))
    for part in DATE_PARTS:
        graph.output(part, date_part(graph, moments, part), "float64", [1])
    session = onnxruntime.InferenceSession(graph.model("dates").SerializeToString(), providers=["CPUExecutionProvider"])
    given_moments = np.array([*micros, np.iinfo(np.int64).min], dtype=np.int64)
    found = np.concatenate(session.run(list(DATE_PARTS), {"when": given_moments[:, None]}), axis=1)
    np.testing.assert_array_equal(found.T, date_parts(given_moments.view("datetime64[us]")))


def test_an_estimator_that_was_fitted_on_an_array_takes_a_matrix() -> None:
    estimator, X = fitted("no names"), numbers(7)
    types = {own.name: own.type.tensor_type for own in loaded(onnx_model(estimator)).graph.input}
    assert list(types) == ["X"] and types["X"].elem_type == onnx.TensorProto.DOUBLE
    assert [own.dim_param or own.dim_value for own in types["X"].shape.dim] == ["rows", 3]
    by_column = onnx_model(estimator, matrix=False)
    assert [own.name for own in loaded(by_column).graph.input] == ["x0", "x1", "x2"]
    assert_same(estimator, X, run(by_column, X))


def test_a_matrix_is_for_numbers_only() -> None:
    with pytest.raises(
        ExportError, match=r"matrix=True requires a table of numbers, but column .* is a (category|datetime)"
    ):
        onnx_model(small("two classes"), matrix=True)


def test_an_array_with_codes_has_one_input_per_column() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 60, 600), rng.normal(size=600)])
    model = MLPRegressor(effort="fast", max_epochs=2, random_state=0, integer_codes=True).fit(X, X[:, 1])
    assert [own.name for own in loaded(onnx_model(model)).graph.input] == ["x0", "x1"]
    with pytest.raises(ExportError, match=r"'x0' is a category; .*; whole numbers remain numbers with integer_codes=F"):
        onnx_model(model, matrix=True)


def test_numbers_may_be_float() -> None:
    estimator, X = fitted("pack of regressors"), numbers(7).astype(np.float32)
    content = onnx_model(estimator, number_type="float")
    model = loaded(content)
    types = {own.type.tensor_type.elem_type for own in [*model.graph.input, *model.graph.output]}
    assert types == {onnx.TensorProto.FLOAT}
    assert_same(estimator, X, run(content, X))
    with pytest.raises(ExportError, match="number_type='half' is not known; use 'double' or 'float'"):
        onnx_model(estimator, number_type="half")  # type: ignore[arg-type]


def test_numbers_that_float32_cannot_tell_apart_are_encoded_in_double() -> None:
    X = pd.DataFrame({"id": 1e9 + np.arange(60.0)})
    estimator = MLPRegressor(hidden=(5,), **QUICK | {"max_epochs": 20}).fit(X, np.arange(60) % 2)
    outputs = run(onnx_model(estimator), X)
    assert_same(estimator, X, outputs)
    assert len(np.unique(outputs["variable"])) > 30


def test_inputs_have_the_types_of_columns_and_only_used_columns_are_inputs() -> None:
    estimator = MLPClassifier(hidden=(5,), **QUICK).fit(mixed(), codes(2))
    found = {own.name: own.type.tensor_type.elem_type for own in loaded(onnx_model(estimator)).graph.input}
    kinds = onnx.TensorProto
    assert found == {
        "number": kinds.DOUBLE, "größe": kinds.DOUBLE, "count": kinds.DOUBLE, "flag": kinds.BOOL, "colour": kinds.STRING,
        "città": kinds.STRING, "when": kinds.INT64, "took": kinds.DOUBLE, "size": kinds.STRING,
    }  # fmt: skip


def test_booleans_with_gaps_are_numbers() -> None:
    table = pd.DataFrame({"flag": pd.Series([True, False, None] * 20, dtype=object), "x": np.arange(60.0)})
    estimator = MLPClassifier(hidden=(5,), **QUICK).fit(table, codes(2))
    content = onnx_model(estimator)
    assert {own.name: own.type.tensor_type.elem_type for own in loaded(content).graph.input}["flag"] == 11
    assert_same(estimator, table, run(content, table.astype({"flag": float})))


def test_any_number_of_rows_is_predicted() -> None:
    estimator = small("two classes")
    content = onnx_model(estimator)
    for n_rows in (1, 2, 40):
        assert_same(estimator, later().head(n_rows), run(content, later().head(n_rows)))


def test_the_graph_of_a_small_machine_is_small() -> None:
    def exported(share: float) -> tuple[Any, bytes]:
        estimator = sparse(GNMClassifier(**PLAIN | {"n_nodes": 100}), mixed(), codes(2), share)
        return estimator, onnx_model(estimator)

    estimator, content = exported(0.01)
    dense, all_weights = exported(1.0)
    assert is_small(estimator) and not is_small(dense)
    assert estimator.machine_.n_edges < 200 and len(content) < len(all_weights) / 2
    graph = loaded(content).graph
    used = {estimator.fitted_.encoders[0].owners[place] for place in estimator.machine_.used_inputs}
    assert len(graph.input) == len(used) and len(graph.node) < 150


def test_the_metadata_say_what_the_model_is() -> None:
    content = onnx_model(small("two classes"))
    model, said = loaded(content), metadata(content)
    assert (model.producer_name, model.producer_version) == ("tabgnm", tabgnm.__version__)
    assert (said["estimator"], said["tabgnm_version"]) == ("GNMClassifier", tabgnm.__version__)
    assert json.loads(said["classes"]) == ["no", "yes"]
    columns = json.loads(said["columns"])
    assert {own["name"]: own["kind"] for own in columns}["when"] == "datetime"
    opsets = {own.domain: own.version for own in model.opset_import}
    assert opsets == {"": 13, "ai.onnx.ml": 2} and model.ir_version == 7


@pytest.mark.parametrize("case", ["pack of a table", "variant: gated", "calibrated"])
def test_a_loaded_estimator_is_exported_the_same(case: str, tmp_path: Path) -> None:
    (tmp_path / "model.tabgnm").write_bytes(to_bytes(fitted(case)))
    assert onnx_model(tabgnm.load(tmp_path / "model.tabgnm")) == onnx_model(fitted(case))


@pytest.mark.parametrize("is_pack", [False, True])
def test_columns_levels_and_labels_may_have_any_text(is_pack: bool) -> None:
    estimator, table = hostile(is_pack=is_pack)
    assert is_small(estimator) != is_pack
    content = onnx_model(estimator)
    names = [own.name for own in loaded(content).graph.input]
    said = {own["name"]: own["input"] for own in json.loads(metadata(content)["columns"])}
    assert len(set(names)) == len(names) == len(said) and "label" not in names
    assert all(said[name] == name for name in said if name not in ("label", "probabilities"))
    assert {"label", 'a"b; import os'} <= set(said) <= {*HOSTILE, "#"}
    assert_same(estimator, table, run(content, table))


def test_a_column_without_a_name_has_an_input() -> None:
    table = pd.DataFrame({"": np.arange(60.0), "column_0": np.arange(60.0) ** 2})
    estimator = MLPClassifier(hidden=(5,), **QUICK).fit(table, codes(2))
    content = onnx_model(estimator)
    assert [own.name for own in loaded(content).graph.input] == ["column_0_", "column_0"]
    assert_same(estimator, table, run(content, table))


def test_onnx_is_imported_only_when_it_is_used_and_its_absence_names_the_extra() -> None:
    code = """
import sys
import numpy as np
import tabgnm
from tabgnm.export import onnx_model

estimator = tabgnm.MLPClassifier(hidden=(2,), n_candidates=1, n_folds=0, max_epochs=1).fit(np.eye(4), [0, 1, 0, 1])
assert "onnx" not in sys.modules
sys.modules["onnx"] = None
try:
    onnx_model(estimator)
except ImportError as error:
    assert str(error) == 'exporting to ONNX needs onnx, which is not installed; get it with: pip install "tabgnm[onnx]"'
else:
    raise AssertionError
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
