"""The equations of small machines, computed by a reader that knows nothing but their text."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabgnm import GNMRegressor, load
from tabgnm.export import Program, RawColumn, equations, program_of
from tabgnm.nn import activation_names
from tabgnm.sparsity import Machine, Unit
from tabgnm.table.numbers import NumberMap
from tabgnm.table.recipes import Recipe
from tests.export.reading_equations import CONDITION, Reader
from tests.export.small_models import N_ROWS, mixed_table, small_model

X = mixed_table()
RNG = np.random.default_rng(1)
NUMBERS = RNG.normal(50, 10, N_ROWS)
COUNTS = RNG.poisson(3, N_ROWS)
CLASSES = RNG.choice(["no", "yes, if"], N_ROWS)
THREE = RNG.choice([10, 20, 30], N_ROWS)

TASKS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a number": (NUMBERS, {}),
    "two numbers": (np.column_stack([NUMBERS, NUMBERS * 2 + X["h0"]]), {}),
    "quantiles": (NUMBERS, {"loss": "quantile", "quantile": [0.1, 0.5, 0.9]}),
    "a count": (COUNTS, {"loss": "poisson"}),
    "two classes": (CLASSES, {}),
    "three classes": (THREE, {}),
    "labels": (RNG.integers(0, 2, (N_ROWS, 3)), {}),
    "two targets of classes": (np.column_stack([CLASSES, THREE.astype(str)]), {}),
}


def predictions(model: Any, X: Any) -> Any:
    """Predictions in the order of the lines: numbers, or probabilities of all classes."""
    if not hasattr(model, "predict_proba"):
        return np.reshape(model.predict(X), (len(X), -1))
    probabilities = model.predict_proba(X)
    return np.column_stack(probabilities) if isinstance(probabilities, list) else probabilities


def assert_text_equals_predictions(model: Any, X: pd.DataFrame, digits: int | None = 6) -> float:
    """Returns the tolerance that the text states."""
    reader = Reader(model.equations(digits=digits), X)
    values = reader.compute()
    program = program_of(model)
    expected = predictions(model, X)
    n = expected.shape[1]
    names = list(values)[-n:]
    if program.link == "softmax":
        names = [name for name in values if re.match(r"p\d?_", name)]
    computed = np.column_stack([values[name] for name in names])
    off = np.abs(computed - expected)
    allowed = reader.tolerance * (np.abs(expected) if "times themselves" in reader.notes[-1] else 1)
    assert (off <= allowed).all(), (off.max(), reader.tolerance)
    return reader.tolerance


@pytest.mark.parametrize("task", TASKS)
def test_the_text_equals_predictions_within_the_stated_tolerance_for_every_kind_of_target(task: str) -> None:
    y, parameters = TASKS[task]
    model = small_model(X, y, **parameters)
    assert_text_equals_predictions(model, X)


@pytest.mark.parametrize("scaling", ["standard", "quantile", "robust", "none"])
def test_the_text_equals_predictions_for_every_scaling(scaling: str) -> None:
    columns = X.drop(columns="relu") if scaling == "none" else X  # 1e6 +- 10 without scaling is too much for float32
    assert_text_equals_predictions(small_model(columns, NUMBERS, scaling=scaling), columns)


@pytest.mark.parametrize("activation", activation_names())
def test_the_text_equals_predictions_for_every_function(activation: str) -> None:
    assert_text_equals_predictions(small_model(X, NUMBERS, activation=activation, seed=3), X)


@pytest.mark.parametrize("variant", [{"clamp_inputs": True, "n_layers": 3}, {"combine": "residual"}, {"tied": True}])
def test_the_text_equals_predictions_for_other_graphs(variant: dict[str, Any]) -> None:
    assert_text_equals_predictions(small_model(X, NUMBERS, density=0.06, **variant), X)


@pytest.mark.parametrize("digits", [2, 3, 6, 9, None])
def test_more_digits_are_more_exact(digits: int | None) -> None:
    model = small_model(X, NUMBERS, density=0.05)
    tolerance = assert_text_equals_predictions(model, X, digits)
    assert tolerance <= {2: 30, 3: 3, 6: 3e-3, 9: 2e-3, None: 2e-3}[digits]


def test_six_digits_are_exact_to_a_ten_thousandth_of_the_spread_of_the_target() -> None:
    table = X[["age", "year of sale", "city", "member"]]
    model = small_model(table, NUMBERS, density=0.3, n_nodes=12)
    assert assert_text_equals_predictions(model, table) < 1e-4 * NUMBERS.std()


def test_unknown_levels_and_missing_cells_are_explained() -> None:
    model = small_model(X, NUMBERS, density=0.5)
    other = X.copy()
    other.loc[:50, "city"] = "Paris"
    other.loc[20:70, "age"] = np.nan
    other.loc[60:90, "year of sale"] = np.nan  # without missing cells in fit
    other.loc[70:99, "when"] = pd.NaT
    other["size"] = other["size"].astype(object)
    other.loc[90:120, "size"] = None
    assert_text_equals_predictions(model, other)


def test_a_linear_function_is_written_in_the_units_of_the_columns() -> None:
    table = pd.DataFrame({"age": np.arange(20.0), "city": ["Oslo", "Rome"] * 10})
    model = small_model(table, table["age"], density=1.0, n_layers=1, n_nodes=4)
    [line] = Reader(model.equations(digits=3), table).lines
    number = r"-?\d+(?:\.\d+)?"
    assert re.fullmatch(
        rf"y = {number}\*age [-+] {number}\*\[city = Oslo\] [-+] {number}\*\[city = Rome\] [-+] {number}", line
    )


def test_names_are_quoted_or_replaced_with_a_legend() -> None:
    text = small_model(X, NUMBERS, density=1.0).equations()
    for note in (
        'year_of_sale: column "year of sale"',
        'income_k: column "income (k$)"',
        'lambda_2: column "lambda"',
        'relu_2: column "relu"',
        'Gro_e_2: column "Größe*2"',
        "member: 1 for true, 0 for false",
        'size_rank: rank of size in the order of its levels: 0 for small, 1 for middle, 2 for "very large"',
    ):
        assert f"# {note}" in re.sub(r"\n#   ", " ", text)
    assert '[city = "a \\"b\\" ] c"]' in text
    assert "\ntarget = " in text  # y is a column


def test_hidden_units_are_called_h_everywhere_and_never_like_a_column() -> None:
    table = X[["age", "year of sale"]].assign(h1=X["h0"], h3=X["city"])
    y = pd.Series(RNG.choice(["a", "b", "c"], N_ROWS), name="kind")
    # Inputs and outputs are updated in the inner layers, too.
    model = small_model(table, y, density=0.5, n_layers=3, n_nodes=16)
    machine = model.machine_
    hidden = [unit.name for unit in machine.units][: machine.n_hidden]
    expected = [f"h{number}" for number in range(1, 100) if number not in (1, 3)][: machine.n_hidden]
    assert hidden == expected and machine.n_hidden > 15
    lines = [line.partition(" = ")[0] for line in Reader(model.equations(), table).lines]
    assert lines[: machine.n_hidden] == expected
    assert lines[machine.n_hidden :] == ["z0", "z1", "z2", "total", "p_a", "p_b", "p_c"]
    assert list(dict.fromkeys(model.edges()["target"])) == [*expected, "kind=a", "kind=b", "kind=c"]


def test_the_output_has_the_name_of_the_target_unless_a_column_has_it() -> None:
    y = pd.Series(NUMBERS, name="price")
    model = small_model(X[["age"]], y, density=1.0, n_nodes=5)
    assert "\nprice = " in model.equations() and set(model.equations("sympy")) == {"price"}
    assert model.graph()[0].nodes[4]["name"] == "price"
    for name, output in (("age", "y"), ("", "y"), (None, "y")):
        model = small_model(X[["age"]], y.rename(name), density=1.0, n_nodes=5)
        assert model.machine_.output_names == (output,)
    model = small_model(X[["age", "y"]].assign(target=1.0), y.rename("age"), density=1.0, n_nodes=8)
    assert model.machine_.output_names == ("target_2",)
    text = small_model(X[["age"]], pd.Series(CLASSES, name="bought"), density=1.0, n_nodes=5).equations()
    assert "# p_no: probability of bought = no" in text


def test_several_outputs_have_the_names_of_the_columns_of_y() -> None:
    y = pd.DataFrame({"price": NUMBERS, "cost": -NUMBERS})
    model = small_model(X[["age"]], y, density=1.0, n_nodes=6)
    assert model.machine_.output_names == ("price", "cost")
    assert set(model.equations("sympy")) == {"price", "cost"}
    assert r"\text{cost} &= " in model.equations("latex")
    assert {"price", "cost"} <= set(model.edges()["target"])
    assert [model.graph_[0].nodes[node]["name"] for node in (4, 5)] == ["price", "cost"]
    one = small_model(X[["age"]], y, density=1.0, n_nodes=6, loss="quantile", quantile=0.9)
    assert "# cost: estimate of the 0.9 quantile of cost" in one.equations()
    assert "It predicts quantiles of price, cost: price the 0.9 quantile, cost the 0.9 quantile." in one.describe()
    unnamed = small_model(X[["age"]], y.to_numpy(), density=1.0, n_nodes=6)
    assert unnamed.machine_.output_names == ("y0", "y1")


def test_only_a_target_with_the_name_of_a_column_is_renamed() -> None:
    y = pd.DataFrame({"age": NUMBERS, "cost": -NUMBERS})
    table = X[["age"]]
    for more, expected in (
        ([], ("y0", "cost")),
        (["y0"], ("target_0", "cost")),
        (["y1", "target_1"], ("target_2_0", "cost")),
    ):
        model = small_model(table.assign(**dict.fromkeys(more, table["age"])), y, n_nodes=10)
        assert model.machine_.output_names == expected
    twice = pd.DataFrame(np.column_stack([NUMBERS, -NUMBERS]), columns=["cost", "cost"])
    assert small_model(table, twice, n_nodes=6).machine_.output_names == ("cost", "y1")


def test_probabilities_of_several_targets_have_the_names_of_the_targets() -> None:
    y = pd.DataFrame({"bought": CLASSES, "my size": THREE.astype(str)})
    model = small_model(X[["age"]], y, density=1.0, n_nodes=12)
    text = model.equations()
    assert list(model.equations("sympy")) == [
        "p_bought_no",
        "p_bought_yes_if",
        *(f"p_my_size_{n}" for n in (10, 20, 30)),
    ]
    assert "# p_my_size_10: probability of my size = 10" in text
    assert r"P(\text{my size} = \text{10})" in model.equations("latex")
    assert model.machine_.output_names[-1] == "my size=30"
    labels = pd.DataFrame(RNG.integers(0, 2, (N_ROWS, 2)), columns=["old", "new"])
    model = small_model(X[["age"]], labels, density=1.0, n_nodes=6)
    assert model.machine_.output_names == ("old", "new")
    assert "# p_new_1: probability of new = 1" in model.equations()


@pytest.mark.parametrize(
    ("name", "shown"), [("lambda", "lambda_2"), ("my target €", "my_target"), ("exp", "exp_2"), (7, "y_7")]
)
@pytest.mark.parametrize("parameters", [{}, {"loss": "poisson"}], ids=["a number", "a count"])
def test_a_replaced_name_of_the_target_is_explained(name: Any, shown: str, parameters: dict[str, Any]) -> None:
    model = small_model(X[["age"]], pd.Series(COUNTS * 1.0, name=name), density=1.0, n_nodes=5, **parameters)
    assert f'\n# {shown}: target "{name}"\n' in model.equations() and list(model.equations("sympy")) == [shown]
    latex = model.equations("latex")
    assert rf"\text{{{name}}} &= " in latex and shown not in latex and "target" not in latex.replace(str(name), "")


def test_the_numbers_of_columns_are_not_names_of_targets() -> None:
    numbered = pd.DataFrame(np.column_stack([NUMBERS, -NUMBERS]))
    assert small_model(X[["age"]], numbered, n_nodes=6).machine_.output_names == ("y0", "y1")
    assert small_model(X[["age"]], numbered[0], n_nodes=6).machine_.output_names == ("y",)
    assert small_model(X[["age"]], numbered[1], n_nodes=6).machine_.output_names == ("1",)


def test_negative_labels_have_readable_probabilities() -> None:
    model = small_model(X[["age"]], np.where(CLASSES == "no", -1, 1), density=1.0, n_nodes=5)
    lines = model.equations().splitlines()
    assert "p_minus_1 = 1 - sigmoid(z)" in lines and "p_1 = sigmoid(z)" in lines
    assert "# p_minus_1: probability of y = -1" in lines


def test_the_names_of_several_targets_are_comments_of_files(tmp_path: Path) -> None:
    y = pd.DataFrame({"price": NUMBERS, "*/ cost\n": -NUMBERS})
    model = small_model(X[["age"]], y, density=1.0, n_nodes=6)
    model.export(tmp_path / "model.c")
    assert " * Its targets, in this order: price, * / cost\\n.\n" in (tmp_path / "model.c").read_text()
    model.export(tmp_path / "model.sql", table="t", dialect="sqlite")
    assert "\n-- prediction_0: price\n-- prediction_1: */ cost\\n\n" in (tmp_path / "model.sql").read_text()
    model.fit(X[["age"]], y.to_numpy()).export(tmp_path / "model.c")
    assert "in this order" not in (tmp_path / "model.c").read_text()


def test_quantiles_are_named_and_explained() -> None:
    several = {"loss": "quantile", "quantile": [0.1, 0.5, 0.975]}
    model = small_model(X[["age"]], pd.Series(NUMBERS, name="price"), density=1.0, n_nodes=8, **several)
    assert model.machine_.output_names == ("price_q10", "price_q50", "price_q97.5")
    assert "# price_q97_5: estimate of the 0.975 quantile of price" in model.equations()
    assert "It predicts quantiles of price: price_q10 the 0.1 quantile" in model.describe()
    model = small_model(X[["age"]], NUMBERS, density=1.0, n_nodes=5, loss="quantile", quantile=0.9)
    assert "# y: estimate of the 0.9 quantile of y" in model.equations()
    assert "y the 0.9 quantile" in model.describe()


def test_units_of_times_and_the_zone_of_dates_are_explained_also_in_files(tmp_path: Path) -> None:
    when = X["when"].dt.tz_localize("Europe/Oslo", ambiguous="NaT", nonexistent="NaT")
    table = pd.DataFrame({"when": when, "at": X["when"].dt.time, "took": X["when"] - pd.Timestamp("2019-01-01")})
    model = small_model(table, NUMBERS, density=1.0, n_nodes=20)
    for comment, text in (("# ", model.equations()), ("% ", model.equations("latex"))):
        assert f"{comment}Dates with a time zone are converted to UTC first; their parts are those in UTC" in text
        assert re.search(rf"{comment}\S*at\S*: in seconds since midnight\n", text)
        assert re.search(rf"{comment}\S*took\S*: in seconds\n", text)
    for name, options in (("model.py", {}), ("model.sql", {"table": "t", "dialect": "duckdb"})):
        model.export(tmp_path / name, **options)
        assert "Dates with a time zone are converted to UTC" in (tmp_path / name).read_text()


def test_the_bound_of_probabilities_is_at_most_one() -> None:
    model = small_model(X, CLASSES, density=1.0)
    for values in model.fitted_.groups[0].parameters.values():
        values.mul_(10)
    assert model.equations(digits=1).endswith("Rounding may change probabilities by up to 1: use more digits.")


def test_a_constant_target_needs_no_columns() -> None:
    model = small_model(X, np.full(N_ROWS, 3.5), density=0.3)
    assert model.equations().splitlines()[:2] == ["target = 3.5", ""]
    assert "missing" not in model.equations()
    assert not program_of(model).columns


def test_an_empty_level_can_be_seen() -> None:
    table = pd.DataFrame({"city": np.array(["", "Oslo", "Rome", " "])[RNG.integers(0, 4, N_ROWS)]})
    model = small_model(table, NUMBERS, density=1.0, n_layers=1, n_nodes=7)
    assert '[city = ""]' in model.equations() and '[city = " "]' in model.equations()
    assert r'[\text{city} = \text{""}]' in model.equations("latex")
    assert {'city=""', 'city=" "'} <= set(model.edges()["source"])
    assert 'city=""' in model.describe()
    labels = small_model(X[["age"]], np.where(CLASSES == "no", "", "yes"), density=1.0, n_nodes=5)
    assert '= ""' in labels.equations() and r'P(y = \text{""})' in labels.equations("latex")


def test_levels_that_look_like_missing_cells_or_booleans_are_in_quotes() -> None:
    levels = ["None", "null", "true", "False", "NaT", "Oslo"]
    table = pd.DataFrame({"city": pd.Categorical(RNG.choice(levels, N_ROWS), categories=levels)})
    model = small_model(table, NUMBERS, density=1.0, n_layers=1, n_nodes=9)
    text = model.equations()
    assert "[city = Oslo]" in text and all(f'[city = "{level}"]' in text for level in levels[:-1])
    assert_text_equals_predictions(model, table)
    text = small_model(X[["age"]], np.where(CLASSES == "no", "None", "yes"), density=1.0, n_nodes=5).equations()
    assert '# p_None: probability of y = "None"' in text
    text = small_model(X[["age"]], CLASSES == "no", density=1.0, n_nodes=5).equations()
    assert "# p_True: probability of y = True" in text


def test_the_probabilities_of_two_classes_add_up_to_one() -> None:
    lines = small_model(X[["age"]], CLASSES, n_nodes=5, density=1.0).equations().splitlines()
    assert "p_no = 1 - sigmoid(z)" in lines and "p_yes_if = sigmoid(z)" in lines
    assert "# p_yes_if: probability of y = yes, if" in lines


def test_a_single_class_has_probability_one() -> None:
    model = small_model(X[["age"]], np.array(["only"] * N_ROWS, dtype=object), n_nodes=5)
    assert model.equations().startswith("p_only = 1\n")


def test_a_large_count_is_clipped_as_in_predict() -> None:
    model = small_model(X[["age"]], COUNTS, loss="poisson", density=1.0, n_nodes=4, n_layers=1)
    for values in model.fitted_.groups[0].parameters.values():
        values.mul_(100)
    assert "exp(clip(z, -20, 20))" in model.equations()
    assert_text_equals_predictions(model, X[["age"]], 12)


# LaTeX


@pytest.mark.parametrize("task", TASKS)
def test_latex_is_balanced_and_escaped(task: str) -> None:
    y, parameters = TASKS[task]
    latex = small_model(X, y, density=0.1, **parameters).equations("latex")
    body = latex[latex.index(r"\begin{align*}") : latex.index(r"\end{align*}")]
    without_escaped = re.sub(r"\\[{}$&#_%]", "", body)
    depth = 0
    for character in without_escaped:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    texts = re.findall(r"\\text\{([^{}]*)\}", without_escaped)
    assert texts and not any(set("$&#_%~^\\") & set(own) for own in texts)
    for row in re.split(r"\\\\\n", without_escaped.removeprefix(r"\begin{align*}")):
        assert row.count("&") == 1
    comments = latex.partition("\\end{align*}\n")[2].splitlines()
    assert all(line.startswith("% ") for line in comments)
    for line in comments:  # each compiles where it is not a comment, and has the names of the equations
        outside = re.sub(r"\$[^$]*\$", "", re.sub(r"\\[{}$&#_%]|\\text\w+\{\}", "", line[2:]))
        assert not set("$&#_%~^\\{}") & set(outside)
    assert "income_k" not in latex


def test_latex_has_the_names_of_columns_as_they_are() -> None:
    table = X.assign(count=np.linspace(1e9, 9e9, N_ROWS))
    latex = small_model(table, NUMBERS, density=1.0).equations("latex", digits=3)
    assert r"\text{year of sale}" in latex
    assert r"\text{income (k\$)}" in latex
    assert r"[\text{city} = \text{New York}]" in latex
    assert r"\cdot 10^{" in latex  # the factor of a column of billions


# SymPy


@pytest.mark.parametrize("task", ["quantiles", "a count", "two classes", "two targets of classes"])
def test_sympy_expressions_equal_predictions(task: str) -> None:
    import sympy

    y, parameters = TASKS[task]
    table = X[["age", "year of sale", "city"]]
    model = small_model(table, y, density=0.12, n_nodes=16, seed=2, **parameters)
    assert_sympy_equals_predictions(model, table, sympy)


@pytest.mark.parametrize("activation", activation_names())
def test_sympy_knows_every_function(activation: str) -> None:
    import sympy

    table = X[["age", "year of sale"]]
    assert_sympy_equals_predictions(
        small_model(table, NUMBERS, activation=activation, n_nodes=8, density=0.6), table, sympy
    )


@pytest.mark.parametrize("scaling", ["quantile", "robust"])
def test_sympy_knows_every_scaling(scaling: str) -> None:
    import sympy

    table = X[["age", "year of sale"]]
    assert_sympy_equals_predictions(small_model(table, NUMBERS, scaling=scaling, n_nodes=8, density=0.6), table, sympy)


def assert_sympy_equals_predictions(model: Any, table: pd.DataFrame, sympy: Any) -> None:
    rows = table[:40]
    reader = Reader(model.equations(), rows)
    computed = []
    for expression in model.equations("sympy").values():
        symbols = sorted(expression.free_symbols, key=str)
        values = []
        for symbol in symbols:
            found = CONDITION.fullmatch(symbol.name)
            values.append(reader.condition(*found.groups()) if found else reader.quantity(symbol.name))
        function = sympy.lambdify(symbols, expression, ["scipy", "numpy"])
        computed.append(np.broadcast_to(function(*values), len(rows)))
    expected = predictions(model, rows)
    allowed = reader.tolerance * (np.abs(expected) if "times themselves" in reader.notes[-1] else 1)
    assert (np.abs(np.column_stack(computed) - expected) <= allowed).all()


def test_too_many_quantiles_are_refused_by_sympy() -> None:
    model = small_model(
        X[["age"]], NUMBERS, loss="quantile", quantile=list(np.linspace(0.1, 0.9, 9)), n_nodes=14, density=1.0
    )
    with pytest.raises(ValueError, match=r"9 quantiles are too many for SymPy.*format='text'"):
        model.equations("sympy")


def test_the_method_has_the_defaults_of_the_function() -> None:
    method, function = (inspect.signature(own).parameters for own in (GNMRegressor.equations, equations))
    for name in ("format", "digits"):
        assert method[name].default == function[name].default


def test_a_loaded_estimator_has_the_same_equations(tmp_path: Path) -> None:
    model = small_model(X, NUMBERS)
    model.save(tmp_path / "small.tabgnm")
    assert load(tmp_path / "small.tabgnm").equations() == model.equations()


def test_wrong_formats_and_digits_are_refused() -> None:
    program = program_of(small_model(X[["age"]], NUMBERS, n_nodes=4))
    with pytest.raises(ValueError, match="format='html' is not known; use one of 'text', 'latex', 'sympy'"):
        equations(program, "html")
    for digits in (0, 18, 2.5, True):
        with pytest.raises(ValueError, match="expected an integer from 1 to 17, or None"):
            equations(program, digits=digits)


def test_text_and_latex_need_no_sympy(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(X[["age"]], NUMBERS, n_nodes=4, density=1.0)
    monkeypatch.setitem(sys.modules, "sympy", None)
    assert model.equations() and model.equations("latex")
    with pytest.raises(ImportError, match="sympy"):
        model.equations("sympy")


def test_the_bound_does_not_grow_with_the_mean_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabgnm.sparsity.path.N_STEPS", 600)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "b"])
    bounds = []
    for mean in (0.0, 1e6):
        small = GNMRegressor().fit_sparse(
            table, mean + table["a"], n_hidden=4, n_layers=2, n_folds=2, n_starts=1, random_state=0
        )
        text = small.equations(digits=None)
        [bound] = re.findall(r"less than ([0-9.e+-]+)\.$", " ".join(text.replace("#", "").split()))
        bounds.append(float(bound))
        assert np.ptp(small.predict(table)) > 100 * bounds[-1]
    assert bounds[1] < 1e-4 and bounds[1] < 10 * bounds[0]


def test_hidden_units_keep_their_names_beside_columns_with_similar_ones() -> None:
    recipe = Recipe("h1!", 0, "h1!", "number", "number", map=NumberMap("identity"))
    hidden, output = Unit("h1", 1, (0,), (1.0,), 0.5, "relu"), Unit("y", 2, (1,), (2.0,), 0.0, "identity")
    machine = Machine(("h1!",), (hidden, output), (2,), ("y",))
    column = RawColumn(0, "h1!", "number")
    text = equations(Program((column,), (recipe,), machine, "identity", scales=(1.0,), shifts=(0.0,)), "text", 3)
    assert text.startswith("h1 = relu(h1_2 + 0.5)\ny = 2*h1\n") and 'h1_2: column "h1!"' in text
