"""Tables with very few rows: a model, or an error that says what is missing."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.cli.running import QUICK, run, run_json

TARGETS = {
    "two classes": lambda n: [("yes", "no")[row % 2] for row in range(n)],
    "a class for each row": lambda n: [f"class {row}" for row in range(n)],
    "a rare class": lambda n: ["rare", *["common"] * (n - 1)],
    "fractions": lambda n: [row * 1.5 for row in range(n)],
    "counts": lambda n: list(range(n)),
}


def write_table(n_rows: int, target: str) -> None:
    rows = range(n_rows)
    frame = pd.DataFrame({"a": [row**0.5 for row in rows], "b": ["xyz"[row % 3] for row in rows]})
    frame.assign(y=TARGETS[target](n_rows)).to_csv("table.csv", index=False)


@pytest.mark.parametrize(
    ("n_rows", "target"),
    [*((2, target) for target in TARGETS), (3, "two classes"), (3, "fractions"), (4, "a rare class"), (10, "counts")],
)
def test_a_model_is_fitted_scored_and_predicts(n_rows: int, target: str) -> None:
    write_table(n_rows, target)
    assert run_json("fit", "table.csv", "-t", "y", *QUICK, "--set", "max_epochs=2")["rows"] == n_rows
    assert run_json("evaluate", "model.tabgnm", "table.csv")["rows"] == n_rows
    assert len(run("predict", "model.tabgnm", "table.csv").stdout.splitlines()) == n_rows + 1


def test_one_row_is_too_few() -> None:
    write_table(1, "fractions")
    assert "has a single row; expected at least 2" in run("fit", "table.csv", "-t", "y", *QUICK, code=3).stderr


@pytest.mark.parametrize(
    ("n_rows", "target", "code", "complaint"),
    [
        (4, "fractions", 2, "use --folds 2 or fewer"),
        (2, "fractions", 3, "add rows"),
        (6, "two classes", 2, "3 rows of the most frequent class; use --folds 3 or fewer"),
        (4, "a class for each row", 3, "a search needs at least 2"),
    ],
)
def test_a_search_says_how_many_folds_there_can_be(n_rows: int, target: str, code: int, complaint: str) -> None:
    write_table(n_rows, target)
    result = run("search", "table.csv", "-t", "y", *QUICK, "--grid", "dropout=0.0", code=code)
    assert complaint in result.stderr
    assert "n_splits" not in result.stderr


def test_a_small_machine_needs_a_row_for_each_fold() -> None:
    write_table(2, "fractions")
    run("fit", "table.csv", "-t", "y", *QUICK)
    said = run("sparsify", "model.tabgnm", "table.csv", code=3).stderr
    assert "has 2 rows, but sizes are compared on 3 folds; add rows, or use --set n_folds=2" in said
