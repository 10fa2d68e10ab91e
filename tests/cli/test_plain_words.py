"""What commands say to people who do not write Python: about cells, options and scores, with ordinary tables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from tabgnm.cli.metric_names import METRICS
from tabgnm.cli.tablefiles import open_writer
from tabgnm.cli.tablefiles.reading import CHUNK_ROWS
from tabgnm.cli.wording import FILE_TERMS, in_file_terms
from tabgnm.estimators.metrics import scorer_of
from tests.cli.running import QUICK, QUICK_SMALL, run

DATES = [str(day.date()) for day in pd.date_range("2022-01-01", periods=60)]


def write(name: str, **columns: object) -> Path:
    pd.DataFrame(columns).to_csv(name, index=False)
    return Path(name)


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A model of dates and numbers, and what was said when it was fitted."""
    folder = tmp_path_factory.mktemp("visits")
    x = np.random.default_rng(0).normal(size=60).round(3)
    data = write(str(folder / "visits.csv"), date=DATES, x=x, came=np.where(x > 0, "yes", "no"))
    fitted = run("fit", data, "-t", "came", *QUICK, "-o", folder / "model.tabgnm")
    return SimpleNamespace(data=data, model=folder / "model.tabgnm", fitted=fitted)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (
            {"date": [*DATES[:2], *["29/07/2022"] * 6], "x": 1},
            "column 'date' has '29/07/2022' in row 3, which is not a date in ISO format such as '2024-02-29 13:30'; "
            "write it in this form, or leave the cell empty if the value is missing",
        ),
        (
            {"date": DATES[:6], "x": ["4 kg"] * 6},
            "column 'x' has '4 kg' in row 1, which is not a number; write it like 12.5, or leave the cell empty if the "
            "value is missing",
        ),
        (
            {"date": DATES[:6], "x": ["it was 1 in row 0"] * 6},
            "column 'x' has 'it was 1 in row 0' in row 1",
        ),
    ],
)
def test_a_cell_that_cannot_be_read_has_a_remedy_for_the_file_and_leaves_no_output(
    columns: dict[str, object], complaint: str, visits: SimpleNamespace
) -> None:
    result = run("predict", visits.model, write("new.csv", **columns), code=3)
    assert complaint in result.stderr
    assert result.stdout == ""


def test_warnings_about_cells_count_rows_from_1_through_all_frames(visits: SimpleNamespace) -> None:
    dates = ["2024-01-31"] * (CHUNK_ROWS + 3)
    dates[0] = dates[-1] = "someday"
    said = run("predict", visits.model, write("new.csv", date=dates, x=1), "-o", "out.csv").stderr
    assert "'someday' in row 1;" in said
    assert f"'someday' in row {CHUNK_ROWS + 3:,};" in said


def test_a_file_without_rows_still_has_a_header() -> None:
    with open_writer("out.csv", ["a", "b"]):
        pass
    assert Path("out.csv").read_text() == "a,b\n"


@pytest.mark.parametrize("python", FILE_TERMS)
def test_each_remedy_that_is_translated_is_one_of_the_library(python: str) -> None:
    import tabgnm

    root = Path(tabgnm.__file__).parent
    folders = ("table", "estimators", "modelfile", "export", "_files")
    # Literals that are split between lines are joined.
    sources = [path.read_text(encoding="utf-8") for name in folders for path in sorted((root / name).glob("*.py"))]
    joined = [" ".join(text.replace('" \n', '"\n').split()).replace('" "', "").replace('" f"', "") for text in sources]
    assert any(python.removeprefix("convert the column first, ") in text for text in joined)
    assert in_file_terms(f"a; {python} b") == f"a; {FILE_TERMS[python]} b"


def test_a_table_given_as_a_model_is_told_from_a_model_file(visits: SimpleNamespace) -> None:
    said = run("predict", visits.data, visits.data, code=4).stderr
    assert "expected a model file written by `tabgnm fit`" in said


def test_the_remedy_for_a_time_limit_is_to_omit_the_option(visits: SimpleNamespace) -> None:
    said = run("fit", visits.data, "-t", "came", "--time-limit", "-3", code=2).stderr
    assert "None" not in said
    assert "or omit the option" in said


def test_a_metric_of_the_other_task_is_refused_with_those_of_the_task(visits: SimpleNamespace) -> None:
    said = run("fit", visits.data, "-t", "came", "--metric", "rmse", *QUICK, code=2).stderr
    assert "rmse is for regression" in said
    assert all(name in said for name in METRICS["classification"])
    assert "mae" not in said
    other = run("fit", visits.data, "-t", "came", "--metric", "poisson_deviance", *QUICK, code=3).stderr
    assert "ValueError" not in other
    assert "balanced_accuracy" in other


@pytest.mark.parametrize(("task", "metric"), [(task, name) for task, names in METRICS.items() for name in names])
def test_each_metric_in_messages_can_score_its_task(task: str, metric: str) -> None:
    X = np.arange(6.0)[:, None]
    if task == "classification":
        labels = np.array(["no", "no", "yes", "no", "yes", "yes"])
        found = scorer_of(metric)(LogisticRegression().fit(X, labels), X, labels)
    else:
        found = scorer_of(metric)(Ridge().fit(X, X[:, 0]), X, X[:, 0])
    assert np.isfinite(found)


def test_iso_dates_are_nothing_to_warn_about_but_other_forms_are(visits: SimpleNamespace) -> None:
    assert "read as dates" not in visits.fitted.stderr
    assert "1 date: date" in visits.fitted.stdout
    days = [f"{day[8:]}/{day[5:7]}/{day[:4]}" for day in DATES]
    write("table.csv", iso=DATES, day=days, n=["1,5", "2,5"] * 30, y=["a", "b"] * 30)
    said = run("fit", "table.csv", "-t", "y", *QUICK).stderr
    assert "read as numbers: 'n' (written like" in said
    assert "as dates: 'day' (written like day/month/year)" in said
    assert "iso" not in said


def test_labels_that_differ_only_in_case_or_spaces_are_warned_about_once() -> None:
    write("table.csv", x=range(40), y=["yes", "no", "Yes", "YES "] * 10)
    result = run("fit", "table.csv", "-t", "y", *QUICK)
    assert "classes of 'y' differ only in case or spaces: 'YES ' and 'Yes' and 'yes';" in result.stderr
    assert result.stderr.count("differ only in case") == 1
    assert "'no'" not in result.stderr
    assert "40 rows, 1 column." in result.stdout


def test_a_model_that_is_no_better_than_the_majority_class_says_so_and_what_to_try() -> None:
    noise = np.random.default_rng(0).normal(size=60).round(2)
    write("table.csv", x=noise, y=["rare" if place % 12 == 0 else "usual" for place in range(60)])
    said = run("fit", "table.csv", "-t", "y", *QUICK).stdout
    assert "no better than the majority class" in said
    assert "--set class_weight=balanced" in said
    again = run("fit", "table.csv", "-t", "y", *QUICK, "--set", "class_weight=balanced").stdout
    assert "class_weight" not in again
    assert "Balanced accuracy" in run("evaluate", "model.tabgnm", "table.csv").stdout


def test_several_class_targets_have_an_explained_score_and_columns_with_unique_names() -> None:
    x = np.arange(60)
    write("table.csv", x=x, a=np.where(x % 2, "b_c", "d"), a_b=np.where(x > 30, "c", "e"))
    said = run("fit", "table.csv", "-t", "a", "-t", "a_b", *QUICK).stdout
    assert "A row counts as right if all targets are." in said
    header = run("predict", "model.tabgnm", "table.csv", "--proba").stdout.splitlines()[0].split(",")
    assert len(set(header)) == len(header) == 6
    assert {"probability_1_a_b_c", "probability_2_a_b_c"} <= set(header)


def test_an_unknown_choice_is_refused_without_words_of_a_library() -> None:
    said = run("fit", "table.csv", "-t", "y", "--effort", "quick", code=2).stderr
    assert "Value error" not in said
    assert "'quick' is not one of" in said


@pytest.mark.parametrize("format_options", [[], ["--format", "csv"]])
def test_a_folder_is_not_a_table(format_options: list[str]) -> None:
    assert "'.' is a folder" in run("fit", ".", "-t", "y", *format_options, code=3).stderr


def test_unknown_parameters_are_answered_by_few_names_and_where_all_are() -> None:
    said = run("fit", "table.csv", "-t", "y", "--set", "epochs=1", code=2).stderr
    assert "did you mean max_epochs? `tabgnm fit` lists all parameters with --print-settings" in said
    few = run("fit", "table.csv", "-t", "y", "--set", "foo=1", code=2).stderr
    assert len(few) < 120
    assert QUICK_SMALL[1].partition("=")[0] not in few


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        (["-c", "x", "-t", "y"], 2, "use --column twice"),
        (["-c", "x", "-c", "x", "-t", "y"], 2, "two different columns"),
        (["-c", "x", "-c", "y", "-t", "y"], 2, "both --column and --target"),
        (["-t", "x"], 3, "--target x: the column has 20 different values; the playground learns 2 to 6 classes"),
        (
            ["-c", "x", "-c", "word", "-t", "y"],
            3,
            "--column word: the column does not have numbers; use two of 'x', 'z'",
        ),
        (["-c", "x", "-c", "same", "-t", "y"], 3, "column 'same' has the same number in all rows"),
    ],
)
def test_the_playground_names_its_options_in_errors(options: list[str], code: int, complaint: str) -> None:
    pytest.importorskip("tabgnm.play")
    words = [f"word{place % 3}" for place in range(20)]
    write("table.csv", x=range(20), z=np.arange(20) / 3, word=words, same=1, y=["a", "b"] * 10)
    assert complaint in run("play", "table.csv", *options, code=code).stderr


def test_the_playground_reads_numbers_as_fit_does(monkeypatch: pytest.MonkeyPatch) -> None:
    play = pytest.importorskip("tabgnm.play")
    seen: dict[str, pd.DataFrame] = {}
    monkeypatch.setattr(play, "serve", lambda data, **_: seen.update(data=data))
    numbers = np.arange(20) / 4
    texts = [f"{own:.2f}".replace(".", ",") for own in numbers]
    write("table.csv", x=texts, z=texts[::-1], y=["a", "b"] * 10)
    run("play", "table.csv", "-t", "y")
    assert seen["data"]["x"].tolist() == numbers.tolist()
