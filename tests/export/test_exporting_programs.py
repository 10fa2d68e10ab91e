"""The method `export`: formats by suffix, options, errors before anything is written."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from tabgnm import GNMClassifier, GNMRegressor
from tabgnm.export import ExportError, program_of, to_c, to_sql
from tests.export.c_programs import WARNINGS, compiler
from tests.export.databases import SQLiteDatabase, load
from tests.export.program_examples import KINDS, NASTY_NAMES, SETTINGS, examples, fitted, frame, rows

SQL = {"table": "t", "dialect": "sqlite"}


def test_the_suffix_chooses_the_format(tmp_path: Path) -> None:
    estimator = examples()["binary"]
    estimator.export(tmp_path / "model.c", prefix="churn")
    estimator.export(str(tmp_path / "model.SQL"), **SQL)
    assert (tmp_path / "model.c").read_bytes().decode() == to_c(program_of(estimator), prefix="churn")
    assert (tmp_path / "model.SQL").read_bytes().decode() == to_sql(program_of(estimator), **SQL) + ";\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.SQL", "model.c"]


def test_the_written_files_run(tmp_path: Path) -> None:
    estimator = examples()["binary"]
    estimator.export(tmp_path / "model.c")
    subprocess.run([compiler("gcc"), *WARNINGS, "-c", tmp_path / "model.c", "-o", tmp_path / "model.o"], check=True)
    estimator.export(tmp_path / "model.sql", **SQL, keep=["row"])
    database = SQLiteDatabase()
    load(database, "t", rows(), {NASTY_NAMES[name]: kind for name, kind in KINDS.items()})
    found = database.query((tmp_path / "model.sql").read_bytes().decode())
    assert [row["prediction"] for row in found] == estimator.predict(rows()).tolist()


def test_the_c_program_of_the_documentation_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "export-c.md").read_text()
    [program] = re.findall(r"^```c\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(18, 80, 50), "plan": rng.choice(["basic", "plus", "pro"], 50)})
    estimator = GNMClassifier(**SETTINGS).fit(table, np.where(table["age"] > 50, "stays", "leaves"))
    estimator.export(tmp_path / "churn.c", prefix="churn")
    (tmp_path / "main.c").write_text(program)
    subprocess.run([compiler("gcc"), *WARNINGS, tmp_path / "main.c", "-o", tmp_path / "main", "-lm"], check=True)
    printed = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True).stdout
    row = pd.DataFrame({"age": [61.0], "plan": ["basic"]})
    assert printed == f"{estimator.predict(row)[0]}, stays with {estimator.predict_proba(row)[0, 1]:.3f}\n"


def test_an_existing_file_is_replaced_as_a_whole_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "model.c"
    path.write_text("old" * 100_000)
    path.chmod(0o640)
    examples()["number"].export(path)
    assert path.read_text() == to_c(program_of(examples()["number"]))
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("suffix", [".c", ".sql"])
def test_a_pack_is_not_exported_and_the_error_names_distill(suffix: str, tmp_path: Path) -> None:
    table, rng = frame(60), np.random.default_rng(0)
    pack = GNMRegressor(n_candidates=1, n_folds=2, max_epochs=1, n_nodes=60, n_jobs=1, random_state=0)
    pack.fit(table[["number", "count"]], rng.normal(size=60))
    options: dict[str, Any] = SQL if suffix == ".sql" else {}
    path = tmp_path / f"model{suffix}"
    path.write_text("old")
    with pytest.raises(ExportError, match=r"2 networks.*distill\(X\).*fit_sparse\(X, y\)"):
        pack.export(path, **options)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_format_cannot_hold_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    table = frame(60)
    table["two"] = np.where(np.arange(60) % 2 == 0, "a\0b", "c")
    estimator = fitted(table, "number")
    for name, options in (("model.c", {}), ("model.sql", SQL)):
        with pytest.raises(ExportError, match="null character"):
            estimator.export(tmp_path / name, **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "options", "error", "reason"),
    [
        ("model.exe", {}, ExportError, r"format of '.*model\.exe' is not known.*\.c, \.sql"),
        ("model", {}, ExportError, r"format of '.*model' is not known.*\.c, \.sql"),
        ("model.c", {"table": "t"}, TypeError, r"'table' is not an option of exports to \.c; use prefix"),
        ("model.sql", {}, TypeError, r"requires table=\.\.\. and dialect=\.\.\."),
        ("model.sql", {"table": "t"}, TypeError, r"requires dialect=\.\.\."),
        ("no/model.c", {}, ExportError, r"does not exist; create it first"),
    ],
)
def test_errors_say_what_is_possible(
    name: str, options: dict[str, Any], error: type[Exception], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=reason):
        examples()["number"].export(tmp_path / name, **options)
    assert not list(tmp_path.iterdir())


def test_an_estimator_that_is_not_fitted_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        GNMClassifier().export(tmp_path / "model.c")
