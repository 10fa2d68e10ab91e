"""Progress: one bar in a terminal or a notebook, lines of a log anywhere else, and nothing unless asked for."""

from __future__ import annotations

import logging
import re
import time
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import numpy as np
import pytest
from rich.console import Console

from tabgnm.nn.losses import CrossEntropy
from tabgnm.training import Callback, Fleet, FleetPlan, Job, Member, ProgressBar
from tabgnm.training.progress import ProgressLine
from tabgnm.training.progress_display import LogDisplay, ProgressState, display
from tests.estimators.examples import gnmr
from tests.training.examples import (
    BASE,
    PERCEPTRON,
    assert_all_same,
    different_members,
    settings_for,
    table_for,
    train,
)
from tests.training.test_callbacks import RaiseAt


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def terminal() -> tuple[Console, StringIO]:
    text = StringIO()
    return Console(force_terminal=True, file=text, width=100), text


def frames(text: str) -> list[str]:
    """What stood in the line, one after the other, without colours."""
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    return [frame for frame in re.split(r"[\r\n]+", plain) if "networks" in frame]


def unconfigured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave logging as it is in a program that has not configured it; pytest has."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])


def test_nothing_is_printed_unless_asked_for(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unconfigured(monkeypatch)
    train(BASE, different_members(3), settings_for())
    assert capfd.readouterr() == ("", "")


def test_a_terminal_shows_one_line() -> None:
    console, text = terminal()
    train(BASE, different_members(3), settings_for(max_epochs=4), callbacks=[ProgressBar(console)])
    shown = frames(text.getvalue())
    assert shown and all(re.search(r"\d+%, \d/3 networks", frame) for frame in shown), shown
    assert "100%, 3/3 networks" in shown[-1] and re.search(r", \d:\d\d$", shown[-1].rstrip())


def test_the_line_shows_the_lowest_validation_loss() -> None:
    console, text = terminal()
    models = train(BASE, different_members(3), settings_for(max_epochs=4), callbacks=[ProgressBar(console)])
    lowest = min(loss for model in models for loss in model.history.val_loss)
    assert f"best loss {lowest:.4g}" in frames(text.getvalue())[-1]


def test_without_validation_the_line_shows_the_lowest_training_loss() -> None:
    console, text = terminal()
    models = train(BASE, [Member(seed=0)], settings_for(max_epochs=4), callbacks=[ProgressBar(console)])
    assert f"best training loss {min(models[0].history.train_loss):.4g}" in frames(text.getvalue())[-1]


def test_models_that_stop_early_fill_the_bar() -> None:
    console, text = terminal()
    bar = ProgressBar(console)
    models = train(BASE, different_members(6), settings_for(max_epochs=40, patience=2), callbacks=[bar])
    assert "stopped_early" in {model.history.status for model in models}
    assert "100%, 6/6 networks" in frames(text.getvalue())[-1]


def test_the_bar_is_taken_away_when_training_fails() -> None:
    console, _ = terminal()
    bar = ProgressBar(console)

    class Fail(Callback):
        def on_epoch_end(self, report: object) -> None:  # noqa: ARG002 - the hook's signature
            raise RuntimeError

    with pytest.raises(RuntimeError):
        train(BASE, different_members(2), settings_for(), callbacks=[bar, Fail()])
    assert bar.line._display is None


def test_the_bar_changes_nothing() -> None:
    console, _ = terminal()
    members = different_members(3)
    with_bar = train(BASE, members, settings_for(), callbacks=[ProgressBar(console)])
    assert_all_same(with_bar, train(BASE, members, settings_for()))


def test_fleets_of_a_plan_share_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    console, text = terminal()
    monkeypatch.setattr("tabgnm.training.plan.ProgressLine", lambda **how: ProgressLine(console, **how))
    jobs = [
        Job(shape, settings_for(max_epochs=3), Member(seed=seed)) for shape in (BASE, PERCEPTRON) for seed in range(2)
    ]
    FleetPlan(jobs, table_for(CrossEntropy())).run(verbose=1)
    assert "100%, 4/4 networks" in frames(text.getvalue())[-1]


def racing() -> tuple[Any, Any, Any]:
    """Return a regressor whose candidates race, and rows for it."""
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 3))
    model = gnmr(n_nodes=48, n_candidates=4, n_folds=3, max_epochs=4, batch_size=256, verbose=1, learning_rate="auto")
    return model, X, X[:, 0] + random.normal(size=2000)


def test_both_rounds_of_a_race_share_one_bar_that_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[ProgressState] = []
    closed: list[ProgressState] = []
    monkeypatch.setattr(LogDisplay, "update", lambda _, state: states.append(state))
    monkeypatch.setattr(LogDisplay, "close", lambda _, state: closed.append(state))
    model, X, y = racing()
    model.fit(X, y)
    assert model.pack_["stopped_by_race"].any()
    shares = [state.share for state in states]
    assert len(closed) == 1 and shares == sorted(shares) and shares[-1] == 1.0
    assert 0.05 < shares[len(shares) // 4] < 0.6  # the total knows of the second round
    assert closed[0].n_done == closed[0].n_models == model.pack_["networks"].sum()


def test_the_line_of_an_estimator_shows_its_best_score(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tabgnm"):
        model = gnmr(n_nodes=48, verbose=1).fit(*racing()[1:])
    best = max(value for own in model.history_ for value in own["val_r2"])
    assert [own.getMessage() for own in caplog.records if f"; best network: r2 {best:.4g}" in own.getMessage()]


def test_off_a_terminal_there_are_lines_of_a_log_but_not_one_per_epoch(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unconfigured(monkeypatch)
    for verbose in (1, 2):
        train(BASE, different_members(3), settings_for(max_epochs=30), verbose=verbose)
        out, err = capfd.readouterr()
        assert out == "" and re.search(r"^\d\d:\d\d:\d\d tabgnm: trained 3 of 3 networks in \d+:\d\d; best loss ", err)
        assert len(err.splitlines()) < 5
    log = logging.getLogger("tabgnm")
    assert log.level == logging.NOTSET and all(isinstance(own, logging.NullHandler) for own in log.handlers)


def test_the_log_of_a_fit_goes_on_when_another_one_has_ended(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unconfigured(monkeypatch)
    with ExitStack() as first, ExitStack() as second:
        for stack in (first, second):
            stack.enter_context(display(Console(file=StringIO())))
        first.close()
        logging.getLogger("tabgnm").info("of the second")
    assert capfd.readouterr().err.count("of the second") == 1


@pytest.mark.parametrize("after", [1, 30, 99])
def test_a_resumed_fleet_counts_all_epochs(after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members, settings = different_members(3), settings_for(max_epochs=100, patience=60)
    steps: list[int] = []
    move = ProgressLine.move

    def watched(self: ProgressLine, n_model_epochs: int, **how: Any) -> None:
        steps.append(n_model_epochs)
        move(self, n_model_epochs, **how)

    monkeypatch.setattr(ProgressLine, "move", watched)
    fleet, table = Fleet(BASE, members, settings), table_for(settings.loss)
    path = tmp_path / "fleet.ckpt"
    stop = RaiseAt(after, RuntimeError("enough"))
    with pytest.raises(RuntimeError, match="enough"):
        fleet.fit(table, checkpoint=path, checkpoint_every=1, callbacks=[stop])
    steps.clear()
    fleet.fit(table, checkpoint=path, callbacks=[ProgressBar(Console(file=StringIO()))])
    assert sum(steps) == 3 * 100


def test_a_level_that_is_set_during_training_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    unconfigured(monkeypatch)
    log = logging.getLogger("tabgnm")

    class Quiet(Callback):
        def on_train_begin(self, n_models: int, max_epochs: int) -> None:  # noqa: ARG002 - the hook's signature
            log.setLevel(logging.ERROR)

    try:
        train(BASE, different_members(1), settings_for(max_epochs=1), verbose=1, callbacks=[Quiet()])
        assert log.level == logging.ERROR
    finally:
        log.setLevel(logging.NOTSET)


def test_who_has_configured_logging_decides_what_is_seen(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = StringIO()
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.StreamHandler(text)])
    train(BASE, different_members(3), settings_for(), verbose=1)
    assert capfd.readouterr() == ("", "") and text.getvalue() == ""  # only warnings are wanted
    monkeypatch.setattr(logging.getLogger(), "level", logging.INFO)
    logging.getLogger("tabgnm").manager._clear_cache()  # type: ignore[attr-defined] # of levels
    train(BASE, different_members(3), settings_for(), verbose=1)
    assert text.getvalue().startswith("trained 3 of 3 networks")
    logging.getLogger("tabgnm").manager._clear_cache()  # type: ignore[attr-defined]


def test_a_long_fit_logs_soon_and_then_rarely(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    shown = []
    monkeypatch.setattr(time, "monotonic", lambda: now)
    log = LogDisplay()
    with caplog.at_level(logging.INFO, "tabgnm"):
        for second in range(3600):
            now = float(second)
            log.update(ProgressState(second / 3600, 0, 10, "best loss 1", now, 3600 - now))
            shown += [second] * (len(caplog.records) - len(shown))
    assert shown[0] == 10 and 20 < len(shown) < 80
    assert caplog.records[0].getMessage() == "training: 0%, 0/10 networks, best loss 1, 59:50 left"


def test_a_time_limit_bounds_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[ProgressState] = []
    monkeypatch.setattr(LogDisplay, "update", lambda _, state: states.append(state))
    model, X, y = racing()
    model.set_params(time_limit=100, max_epochs=10**5, n_candidates=1, n_folds=1, patience=1).fit(X, y)
    assert states and all(0 <= state.seconds_left <= 100 for state in states)


NOTEBOOK = """
import sys
import numpy as np
from tabgnm import GNMRegressor
X = np.random.default_rng(0).normal(size=(2000, 3))
model = GNMRegressor(n_nodes=48, n_candidates=4, n_folds=3, max_epochs=4, batch_size=256, patience=None, verbose=1, device="cpu")
"""


def test_a_notebook_shows_one_bar_and_leaves_it_complete() -> None:
    sources = (
        NOTEBOOK,
        "model.fit(X, X[:, 0]);",
        "model.set_params(verbose=0).fit(X, X[:, 0]);",
        "'ipywidgets' in sys.modules",
    )
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
    silent, shown, quiet, widgets = (cell.outputs for cell in notebook.cells)
    assert silent == quiet == [] and widgets[0].data["text/plain"] == "False"
    (output,) = shown
    assert output.output_type == "display_data"
    assert re.match(r"100%, (\d+)/\1 networks, best network: r2 0\.\d+, \d+:\d\d$", output.data["text/plain"])
    assert output.data["text/html"].startswith('<progress max="1" value="1.000"')
