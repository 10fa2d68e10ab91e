"""The progress bar: one line on a terminal, nothing anywhere else."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from rich.console import Console

from tabgnm.nn.losses import CrossEntropy
from tabgnm.training import Callback, FleetPlan, Job, Member, ProgressBar
from tabgnm.training.progress import ProgressLine
from tests.training.examples import (
    BASE,
    PERCEPTRON,
    assert_all_same,
    different_members,
    settings_for,
    table_for,
    train,
)


def terminal() -> tuple[Console, StringIO]:
    text = StringIO()
    return Console(force_terminal=True, file=text, width=100), text


def frames(text: str) -> list[str]:
    """What stood in the line, one after the other, without colours."""
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    return [frame for frame in re.split(r"[\r\n]+", plain) if frame.strip()]


def test_nothing_is_printed_where_there_is_no_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    train(BASE, different_members(3), settings_for(), verbose=1)
    text = StringIO()
    train(BASE, different_members(3), settings_for(), callbacks=[ProgressBar(Console(file=text))])
    assert capfd.readouterr() == ("", "") and text.getvalue() == ""


def test_nothing_is_printed_unless_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    train(BASE, different_members(3), settings_for())
    assert capfd.readouterr() == ("", "")


def test_a_terminal_shows_one_line() -> None:
    console, text = terminal()
    train(BASE, different_members(3), settings_for(max_epochs=4), callbacks=[ProgressBar(console)])
    shown = frames(text.getvalue())
    assert shown and all(re.match(r"models \d/3 .*(epoch \d.*)?model-epochs/s", frame) for frame in shown), shown
    assert shown[-1].startswith("models 3/3") and "epoch 4" in shown[-1]


def test_the_line_shows_the_lowest_validation_loss() -> None:
    console, text = terminal()
    models = train(BASE, different_members(3), settings_for(max_epochs=4), callbacks=[ProgressBar(console)])
    lowest = min(loss for model in models for loss in model.history.val_loss)
    assert f"best loss {lowest:.4g}" in frames(text.getvalue())[-1]


def test_models_that_stop_early_fill_the_bar() -> None:
    console, _ = terminal()
    bar = ProgressBar(console)
    totals = []

    class Look(Callback):
        def on_model_end(self, model: int, n_epochs: int, status: str) -> None:  # noqa: ARG002 - the hook's signature
            assert bar.line._bar is not None
            totals.append(bar.line._bar.tasks[0].percentage)

    models = train(BASE, different_members(6), settings_for(max_epochs=40, patience=2), callbacks=[bar, Look()])
    assert "stopped_early" in {model.history.status for model in models}
    assert totals[-1] == 100 and totals[0] < 100


def test_the_bar_is_taken_away_when_training_fails() -> None:
    console, _ = terminal()
    bar = ProgressBar(console)

    class Fail(Callback):
        def on_epoch_end(self, report: object) -> None:  # noqa: ARG002 - the hook's signature
            raise RuntimeError

    with pytest.raises(RuntimeError):
        train(BASE, different_members(2), settings_for(), callbacks=[bar, Fail()])
    assert bar.line._bar is None


def test_the_bar_changes_nothing() -> None:
    console, _ = terminal()
    members = different_members(3)
    with_bar = train(BASE, members, settings_for(), callbacks=[ProgressBar(console)])
    assert_all_same(with_bar, train(BASE, members, settings_for()))


def test_fleets_of_a_plan_share_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    console, text = terminal()
    monkeypatch.setattr("tabgnm.training.plan.ProgressLine", lambda: ProgressLine(console))
    jobs = [
        Job(shape, settings_for(max_epochs=3), Member(seed=seed)) for shape in (BASE, PERCEPTRON) for seed in range(2)
    ]
    FleetPlan(jobs, table_for(CrossEntropy())).run(verbose=1)
    shown = frames(text.getvalue())
    assert shown[-1].startswith("models 4/4") and not any("epoch " in frame for frame in shown)
