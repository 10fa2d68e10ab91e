"""Exported SQL computes what the estimator does, in real databases, and nothing can break out of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import erfc

from tabgnm.export import ExportError, Program, RawColumn, program_of, to_sql
from tabgnm.export.sql import sorting_network
from tabgnm.export.sql_dialects import DIALECTS
from tabgnm.export.sql_functions import tail_polynomial
from tabgnm.sparsity import Machine, Unit
from tabgnm.sparsity.functions import FUNCTIONS
from tabgnm.table.numbers import NumberMap, NumberMaps
from tabgnm.table.recipes import Recipe
from tests.export.databases import Database, DuckDBDatabase, PostgreSQLDatabase, SQLiteDatabase, load, quoted
from tests.export.program_examples import EXAMPLES, assert_same, examples, rows

Array = NDArray[Any]


def numbers(columns: list[str], units: list[Unit], outputs: list[int], **more: Any) -> Program:
    """Return a program that reads columns of numbers as they are."""
    recipes = [Recipe(name, i, name, "number", "number", map=NumberMap("identity")) for i, name in enumerate(columns)]
    raw = [RawColumn(i, name, "number") for i, name in enumerate(columns)]
    machine = Machine(tuple(columns), tuple(units), tuple(outputs), tuple(f"y{i}" for i in outputs))
    return Program(tuple(raw), tuple(recipes), machine, **({"link": "identity"} | more))


def one_input(recipe: Recipe) -> Program:
    column = RawColumn(recipe.column, recipe.column_name, recipe.kind)
    return Program((column,), (recipe,), Machine((recipe.name,), (), (0,), ("y",)), "identity")


def scored(database: Database, program: Program, table: str = "t") -> list[dict[str, Any]]:
    select = to_sql(program, table, database.dialect, keep=["row"])
    return database.query(f'SELECT * FROM ({select}) AS s ORDER BY "row"')


def split(program: Program, found: list[dict[str, Any]]) -> tuple[Array, Array | None]:
    """Return predictions and probabilities."""
    names = [name for name in found[0] if name != "row"]
    n_predictions = len(program.classes) or len(program.machine.outputs)
    values = [[row[name] for name in names] for row in found]
    predicted = np.array([row[:n_predictions] for row in values], dtype=object)
    if not program.classes:
        return predicted, None
    return predicted, np.array([row[n_predictions:] for row in values], dtype=float)


@pytest.mark.parametrize("name", EXAMPLES)
def test_sql_predicts_the_same_for_every_target_activation_and_kind_of_column(name: str, database: Database) -> None:
    estimator = examples()[name]
    program = program_of(estimator)
    assert_same(split(program, scored(database, program)), estimator, rows())


def test_the_table_is_still_there(database: Database) -> None:
    # Columns and levels of the examples have DROP TABLE t in them.
    [counted] = database.query("SELECT COUNT(*) AS n FROM t")
    assert counted["n"] == len(rows())


HOSTILE = [
    't"; DROP TABLE t; --',
    "t'; DROP TABLE t; --",
    "t\n; DROP TABLE t",
    "select",
    "🙂 é",
    "t\\",
    "/* t */",
    "stage_0",
    "{0} %s $1 :x ?",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_tables_columns_and_labels_cannot_break_out(name: str, database: Database) -> None:
    frame = pd.DataFrame({name: [1.0, -2.0, None]})
    load(database, name, frame, {name: "number"})
    labels = np.array([name, "z" + name])
    program = numbers([name], [], [0], link="sigmoid", classes=(labels,), sizes=(2,))
    select = to_sql(program, name, database.dialect, keep=[name, "row"])
    found = database.query(f'SELECT * FROM ({select}) AS s ORDER BY "row"')
    assert [row[name] for row in found] == [1, -2, None]
    assert [row["prediction"] for row in found] == [labels[1], labels[0], labels[0]]
    np.testing.assert_allclose(
        [row[f"probability_z{name}"] for row in found], [0.7310585786300049, 0.11920292202211755, 0.5]
    )
    test_the_table_is_still_there(database)
    database.execute(f"DROP TABLE {quoted(name)}")


def test_backslashes_cannot_break_out_under_old_settings_of_postgresql(postgresql: PostgreSQLDatabase) -> None:
    level = "\\'; DROP TABLE old; --"
    postgresql.execute('CREATE TABLE old ("row" INTEGER, c TEXT)')
    postgresql.insert("old", [[0, level], [1, "other"]])
    select = to_sql(
        one_input(Recipe("c", 0, "c", "category", "level", levels=(level,))), "old", "postgresql", keep=["row"]
    )
    for setting in ("on", "off"):
        found = postgresql._run(
            f"SET standard_conforming_strings = {setting}; SET escape_string_warning = off;\n"
            f'SELECT prediction FROM ({select}) AS s ORDER BY "row";'
        )
        assert found.split() == ["1", "0"]
    assert postgresql.query("SELECT COUNT(*) AS n FROM old") == [{"n": 2}]


def test_levels_of_any_type_of_column_are_known_by_the_text_of_the_encoder(database: Database) -> None:
    cells: dict[str, tuple[str, list[Any], str]] = {
        "text": ("TEXT", ["3", "3.0", None], "3"),
        "integer": ("INTEGER", [3, 4, None], "3"),
        "double": ("DOUBLE PRECISION", [3.0, 3.5, None], "3"),
        "fraction": ("DOUBLE PRECISION", [3.5, 3.0, None], "3.5"),
        "decimal": ("DECIMAL(6, 2)", ["3.50", "3.00", None], "3.5"),
        "whole": ("DECIMAL(6, 2)", ["300.00", "3.00", None], "300"),
        "logical": ("BOOLEAN", [True, False, None], "True"),
        "tiny": ("DOUBLE PRECISION", [1e-7, 1e-6, None], "1e-07"),
        "tiny decimal": ("DECIMAL(18, 9)", ["0.000000100", "0.000001000", None], "1e-07"),
        "large": ("DOUBLE PRECISION", [1e16, 1e17, None], "10000000000000000"),
        "huge": ("DOUBLE PRECISION", [-1e20, 1e20, None], "-1e+20"),
    }
    declared = ", ".join(f'"{name}" {kind}' for name, (kind, _, _) in cells.items())
    database.execute(f'CREATE TABLE levels ("row" INTEGER, {declared})')
    database.insert("levels", [[row, *(values[row] for _, values, _ in cells.values())] for row in range(3)])
    for name, (_, _, level) in cells.items():
        is_level = one_input(Recipe(name, 0, name, "category", "level", levels=(level,)))
        assert [row["prediction"] for row in scored(database, is_level, "levels")] == [1, 0, 0], name
        unknown = one_input(Recipe(name, 0, name, "category", "unknown", levels=(level,)))
        assert [row["prediction"] for row in scored(database, unknown, "levels")] == [0, 1, 1], name


def test_nan_is_missing(database: Database) -> None:
    if database.dialect == "sqlite":
        pytest.skip("SQLite has no NaN: it stores NULL")
    database.execute('CREATE TABLE gaps ("row" INTEGER, a DOUBLE PRECISION)')
    database.insert("gaps", [[0, float("nan")], [1, None], [2, 1.0]])
    program = one_input(Recipe("a", 0, "a", "number", "number", map=NumberMap("identity", fill=7.0)))
    assert [row["prediction"] for row in scored(database, program, "gaps")] == [7, 7, 1]
    as_level = one_input(Recipe("a", 0, "a", "category", "missing"))
    assert [row["prediction"] for row in scored(database, as_level, "gaps")] == [1, 1, 0]


def test_text_that_is_no_number_or_date_is_missing_in_sqlite_and_large_integers_are_numbers() -> None:
    database = SQLiteDatabase()
    database.execute('CREATE TABLE mixed ("row" INTEGER, a, b)')
    cells = [["abc", "soon"], ["", ""], ["1.5", "2000-01-02"], [9007199254740993, "2000-01-02T12:00:00+12:00"]]
    database.insert("mixed", [[place, *row] for place, row in enumerate(cells)])
    number = one_input(Recipe("a", 0, "a", "number", "number", map=NumberMap("identity", fill=-1.0)))
    assert [row["prediction"] for row in scored(database, number, "mixed")] == [-1, -1, 1.5, 9007199254740992]
    days = one_input(Recipe("b.days", 0, "b", "datetime", "number", "days", NumberMap("identity", fill=-1.0)))
    assert [row["prediction"] for row in scored(database, days, "mixed")] == [-1, -1, 10958, 10958]


def test_moments_with_a_time_zone_are_read_in_utc_whatever_the_session(postgresql: PostgreSQLDatabase) -> None:
    postgresql.execute("CREATE TABLE zones (a TIMESTAMPTZ, b DATE)")
    postgresql.execute("INSERT INTO zones VALUES ('2024-02-29 23:30:00-03', '2024-02-29')")
    moment = {"year": 2024, "month": 3, "day": 1, "weekday": 4, "hour": 2.5, "days": 19783 + 2.5 / 24}
    date = {"year": 2024, "month": 2, "day": 29, "weekday": 3, "hour": 0, "days": 19782}
    for column, parts in (("a", moment), ("b", date)):
        for part, expected in parts.items():
            program = one_input(Recipe(column, 0, column, "datetime", "number", part, NumberMap("identity")))
            select = to_sql(program, "zones", "postgresql")
            found = postgresql._run(f"SET TIME ZONE 'Pacific/Auckland'; {select};")
            assert float(found) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("column", ["a", "b", "c", "d"])
def test_dates_of_every_type_are_read_in_utc_by_duckdb(column: str) -> None:
    database = DuckDBDatabase()
    database.execute("SET TimeZone = 'Pacific/Auckland'")
    database.execute('CREATE TABLE zones ("row" INTEGER, a TEXT, b TIMESTAMPTZ, c TIMESTAMP, d DATE)')
    database.execute("INSERT INTO zones SELECT 0, NULL, NULL, NULL, NULL")
    moment = "'2024-03-01T02:30:00.25'"
    for row, text in enumerate((moment, "'2024-02-29 23:30:00.25-03'", "'2024-03-01 02:30:00.25Z'", "'2024-03-01'"), 1):
        own = f"{text}, '2024-02-29 23:30:00.25-03', {moment}, '2024-03-01'"
        database.execute(f"INSERT INTO zones SELECT {row}, {own}")
    days = one_input(Recipe(column, 0, column, "datetime", "number", "days", NumberMap("identity", fill=-1.0)))
    found = [row["prediction"] for row in scored(database, days, "zones")]
    midnight, later = 19783.0, 19783 + 2.5 / 24 + 0.25 / 86400
    expected = [midnight] * 4 if column == "d" else [later] * 3 + [midnight if column == "a" else later]
    assert found == pytest.approx([-1, *expected], rel=1e-14)


@pytest.mark.parametrize("name", ["sqlite", "duckdb"])
def test_levels_are_compared_exactly_whatever_the_collation_of_the_column(name: str) -> None:
    database: Database = SQLiteDatabase() if name == "sqlite" else DuckDBDatabase()
    database.execute('CREATE TABLE texts ("row" INTEGER, c TEXT COLLATE NOCASE)')
    database.insert("texts", [[0, "red"], [1, "RED"]])
    program = one_input(Recipe("c", 0, "c", "category", "level", levels=("red",)))
    assert [row["prediction"] for row in scored(database, program, "texts")] == [1, 0]


def test_functions_and_links_stay_finite_and_right_for_any_number(database: Database) -> None:
    z = np.array([0.0, -1e-9, 1e-9, 0.3, -0.7, 5, -5, 19, 21, -40, 40, 310, -310, 800, -800, 1e30, -1e30])
    load(database, "extreme", pd.DataFrame({"z": z}), {"z": "number"})
    units = [Unit(name, 1, (0,), (1.0,), 0.0, name) for name in FUNCTIONS]
    program = numbers(["z"], units, list(range(1, len(units) + 1)), one_dimensional=False)
    found = split(program, scored(database, program, "extreme"))[0].astype(float)
    expected = np.column_stack([own.numpy(z) for own in FUNCTIONS.values()])
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    classes = numbers(
        ["z"],
        [Unit("m", 1, (0,), (-2.0,), 1.0, "identity")],
        [0, 1],
        link="softmax",
        classes=(np.arange(2),),
        sizes=(2,),
    )
    shares = split(classes, scored(database, classes, "extreme"))[1]
    assert shares is not None
    np.testing.assert_allclose(shares[:, 0], FUNCTIONS["sigmoid"].numpy(3 * z - 1), atol=1e-12)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    counts = numbers(["z"], [], [0], link="exp", center=(2.0,))
    np.testing.assert_allclose(
        split(counts, scored(database, counts, "extreme"))[0][:, 0].astype(float), 2 * np.exp(np.clip(z, -20, 20))
    )


def test_every_map_of_numbers_is_the_one_of_the_encoder(database: Database) -> None:
    x = np.array([-1e300, -3.0, -1.0, -1e-200, 0.0, 1e-300, 0.5, 1.0, 1.5, 2.0, 7.0, 1e300])
    load(database, "maps", pd.DataFrame({"x": x}), {"x": "number"})
    knots = NumberMap("knots", knots=np.array([-1.0, 0.0, 1.0, 2.0]), targets=np.array([-2.0, 0.5, 0.7, 3.0]))
    tiny = NumberMap("knots", knots=np.array([0.0, 2e-300]), targets=np.array([0.0, 1.0]))
    for own in (
        NumberMap("linear", 0.5, 2.0),
        NumberMap("smooth", 0.0, 0.1),
        NumberMap("smooth", 0.25, 3.0),
        knots,
        tiny,
    ):
        program = one_input(Recipe("x", 0, "x", "number", "number", map=own))
        expected = x[None].copy()
        NumberMaps([own]).apply(expected, None)
        limit = float(np.finfo(np.float32).max)
        found = split(program, scored(database, program, "maps"))[0][:, 0].astype(float)
        np.testing.assert_allclose(found, np.clip(expected[0], -limit, limit), rtol=1e-14)


@settings(max_examples=25)
@given(st.data())
def test_random_machines_predict_the_same_in_sqlite(data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    n_columns, n_units = rng.integers(1, 6), rng.integers(1, 15)
    units = []
    for place in range(n_units):
        known = n_columns + place
        sources = sorted(rng.choice(known, rng.integers(0, known + 1), replace=False).tolist())
        function = str(rng.choice(list(FUNCTIONS)))
        units.append(
            Unit(f"h{place}", place, tuple(sources), tuple(rng.normal(size=len(sources))), rng.normal(), function)
        )
    outputs = rng.integers(0, n_columns + n_units, 3).tolist()
    program = numbers([f"c{i}" for i in range(n_columns)], units, outputs, one_dimensional=False)
    x = rng.normal(size=(8, n_columns)) * 3
    database = SQLiteDatabase()
    frame = pd.DataFrame(x, columns=[f"c{i}" for i in range(n_columns)])
    load(database, "t", frame, dict.fromkeys(frame, "number"))
    found = split(program, scored(database, program))[0].astype(float)
    np.testing.assert_allclose(found, program.machine.run(x), rtol=1e-9, atol=1e-11)


def test_wide_sums_and_many_classes_are_within_the_limits_of_databases(database: Database) -> None:
    rng = np.random.default_rng(0)
    n = 300
    names = [f"c{i}" for i in range(40)]
    x = rng.normal(size=(4, 40))
    load(database, "wide", pd.DataFrame(x, columns=names), dict.fromkeys(names, "number"))
    hidden = [Unit(f"h{i}", 1, (i % 40,), (float(rng.normal()),), 0.1, "relu") for i in range(1200)]
    last = [Unit(f"y{i}", 2, tuple(range(40, 1240)), tuple(rng.normal(size=1200)), 0.0, "identity") for i in range(2)]
    sum_only = numbers(names, [*hidden, *last], [1240, 1241], one_dimensional=False)
    found = split(sum_only, scored(database, sum_only, "wide"))[0].astype(float)
    np.testing.assert_allclose(found, sum_only.machine.run(x), rtol=1e-9)
    units = [Unit(f"y{i}", 1, (i % 40,), (float(rng.normal()),), 0.0, "identity") for i in range(n)]
    classes = numbers(names, units, list(range(40, 40 + n)), link="softmax", classes=(np.arange(n),), sizes=(n,))
    predicted, probabilities = split(classes, scored(database, classes, "wide"))
    outputs = classes.machine.run(x)
    assert predicted[:, 0].tolist() == outputs.argmax(axis=1).tolist()
    shares = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.asarray(probabilities), shares, atol=1e-12)


def test_the_text_grows_in_proportion_to_the_edges() -> None:
    def length(n_layers: int) -> int:
        units = []
        for layer in range(n_layers):
            first = layer * 10
            units += [
                Unit(f"h{layer}_{i}", layer + 1, tuple(range(first, first + 10)), (0.5,) * 10, 0.1, "mish")
                for i in range(10)
            ]
        last = 10 * n_layers
        return len(to_sql(numbers([f"c{i}" for i in range(10)], units, [last]), "t", "sqlite"))

    assert length(40) < 2.2 * length(20)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13])
def test_the_sorting_network_sorts(n: int) -> None:
    steps = list(sorting_network(n))
    for bits in np.ndindex(*(2,) * n):  # what sorts all zeros and ones sorts everything
        numbers_ = list(bits)
        for low, high in (pair for step in steps for pair in step):
            if numbers_[low] > numbers_[high]:
                numbers_[low], numbers_[high] = numbers_[high], numbers_[low]
        assert numbers_ == sorted(numbers_)
    assert all(len({place for pair in step for place in pair}) == 2 * len(step) for step in steps)


def test_the_tail_of_the_normal_distribution_is_exact() -> None:
    x = np.linspace(0, 25, 2001)
    t = 2 / (2 + x)
    tail = t * np.exp(np.polynomial.Polynomial(tail_polynomial())(t) - x**2 / 2)
    np.testing.assert_allclose(tail, erfc(x / np.sqrt(2)) / 2, rtol=1e-11)


def test_labels_that_databases_take_for_one_name_have_columns_of_their_own(database: Database) -> None:
    labels = np.array(["A" * 70, "A" * 71, "a", "A"])
    program = replace(program_of(examples()["multiclass"]), classes=(labels,))
    names = list(scored(database, program)[0])
    assert len({DIALECTS[database.dialect].same(name) for name in names}) == len(names) == 6
    assert all(len(name) <= 63 for name in names)


def test_a_schema_can_be_named(database: Database) -> None:
    schema = {"sqlite": "main", "duckdb": "main", "postgresql": "public"}[database.dialect]
    [row, *_] = database.query(to_sql(numbers(["row"], [], [0]), (schema, "t"), database.dialect))
    assert row == {"prediction": 0}


def test_a_column_that_is_not_there_is_an_error_of_the_database(database: Database) -> None:
    # SQLite would take a name in quotes for a string.
    with pytest.raises(Exception, match="nowhere"):
        database.query(to_sql(numbers(["nowhere"], [], [0]), "t", database.dialect))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("program", "options", "reason"),
    [
        (numbers(["a\0b"], [], [0]), {}, "null character.*before fit"),
        (numbers(["a\ud800"], [], [0]), {}, "UTF-8.*before fit"),
        (numbers([""], [], [0]), {}, "empty name.*rename"),
        (numbers(["a"], [], [0]), {"keep": ["prediction"]}, "rename"),
        (numbers(["a"], [], [0]), {"keep": ["a", "a"]}, "duplicate name"),
        (numbers(["a"], [], [0]), {"keep": [3]}, "expected names as str"),
        (numbers(["a"], [], [0]), {"table": []}, "expected names as str"),
        (numbers(["a"], [Unit(f"h{i}", 1, (0,), (1.0,), 0.5 * i, "relu") for i in range(1600)], list(range(1, 1601)), one_dimensional=False), {}, "use a smaller machine"),
    ],
)  # fmt: skip
def test_what_a_database_cannot_hold_is_an_error_with_a_remedy(
    dialect: str, program: Program, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ExportError, match=reason):
        to_sql(program, dialect=dialect, **({"table": "t"} | options))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_columns_that_a_database_takes_for_one_are_an_error(dialect: str) -> None:
    names = ["a" * 63 + "b", "a" * 63 + "c"] if dialect == "postgresql" else ["Age", "age"]
    with pytest.raises(ExportError, match="rename one of them before fit"):
        to_sql(numbers(names, [], [0, 1]), "t", dialect)


def test_an_unknown_dialect_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(ExportError, match="'sqlite', 'duckdb', 'postgresql'"):
        to_sql(numbers(["a"], [], [0]), "t", "oracle")
