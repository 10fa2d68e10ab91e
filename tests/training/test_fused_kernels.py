"""On a GPU the fused kernels, of layers and of whole networks, compute what torch's operations do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from tabgnm.training.fused import fused_kernels, fused_networks, fused_products

from tabgnm.nn.losses import Loss
from tabgnm.nn.shapes import GNMShape, MLPShape, Shape
from tabgnm.training import FleetSettings, Member, Table, cuda_networks
from tests.training.examples import (
    BASE,
    EMBEDDED,
    EVERYTHING,
    LOSSES,
    OPTIONS,
    PERCEPTRON,
    different_members,
    on_gpu,
    settings_for,
    table_for,
    train,
    weights_of,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def without_network_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabgnm.training.lockstep.fused_networks", lambda device: None)


def without_fused_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("lockstep", "optimisers"):
        monkeypatch.setattr(f"tabgnm.training.{module}.fused_kernels", lambda device: None)
    monkeypatch.setattr("tabgnm.training.lockstep.fused_products", lambda device: None)
    monkeypatch.setattr("tabgnm.nn.evenly._gpu_kernels", {})


def assert_fused_is_plain(
    monkeypatch: pytest.MonkeyPatch,
    shape: Shape,
    members: list[Member],
    settings: FleetSettings,
    table: Table | None = None,
) -> None:
    """Few steps with a large eps, so that the weights show gradients and not their signs."""
    if fused_kernels(torch.device("cuda")) is None:
        pytest.skip("fused kernels are not available here")
    fused = [train(shape, members, settings, table)]
    without_network_kernel(monkeypatch)
    fused.append(train(shape, members, settings, table))
    without_fused_kernels(monkeypatch)
    plain = train(shape, members, settings, table)
    for models in fused:
        for one, other in zip(models, plain, strict=True):
            torch.testing.assert_close(weights_of(one), weights_of(other), rtol=1e-6, atol=1e-6)
            assert one.history.train_loss == pytest.approx(other.history.train_loss, rel=1e-5)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("shape", [BASE, EVERYTHING], ids=["base", "everything"])
@pytest.mark.parametrize("l0", [0.0, 1e-3])
def test_the_fused_step_of_the_optimiser_is_that_of_torch(
    monkeypatch: pytest.MonkeyPatch, option: str, shape: Shape, l0: float
) -> None:
    members = different_members(5, val=False, l0=l0)
    settings = on_gpu(settings_for(max_epochs=3, precision="float32", eps=0.1, **OPTIONS[option]))
    assert_fused_is_plain(monkeypatch, shape, members, settings)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("n_models", [1, 5])
@pytest.mark.parametrize("n_outputs", [1, 3, 11])
def test_the_fused_gradients_are_those_of_torch(
    monkeypatch: pytest.MonkeyPatch, loss: Loss, n_models: int, n_outputs: int
) -> None:
    members = [replace(member, sample_weight=torch.rand(200)) for member in different_members(n_models, val=False)]
    settings = on_gpu(settings_for(loss, max_epochs=3, precision="float32", eps=0.1))
    for shape in (replace(BASE, n_outputs=n_outputs, n_nodes=24), replace(EVERYTHING, n_outputs=n_outputs, n_nodes=24)):
        with monkeypatch.context() as patch:
            assert_fused_is_plain(patch, shape, members, settings)


def test_gradients_of_embeddings_are_those_of_torch_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in EMBEDDED.values():
        settings = on_gpu(settings_for(max_epochs=3, precision="float32", eps=0.1, rate_factors={"embed_": 0.5}))
        with monkeypatch.context() as patch:
            assert_fused_is_plain(patch, shape, different_members(5, val=False), settings)


NETWORKS: dict[str, Shape] = {
    "one layer": MLPShape(6, 3, ()),
    "narrow after wide": MLPShape(6, 3, (90, 7, 33, 64)),
    "as deep as can be": MLPShape(6, 3, (9, 8, 7, 9, 8, 7, 9)),
    "whole tiles": MLPShape(8, 8, (64, 64)),
    "with moments": GNMShape(6, 3, n_nodes=50, n_layers=2),
    "without": GNMShape(6, 3, n_nodes=100, n_layers=3),
    "hardly any room": GNMShape(21, 3, n_nodes=100, n_layers=4),
    "wide": GNMShape(6, 3, n_nodes=300, n_layers=2),
}


@pytest.fixture
def network_kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kernel for small networks is what the test is about: used for few as well, and not less than once."""
    if torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("the kernel for small networks is for GPUs from Ampere on")
    assert fused_networks(torch.device("cuda", torch.cuda.current_device())) is not None
    calls: list[int] = []
    call = cuda_networks.Networks.__call__

    def counted(self: cuda_networks.Networks, *args: Any) -> None:
        calls.append(1)
        call(self, *args)

    monkeypatch.setattr(cuda_networks.Networks, "__call__", counted)
    yield
    assert calls


@pytest.mark.parametrize("shape", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.usefixtures("network_kernel")
def test_the_kernel_for_small_networks_computes_what_torch_does(monkeypatch: pytest.MonkeyPatch, shape: Shape) -> None:
    settings = on_gpu(settings_for(max_epochs=2, precision="float32", eps=0.1))
    assert_fused_is_plain(monkeypatch, shape, different_members(5), settings)


@pytest.mark.parametrize("batch_size", [1, 3, 16, 20, 64, 100, 256])
@pytest.mark.usefixtures("network_kernel")
def test_so_it_does_with_batches_of_every_size(monkeypatch: pytest.MonkeyPatch, batch_size: int) -> None:
    members = different_members(5, 600)
    assert max(len(member.train) for member in members) > 256
    settings = on_gpu(settings_for(max_epochs=2, precision="float32", eps=0.1, batch_size=batch_size))
    assert_fused_is_plain(monkeypatch, PERCEPTRON, members, settings, table_for(settings.loss, 600))


@pytest.mark.usefixtures("network_kernel")
def test_so_it_does_where_blocks_of_an_epoch_share_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"train": torch.arange(160), "val": torch.arange(160, 200)}
    members = [Member(seed=seed, dropout=0.3, learning_rate=1e-3, **rows) for seed in range(3)]
    settings = on_gpu(settings_for(max_epochs=3, precision="float32", eps=0.1, batch_size=1))
    assert_fused_is_plain(monkeypatch, PERCEPTRON, members, settings)


def test_what_is_not_small_is_trained_a_layer_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_networks.Networks, "__call__", None)
    settings = on_gpu(settings_for(max_epochs=2, precision="float32"))
    too_deep, too_large = MLPShape(6, 3, (9,) * 8), GNMShape(6, 3, n_nodes=300, n_layers=3)
    for shape in (too_deep, too_large):
        train(shape, different_members(3), settings)
    many_rows = replace(settings, batch_size=400)
    train(BASE, different_members(3, 2000), many_rows, table_for(settings.loss, 2000))


@pytest.mark.parametrize("sizes", [(1, 5, 7, 9), (3, 64, 200, 130), (40, 20, 33, 1), (2, 1, 4, 70), (200, 64, 8, 4)])
def test_products_and_sums_of_stacks_are_exact_and_those_of_each_pair(sizes: tuple[int, int, int, int]) -> None:
    products = fused_products(torch.device("cuda", torch.cuda.current_device()))
    assert products is not None
    stack, n_rows, n_inner, n_columns = sizes
    generator = torch.Generator().manual_seed(0)
    left, right, total = (
        torch.randn(stack, *size, dtype=torch.float64, generator=generator)
        for size in ((n_rows, n_inner), (n_columns, n_inner), (n_rows, n_columns))
    )
    a, b, c = (tensor.float().cuda() for tensor in (left, right, total))
    for given, expected in (
        (products.product(a, b.mT), left @ right.mT),
        (products.product(a, b.mT, c), left @ right.mT + total),
        (products.product(a.mT, c), left.mT @ total),
        (products.sum_rows(a), left.sum(dim=-2)),
    ):
        torch.testing.assert_close(given.cpu().double(), expected, rtol=1e-5, atol=1e-5 * max(sizes) ** 0.5)
    for i in range(stack):
        own = slice(i, i + 1)
        assert torch.equal(products.product(a[own], b[own].mT), products.product(a, b.mT)[own])
        assert torch.equal(products.product(a[own].mT, c[own]), products.product(a.mT, c)[own])
        assert torch.equal(products.sum_rows(a[own]), products.sum_rows(a)[own])
