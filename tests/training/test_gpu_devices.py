"""Plans on several GPUs; also on one GPU that is named twice, with which all but the number of devices is the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tabgnm import GNMClassifier
from tabgnm.nn.losses import CrossEntropy
from tabgnm.training import FleetPlan, Job, Member, TrainedModel
from tabgnm.training.devices import equal_devices
from tabgnm.training.plan import divided
from tests.estimators.examples import numbers
from tests.training.examples import BASE, PERCEPTRON, PERIODIC, assert_all_same, on_gpu, settings_for, table_for
from tests.training.several_devices import spread_over

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
DEVICES = pytest.mark.parametrize(
    "names",
    [
        pytest.param(("cuda:0", "cuda:0"), id="one GPU twice"),
        pytest.param(("cuda:0", "cuda:1"), id="two GPUs", marks=two_gpus),
    ],
)


def plan_of(precision: str) -> FleetPlan:
    """Fleets of several shapes, with epochs that are captured as a whole and block by block."""
    tables = [table_for(CrossEntropy(), n_rows) for n_rows in (200, 3000)]
    settings = on_gpu(settings_for(max_epochs=20, batch_size=16, precision=precision))
    shapes = [replace(BASE, n_nodes=n_nodes) for n_nodes in (20, 40)]
    return FleetPlan(
        [
            Job(shape, settings, Member(seed=seed, val=torch.arange(40), table=table, dropout=0.1 * table))
            for shape in (*shapes, PERCEPTRON)
            for table in range(2)
            for seed in range(4)
        ],
        tables,
    )


@DEVICES
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_parts_are_bit_equal_to_those_one_by_one(
    names: tuple[str, ...],
    precision: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    plan = plan_of(precision)
    one_by_one: dict[int, TrainedModel] = {}
    for part in divided(plan.fleets, 2):
        one_by_one.update(zip(part.jobs, plan.run_fleet(part), strict=True))
    trained = spread_over(monkeypatch, *names)
    for _ in range(2):
        assert_all_same(plan.run(), [one_by_one[position] for position in range(len(plan.jobs))])
    assert trained.devices == set(names)
    assert "could not capture" not in caplog.text


@DEVICES
def test_models_are_those_of_one_gpu(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("float64")
    expected = plan.run()
    spread_over(monkeypatch, *names)
    assert_all_same(plan.run(), expected, 1e-6)


@DEVICES
def test_a_divided_fleet_with_embeddings_is_that_of_one_gpu(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = on_gpu(settings_for(max_epochs=2, precision="float32", eps=1e-3))
    jobs = [Job(PERIODIC, settings, Member(seed=seed, val=torch.arange(40))) for seed in range(6)]
    plan = FleetPlan(jobs, table_for(CrossEntropy(), shape=PERIODIC))
    expected = plan.run()
    trained = spread_over(monkeypatch, *names)
    assert_all_same(plan.run(), expected, 1e-3)
    assert sorted(trained.fleets) == [(name, 3) for name in names]


@DEVICES
def test_ctrl_c_ends_all_gpus(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("float32")
    endless = [replace(job, settings=replace(job.settings, max_epochs=10**6)) for job in plan.jobs]
    spread_over(monkeypatch, *names, ctrl_c_at=2)
    models = FleetPlan(endless, plan.tables).run()
    assert {model.history.status for model in models} == {"interrupted"}
    assert all(torch.isfinite(value).all() for model in models for value in model.parameters.values())


@DEVICES
def test_an_estimator_predicts_on_one_gpu_what_several_have_learned(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, _ = numbers(600)
    # In float64, as parts of a fleet are rounded in other ways, which float32 would amplify.
    model = GNMClassifier(
        n_candidates=3, n_folds=3, max_epochs=10, numeric_embedding=None, precision="float64", random_state=0
    )
    expected = model.fit(X, y).predict_proba(X)
    trained = spread_over(monkeypatch, *names)
    np.testing.assert_allclose(model.fit(X, y).predict_proba(X), expected, atol=1e-5)
    assert trained.devices == set(names)


@two_gpus
def test_a_plan_uses_several_gpus_and_restores_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found, current = equal_devices(torch.device("cuda")), torch.cuda.current_device()
    if len(found) == 1:
        pytest.skip("needs two CUDA devices of the same model that are not in use")
    assert found[0].index == current and len(found) == len({device.index for device in found})
    monkeypatch.setattr("tabgnm.training.devices.MIN_WORK", 1.0)
    plan_of("float32").run()
    assert torch.cuda.current_device() == current
    assert sum(torch.cuda.memory_reserved(device) > 0 for device in found) > 1
