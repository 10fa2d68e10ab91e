import ast
import datetime
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tabgnm
from tabgnm import GNMClassifier, MLPClassifier, MLPRegressor
from tabgnm.estimators.model_file import to_bytes
from tabgnm.export import ExportError, python_file
from tabgnm.export.python_arrays_runtime import _erf
from tabgnm.export.python_cells_runtime import Row
from tabgnm.export.python_names import Identifiers
from tabgnm.export.small import is_small
from tabgnm.nn import activation_names
from tabgnm.table import read_table
from tabgnm.table.cells import canonical
from tests.export.examples import ACTIVATIONS, PLAIN, SMALL, hostile, later, mixed, small, sparse, table_of_small
from tests.export.python_runs import loaded
from tests.modelfile.examples import CASES, QUICK, codes, fitted, numbers, table_for, target


def as_frame(estimator: Any, table: Any) -> pd.DataFrame:
    return table if isinstance(table, pd.DataFrame) else pd.DataFrame(table, columns=estimator._names)


def ways(frame: pd.DataFrame) -> list[Any]:
    """The ways to pass a table."""
    return [frame, frame.to_dict("records"), {name: frame[name].to_numpy() for name in frame}]


def assert_same(estimator: Any, table: Any, module: Any, tolerance: float = 1e-6) -> None:
    expected = estimator.predict(table)
    for rows in ways(as_frame(estimator, table)):
        predicted = module.predict(rows)
        assert predicted.shape == expected.shape
        if not module.CLASSES:
            assert np.abs(predicted - expected).max() <= tolerance * max(np.abs(expected).max(), 1.0)
            continue
        np.testing.assert_array_equal(predicted, expected.astype(str) if predicted.dtype.kind == "U" else expected)
        found, wanted = module.predict_proba(rows), estimator.predict_proba(table)
        for own, probabilities in zip(*(x if isinstance(x, list) else [x] for x in (found, wanted)), strict=True):
            np.testing.assert_allclose(own, probabilities, rtol=0, atol=tolerance)


@pytest.mark.filterwarnings("ignore:no column can be used")
@pytest.mark.parametrize("case", CASES)
def test_a_pack_gives_the_same_predictions(case: str) -> None:
    estimator = fitted(case)
    assert_same(estimator, table_for(estimator), loaded(python_file(estimator)))


@pytest.mark.parametrize("case", SMALL)
def test_a_small_machine_gives_the_same_predictions_for_rows_and_batches(case: str) -> None:
    estimator, table = small(case), table_of_small(case)
    assert is_small(estimator)
    module = loaded(python_file(estimator))
    assert_same(estimator, table, module)
    rows = as_frame(estimator, table).to_dict("records")
    single, many = [module.predict_row(row) for row in rows], module.predict(rows)
    if module.CLASSES:
        assert single == many.tolist()
        single, many = [module.predict_proba_row(row) for row in rows], module.predict_proba(rows)
        many = np.concatenate(many, axis=1) if isinstance(many, list) else many
        single = [np.concatenate(own) for own in single] if isinstance(single[0][0], list) else single
    np.testing.assert_allclose(single, many, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", ["two classes", "array"])
def test_a_small_machine_is_exact_to_1e_12(case: str) -> None:
    estimator, table = small(case), table_of_small(case)
    encoded = estimator.fitted_.encoders[0].encode(read_table(table), dtype=np.float64)
    expected = 1 / (1 + np.exp(-estimator.machine_.run(encoded)[:, 0]))
    module = loaded(python_file(estimator))
    for row, probability in zip(as_frame(estimator, table).to_dict("records"), expected, strict=True):
        assert module.predict_proba_row(row)[1] == pytest.approx(probability, abs=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_is_the_same(activation: str) -> None:
    X = numbers()
    estimator = sparse(GNMClassifier(**PLAIN | {"activation": activation, "n_nodes": 12}), X, codes(2), 1.0)
    [group] = estimator.fitted_.groups
    for values in group.parameters.values():
        values.mul_(5)  # to reach the tails
    module = loaded(python_file(estimator))
    assert_same(estimator, 5 * X, module)
    for row, label in zip(as_frame(estimator, 5 * X).to_dict("records"), estimator.predict(5 * X), strict=True):
        assert module.predict_row(row) == label
    pack = MLPRegressor(hidden=(5,), **QUICK, activation=activation).fit(X, target())
    assert_same(pack, 5 * X, loaded(python_file(pack)))


def test_all_activations_are_tested() -> None:
    assert set(ACTIVATIONS) == set(activation_names())


@given(st.lists(st.floats(-10, 10), min_size=1))
def test_the_error_function_is_exact_to_1e_13(numbers: list[float]) -> None:
    import math

    np.testing.assert_allclose(_erf(np.array(numbers)), [math.erf(z) for z in numbers], rtol=0, atol=1e-13)


@pytest.mark.parametrize("embedding", [None, "periodic", "piecewise"])
def test_gaps_and_unknown_levels_are_encoded_as_in_the_estimator(embedding: str | None) -> None:
    settings = QUICK | {"numeric_embedding": embedding, "n_candidates": 2}
    estimator = MLPClassifier(hidden=(5,), **settings).fit(mixed(), codes(3))
    assert_same(estimator, later(), loaded(python_file(estimator)))


CELLS = [
    "a", "", "3", 3, 3.0, 2.5, 0.1, np.float32(0.1), float(np.float32(0.1)), np.int64(7), True, np.True_, None, np.nan,
    pd.NA, pd.NaT, 1e300, 2.0**70, -0.0, datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
    pd.Timestamp("2024-02-29 12:00:00.123456789"), np.datetime64("2024-02-29T01:00", "ns"), np.datetime64("NaT"),
    datetime.timedelta(days=2, seconds=5), np.timedelta64(5, "s"),
]  # fmt: skip


@pytest.mark.parametrize("cell", CELLS, ids=repr)
def test_levels_are_known_by_the_same_text(cell: Any) -> None:
    assert Row.text({"a": cell}, "a") == canonical(cell)


@given(st.one_of(st.floats(allow_infinity=False), st.floats(width=32, allow_infinity=False), st.integers(), st.text()))
def test_the_text_of_any_number_is_the_same(cell: Any) -> None:
    assert Row.text({"a": cell}, "a") == canonical(cell)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ({"number": "7"}, "column 'number' has '7'; expected a number, or None if it is missing"),
        ({"number": float("inf")}, "column 'number' has inf; expected a finite number"),
        ({"flag": 2}, "column 'flag' has 2; expected True or False"),
        ({"when": "2024-01-01"}, "column 'when' has '2024-01-01'; expected a date"),
    ],
)
def test_cells_of_another_kind_are_errors(cell: dict[str, Any], said: str) -> None:
    estimator = sparse(GNMClassifier(**PLAIN), mixed(), codes(2), 1.0)
    module = loaded(python_file(estimator))
    row = mixed().to_dict("records")[0] | cell
    for call in (lambda: module.predict_row(row), lambda: module.predict([row])):
        with pytest.raises(ValueError, match=said):
            call()


def test_a_column_that_is_not_there_is_an_error_with_those_that_are_expected() -> None:
    for estimator in (small("array"), fitted("no names")):
        module = loaded(python_file(estimator))
        with pytest.raises(ValueError, match=r"column 'x\d' is missing; expected the columns \['x0', "):
            module.predict([{}])


@pytest.mark.parametrize("cell", [None, 1.0, "a", np.float64(2), pd.NA])
def test_a_dict_of_cells_instead_of_columns_is_an_error_with_a_remedy(cell: Any) -> None:
    for estimator in (small("array"), fitted("no names")):
        module = loaded(python_file(estimator))
        row = dict.fromkeys(module.COLUMNS, 1.0)
        module.predict([row])
        name = next(iter(row))
        for call in (module.predict, module.predict_proba):
            with pytest.raises(
                TypeError, match=f"column '{name}' is .*; expected a list or array.*a list with this dict"
            ):
                call(row | {name: cell})


@pytest.mark.parametrize("is_pack", [False, True])
def test_a_model_fitted_without_names_takes_what_the_estimator_takes(is_pack: bool) -> None:
    estimator, table = fitted("no names") if is_pack else small("array"), numbers(30, seed=9)
    module = loaded(python_file(estimator))
    by_position = pd.DataFrame(table, columns=[f"c{i}" for i in range(table.shape[1])])
    expected = module.predict_proba(pd.DataFrame(table, columns=estimator._names))
    for rows in (table, table.tolist(), list(table), pd.DataFrame(table), by_position, pa.table(by_position)):
        np.testing.assert_array_equal(module.predict_proba(rows), expected)
    with pytest.raises(ValueError, match=f"rows has 1 columns; expected {table.shape[1]}, as in training"):
        module.predict(table[:, :1])
    for rows, said in [(table[0], "a 1-D array"), ("abc", "a str"), (None, "a NoneType"), ([1.0], "a list")]:
        with pytest.raises(TypeError, match=f"rows is {said}; expected a list of dicts.*or a 2-D array"):
            module.predict(rows)


def test_a_model_fitted_with_names_says_that_it_needs_them() -> None:
    module = loaded(python_file(small("two classes")))
    for rows, said in [(np.zeros((2, 10)), "a 2-D array"), ([[0.0] * 10], "a list"), (3, "a int")]:
        with pytest.raises(TypeError, match=rf"rows is {said}; expected a list of dicts.*, with the columns \['.*\]$"):
            module.predict(rows)


def test_a_single_row_needs_no_package(tmp_path: Path) -> None:
    estimator = small("two classes")
    row = {"number": 0.5, "größe": None, "count": 3, "flag": True, "colour": "red", "città": "a"}
    row |= {
        "when": datetime.datetime(2024, 5, 6, 7),
        "took": datetime.timedelta(minutes=3),
        "size": "M",
        "constant": 7.0,
    }
    (tmp_path / "model.py").write_text(python_file(estimator), encoding="utf-8")
    code = f"""
import datetime, sys
sys.modules["numpy"] = None
import model
print(model.predict_row({row!r}))
try:
    model.predict([])
except ImportError as error:
    print(error)
"""
    # -I -S: no site-packages
    start = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", start + code], capture_output=True, text=True, check=False)
    label, said = done.stdout.splitlines()
    assert [label] == estimator.predict(pd.DataFrame([row])).tolist()
    assert said == "predictions for several rows require NumPy; install it, or use predict_row"


def test_a_pack_needs_numpy_only(tmp_path: Path) -> None:
    estimator = fitted("calibrated")
    (tmp_path / "model.py").write_text(python_file(estimator), encoding="utf-8")
    code = "import sys, model; model.predict([dict(x0=1.0, x1=None, x2=0.0)])\n"
    code += "print({name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names) - {'__main__'})"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "torch" not in done.stdout and "tabgnm" not in done.stdout and "numpy" in done.stdout


def test_the_code_of_a_small_machine_has_one_line_per_unit_with_readable_names() -> None:
    estimator = small("two classes")
    tree = ast.parse(python_file(estimator))
    [function] = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "_outputs"]
    names = [node.targets[0].id for node in function.body if isinstance(node, ast.Assign)]  # type: ignore[attr-defined]
    machine = estimator.machine_
    assert [name for name in names if re.fullmatch(r"h\d+", name)] == [f"h{n + 1}" for n in range(machine.n_hidden)]
    assert sum(name.startswith("y_") for name in names) == len(machine.outputs)
    assert sum(name.startswith("x_") for name in names) == len(machine.used_inputs)
    assert {"c_number", "c_when"} & set(names)


@pytest.mark.parametrize("is_pack", [False, True])
def test_nothing_of_a_name_a_level_or_a_label_is_executed(is_pack: bool) -> None:
    estimator, table = hostile(is_pack=is_pack)
    source = python_file(estimator)
    module = loaded(source)
    assert not hasattr(module, "HACKED")
    harmless = python_file(fitted("pack of classifiers") if is_pack else small("two classes"))

    def shape(text: str) -> list[str]:
        return [f"{type(node).__name__} {getattr(node, 'name', '')}" for node in ast.parse(text).body]

    without_tables = [line for line in shape(source) if line.strip() != "Assign"]
    assert without_tables == [line for line in shape(harmless) if line.strip() != "Assign"]
    assert_same(estimator, table, module)


@given(st.lists(st.text(), max_size=30))
def test_identifiers_are_valid_and_differ(texts: list[str]) -> None:
    names = Identifiers()
    found = [names.new("c", text) for text in texts]
    assert all(name.isidentifier() and name.isascii() for name in found)
    assert len(set(found)) == len(found)


def test_a_pack_that_is_too_large_is_an_error_with_remedies() -> None:
    with pytest.raises(ExportError, match=r"more than max_megabytes=0.001; export to .onnx, use a larger"):
        python_file(fitted("calibrated"), max_megabytes=0.001)
    assert python_file(fitted("calibrated"), max_megabytes=1)


@pytest.mark.parametrize("case", ["pack of a table", "variant: gated", "calibrated"])
def test_a_loaded_estimator_is_exported_the_same(case: str, tmp_path: Path) -> None:
    (tmp_path / "model.tabgnm").write_bytes(to_bytes(fitted(case)))
    assert python_file(tabgnm.load(tmp_path / "model.tabgnm")) == python_file(fitted(case))


def test_labels_of_different_types_keep_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabgnm.sparsity.path.N_STEPS", 200)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    y = pd.DataFrame({"word": np.where(table["a"] > 0, "yes", "no"), "number": np.digitize(table["b"], [-1, 1])})
    pack = GNMClassifier(n_candidates=1, n_folds=2, max_epochs=2, n_nodes=40, random_state=0).fit(table, y)
    machine = GNMClassifier().fit_sparse(
        table, y, n_hidden=4, n_layers=2, n_folds=2, n_starts=1, n_edges=20, random_state=0
    )
    for estimator in (pack, machine):
        expected = estimator.predict(table)
        assert {type(label) for label in expected[0]} == {str, int}
        predicted = loaded(python_file(estimator)).predict(table)
        assert predicted.tolist() == expected.tolist()
