"""The modules do what torch users expect of modules."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

from tabgnm.nn import GNM, MLP, AsyncMLP, EmbeddedNetwork, GNMShape, InputEmbedding, mlp_graph

VARIANTS: dict[str, Callable[[], nn.Module]] = {
    "gnm": lambda: GNM(4, 3, n_nodes=20, n_layers=3),
    "mlp": lambda: MLP(4, 3, (8, 8)),
    "embedded": lambda: EmbeddedNetwork(InputEmbedding(1, 3), GNMShape(16, 3, n_nodes=40, n_layers=3)),
    "async": lambda: AsyncMLP(mlp_graph([4, 6, 3])),
    "residual": lambda: GNM(4, 3, n_nodes=20, n_layers=3, combine="residual"),
    "gated": lambda: GNM(4, 3, n_nodes=20, n_layers=3, combine="gated", activation="mish"),
    "clamped": lambda: GNM(4, 3, n_nodes=20, n_layers=3, clamp_inputs=True),
    "persistent": lambda: GNM(4, 3, n_nodes=20, n_layers=3, persistent_outputs=True),
    "tied": lambda: GNM(4, 3, n_nodes=20, n_layers=3, tied=True),
    "initial": lambda: GNM(4, 3, n_nodes=20, n_layers=3, learn_initial=True),
    "l0": lambda: GNM(4, 3, n_nodes=20, n_layers=2, l0_gates=True),
    "everything": lambda: GNM(
        4, 3, n_nodes=20, n_layers=3, combine="gated", clamp_inputs=True, persistent_outputs=True, tied=True,
        learn_initial=True, l0_gates=True,
    ),
}  # fmt: skip

every_variant = pytest.mark.parametrize("name", VARIANTS)


@pytest.fixture
def net(name: str) -> nn.Module:
    torch.manual_seed(0)
    return VARIANTS[name]().eval()


@every_variant
def test_state_dict_round_trip(net: nn.Module, name: str) -> None:
    other = VARIANTS[name]().eval()
    x = torch.randn(5, 4)
    assert not torch.equal(other(x), net(x))
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(x), net(x))


@every_variant
def test_deepcopy_is_independent(net: nn.Module) -> None:
    other = copy.deepcopy(net)
    x = torch.randn(5, 4)
    before = net(x)
    assert torch.equal(other(x), before)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    assert torch.equal(net(x), before)


@every_variant
def test_to_float64_and_meta(net: nn.Module) -> None:
    x = torch.randn(5, 4)
    single = net(x)
    double = net.double()(x.double())
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), single, rtol=1e-4, atol=1e-5)
    assert net.to("meta")(x.double().to("meta")).shape == (5, 3)


@every_variant
def test_bf16_autocast(net: nn.Module) -> None:
    x = torch.randn(64, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = net(x)
        low.float().square().mean().backward()
    torch.testing.assert_close(low.float(), net(x), rtol=0.05, atol=0.05)
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in net.parameters())


@every_variant
def test_torch_compile_traces_the_whole_graph(net: nn.Module) -> None:
    # aot_eager: all of dynamo and AOTAutograd, without needing a C++ compiler on the machine
    torch.compiler.reset()
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    x = torch.randn(5, 4)
    torch.testing.assert_close(compiled(x), net(x), rtol=1e-6, atol=1e-6)
    compiled(x).sum().backward()


@every_variant
def test_torch_export_with_any_number_of_rows(net: nn.Module) -> None:
    rows = torch.export.Dim("rows", min=2, max=4096)
    program = torch.export.export(net, (torch.randn(5, 4),), dynamic_shapes=({0: rows},))
    x = torch.randn(17, 4)
    torch.testing.assert_close(program.module()(x), net(x), rtol=1e-6, atol=1e-6)


@every_variant
def test_functional_call_and_vmap_over_stacked_networks(name: str) -> None:
    nets = [VARIANTS[name]().eval() for _ in range(3)]
    parameters, buffers = stack_module_state(nets)

    def call(p: dict[str, torch.Tensor], b: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return functional_call(nets[0], (p, b), (x,))

    x = torch.randn(5, 4)
    together = vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
    torch.testing.assert_close(together, torch.stack([net(x) for net in nets]), rtol=1e-5, atol=1e-6)


@every_variant
def test_leading_dimensions_are_rows(net: nn.Module) -> None:
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(net(x), net(x.reshape(6, 4)).reshape(2, 3, 3))
    assert net(x[0, 0]).shape == (3,)
    assert net(x[:0]).shape == (0, 3, 3)


def test_dropout_acts_in_training_only_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    net = GNM(4, 1, n_nodes=200, n_layers=2, dropout=0.5, activation="identity", init="kaiming")
    x = torch.randn(1, 4)
    net.train()
    draws = torch.stack([net(x).detach() for _ in range(3000)])
    net.eval()
    assert torch.equal(net(x), net(x))
    assert float(draws.std()) > 0
    # the mean over dropout masks of a linear network is the network without dropout
    assert abs((draws.mean() - net(x)).item()) < 5 * float(draws.std()) / 3000**0.5


def test_a_generator_makes_initialisation_repeatable() -> None:
    first = GNM(4, 3, generator=torch.Generator().manual_seed(3))
    second = GNM(4, 3, generator=torch.Generator().manual_seed(3))
    assert torch.equal(first.adjacency(), second.adjacency())


@pytest.mark.parametrize("n", [30, 300])
def test_the_papers_initialisation_has_standard_deviation_root_2_over_n(n: int) -> None:
    torch.manual_seed(0)
    weights = GNM(10, 5, n_nodes=n, n_layers=4).weight_2
    assert weights.std().item() == pytest.approx(2**0.5 / n, rel=0.1)
    kaiming = GNM(10, 5, n_nodes=n, n_layers=4, init="kaiming")
    assert kaiming.weight_2.std().item() == pytest.approx((2 / n) ** 0.5, rel=0.1)
    assert kaiming.weight_1.std().item() == pytest.approx((2 / 11) ** 0.5, rel=0.15)


def test_an_mlp_takes_over_torch_linears() -> None:
    linears = [nn.Linear(4, 6), nn.Linear(6, 2, bias=False)]
    x = torch.randn(5, 4)
    torch.testing.assert_close(MLP.from_linears(linears)(x), linears[1](torch.relu(linears[0](x))))


def test_the_representation_shows_the_settings() -> None:
    assert "n_nodes=50, n_layers=2" in repr(GNM(2, 1)) and "hidden=(64,)" in repr(MLP(2, 1))
    assert "edges=13" in repr(AsyncMLP(mlp_graph([2, 3, 1])))


def test_pruned_and_parametrised_networks_work() -> None:
    from torch.nn.utils import parametrize, prune

    net = GNM(4, 3, n_nodes=20, n_layers=2)
    prune.l1_unstructured(net, "weight_1", amount=0.5)
    assert (net.adjacency()[0][:, :4] != 0).sum() == net.weight_1.numel() / 2
    net(torch.randn(5, 4)).sum().backward()
    other = MLP(4, 3, (8,))
    parametrize.register_parametrization(other, "weight_1", nn.Tanh())
    assert other(torch.randn(5, 4)).shape == (5, 3)


def test_anytime_of_no_rows() -> None:
    net = GNM(4, 3, n_nodes=12, n_layers=3, persistent_outputs=True)
    assert net.anytime(torch.zeros(0, 4)).shape == (3, 0, 3)


def test_an_asynchronous_network_can_be_made_again_from_its_graph() -> None:
    net = AsyncMLP(mlp_graph([4, 6, 3]))
    x = torch.randn(5, 4)
    torch.testing.assert_close(AsyncMLP(net.graph())(x), net(x))


def test_a_graph_without_edges_gives_zeros() -> None:
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_node("x", kind="input")
    graph.add_node("y", kind="output")
    assert torch.equal(AsyncMLP(graph)(torch.randn(5, 1)), torch.zeros(5, 1))


@pytest.mark.parametrize("seed", range(3))
def test_first_weights_are_drawn_as_documented(seed: int) -> None:
    torch.manual_seed(seed)
    mlp = MLP(400, 300, (500,))
    linear = nn.Linear(400, 500)
    assert mlp.weight_1.abs().max().item() == pytest.approx(linear.weight.abs().max().item(), rel=1e-3)
    assert mlp.bias_1.std().item() == pytest.approx(linear.bias.std().item(), rel=0.2)
    asynchronous = AsyncMLP(mlp_graph([200, 50]))
    assert asynchronous.weight.std().item() == pytest.approx((2 / 201) ** 0.5, rel=0.05)
    gated = GNM(4, 3, n_nodes=20, combine="gated")
    assert (gated.gate_bias_1 == 1).all() and (gated.gate_state_1 == 0).all()


def test_a_gnm_from_an_mlp_keeps_its_dropout() -> None:
    assert (
        GNM.from_mlp(MLP(4, 3, (8,), dropout=0.3)).dropout
        == GNM.from_mlp(MLP(4, 3, (8,), dropout=0.3)).to_mlp().dropout
        == 0.3
    )
