"""On a GPU everything is as on the CPU: weights, histories, early stopping, checkpoints; and it is reproducible."""

from __future__ import annotations

import gc
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tabgnm.nn import GNMShape, MLPShape
from tabgnm.nn.losses import CrossEntropy, JointCrossEntropy, Loss, Quantiles, SquaredError
from tabgnm.nn.shapes import Shape
from tabgnm.training import (
    Fleet,
    FleetPlan,
    FleetSettings,
    Job,
    Member,
    Table,
    TrainedModel,
    counter_random,
    prefetch,
)
from tests.training.examples import (
    BASE,
    CPU,
    EMBEDDED,
    EVERYTHING,
    LOSSES,
    OPTIONS,
    PERCEPTRON,
    PERIODIC,
    SHAPES,
    assert_all_same,
    different_members,
    on_gpu,
    random_keys,
    settings_for,
    table_for,
    train,
    weights_of,
)
from tests.training.test_callbacks import RaiseAt

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

ALL: dict[str, Shape] = {**SHAPES, **EMBEDDED}


def train_twice(shape: Shape, members: list[Member], settings: FleetSettings, **how: Any) -> None:
    """Train on the CPU and on the GPU; the models have to be the same."""
    assert_all_same(train(shape, members, on_gpu(settings), **how), train(shape, members, settings, **how), 1e-8)


@pytest.mark.parametrize("shape", ALL.values(), ids=ALL)
@pytest.mark.parametrize("l0", [0.0, 1e-3])
@pytest.mark.parametrize("n_models", [1, 8])
def test_models_are_those_of_the_cpu(shape: Shape, l0: float, n_models: int) -> None:
    train_twice(shape, different_members(n_models, l0=l0), settings_for(max_epochs=12))


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("l0", [0.0, 1e-2])
def test_so_they_are_with_every_optimizer(option: str, l0: float) -> None:
    for shape in (BASE, EVERYTHING):
        train_twice(shape, different_members(5, l0=l0), settings_for(max_epochs=12, **OPTIONS[option]))


@pytest.mark.parametrize("loss", [*LOSSES, JointCrossEntropy((2, 1)), Quantiles((0.1, 0.5, 0.9))], ids=repr)
def test_so_they_are_with_every_loss(loss: Loss) -> None:
    train_twice(BASE, different_members(5), settings_for(loss, max_epochs=12))


class Doubled(SquaredError):
    """A loss derived from one of ours, of the same name."""

    def per_row(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return 2 * super().per_row(outputs, targets)

    def gradient(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return 2 * super().gradient(outputs, targets)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_loss_derived_from_one_of_ours_is_reported_by_its_own_formula(precision: str) -> None:
    how = {"max_epochs": 1, "batch_size": 500, "precision": precision}
    members, table = different_members(3), table_for(SquaredError())
    plain, doubled = (
        train(BASE, members, on_gpu(settings_for(loss, **how)), table) for loss in (SquaredError(), Doubled())
    )
    for one, other in zip(plain, doubled, strict=True):
        assert other.history.train_loss[0] == pytest.approx(2 * one.history.train_loss[0], rel=1e-5)


@pytest.mark.parametrize("batch_size", [3, 64])
@pytest.mark.parametrize("shape", EMBEDDED.values(), ids=EMBEDDED)
def test_steps_with_embeddings_are_captured(shape: Shape, batch_size: int, caplog: pytest.LogCaptureFixture) -> None:
    # With a larger eps steps do not amplify the rounding of gradients that are almost 0.
    train_twice(shape, different_members(5), settings_for(max_epochs=5, batch_size=batch_size, metric=True, eps=1e-3))
    assert not any("could not capture" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("loss", [*LOSSES, JointCrossEntropy((2, 1)), Quantiles((0.1, 0.5, 0.9))], ids=repr)
def test_metrics_are_those_of_the_cpu(loss: Loss) -> None:
    train_twice(BASE, different_members(5), settings_for(loss, max_epochs=12, patience=3, metric=True))


@pytest.mark.parametrize("shape", ALL.values(), ids=ALL)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_model_starts_where_it_is_told_to(shape: Shape, precision: str) -> None:
    settings = on_gpu(settings_for(max_epochs=3, precision=precision))
    starts = train(shape, [Member(seed=seed) for seed in range(3)], settings)
    members = [Member(start=model.parameters, learning_rate=0.0) for model in starts]
    for model, again in zip(starts, train(shape, members, settings), strict=True):
        assert torch.equal(weights_of(again), weights_of(model))


@pytest.mark.parametrize(("n_inputs", "n_outputs", "n_nodes"), [(1, 1, 3), (5, 1, 13), (17, 9, 60)])
def test_so_they_are_for_widths_that_fit_no_alignment(n_inputs: int, n_outputs: int, n_nodes: int) -> None:
    for shape in (BASE, EVERYTHING):
        own = replace(shape, n_inputs=n_inputs, n_outputs=n_outputs, n_nodes=n_nodes)
        train_twice(own, different_members(4), settings_for(SquaredError(), max_epochs=6))


@pytest.mark.parametrize("batch_size", [1, 3])
def test_epochs_of_many_steps_are_those_of_the_cpu(batch_size: int) -> None:
    # They are captured block by block.
    members = [
        Member(train=torch.arange(n), val=torch.arange(150, 200), seed=n, dropout=0.1) for n in (199, 197, 100, 1)
    ]
    train_twice(BASE, members, settings_for(max_epochs=4, batch_size=batch_size))


@pytest.mark.parametrize("option", ["adam", "schedule"])
def test_numbers_that_are_sent_again_and_again_are_those_of_the_cpu(
    monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setattr(prefetch, "_MAX_EPOCHS", 3)
    train_twice(BASE, different_members(8), settings_for(max_epochs=12, **OPTIONS[option]))


def test_early_stopping_is_that_of_the_cpu() -> None:
    settings = settings_for(max_epochs=60, patience=3)
    for n_models in (1, 12):
        train_twice(BASE, different_members(n_models), settings)


def test_watching_every_epoch_changes_nothing() -> None:
    members, settings = different_members(6), on_gpu(settings_for(max_epochs=25, patience=3))
    watched = train(BASE, members, settings, callbacks=[RaiseAt(10**9, RuntimeError())])
    assert_all_same(watched, train(BASE, members, settings), 1e-8)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("shape", [BASE, EVERYTHING, PERCEPTRON], ids=["base", "everything", "mlp"])
def test_models_that_diverge_are_those_of_the_cpu(shape: Shape, precision: str) -> None:
    rate = 1e12 if precision == "float32" else 1e70
    rows: dict[str, Any] = {"train": torch.arange(150), "val": torch.arange(150, 200)}
    members = [Member(seed=seed, learning_rate=rate if seed == 2 else 1e-3, **rows) for seed in range(5)]
    settings = settings_for(SquaredError(), max_epochs=12, precision=precision)
    here, there = train(shape, members, settings), train(shape, members, on_gpu(settings))
    assert [m.history.status for m in there] == [m.history.status for m in here]
    assert here[2].history.status == "diverged"
    assert there[2].history.n_epochs == here[2].history.n_epochs
    for one, other in zip(there, here, strict=True):
        torch.testing.assert_close(weights_of(one), weights_of(other), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_huge_value_is_noticed_and_harms_only_who_reads_it(precision: str) -> None:
    table = table_for(SquaredError())
    x = table.x.to(getattr(torch, precision))
    x[0] = 3e38 if precision == "float32" else 1e308
    members = [Member(train=torch.arange(seed != 1, 150 - 20 * seed), seed=seed) for seed in range(4)]
    for shape in (PERCEPTRON, replace(PERCEPTRON, init="kaiming")):
        settings = settings_for(SquaredError(), max_epochs=4, precision=precision)
        models = train(shape, members, on_gpu(settings), Table(x, table.y))
        assert [m.history.status for m in models] == ["completed", "diverged", "completed", "completed"]


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16", "float64"])
@pytest.mark.parametrize("shape", ALL.values(), ids=ALL)
@pytest.mark.parametrize("l0", [0.0, 1e-3])
def test_the_same_seed_twice_is_bit_equal(shape: Shape, precision: str, l0: float) -> None:
    members, settings = different_members(5, l0=l0), on_gpu(settings_for(max_epochs=12, precision=precision))
    assert_all_same(train(shape, members, settings), train(shape, members, settings))


def in_single_precision(**changes: Any) -> FleetSettings:
    return on_gpu(settings_for(SquaredError(), max_epochs=20, precision="float32", **changes))


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 4])
def test_chunks_change_little_in_single_precision_and_nothing_in_double(chunk_size: int) -> None:
    members = different_members(6)
    settings = in_single_precision()
    whole, chunked = (train(BASE, members, settings, chunk_size=size) for size in (6, chunk_size))
    for one, other in zip(chunked, whole, strict=True):
        assert one.history.val_loss[-1] == pytest.approx(other.history.val_loss[-1], abs=1e-3)
    settings = replace(settings, precision="float64")
    assert_all_same(
        train(BASE, members, settings, chunk_size=chunk_size), train(BASE, members, settings, chunk_size=6), 1e-8
    )


@pytest.mark.parametrize("shape", [BASE, EVERYTHING, *EMBEDDED.values()], ids=["base", "everything", *EMBEDDED])
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_faster_arithmetic_trains_to_a_similar_loss(shape: Shape, precision: str) -> None:
    members = [
        Member(train=torch.arange(150), val=torch.arange(150, 200), seed=seed, learning_rate=0.01) for seed in range(4)
    ]
    settings = on_gpu(settings_for(max_epochs=25, precision="float32"))
    exact, fast = (train(shape, members, how) for how in (settings, replace(settings, precision=precision)))
    for one, other in zip(fast, exact, strict=True):
        assert {value.dtype for value in one.parameters.values()} == {torch.float32}
        assert one.history.best_val_loss == pytest.approx(other.history.best_val_loss, rel=0.1, abs=0.02)
    assert not torch.backends.cuda.matmul.allow_tf32


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_resumed_run_is_bit_identical(tmp_path: Path, precision: str) -> None:
    members, table = different_members(6), table_for(CrossEntropy())
    settings = on_gpu(settings_for(max_epochs=40, patience=4, precision=precision))
    watch = RaiseAt(10**9, RuntimeError())  # a fleet that is watched asks after every epoch
    whole = Fleet(BASE, members, settings).fit(table, callbacks=[watch]).models
    lengths = sorted(model.history.n_epochs for model in whole)
    assert lengths[0] + 2 < lengths[-1]
    for after in (7, lengths[0] + 2, lengths[-1] - 1):
        path = tmp_path / f"{after}.safetensors"
        how: dict[str, Any] = {"checkpoint": path, "checkpoint_every": 1}
        with pytest.raises(RuntimeError, match="the power is off"):
            Fleet(BASE, members, settings).fit(
                table, callbacks=[RaiseAt(after, RuntimeError("the power is off"))], **how
            )
        resumed = Fleet(BASE, members, settings).fit(table, callbacks=[watch], **how).models
        histories = [(m.history.n_epochs, m.history.best_epoch, m.history.status) for m in resumed]
        assert histories == [(m.history.n_epochs, m.history.best_epoch, m.history.status) for m in whole]
        assert_all_same(resumed, whole, 1e-3 if precision == "float32" else 1e-8)


def test_ctrl_c_gives_back_what_there_is() -> None:
    members = different_members(4)
    models = train(BASE, members, on_gpu(settings_for(max_epochs=30)), callbacks=[RaiseAt(5, KeyboardInterrupt())])
    assert [(m.history.n_epochs, m.history.status) for m in models] == [(5, "interrupted")] * 4


def test_results_lie_on_the_cpu_and_predict_on_either() -> None:
    result = Fleet(BASE, different_members(3), on_gpu(settings_for())).fit(table_for(CrossEntropy()))
    assert all(value.device == CPU for model in result.models for value in model.parameters.values())
    x = table_for(CrossEntropy(), seed=1).x
    here, there = result.predict(x), result.predict(x, device="cuda")
    assert there.device == CPU
    torch.testing.assert_close(there, here, rtol=1e-10, atol=1e-10)


def test_auto_finds_the_gpu() -> None:
    assert settings_for(device="auto").torch_device().type == "cuda"


def test_random_numbers_are_those_of_the_cpu() -> None:
    gpu = torch.device("cuda")
    keys = {device: random_keys([-3, 0, 2**40], 1).to(device) for device in (gpu, CPU)}
    for draw in (counter_random.hashes, counter_random.uniform):
        assert torch.equal(draw(keys[gpu], 1001).cpu(), draw(keys[CPU], 1001))
    normal = [counter_random.normal(own, 1001).cpu() for own in keys.values()]
    torch.testing.assert_close(*normal, rtol=1e-12, atol=1e-12)
    sizes = torch.tensor([1001, 1, 500])
    orders = [counter_random.shuffled(own, 1001, sizes.to(own.device)).cpu() for own in keys.values()]
    assert torch.equal(*orders)
    streams = [counter_random.Streams(3, (4, 5), device) for device in keys]
    for stream, own in zip(streams, keys.values(), strict=True):
        stream.start(own)
        stream.advance(slice(0, 2))
    assert torch.equal(streams[0].states.cpu(), streams[1].states)


def test_running_out_of_gpu_memory_halves_the_chunk(caplog: pytest.LogCaptureFixture) -> None:
    shape = replace(BASE, n_nodes=2000, n_layers=3)
    n_models = 6
    members = [Member(seed=seed) for seed in range(n_models)]
    settings = on_gpu(settings_for(max_epochs=1, precision="float32"))
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    whole: list[TrainedModel] = train(shape, members, settings)
    needed = torch.cuda.max_memory_allocated() - before
    gc.collect()
    torch.cuda.empty_cache()
    allowed = max(torch.cuda.memory_reserved(), torch.cuda.memory_allocated() + 0.6 * needed)
    torch.cuda.set_per_process_memory_fraction(allowed / torch.cuda.mem_get_info()[1])
    try:
        models = train(shape, members, settings, chunk_size=n_models)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert any("out of GPU memory" in record.getMessage() for record in caplog.records)
    for one, other in zip(models, whole, strict=True):
        torch.testing.assert_close(weights_of(one), weights_of(other), rtol=1e-3, atol=1e-3)


def mixed_jobs() -> tuple[list[Job], list[Table]]:
    """Fleets of many shapes, with epochs that are captured as a whole and block by block."""
    tables = [table_for(CrossEntropy(), n_rows) for n_rows in (200, 3000)]
    settings = on_gpu(settings_for(max_epochs=25, batch_size=16, precision="float32"))
    shapes = [replace(BASE, n_nodes=n_nodes, n_layers=n_layers) for n_nodes in (20, 40) for n_layers in (2, 3)]
    return [
        Job(shape, settings, Member(seed=seed, val=torch.arange(40), table=table, dropout=0.1 * table))
        for shape in [*shapes, PERCEPTRON, EVERYTHING]
        for table in range(2)
        for seed in range(3)
    ], tables


def test_concurrent_fleets_are_bit_equal_to_those_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    jobs, tables = mixed_jobs()
    plan = FleetPlan(jobs, tables)
    one_by_one: dict[int, TrainedModel] = {}
    for fleet in plan.fleets:
        one_by_one.update(zip(fleet.jobs, plan.run_fleet(fleet), strict=True))
    for _ in range(3):
        for position, model in enumerate(plan.run()):
            alone = one_by_one[position]
            assert all(torch.equal(model.parameters[name], alone.parameters[name]) for name in alone.parameters)
            assert model.history == alone.history
    assert "could not capture" not in caplog.text


def test_concurrent_fleets_may_have_different_precisions() -> None:
    jobs, tables = mixed_jobs()
    mixed = [
        replace(job, settings=replace(job.settings, precision=precision))
        for job in jobs
        for precision in ("float32", "tf32", "bf16", "float64")
    ]
    models = FleetPlan(mixed, tables).run()
    exact = models[3::4]
    for offset in range(3):
        for model, truth in zip(models[offset::4], exact, strict=True):
            assert abs(model.history.best_val_loss - truth.history.best_val_loss) < 0.1


def test_ctrl_c_ends_concurrent_fleets() -> None:
    jobs, tables = mixed_jobs()
    endless = [replace(job, settings=replace(job.settings, max_epochs=1_000_000)) for job in jobs]
    threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
    models = FleetPlan(endless, tables).run()
    assert {model.history.status for model in models} == {"interrupted"}
    assert all(torch.isfinite(value).all() for model in models for value in model.parameters.values())


LARGER: dict[str, Shape] = {
    "wide": GNMShape(6, 3, n_nodes=300, n_layers=4),
    "silu": GNMShape(6, 3, n_nodes=60, n_layers=3, activation="silu"),
    "many classes": MLPShape(6, 150, (40,)),
}


@pytest.mark.parametrize("shape", [*ALL.values(), *LARGER.values()], ids=[*ALL, *LARGER])
@pytest.mark.parametrize("l0", [0.0, 1e-3])
def test_a_model_is_the_same_alone_and_in_a_fleet_up_to_rounding(shape: Shape, l0: float) -> None:
    members, loss = different_members(40, l0=l0), CrossEntropy()
    # With a larger eps steps do not amplify the rounding of gradients that are almost 0.
    settings = on_gpu(settings_for(loss, max_epochs=1, precision="float32", eps=1e-3))
    table = table_for(loss, shape=shape)
    together = train(shape, members, settings, table)
    in_chunks = train(shape, members, settings, table, chunk_size=7)
    for i in (0, 7, 19, 39):  # with penalties and without
        (alone,) = train(shape, members[i : i + 1], settings, table)
        assert_all_same([together[i], in_chunks[i]], [alone, alone], 1e-4)


@pytest.mark.parametrize("shape", [BASE, PERIODIC, LARGER["silu"]], ids=["base", "periodic", "silu"])
def test_short_training_in_float32_is_that_of_the_cpu(shape: Shape) -> None:
    members, loss = different_members(20), CrossEntropy()
    settings = settings_for(loss, max_epochs=2, precision="float32", eps=1e-3)
    table = table_for(loss, shape=shape)
    here, there = train(shape, members, settings, table), train(shape, members, on_gpu(settings), table)
    assert_all_same(there, here, 1e-3)
