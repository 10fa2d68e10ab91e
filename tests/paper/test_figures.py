"""Curves and running times: sizes, resuming, and what is measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tabgnm.nn import GNM
from tabgnm.paper import ResultStore, Setting, Unit, curves
from tabgnm.paper import data as paper_data
from tabgnm.paper.curves import CurveTask, curve_tasks, run_curves
from tabgnm.paper.estimate import Speed, in_words, measure_speed
from tabgnm.paper.protocol import MODELS, Body
from tabgnm.paper.runtime import RuntimeTask, measure_runtimes, runtime_tasks
from tabgnm.paper.sizes import TARGETS, body_of_size


@pytest.mark.parametrize("n_inputs", [7, 126])
def test_networks_have_about_the_parameters_that_the_figures_name(n_inputs: int) -> None:
    for target in TARGETS.values():
        for model in MODELS:
            n_parameters = body_of_size(model, target, n_inputs, 3).shape(n_inputs, 3).n_parameters()
            assert n_parameters == pytest.approx(target, rel=0.003)


def test_500_nodes_are_499000_parameters_as_in_the_paper() -> None:
    assert GNM(21, 4, n_nodes=500, n_layers=2).n_parameters() == 499_000
    assert body_of_size("gnm", 499_000, 21, 4, n_layers=2) == Body("gnm", 500, 2)


def test_a_size_below_the_smallest_network_gives_the_smallest() -> None:
    assert body_of_size("gnm", 10, 21, 4).width == 26


def small_tasks() -> list[CurveTask]:
    source = paper_data.load("noisy_moons", "paper", None).source
    return [CurveTask(source, Setting(max_epochs=3), Body(model, 50, 2), "tiny") for model in MODELS]


def test_curves_are_kept_and_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    with ResultStore(tmp_path / "a") as store:
        first = run_curves(small_tasks(), store, device="cpu", on_curve=done.append)
        monkeypatch.setattr(curves, "_train", None)
        assert run_curves(small_tasks(), store) == first
    assert done == [1, 2]
    for curve in first:
        assert len(curve.history.train_loss) == len(curve.history.val_loss) == 3
        assert curve.overfitting >= 0 and curve.as_dict()["size"] == "tiny"


def test_a_curve_of_another_setting_is_another_curve() -> None:
    task = small_tasks()[0]
    others = [replace(task, setting=Setting(max_epochs=4)), replace(task, body=Body("gnm", 51, 2)), small_tasks()[1]]
    assert len({task.key, *(other.key for other in others)}) == 4


def test_there_are_four_sizes_of_both_models_for_each_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    moons = paper_data.load("noisy_moons", "paper", None)

    def load(name: str, *_: object) -> paper_data.PaperData:
        if name == "yeast":
            raise OSError("no network")
        return replace(moons, source=replace(moons.source, name=name))

    monkeypatch.setattr(paper_data, "load", load)
    tasks, missing = curve_tasks(Setting())
    assert len(tasks) == 4 * 2 * 4 and missing == {"yeast": "no network"}
    timed, missing = runtime_tasks()
    assert len(timed) == 4 * 2 * 4 + 6 and missing == {}
    with pytest.raises(ValueError, match=r"there are no curves for \['adult'\]; expected some of yeast, car"):
        curve_tasks(Setting(), ["adult"])
    with pytest.raises(ValueError, match=r"running times are not compared on \['adult'\]; expected some of car"):
        runtime_tasks(["adult"])


def test_times_are_positive_and_come_with_the_parameters() -> None:
    task = RuntimeTask("noisy_moons", "paper", Body("gnm", 50, 2), "")
    [found] = measure_runtimes([task], n_epochs=10, device="cpu")
    assert found.seconds > 0 and found.n_parameters == 4900 and found.n_effective_parameters == 197
    assert found.as_dict()["width"] == 50
    [long_enough] = measure_runtimes([task], device="cpu")
    assert long_enough.seconds > 0


def test_more_work_is_estimated_to_take_longer() -> None:
    speed = measure_speed("cpu")
    source = paper_data.load("noisy_moons", "paper", None).source
    small, large = (Unit(source, Setting(max_epochs=300), Body("gnm", width, 3), (0,)) for width in (50, 300))
    assert 0 < speed.seconds([small]) < speed.seconds([large]) < speed.seconds([small, large])
    assert Speed(1e-3, 0, 0).seconds([small], n_jobs=4) == pytest.approx(small.n_steps * 1e-3 / 4)


@pytest.mark.slow
def test_an_estimate_is_near_the_time_that_work_takes() -> None:
    from tabgnm.paper import run_unit

    source = paper_data.load("noisy_moons", "paper", None).source
    unit = Unit(source, Setting(max_epochs=10), Body("gnm", 100, 3), tuple(range(10)))
    run_unit(unit, device="cpu")
    taken = sum(result.seconds for result in run_unit(unit, device="cpu"))
    assert taken / 6 < measure_speed("cpu").seconds([unit]) < 6 * taken  # others may use the same cores


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "less than a second"), (42.4, "42 s"), (600, "10 min"), (10_000, "2.8 h"), (1e6, "11.6 days")],
)
def test_times_are_told_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
