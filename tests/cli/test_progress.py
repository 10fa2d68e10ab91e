"""What commands show while they work: in a terminal, and nothing where nobody would read it."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import tabgnm
from tabgnm.cli import app
from tabgnm.cli.progress import row_counter, showing_progress
from tests.cli.running import QUICK_SMALL, run

OnTerminal = Callable[..., str]


@pytest.fixture
def stderr_of(monkeypatch: pytest.MonkeyPatch) -> OnTerminal:
    """Return a function that runs a command, or what it is given, with a terminal as stderr, and returns what that shows."""

    def shown(*arguments: object, is_terminal: bool = True) -> str:
        stderr = io.StringIO()
        stderr.isatty = lambda: is_terminal  # type: ignore[method-assign]
        with monkeypatch.context() as patch:
            patch.setattr("sys.stderr", stderr)
            patch.setenv("TERM", "xterm-256color")
            patch.setenv("COLUMNS", "100")
            if callable(arguments[0]):
                arguments[0]()
            else:
                app([str(own) for own in arguments], standalone_mode=False)
        return stderr.getvalue()

    return shown


def test_the_count_of_rows_is_shown_in_a_terminal_and_nowhere_else(stderr_of: OnTerminal) -> None:
    def count() -> None:
        with row_counter(wanted=True) as show_rows:
            show_rows(12_345)

    assert "12,345 rows" in stderr_of(count)
    assert stderr_of(count, is_terminal=False) == ""


def test_sparsify_shows_how_many_networks_are_trained_and_the_time_left(
    flowers: SimpleNamespace, stderr_of: OnTerminal
) -> None:
    command = ["sparsify", flowers.model, flowers.data, *QUICK_SMALL]
    shown = stderr_of(*command)
    n_networks = 3 * (8 + 1) + 3 * (len(tabgnm.load("small.tabgnm").sparsity_path_) - 1) * 2 - 3
    assert f"{n_networks}/{n_networks} networks" in shown
    assert " left" in shown
    assert tabgnm.load("small.tabgnm").verbose == 0


def test_report_and_evaluate_show_what_they_are_doing(flowers: SimpleNamespace, stderr_of: OnTerminal) -> None:
    assert "fitting simple models to compare with" in stderr_of("evaluate", flowers.model, flowers.data)
    pytest.importorskip("jinja2")
    assert "importance and effects of columns" in stderr_of("report", flowers.small, "--data", flowers.data)


@pytest.mark.parametrize("option", ["--quiet", "--json"])
def test_nothing_is_shown_where_it_is_not_wanted(option: str, flowers: SimpleNamespace, stderr_of: OnTerminal) -> None:
    assert stderr_of("evaluate", flowers.small, flowers.data, option) == ""
    pytest.importorskip("jinja2")
    assert stderr_of("report", flowers.small, "--data", flowers.data, option) == ""


def test_nothing_is_shown_in_a_pipe(flowers: SimpleNamespace) -> None:
    assert flowers.made.stderr == ""
    assert run("evaluate", flowers.model, flowers.data).stderr == ""


def test_a_line_of_the_log_stands_above_the_bar(stderr_of: OnTerminal) -> None:
    from tabgnm.training.progress import ProgressLine

    def work() -> None:
        with showing_progress(wanted=True), ProgressLine(shows_best=False).shown(4, 4):
            logging.getLogger("tabgnm").info("half of it is done")

    lines = stderr_of(work).replace("\r", "\n").splitlines()
    assert any(line.endswith("half of it is done") and "networks" not in line for line in lines)


def test_progress_of_a_fit_is_in_plain_words_and_no_part_of_the_model() -> None:
    x = np.arange(2_000)  # fewer rows would all be trained on all folds
    pd.DataFrame({"x": x, "y": x % 7 / 7}).to_csv("table.csv", index=False)
    options = ["--set", "n_candidates=4", "--set", "n_folds=3", "--set", "max_epochs=1", "--set", "patience=none"]
    said = run("fit", "table.csv", "-t", "y", "--effort", "fast", *options).stderr
    assert "tried 4 settings on the first 2 folds; training the best" in said
    assert "[" not in said
    assert tabgnm.load("model.tabgnm").verbose == 0
