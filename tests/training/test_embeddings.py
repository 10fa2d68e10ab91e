"""Networks with learned embeddings keep every promise of the fleet, and learn what others cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tabgnm.nn import EmbeddedNetwork, EmbeddedShape, GNMShape, InputEmbedding, MLPShape
from tabgnm.nn.losses import CrossEntropy, SquaredError
from tabgnm.nn.shapes import Shape, with_frequency_scale
from tabgnm.training import Fleet, FleetPlan, FleetSettings, Job, Member, Table, chunks
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.steps.numpy_network import NetworkPass
from tests.training.examples import (
    CPU,
    EMBEDDED,
    PERIODIC,
    assert_all_same,
    assert_same,
    different_members,
    settings_for,
    table_for,
    train,
)
from tests.training.test_callbacks import RaiseAt

every_embedding = pytest.mark.parametrize("shape", EMBEDDED.values(), ids=EMBEDDED)


@every_embedding
@pytest.mark.parametrize("l0", [0.0, 1e-3])
def test_a_models_result_does_not_depend_on_its_fleet(shape: Shape, l0: float) -> None:
    members = different_members(7, l0=l0)
    how = settings_for(max_epochs=15, schedule="cosine")
    alone = [train(shape, [member], how)[0] for member in members]
    for chunk_size in (3, 7):
        assert_all_same(train(shape, members, how, chunk_size=chunk_size), alone, 1e-8)


@every_embedding
def test_models_that_stop_early_leave_the_others_as_they_would_be(shape: Shape) -> None:
    members, how = different_members(8), settings_for(max_epochs=40, patience=3)
    together = train(shape, members, how)
    assert len({model.history.n_epochs for model in together}) > 2
    assert_all_same(together, [train(shape, [member], how)[0] for member in members], 1e-8)


@every_embedding
def test_the_same_seed_twice_is_bit_equal(shape: Shape) -> None:
    members = different_members(4)
    for how in (settings_for(precision="float32"), settings_for(precision="float64")):
        assert_all_same(train(shape, members, how), train(shape, members, how))


@every_embedding
@pytest.mark.parametrize("l0", [0.0, 1e-3])
def test_a_resumed_run_is_bit_identical(shape: Shape, l0: float, tmp_path: Path) -> None:
    members, settings = different_members(4, l0=l0), settings_for(max_epochs=10, precision="float32")
    path, table = tmp_path / "fleet.safetensors", table_for(CrossEntropy(), shape=shape)
    stop = RaiseAt(7, RuntimeError("the power is off"))
    with pytest.raises(RuntimeError, match="the power is off"):
        Fleet(shape, members, settings).fit(table, checkpoint=path, checkpoint_every=3, callbacks=[stop])
    resumed = Fleet(shape, members, settings).fit(table, checkpoint=path, checkpoint_every=3)
    whole = Fleet(shape, members, settings).fit(table, checkpoint_every=3)
    assert_all_same(resumed.models, whole.models)


@every_embedding
def test_predictions_are_those_of_the_networks(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_for(CrossEntropy(), shape=shape)
    result = Fleet(shape, different_members(3), settings_for()).fit(table)
    outputs = result.predict(table.x)
    for model, output in zip(result.models, outputs, strict=True):
        net = model.network()
        assert isinstance(net, EmbeddedNetwork) and net.shape == shape and not net.training
        with torch.no_grad():
            torch.testing.assert_close(net(table.x), output, rtol=1e-12, atol=1e-12)
    monkeypatch.setattr("tabgnm.training.result._PREDICTION_ELEMENTS", 1000)
    torch.testing.assert_close(result.predict(table.x), outputs, rtol=1e-12, atol=1e-12)
    assert result.predict(table.x[:0]).shape == (3, 0, 3)


@every_embedding
def test_embeddings_are_trained(shape: Shape) -> None:
    layout = FlatLayout(shape)
    first = layout.views(layout.first_weights([Member()], CPU, torch.float64)[0])
    model = train(shape, [Member(learning_rate=0.01)], settings_for())[0]
    embedded = [name for name in model.parameters if name.startswith("embed_")]
    assert embedded and not any(torch.equal(model.parameters[name], first[name]) for name in embedded)


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "proximal_adam"])
def test_penalties_and_weight_decay_leave_embeddings_alone(optimizer: str) -> None:
    # All edges are 0, so that nothing but a penalty could move an embedding.
    start = {name: torch.zeros(size) for name, size in PERIODIC.parameter_shapes().items()}
    own = {name: torch.randn(size) for name, size in PERIODIC.embedding.parameter_shapes().items()}
    members = [Member(learning_rate=0.1, weight_decay=0.5, l1=l1, l2=0.5, start=start | own) for l1 in (0.0, 0.5)]
    for model in train(PERIODIC, members, settings_for(optimizer=optimizer)):
        assert (model.parameters["bias_3"] != 0).any()
        for name, value in own.items():
            assert torch.equal(model.parameters[name], value.double())


def test_the_body_starts_as_without_an_embedding() -> None:
    inside, alone = (FlatLayout(shape) for shape in (PERIODIC, PERIODIC.body))
    weights = alone.views(alone.first_weights([Member(seed=3)], CPU, torch.float64))
    for name, value in inside.views(inside.first_weights([Member(seed=3)], CPU, torch.float64)).items():
        assert name.startswith("embed_") or torch.equal(value, weights[name])


@pytest.mark.parametrize("gates", [False, True])
def test_edges_stand_first_and_embeddings_are_not_padded(gates: bool) -> None:
    layout = FlatLayout(PERIODIC, gates=gates, align=1 if gates else 16)
    order = sorted(layout.offsets, key=layout.offsets.__getitem__)
    assert order == [*PERIODIC.body.parameter_shapes(), *PERIODIC.embedding.parameter_shapes()]
    assert layout.n_edges == layout.n_body == layout.offsets["embed_frequency"]
    if not gates:
        assert all(offset % 16 == 0 for offset in layout.offsets.values()) and layout.n_flat % 16 == 0
        n_own = PERIODIC.embedding.n_parameters()
        assert layout.n_weights - layout.n_body < n_own + 16 * len(PERIODIC.embedding.parameter_shapes())
    flat = layout.first_weights([Member(seed=seed) for seed in range(2)], CPU, torch.float64)
    for name, size in PERIODIC.parameter_shapes().items():
        assert layout.views(flat)[name].shape == (2, *size)


def test_a_table_with_many_levels_is_not_taken_for_activations() -> None:
    few, many = (
        EmbeddedShape(InputEmbedding(0, levels=(n,), level_dim=4), MLPShape(4, 1, (8,))) for n in (10, 100_000)
    )
    assert few.activations_per_row == many.activations_per_row
    step_of = [chunks.bytes_per_model(shape, settings_for(), 1000, 100)[0] for shape in (few, many)]
    assert step_of[1] - step_of[0] == 8 * 4 * 4 * (100_000 - 10)
    wide = EmbeddedShape(InputEmbedding(0, 100, n_basis=64, numeric_dim=1), MLPShape(200, 1, (8,)))
    assert wide.activations_per_row > 2 * 100 * 64


@pytest.mark.parametrize("shape", EMBEDDED.values(), ids=EMBEDDED)
def test_in_bfloat16_codes_and_embeddings_stay_exact(shape: EmbeddedShape, monkeypatch: pytest.MonkeyPatch) -> None:
    # bf16 is for GPUs; what is rounded is the same anywhere.
    monkeypatch.setattr(FleetSettings, "torch_device", lambda _: CPU)
    categories = replace(shape.embedding, levels=(2, 3000))
    own = replace(shape, embedding=categories)
    table = table_for(CrossEntropy(), shape=own)
    x = table.x.clone()
    x[:, -1] = torch.where(table.y == 0, 257.0, torch.where(table.y == 1, 256.0, 2999.0))  # bf16: 256, 256, 3008
    settings = settings_for(max_epochs=30, precision="bf16", batch_size=32)
    for members in ([Member(learning_rate=0.02)], different_members(3), different_members(3, l0=1e-4)):
        models = train(own, members, settings, Table(x, table.y))
        assert all(value.dtype == torch.float32 for model in models for value in model.parameters.values())
        learned = min(model.history.train_loss[-1] for model in models)
        assert learned < 0.4, learned


def test_wrong_codes_are_refused_before_training() -> None:
    table = table_for(CrossEntropy(), shape=PERIODIC)
    x = table.x.clone()
    x[3, 5] = 5
    with pytest.raises(
        ValueError, match="column 5 of x contains 5; expected the codes 0 to 4 of a category with 5 levels"
    ):
        train(PERIODIC, [Member()], settings_for(), Table(x, table.y))
    result = Fleet(PERIODIC, [Member()], settings_for(max_epochs=1)).fit(table)
    with pytest.raises(ValueError, match="column 5 of x contains 5"):
        result.predict(x)


def final_error(shape: Shape, x: torch.Tensor, y: torch.Tensor) -> float:
    settings = FleetSettings(loss=SquaredError(), max_epochs=60, batch_size=32)
    members = [Member(seed=seed, learning_rate=3e-3) for seed in range(3)]
    return min(model.history.train_loss[-1] for model in train(shape, members, settings, Table(x, y)))


def test_a_periodic_embedding_learns_a_wave_that_a_plain_network_does_not() -> None:
    x = torch.linspace(-1, 1, 256).unsqueeze(1)
    embedding = InputEmbedding(0, 1, frequency_scale=1.0, numeric_dim=8)
    embedded = EmbeddedShape(embedding, GNMShape(9, 1, n_nodes=40, n_layers=2, init="kaiming"))
    plain = GNMShape(1, 1, n_nodes=40, n_layers=2, init="kaiming")
    y = torch.sin(10 * x)
    assert final_error(embedded, x, y) < 0.1 * final_error(plain, x, y)


def test_a_piecewise_embedding_learns_steps_and_a_table_learns_levels() -> None:
    generator = torch.Generator().manual_seed(0)
    u = 8 * torch.rand(256, 1, generator=generator)
    steps = (u.floor() % 2) * 2 - 1
    piecewise = EmbeddedShape(InputEmbedding(0, 1, "piecewise", n_basis=8), MLPShape(4, 1, (32,), init="kaiming"))
    assert final_error(piecewise, u, steps) < 0.7 * final_error(MLPShape(1, 1, (32,), init="kaiming"), u, steps)
    codes = torch.randint(50, (256, 1), generator=generator)
    values = torch.randn(50, 1, generator=generator)[codes[:, 0]]
    levels = EmbeddedShape(InputEmbedding(0, levels=(50,)), MLPShape(8, 1, (32,), init="kaiming"))
    plain = final_error(MLPShape(1, 1, (32,), init="kaiming"), codes.float() / 50, values)
    assert final_error(levels, codes.float(), values) < 0.1 * plain


def test_models_with_different_frequency_scales_share_a_fleet() -> None:
    """They differ in their first frequencies only, and are what they would be in fleets of their own."""
    scales, how = (0.03, 0.3, 3.0), settings_for(max_epochs=2)
    shapes = [with_frequency_scale(PERIODIC, scale) for scale in scales]
    table = table_for(CrossEntropy(), shape=PERIODIC)
    plan = FleetPlan([Job(shape, how, Member(seed=7)) for shape in shapes], table)
    assert [len(fleet.jobs) for fleet in plan.fleets] == [3]
    for shape, model in zip(shapes, plan.run(), strict=True):
        assert model.shape == shape
        assert_same(model, train(shape, [Member(seed=7)], how, table)[0], 1e-9)
        other = Member(seed=7, frequency_scale=shape.embedding.frequency_scale if shape.embedding else None)
        assert_same(model, train(PERIODIC, [other], how, table)[0], 1e-9)
    layout = FlatLayout(PERIODIC)
    members = [Member(seed=7), Member(seed=7, frequency_scale=0.6)]
    first = layout.views(layout.first_weights(members, CPU, torch.float64))["embed_frequency"]
    torch.testing.assert_close(first[1], first[0] * 2)  # the shape's own is 0.3
    own = FlatLayout(with_frequency_scale(PERIODIC, 0.7))
    for dtype in (torch.float32, torch.float64):  # draws are a model's own to the bit
        alone = own.views(own.first_weights([Member(seed=7)], CPU, dtype))["embed_frequency"]
        members = [Member(seed=3), Member(seed=7, frequency_scale=0.7)]
        within = layout.views(layout.first_weights(members, CPU, dtype))["embed_frequency"]
        assert torch.equal(within[1], alone[0])


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_a_frequency_scale_has_to_be_positive(scale: float) -> None:
    with pytest.raises(ValueError, match="frequency_scale"):
        Member(frequency_scale=scale)


def test_an_embedding_that_numpy_does_not_implement_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert NetworkPass.supports(PERIODIC)
    monkeypatch.setattr("tabgnm.training.steps.numpy_network.NUMERIC_KINDS", ("piecewise",))
    assert not NetworkPass.supports(PERIODIC)
