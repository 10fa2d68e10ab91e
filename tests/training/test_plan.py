"""A plan groups models into fleets, the largest first, and gives the models back in the order of the jobs."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from tabgnm.nn import GNMShape
from tabgnm.nn.losses import CrossEntropy, SquaredError
from tabgnm.training import FleetPlan, Job, Member, Table
from tests.training.examples import BASE, EVERYTHING, PERCEPTRON, assert_same, settings_for, table_for, train
from tests.training.test_callbacks import Diary

TABLE = table_for(CrossEntropy())
VAL = torch.arange(150, 200)


def mixed_jobs() -> list[Job]:
    """Jobs of seven fleets, in no order."""
    short, long = settings_for(max_epochs=2), settings_for(max_epochs=4)
    decoupled = [settings_for(max_epochs=2, optimizer="adamw") for _ in range(2)]  # equal, not the same object
    jobs = []
    for seed in range(3):
        jobs += [Job(shape, short, Member(seed=seed)) for shape in (BASE, EVERYTHING, PERCEPTRON)]
        jobs += [Job(BASE, long, Member(seed=seed)), Job(BASE, decoupled[seed % 2], Member(seed=seed))]
        jobs += [Job(BASE, short, Member(seed=seed, val=VAL)), Job(BASE, short, Member(seed=seed, l0=0.01))]
    random.Random(0).shuffle(jobs)
    return jobs


def test_jobs_are_grouped_by_what_a_fleet_has_to_share() -> None:
    jobs = mixed_jobs()
    plan = FleetPlan(jobs, TABLE)
    assert [len(fleet.jobs) for fleet in plan.fleets] == [3] * 7
    assert sorted(position for fleet in plan.fleets for position in fleet.jobs) == list(range(len(jobs)))
    for fleet in plan.fleets:
        own = [jobs[position] for position in fleet.jobs]
        assert {job.shape for job in own} == {fleet.shape}
        assert {job.settings for job in own} == {fleet.settings}
        assert len({(job.member.val is None, job.member.l0 > 0) for job in own}) == 1


def test_results_come_in_the_order_of_the_jobs_and_are_those_of_each_job_alone() -> None:
    jobs = mixed_jobs()
    for job, model in zip(jobs, FleetPlan(jobs, TABLE).run(), strict=True):
        assert_same(model, train(job.shape, [job.member], job.settings, TABLE)[0], 1e-8)


def test_the_largest_fleet_comes_first() -> None:
    small, large = GNMShape(6, 3, 12, 2), GNMShape(6, 3, 40, 4)
    settings = settings_for(max_epochs=1)
    jobs = [Job(small, settings, Member()), Job(large, settings, Member()), Job(small, settings, Member(seed=1))]
    plan = FleetPlan(jobs, TABLE)
    assert [fleet.shape for fleet in plan.fleets] == [large, small]
    assert [fleet.jobs for fleet in plan.fleets] == [(1,), (0, 2)]
    costs = [fleet.cost for fleet in FleetPlan(mixed_jobs(), TABLE).fleets]
    assert costs == sorted(costs, reverse=True)


def test_the_cost_grows_with_rows_epochs_and_weights() -> None:
    def cost(shape: GNMShape = BASE, epochs: int = 1, **own: object) -> float:
        job = Job(shape, settings_for(max_epochs=epochs), Member(**own))  # type: ignore[arg-type]
        return FleetPlan([job], TABLE).fleets[0].cost

    assert cost(train=torch.arange(100)) == pytest.approx(cost() / 2)
    assert cost(epochs=3) == pytest.approx(3 * cost())
    assert cost(replace(BASE, n_nodes=32)) > 2 * cost()


def test_one_fleet_of_a_plan_can_be_run_by_itself() -> None:
    jobs = mixed_jobs()
    plan = FleetPlan(jobs, TABLE)
    whole = plan.run()
    for fleet in plan.fleets[:2]:
        for position, model in zip(fleet.jobs, plan.run_fleet(fleet), strict=True):
            assert_same(model, whole[position])


def test_callbacks_hear_of_every_fleet() -> None:
    diary = Diary()
    for _ in FleetPlan(mixed_jobs(), TABLE).run_fleets(progress=lambda _: diary):
        pass
    assert [call[0] for call in diary.calls].count("begin") == 7
    assert [call[0] for call in diary.calls].count("model") == 21


def test_jobs_may_have_tables_of_their_own() -> None:
    tables = [TABLE, table_for(CrossEntropy(), 90, seed=1)]
    jobs = [Job(BASE, settings_for(max_epochs=2), Member(seed=seed, table=seed % 2)) for seed in range(4)]
    for job, model in zip(jobs, FleetPlan(jobs, tables).run(), strict=True):
        alone = train(BASE, [replace(job.member, table=0)], job.settings, tables[job.member.table])[0]
        assert_same(model, alone, 1e-8)


def test_tables_may_differ_in_columns_and_targets_where_shapes_and_losses_do() -> None:
    narrow = Table(TABLE.x[:, :4], TABLE.y)
    numbers = table_for(SquaredError())
    tables = [TABLE, narrow, numbers]
    settings = settings_for(max_epochs=2)
    jobs = [
        Job(BASE, settings, Member(seed=1)),
        Job(replace(BASE, n_inputs=4), settings, Member(seed=2, table=1)),
        Job(BASE, replace(settings, loss=SquaredError()), Member(seed=3, table=2)),
    ]
    for job, model in zip(jobs, FleetPlan(jobs, tables).run(), strict=True):
        alone = train(job.shape, [replace(job.member, table=0)], job.settings, tables[job.member.table])[0]
        assert_same(model, alone, 1e-8)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"train": torch.tensor([10**6])}, "row"),
        ({"sample_weight": torch.ones(3)}, "one weight per row"),
        ({"table": 3}, "table=3"),
    ],
)
def test_nothing_is_trained_if_a_job_is_wrong(
    wrong: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[object] = []
    monkeypatch.setattr(FleetPlan, "run_fleet", lambda *call, **how: trained.append((call, how)))
    settings = settings_for()
    large, small = replace(BASE, n_nodes=40), replace(BASE, n_nodes=20)
    jobs = [Job(large, settings, Member()), Job(small, settings, Member(**wrong))]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        FleetPlan(jobs, TABLE).run()
    assert not trained
