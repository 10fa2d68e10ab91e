"""The competitors that the benchmarks measure compute what they claim to."""

import pytest
import torch

from benchmarks import ceilings, gnm_vs_mlp, synthetic
from benchmarks.authors_loop import AuthorsGNM, authors_mlp, seconds_per_epoch
from benchmarks.forward_cost import literal_forward
from tabgnm.nn import GNM, MLP, GNMShape, cross_entropy

SIZES = [(4, 3, 20, 2), (4, 3, 20, 3), (21, 4, 50, 2)]  # inputs, outputs, nodes, layers


def machine_and_rows(n_inputs: int, n_outputs: int, n_nodes: int, n_layers: int) -> tuple[GNM, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    net = GNM(n_inputs, n_outputs, n_nodes, n_layers, init="kaiming", generator=generator).eval()
    return net, torch.randn(7, n_inputs, generator=generator)


@pytest.mark.parametrize("sizes", SIZES)
def test_the_authors_module_is_our_gnm(sizes: tuple[int, int, int, int]) -> None:
    net, x = machine_and_rows(*sizes)
    authors = AuthorsGNM(*sizes).eval()
    with torch.no_grad():
        authors.adjacency.copy_(net.adjacency())
    torch.testing.assert_close(authors(x), net(x), atol=1e-5, rtol=1e-5)


def test_the_authors_weights_that_our_gnm_leaves_out_cannot_matter() -> None:
    net, x = machine_and_rows(4, 3, 20, 3)
    authors = AuthorsGNM(4, 3, 20, 3).eval()
    with torch.no_grad():
        full = authors.adjacency.clone()
        full[:, net.layout.bias] = 0  # the one row that set_adjacency insists on: the bias has no incoming edges
        net.set_adjacency(full)
    assert (net.adjacency() == 0).sum() > 20 * 20
    torch.testing.assert_close(authors(x), net(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("sizes", SIZES)
def test_the_literal_forward_is_our_forward(sizes: tuple[int, int, int, int]) -> None:
    net, x = machine_and_rows(*sizes)
    torch.testing.assert_close(literal_forward(net.adjacency(), x, sizes[1]), net(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("sizes", SIZES)
def test_the_jax_forward_is_our_forward(sizes: tuple[int, int, int, int]) -> None:
    pytest.importorskip("jax", reason="only `make bench` installs JAX")
    from benchmarks import jax_fleet

    net, x = machine_and_rows(*sizes)
    weights = {name: value.detach().numpy() for name, value in net.named_parameters()}
    outputs = jax_fleet.forward(weights, x.numpy(), net.shape.n_layers, "highest")
    torch.testing.assert_close(torch.tensor(outputs.tolist()), net(x).detach(), atol=1e-5, rtol=1e-5)


def test_the_jax_fleet_learns_with_batches_that_do_not_divide_the_rows() -> None:
    pytest.importorskip("jax", reason="only `make bench` installs JAX")
    from benchmarks.jax_fleet import JaxFleet

    data = synthetic.classification(n_train=100, n_val=20, n_inputs=6, n_classes=3)
    losses = JaxFleet(GNMShape(6, 3, 30, 2), data, n_models=2, device="cpu", learning_rate=0.01).train(epochs=15)
    assert losses.shape == (15, 2, 2)
    assert (losses[-1] < losses[0]).all()
    assert losses[-1, 0, 0] != losses[-1, 0, 1]  # every model has its own seed


def test_the_jax_fleet_takes_the_steps_that_torch_adam_takes() -> None:
    pytest.importorskip("jax", reason="only `make bench` installs JAX")
    from benchmarks.jax_fleet import JaxFleet

    # All rows in one batch: then shuffling changes nothing.
    data = synthetic.classification(n_train=64, n_val=20, n_inputs=6, n_classes=3)
    fleet = JaxFleet(GNMShape(6, 3, 30, 2), data, n_models=2, device="cpu", learning_rate=0.01)
    net = GNM(6, 3, 30, 2)
    with torch.no_grad():
        for name, values in fleet.new_state()["weights"].items():
            getattr(net, name).copy_(torch.tensor(values[1].tolist()))
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    expected = []
    for _ in range(5):
        optimiser.zero_grad()
        loss = cross_entropy(net(data.x[data.train]), data.y[data.train])
        loss.backward()
        optimiser.step()
        expected.append([loss.item(), cross_entropy(net(data.x[data.val]), data.y[data.val]).item()])
    torch.testing.assert_close(torch.tensor(fleet.train(5)[:, :, 1].tolist()), torch.tensor(expected))


@pytest.mark.parametrize("kind", ["gnm", "mlp"])
def test_the_authors_loop_trains(kind: str) -> None:
    torch.manual_seed(0)
    data = synthetic.classification(n_train=100, n_val=20, n_inputs=6, n_classes=3)
    model = AuthorsGNM(6, 3, 30, 2, dropout=0.1) if kind == "gnm" else authors_mlp([6, 30, 3], dropout=0.1)
    loss = torch.nn.CrossEntropyLoss()
    before = loss(model.eval()(data.x), data.y).item()
    assert seconds_per_epoch(model, data, epochs=20, device="cpu").epoch > 0
    assert loss(model.eval()(data.x), data.y).item() < before


def test_the_authors_mlp_is_our_mlp() -> None:
    authors = authors_mlp([6, 20, 10, 3]).eval()
    ours = MLP.from_linears([layer for layer in authors if isinstance(layer, torch.nn.Linear)])
    x = torch.randn(5, 6)
    torch.testing.assert_close(authors(x), ours(x))


@pytest.mark.parametrize("wanted", gnm_vs_mlp.COUNTS.values())
@pytest.mark.parametrize("data_set", gnm_vs_mlp.DATA_SETS)
def test_gnm_and_mlp_have_the_wanted_numbers_of_parameters(data_set: str, wanted: int) -> None:
    _, n_inputs, n_classes = gnm_vs_mlp.DATA_SETS[data_set]
    for shape in (
        gnm_vs_mlp.gnm_of_size(wanted, n_inputs, n_classes),
        gnm_vs_mlp.mlp_of_size(wanted, n_inputs, n_classes),
    ):
        assert shape.n_layers == 3
        assert shape.n_parameters() == pytest.approx(wanted, rel=0.03)


def test_the_floor_counts_every_row_and_model() -> None:
    shape = GNMShape(2, 1, 10, 2)  # 2 x 9 weights, then 9 x 1
    work = ceilings.work_of_epoch(shape, n_models=3, n_train=64, n_val=0)
    assert work.operations == 3 * 64 * (4 * 27 + 2 * 9)
    assert ceilings.work_of_epoch(shape, n_models=1, n_train=64, n_val=0).bytes_moved * 3 == work.bytes_moved
