"""Exported C computes what the estimator does, under real compilers, and takes any text."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabgnm import GNMClassifier
from tabgnm.export import ExportError, Program, RawColumn, program_of, to_c
from tabgnm.export.c_text import comment, identifiers, number, string
from tabgnm.sparsity import Machine, Unit
from tabgnm.table.numbers import NumberMap
from tabgnm.table.recipes import Recipe
from tabgnm.table.values import date_parts
from tests.export.c_programs import WARNINGS, Case, compiler, run, sanitizers
from tests.export.program_examples import assert_same, examples, fitted, frame, rows

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


def single(recipe: Recipe, **more: Any) -> Program:
    """Return a program whose prediction is one encoded column."""
    column = RawColumn(recipe.column, recipe.column_name, recipe.kind)
    machine = Machine((recipe.name,), (), (0,), ("y",))
    return Program((column,), (recipe,), machine, "identity", **more)


@pytest.mark.parametrize("command", ["gcc", "clang"])
def test_c_predicts_the_same_for_every_target_activation_and_kind_of_column(command: str, tmp_path: Path) -> None:
    cases = [Case(program_of(own), rows(), f"m_{name}") for name, own in examples().items()]
    found = run(cases, tmp_path, compiler(command), *WARNINGS, *sanitizers(compiler(command)))
    for (name, estimator), own in zip(examples().items(), found, strict=True):
        assert_same(own, estimator, rows())
        assert name == "one" or np.std(own[0].astype(float) if own[1] is None else own[1]) > 0.01


def test_the_examples_read_every_kind_of_column_in_every_way() -> None:
    read = {(own.kind, own.what, own.part) for e in examples().values() for own in program_of(e).recipes}
    kinds = {"number", "boolean", "datetime", "duration", "time"}
    assert {kind for kind, what, _ in read if what == "number"} == kinds | {"category"}
    assert {kind for kind, what, _ in read if what == "missing"} == kinds
    assert {what for kind, what, _ in read if kind == "category"} == {"level", "two-level", "unknown", "number"}
    assert {part for _, _, part in read} == {"", "rank", "days", "year", "month", "day", "weekday", "hour"}
    links = {program_of(e).link for e in examples().values()}
    assert links == {"identity", "sorted", "exp", "sigmoid", "softmax", "constant"}


@pytest.mark.slow
def test_a_machine_learned_by_fit_sparse_predicts_the_same_in_c(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300), "b": rng.choice(["x", "y", "z"], 300)})
    y = np.where((X["a"] > 0) ^ (X["b"] == "x"), "yes", "no")
    small = GNMClassifier(random_state=0, n_jobs=1).fit_sparse(
        X, y, n_edges=30, n_hidden=8, n_folds=2, n_starts=1, random_state=0
    )
    [found] = run([Case(program_of(small), X, "small")], tmp_path, compiler("gcc"), *WARNINGS)
    assert_same(found, small, X)


def test_date_parts_of_c_are_those_of_the_encoder(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    edges = np.array(
        [
            "0001-01-01",
            "1599-12-31T23:59:59.999",
            "1700-12-31T23:59:59.999999",
            "1600-02-29",
            "1900-03-01",
            "2000-12-31",
            "9999-12-31",
        ]
    )
    moments = np.concatenate(
        [
            edges.astype("datetime64[us]"),
            rng.integers(-60_000_000_000, 250_000_000_000, 300).astype("datetime64[s]").astype("datetime64[us]"),
            rng.integers(-(10**15), 2 * 10**15, 100).astype("datetime64[us]"),
        ]
    )
    names = ("days", "year", "month", "day", "weekday", "hour")
    parts = [Recipe(f"when.{part}", 0, "when", "datetime", "number", part, NumberMap("identity")) for part in names]
    machine = Machine(tuple(own.name for own in parts), (), tuple(range(6)), names)
    columns = (RawColumn(0, "when", "datetime"),)
    program = Program(columns, tuple(parts), machine, "identity", one_dimensional=False)
    table = pd.DataFrame({"when": moments})
    [(found, _)] = run([Case(program, table, "dates")], tmp_path, compiler("gcc"), *WARNINGS, *sanitizers("gcc"))
    expected = date_parts(moments)
    np.testing.assert_array_equal(found[:, 1:5], expected.T[:, 1:5])
    np.testing.assert_allclose(found, expected.T, rtol=1e-12, atol=1e-9)


def test_codes_ranks_and_levels_that_are_only_missing_or_not_are_looked_up(tmp_path: Path) -> None:
    rank = NumberMap("linear", centre=1.0, scale=2.0, fill=0.25)
    recipes = [
        Recipe("code", 0, "c", "category", "code", levels=("b", "a")),
        Recipe("rare", 0, "c", "category", "code", levels=("b", "a"), rare=True),
        Recipe("rank", 0, "c", "category", "number", "rank", rank, levels=("b", "é", "a")),
        Recipe("missing", 0, "c", "category", "missing"),
    ]
    table = pd.DataFrame({"c": ["b", "a", "é", "other", None]})
    cases = [Case(single(own), table, own.name) for own in recipes]
    found = [
        predicted[:, 0].tolist()
        for predicted, _ in run(cases, tmp_path, compiler("gcc"), *WARNINGS, *sanitizers("gcc"))
    ]
    assert found == [[1, 2, 0, 0, 0], [1, 2, 3, 3, 0], [-0.5, 0.5, 0, 0.25, 0.25], [0, 0, 0, 0, 1]]


def test_a_machine_without_inputs_is_a_constant(tmp_path: Path) -> None:
    constant = Program((), (), Machine((), (Unit("y", 1, (), (), -2.5, "identity"),), (0,), ("y",)), "identity")
    nothing = single(Recipe("(nothing)", 0, "a", "ignore", "nothing"))
    table = pd.DataFrame({"a": [1.0, np.nan]})
    cases = [Case(constant, table, "constant"), Case(nothing, table, "nothing")]
    (first, _), (second, _) = run(cases, tmp_path, compiler("gcc"), *WARNINGS, *sanitizers("gcc"))
    assert first.tolist() == [[-2.5], [-2.5]]
    assert second.tolist() == [[0], [0]]


def test_numbers_beyond_what_encoded_columns_hold_are_clipped_without_undefined_behaviour(tmp_path: Path) -> None:
    maps = [NumberMap("identity"), NumberMap("linear", -1e308, 1e-3), NumberMap("smooth", 0.0, 5e-324)]
    maps.append(NumberMap("knots", knots=np.array([1e-310, 2e-310]), targets=np.array([-1.0, 1.0])))
    table = pd.DataFrame({"a": [1.7e308, -1.7e308, 1.5e-310]})
    cases = [
        Case(single(Recipe("a", 0, "a", "number", "number", map=own), single=True), table, f"clipped_{place}")
        for place, own in enumerate(maps)
    ]
    found = [predicted[:, 0] for predicted, _ in run(cases, tmp_path, compiler("gcc"), *WARNINGS, *sanitizers("gcc"))]
    largest = float(np.finfo(np.float32).max)
    np.testing.assert_allclose(found[0], [largest, -largest, 0], rtol=1e-12)
    np.testing.assert_allclose(found[1], [largest, -largest, largest], rtol=1e-12)
    np.testing.assert_allclose(found[2], [3, -3, 3], rtol=1e-6)
    np.testing.assert_allclose(found[3], [1, -1, 0], atol=1e-6)


def test_labels_are_integers_numbers_or_strings(tmp_path: Path) -> None:
    program = program_of(examples()["binary"])
    labels = {
        "text": np.array(["??/", 'é"\\']),
        "integers": np.array([-3, 7]),
        "booleans": np.array([False, True]),
        "numbers": np.array([1.0, 2.0]),
    }
    printed = {"text": "%s", "integers": "%lld", "booleans": "%lld", "numbers": "%g"}
    for name, own in labels.items():
        text = to_c(replace(program, classes=(own,)), prefix=name)
        text += f'#include <stdio.h>\nint main(void) {{ printf("{printed[name]} {printed[name]}", '
        text += f"{name}_labels[0], {name}_labels[1]); return 0; }}\n"
        (tmp_path / f"{name}.c").write_text(text)
        binary = tmp_path / name
        subprocess.run([compiler("gcc"), *WARNINGS, tmp_path / f"{name}.c", "-o", binary, "-lm"], check=True)
        shown = subprocess.run([binary], check=True, capture_output=True).stdout.decode()
        assert shown == {"text": '??/ é"\\', "integers": "-3 7", "booleans": "0 1", "numbers": "1 2"}[name]


@given(st.lists(st.one_of(TEXT, st.sampled_from(["int", "Int", "a b", "a_b", "A-B", "", "_", "NULL", "9", "é"]))))
def test_identifiers_are_valid_and_different(names: list[str]) -> None:
    found = identifiers(names)
    assert len(found) == len(set(found)) == len(names)
    for own in found:
        assert own.isascii() and own.isidentifier() and own == own.lower() and len(own) <= 63
        assert own not in ("int", "for", "errno", "linux", "bool")


def test_strings_and_comments_of_c_hold_any_text(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    alphabet = [*"\"\\?*/'%01aA@{}\n\r\t\a\x7fé🙂\u202e \u2028=(!<>-", "??/", "*/", "/*", "\\u0041", "\\\n", "@_"]
    texts = ["".join(rng.choice(alphabet, 12)) for _ in range(300)]
    written = "\n".join(f"    {string(text)}, /* {comment(text)} */" for text in texts)
    program = (
        "#include <stdio.h>\nstatic const char *const texts[] = {\n" + written + "\n};\nint main(void) { size_t i; "
    )
    program += 'for (i = 0; i < sizeof texts / sizeof *texts; i++) printf("%s%c", texts[i], 1); return 0; }\n'
    for command in ("gcc", "clang"):
        # Trigraphs are on with a strict standard.
        (tmp_path / "texts.c").write_text(program)
        subprocess.run([compiler(command), *WARNINGS, tmp_path / "texts.c", "-o", tmp_path / command], check=True)
        printed = subprocess.run([tmp_path / command], check=True, capture_output=True).stdout.decode()
        assert printed.split("\x01")[:-1] == texts


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_of_c_are_exact(value: float) -> None:
    assert float(number(value).strip("()")) == value
    assert any(mark in number(value) for mark in ".e")


@pytest.mark.parametrize(
    ("level", "reason"),
    [("a\0b", "null character"), ("\ud800", "UTF-8"), ("x" * 5000, "5000 bytes")],
)
def test_a_level_that_c_cannot_hold_is_an_error_with_a_remedy(level: str, reason: str) -> None:
    with pytest.raises(ExportError, match=f"{reason}.*before fit"):
        to_c(single(Recipe("c", 0, "c", "category", "level", levels=(level,))))


@pytest.mark.parametrize("prefix", ["", "9lives", "a b", "x" * 40, "é", "_a", None])
def test_a_prefix_that_cannot_begin_a_name_is_an_error(prefix: Any) -> None:
    with pytest.raises(ExportError, match="prefix='churn'"):
        to_c(program_of(examples()["number"]), prefix=prefix)


def test_a_long_sum_is_several_statements(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [f"x{place}" for place in range(3000)]
    recipes = tuple(Recipe(n, i, n, "number", "number", map=NumberMap("identity")) for i, n in enumerate(names))
    weights = rng.normal(size=3000)
    machine = Machine(tuple(names), (Unit("y", 1, tuple(range(3000)), tuple(weights), 0.5, "tanh"),), (3000,), ("y",))
    columns = tuple(RawColumn(i, n, "number") for i, n in enumerate(names))
    table = pd.DataFrame(rng.normal(size=(2, 3000)) * 0.02, columns=names)
    [(found, _)] = run([Case(Program(columns, recipes, machine, "identity"), table, "long")], tmp_path, compiler("gcc"))
    np.testing.assert_allclose(found, machine.run(table.to_numpy()), rtol=1e-11)


def test_a_machine_of_float64_reads_inputs_that_are_not_rounded(tmp_path: Path) -> None:
    estimator = fitted(frame(30), "number", precision="float64")
    assert not program_of(estimator).single and program_of(examples()["number"]).single
    [found] = run([Case(program_of(estimator), frame(30), "wide")], tmp_path, compiler("gcc"), *WARNINGS)
    assert_same(found, estimator, frame(30))
