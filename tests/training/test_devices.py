"""Plans on several devices: the same models as on one, and errors, Ctrl-C and deadlines reach all devices."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tabgnm.nn.losses import CrossEntropy
from tabgnm.training import FleetPlan, Job, Member, PlannedFleet, TrainedModel, devices
from tabgnm.training.chunk_trainer import ChunkTrainer
from tabgnm.training.concurrent_fleets import DeviceTask, Interrupted, train_on_devices
from tabgnm.training.devices import devices_for, equal_devices
from tabgnm.training.gpu_sharing import n_sharing
from tabgnm.training.interruption import Interruption
from tabgnm.training.plan import divided
from tabgnm.training.progress import ProgressLine
from tests.training.examples import BASE, CPU, EVERYTHING, PERCEPTRON, assert_all_same, settings_for, table_for
from tests.training.several_devices import spread_over
from tests.training.test_progress import frames, terminal

TABLE = table_for(CrossEntropy())
SHAPES = (BASE, EVERYTHING, PERCEPTRON)
TWO = [torch.device("cpu", number) for number in range(2)]


def jobs_of(*shapes: Any, n_models: int = 3, **settings: Any) -> list[Job]:
    """Jobs of one fleet per shape."""
    how = settings_for(**settings)
    members = [Member(seed=seed, val=torch.arange(150, 200), dropout=0.1) for seed in range(n_models)]
    return [Job(shape, how, member) for member in members for shape in shapes]


def endless_plan(*shapes: Any) -> FleetPlan:
    return FleetPlan(jobs_of(*shapes, max_epochs=1_000_000), TABLE)


@pytest.mark.portable
@pytest.mark.parametrize("n_devices", [2, 3])
def test_models_are_those_of_one_device(n_devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, n_threads = FleetPlan(jobs_of(*SHAPES, max_epochs=8), TABLE), torch.get_num_threads()
    expected = plan.run()
    names = [f"cpu:{number}" for number in range(n_devices)]
    trained = spread_over(monkeypatch, *names)
    found = plan.run()
    assert_all_same(found, expected, 1e-8)
    assert all(value.device == CPU for model in found for value in model.parameters.values())
    assert trained.devices == set(names)
    assert sum(n_models for _, n_models in trained.fleets) == len(plan.jobs)
    assert torch.get_num_threads() == n_threads


def test_a_single_fleet_is_divided_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = FleetPlan(jobs_of(BASE, n_models=10), TABLE)
    expected = plan.run()
    trained = spread_over(monkeypatch, "cpu:0", "cpu:1", "cpu:2")
    assert_all_same(plan.run(), expected, 1e-8)
    assert sorted(n_models for _, n_models in trained.fleets) == [2, 4, 4] and len(trained.devices) == 3


@given(
    fleets=st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1e12)), min_size=1, max_size=12),
    n_devices=st.integers(2, 9),
)
def test_parts_have_all_models_once_and_at_most_an_equal_share(fleets: list[tuple[int, float]], n_devices: int) -> None:
    planned, n_jobs = [], 0
    for size, cost in fleets:
        jobs = tuple(range(n_jobs, n_jobs + size))
        planned.append(PlannedFleet(jobs, BASE, settings_for(), size * max(1.0, cost)))
        n_jobs += size
    planned.sort(key=lambda fleet: -fleet.cost)
    share = sum(fleet.cost for fleet in planned) / n_devices
    parts = divided(planned, n_devices)
    assert sorted(position for part in parts for position in part.jobs) == list(range(n_jobs))
    costs = [part.cost for part in parts]
    assert costs == sorted(costs, reverse=True)
    for part in parts:
        assert part.cost <= max(1.1 * share, share + part.cost / len(part.jobs)) * (1 + 1e-9)
    assert len(parts) <= len(planned) + n_devices - 1


def test_fleets_that_can_be_spread_evenly_are_not_divided() -> None:
    plan = FleetPlan(jobs_of(*(replace(BASE, activation=name) for name in ("relu", "silu", "gelu", "tanh"))), TABLE)
    assert divided(plan.fleets, 2) == plan.fleets
    assert divided(plan.fleets, 4) == plan.fleets


def test_a_task_runs_on_the_device_with_the_least_work() -> None:
    everybody = threading.Barrier(4, timeout=30)

    def meet(device: torch.device) -> tuple[torch.device, int]:
        everybody.wait()
        return device, n_sharing()

    tasks = [DeviceTask(meet, cost) for cost in (5.0, 3.0, 1.0, 0.5)]
    found = dict(train_on_devices(tasks, TWO, 3))
    # Memory is shared by the tasks of a device only.
    assert [found[number] for number in range(4)] == [(TWO[place], 3) for place in (0, 1, 1, 1)]


def test_a_device_that_is_done_takes_the_next_task() -> None:
    go_on = threading.Event()
    used = []

    def first(device: torch.device) -> None:
        used.append(device)
        assert go_on.wait(30)

    def other(device: torch.device) -> None:
        used.append(device)
        if len(used) == 5:
            go_on.set()

    tasks = [DeviceTask(first, 1.0), *(DeviceTask(other, 9.0) for _ in range(4))]
    assert len(list(train_on_devices(tasks, TWO, 1))) == 5
    assert sorted(map(str, used)) == ["cpu:0"] + ["cpu:1"] * 4


@pytest.mark.parametrize("error", [OSError("the disk is full"), torch.cuda.OutOfMemoryError("CUDA out of memory")])
def test_an_error_on_one_device_ends_the_others_and_reaches_the_caller(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    spread_over(monkeypatch, "cpu:0", "cpu:1")
    run_fleet = FleetPlan.run_fleet

    def failing(self: FleetPlan, fleet: PlannedFleet, device: Any, **how: Any) -> list[TrainedModel]:
        if str(device) == "cpu:1":
            time.sleep(0.1)
            raise error
        return run_fleet(self, fleet, device, **how)

    monkeypatch.setattr(FleetPlan, "run_fleet", failing)
    with pytest.raises(type(error), match=str(error)):
        endless_plan(BASE, PERCEPTRON).run()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("fleet")]


def test_running_out_of_memory_on_one_device_halves_its_chunk(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plan = FleetPlan(jobs_of(BASE, n_models=8), TABLE)
    expected = plan.run()
    spread_over(monkeypatch, "cpu:0", "cpu:1")
    run = ChunkTrainer.run

    def limited(self: ChunkTrainer, *how: Any) -> None:
        if self.settings.device == "cpu:1" and len(self.alive) > 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        run(self, *how)

    monkeypatch.setattr(ChunkTrainer, "run", limited)
    assert_all_same(plan.run(), expected, 1e-8)
    assert [record.getMessage() for record in caplog.records] == [
        "out of GPU memory with 4 models at once; continuing with 2"
    ]


def test_ctrl_c_ends_all_devices_and_begins_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = spread_over(monkeypatch, "cpu:0", "cpu:1", ctrl_c_at=2)
    plan, handler = endless_plan(*SHAPES), signal.getsignal(signal.SIGINT)
    models = plan.run()
    assert len(trained.fleets) == 2 < len(divided(plan.fleets, 2))
    assert [model.history.status for model in models] == ["interrupted"] * 9
    n_reached = sum(n_models for _, n_models in trained.fleets)
    assert sum(model.history.n_epochs > 0 for model in models) <= n_reached < 9
    assert all(torch.isfinite(value).all() for model in models for value in model.parameters.values())
    assert signal.getsignal(signal.SIGINT) is handler


def test_models_of_a_divided_fleet_that_were_not_reached_have_their_first_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = FleetPlan(jobs_of(BASE, n_models=4), TABLE)
    untrained = plan._fleet_of(plan.fleets[0])[0].untrained().models

    def ended(self: FleetPlan, **_: Any) -> Any:
        part = replace(self.fleets[0], jobs=(0, 1))
        yield part, self.run_fleet(part)
        raise Interrupted

    monkeypatch.setattr(FleetPlan, "run_fleets", ended)
    models = plan.run()
    assert [model.history.status for model in models] == ["completed"] * 2 + ["interrupted"] * 2
    assert_all_same(models[2:], untrained[2:])


def test_the_deadline_ends_all_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = spread_over(monkeypatch, "cpu:0", "cpu:1")
    found: list[TrainedModel] = []
    fleets = endless_plan(*SHAPES).run_fleets(deadline=time.monotonic() + 0.5)
    with pytest.raises(Interrupted) as ending:
        found.extend(model for _, models in fleets for model in models)
    assert ending.value.at_deadline
    assert len(found) == sum(n_models for _, n_models in trained.fleets) < 9 and trained.devices <= {"cpu:0", "cpu:1"}
    assert {model.history.status for model in found} == {"interrupted"}


def test_the_progress_of_all_devices_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = spread_over(monkeypatch, "cpu:0", "cpu:1")
    console, text = terminal()
    monkeypatch.setattr("tabgnm.training.plan.ProgressLine", lambda **how: ProgressLine(console, **how))
    FleetPlan(jobs_of(*SHAPES), TABLE).run(verbose=1)
    assert "100%, 9/9 networks" in frames(text.getvalue())[-1] and len(trained.devices) == 2


def test_a_fit_within_another_stays_on_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = spread_over(monkeypatch, "cpu:0", "cpu:1")
    with Interruption().around():  # as every fit is
        FleetPlan(jobs_of(*SHAPES), TABLE).run()
    assert trained.devices == {"cpu"}


def test_fleets_on_devices_of_their_own_stay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = spread_over(monkeypatch, "cpu:0", "cpu:1")
    FleetPlan([Job(BASE, settings_for(device=name), Member()) for name in ("cpu:0", "cpu:4")], TABLE).run()
    assert sorted(trained.fleets) == [("cpu:0", 1), ("cpu:4", 1)]


def test_little_work_is_not_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "equal_devices", lambda _: [torch.device("cpu", number) for number in range(4)])
    least = devices.MIN_WORK
    assert [len(devices_for(CPU, share * least)) for share in (0, 1.9, 2, 3.5, 1e9)] == [1, 1, 2, 3, 4]
    assert devices_for(CPU, 0) == [CPU]


def on_a_machine_with(monkeypatch: pytest.MonkeyPatch, *gpus: tuple[str, int], current: int = 0) -> None:
    """Let torch find GPUs with these names and this free memory."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(gpus))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: current)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number=current: gpus[number][0])
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda number: (gpus[number][1], 100))


def test_cuda_is_the_current_gpu_and_others_like_it(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_machine_with(monkeypatch, ("large", 99), ("small", 99), ("large", 80), ("large", 30), ("large", 40), current=2)
    cuda = torch.device("cuda")
    assert equal_devices(cuda) == [torch.device("cuda", number) for number in (2, 0, 4)]
    assert equal_devices(torch.device("cuda", 3)) == [torch.device("cuda", 3)]
    assert equal_devices(CPU) == [CPU]


@pytest.mark.parametrize("gpus", [[("large", 9)], [("large", 9), ("small", 9)], [("large", 9), ("large", 4)]])
def test_a_gpu_without_another_like_it_is_used_as_before(
    gpus: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_machine_with(monkeypatch, *gpus)
    assert equal_devices(torch.device("cuda")) == [torch.device("cuda")]
