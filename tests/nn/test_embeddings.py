"""Embeddings compute their formulas, each output belongs to a column, and networks with them are good torch modules."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.func import functional_call, stack_module_state, vmap

from tabgnm.nn import MLP, EmbeddedNetwork, EmbeddedShape, GNMShape, InputEmbedding, MLPShape, expected_l0, l1_penalty
from tabgnm.nn.embeddings import EmbeddingTrace, embed, embed_backward, sum_by_product
from tabgnm.nn.message_passing import backward, forward
from tests.nn.strategies import embedded_shapes, embeddings, random_columns, seeds


def random_parameters(embedding: InputEmbedding, *stack: int) -> dict[str, torch.Tensor]:
    return {
        name: torch.randn(*stack, *size, dtype=torch.float64) for name, size in embedding.parameter_shapes().items()
    }


def columns_of(embedding: InputEmbedding, *size: int) -> torch.Tensor:
    return random_columns(EmbeddedShape(embedding, MLPShape(embedding.n_outputs, 1, ())), *size)


def literally(embedding: InputEmbedding, parameters: dict[str, torch.Tensor], row: torch.Tensor) -> list[float]:
    """The formulas of the module, number by number."""
    p = {name: value.tolist() for name, value in parameters.items()}
    values = row.tolist()
    out = values[: embedding.n_plain]
    for j, x in enumerate(values[embedding.n_plain : embedding.first_category]):
        if embedding.numeric == "periodic":
            out.append(x)
            basis = [
                math.cos(2 * math.pi * f * x + b)
                for f, b in zip(p["embed_frequency"][j], p["embed_phase"][j], strict=True)
            ]
        else:
            basis = [min(max(x - k, 0), 1) for k in range(embedding.n_basis)]
        for d in range(embedding.numeric_dim):
            mixed = sum(value * p["embed_weight"][j][k][d] for k, value in enumerate(basis))
            out.append(mixed + p["embed_bias"][j][d])
    for category, code in enumerate(values[embedding.first_category :]):
        out += p["embed_level"][sum(embedding.levels[:category]) + int(code)]
    return out


@given(embeddings(), seeds, st.integers(1, 5))
def test_every_number_is_that_of_the_formula(embedding: InputEmbedding, seed: int, n_rows: int) -> None:
    torch.manual_seed(seed)
    parameters, x = random_parameters(embedding), columns_of(embedding, n_rows)
    expected = torch.tensor([literally(embedding, parameters, row) for row in x], dtype=torch.float64)
    torch.testing.assert_close(embed(embedding, parameters, x), expected, rtol=1e-12, atol=1e-12)


@given(embeddings(), seeds, st.integers(1, 4))
def test_stacked_networks_embed_as_single_ones(embedding: InputEmbedding, seed: int, n_models: int) -> None:
    torch.manual_seed(seed)
    parameters, x = random_parameters(embedding, n_models), columns_of(embedding, n_models, 6)
    together = embed(embedding, parameters, x)
    for i in range(n_models):
        alone = embed(embedding, {name: value[i] for name, value in parameters.items()}, x[i])
        torch.testing.assert_close(together[i], alone, rtol=1e-12, atol=1e-12)


@given(embeddings(), seeds)
def test_an_output_changes_with_its_own_column_only(embedding: InputEmbedding, seed: int) -> None:
    torch.manual_seed(seed)
    parameters, x = random_parameters(embedding), columns_of(embedding, 4)
    owners = torch.tensor(embedding.owners())
    assert len(owners) == embedding.n_outputs and owners.max() == embedding.n_columns - 1
    for column in range(embedding.n_columns):
        other = x.clone()
        other[:, column] = columns_of(embedding, 4)[:, column]
        changed = (embed(embedding, parameters, other) != embed(embedding, parameters, x)).any(dim=0)
        assert set(owners[changed].tolist()) <= {column}


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(1, 4), seeds)
def test_a_table_of_levels_is_a_product_with_one_hot_rows(levels: list[int], level_dim: int, seed: int) -> None:
    torch.manual_seed(seed)
    embedding = InputEmbedding(1, levels=tuple(levels), level_dim=level_dim)
    net = EmbeddedNetwork(embedding, MLPShape(embedding.n_outputs, 2, (5,)), dtype=torch.float64)
    x = columns_of(embedding, 7)
    table = torch.block_diag(*net.embed_level.split(levels))  # (sum of levels, categories * level_dim)
    one_hot = torch.cat([torch.nn.functional.one_hot(x[:, 1 + i].long(), n) for i, n in enumerate(levels)], dim=1)
    plain = MLP(embedding.n_outputs, 2, (5,), dtype=torch.float64)
    plain.load_state_dict({name: value for name, value in net.state_dict().items() if not name.startswith("embed_")})
    expected = plain(torch.cat([x[:, :1], one_hot.double() @ table], dim=1))
    torch.testing.assert_close(net(x), expected, rtol=1e-12, atol=1e-12)


@given(embedded_shapes(), seeds)
def test_the_body_gives_the_gradient_by_what_it_reads(shape: EmbeddedShape, seed: int) -> None:
    torch.manual_seed(seed)
    parameters = {name: torch.randn(size).double() for name, size in shape.parameter_shapes().items()}
    x = random_columns(shape, 5)
    inputs = embed(shape.embedding, parameters, x).requires_grad_()
    output = forward(shape.body, parameters, inputs).output
    torch.testing.assert_close(output, forward(shape, parameters, x).output, rtol=1e-12, atol=1e-12)
    output.sum().backward()
    trace = forward(shape.body, parameters, inputs.detach(), keep=True)
    gradients = {name: torch.empty_like(value) for name, value in parameters.items()}
    by_inputs = backward(shape.body, parameters, trace, torch.ones_like(trace.output), gradients, input_gradient=True)
    assert by_inputs is not None
    torch.testing.assert_close(by_inputs, inputs.grad, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n_models", [None, 3])
def test_gradients_are_summed_in_the_same_order_by_any_number_of_threads(n_models: int | None) -> None:
    torch.manual_seed(0)
    stack = () if n_models is None else (n_models,)
    embedding = InputEmbedding(0, 2, levels=(3, 7), level_dim=8)
    parameters = {name: value.float() for name, value in random_parameters(embedding, *stack).items()}
    trace = EmbeddingTrace()
    out = embed(embedding, parameters, columns_of(embedding, *stack, 20_000).float(), trace)
    grad, seen, before = torch.randn_like(out), [], torch.get_num_threads()
    try:
        for n_threads in (1, 2, 2, 4):
            torch.set_num_threads(n_threads)
            gradients = {name: torch.empty_like(value) for name, value in parameters.items()}
            embed_backward(embedding, parameters, trace, grad, gradients)
            seen.append(gradients["embed_level"])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(other, seen[0]) for other in seen)


@given(embeddings(), seeds, st.sampled_from([(), (1,), (3,)]))
def test_the_sum_that_a_gpu_takes_is_that_of_the_cpu(embedding: InputEmbedding, seed: int, stack: tuple[int]) -> None:
    assume(embedding.levels)
    torch.manual_seed(seed)
    parameters, trace = random_parameters(embedding, *stack), EmbeddingTrace()
    grad = torch.randn_like(embed(embedding, parameters, columns_of(embedding, *stack, 9), trace))
    gradients = {name: torch.empty_like(value) for name, value in parameters.items()}
    embed_backward(embedding, parameters, trace, grad, gradients)
    width = len(embedding.levels) * embedding.level_dim
    by_place = grad[..., -width:].reshape(*trace.codes.shape, embedding.level_dim)
    summed = torch.full((*by_place.shape[:-2], sum(embedding.levels), embedding.level_dim), torch.nan).double()
    sum_by_product(trace.codes, by_place, summed)
    torch.testing.assert_close(summed, gradients["embed_level"], rtol=1e-12, atol=1e-12)


def test_coordinates_beyond_the_bins_count_as_their_ends() -> None:
    embedding = InputEmbedding(0, 1, "piecewise", n_basis=3)
    parameters = random_parameters(embedding)
    x = torch.tensor([[-5.0], [0.0], [3.0], [9.0]], dtype=torch.float64)
    low, first, last, high = embed(embedding, parameters, x)
    assert torch.equal(low, first) and torch.equal(last, high)
    torch.testing.assert_close(first, parameters["embed_bias"][0])


EMBEDDING = InputEmbedding(1, 2, n_basis=5, numeric_dim=3, levels=(4, 300), level_dim=2)


def body(**more: object) -> GNMShape:
    return GNMShape(EMBEDDING.n_outputs, 3, n_nodes=30, n_layers=3, **more)  # type: ignore[arg-type]


def test_parameters_are_named_drawn_and_counted_as_documented() -> None:
    torch.manual_seed(0)
    embedding = InputEmbedding(0, 200, n_basis=25, numeric_dim=40, frequency_scale=0.3, levels=(900, 100), level_dim=16)
    net = EmbeddedNetwork(embedding, MLPShape(embedding.n_outputs, 1, (2,)))
    drawn = {name: value for name, value in net.named_parameters() if name.startswith("embed_")}
    assert drawn.keys() == embedding.parameter_shapes().keys()
    assert net.embed_frequency.std().item() == pytest.approx(0.3, rel=0.05)
    for name, half in (("phase", math.pi), ("weight", 1 / 5), ("bias", 1 / 5), ("level", 1 / 4)):
        largest = drawn[f"embed_{name}"].abs().max().item()
        assert 0.99 * half < largest <= half
    n_own = 200 * (2 * 25 + 25 * 40 + 40) + 1000 * 16
    assert embedding.n_parameters() == n_own
    assert net.n_parameters() - net.shape.body.n_parameters() == n_own
    assert net.n_effective_parameters() - net.shape.body.n_effective_parameters() == n_own


def test_the_body_is_drawn_as_without_an_embedding() -> None:
    with_it = EmbeddedNetwork(
        EMBEDDING, MLPShape(EMBEDDING.n_outputs, 3, (8,)), generator=torch.Generator().manual_seed(1)
    )
    without = MLP(EMBEDDING.n_outputs, 3, (8,), generator=torch.Generator().manual_seed(1))
    for name, value in without.named_parameters():
        assert torch.equal(getattr(with_it, name), value)


def test_penalties_and_gates_leave_embeddings_alone() -> None:
    net = EmbeddedNetwork(EMBEDDING, body(), l0_gates=True)
    (l1_penalty(net) + expected_l0(net)).backward()
    for name, parameter in net.named_parameters():
        assert (parameter.grad is None) == name.startswith("embed_"), name
    assert not any("embed_" in name for name in net.state_dict() if name.startswith("log_alpha"))


VARIANTS: dict[str, Callable[[], EmbeddedNetwork]] = {
    "periodic": lambda: EmbeddedNetwork(EMBEDDING, body()),
    "piecewise": lambda: EmbeddedNetwork(
        replace(EMBEDDING, numeric="piecewise", n_plain=3), body(combine="gated", clamp_inputs=True)
    ),
    "mlp": lambda: EmbeddedNetwork(EMBEDDING, MLPShape(EMBEDDING.n_outputs, 3, (8,))),
    "l0": lambda: EmbeddedNetwork(EMBEDDING, body(persistent_outputs=True), l0_gates=True),
}
every_variant = pytest.mark.parametrize("name", VARIANTS)


@pytest.fixture
def net(name: str) -> EmbeddedNetwork:
    torch.manual_seed(0)
    return VARIANTS[name]().eval()


def rows(net: EmbeddedNetwork, *size: int) -> torch.Tensor:
    return random_columns(net.shape, *size).float()


@every_variant
def test_state_dict_and_deepcopy(net: EmbeddedNetwork, name: str) -> None:
    other, x = VARIANTS[name]().eval(), rows(net, 5)
    assert not torch.equal(other(x), net(x))
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(x), net(x)) and torch.equal(copy.deepcopy(net)(x), net(x))


@every_variant
def test_double_meta_and_autocast(net: EmbeddedNetwork) -> None:
    x = rows(net, 40)
    single = net(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = net(x)
        low.float().square().mean().backward()
    torch.testing.assert_close(low.float(), single, rtol=0.05, atol=0.05)
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in net.parameters())
    torch.testing.assert_close(net.double()(x.double()).float(), single, rtol=1e-4, atol=1e-5)
    assert net.to("meta")(x.double().to("meta")).shape == (40, 3)


@every_variant
def test_compile_and_export(net: EmbeddedNetwork) -> None:
    x = rows(net, 17)
    torch.compiler.reset()
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), net(x), rtol=1e-6, atol=1e-6)
    compiled(x).sum().backward()
    n_rows = torch.export.Dim("rows", min=2, max=4096)
    program = torch.export.export(net, (rows(net, 5),), dynamic_shapes=({0: n_rows},))
    torch.testing.assert_close(program.module()(x), net(x), rtol=1e-6, atol=1e-6)


@every_variant
def test_vmap_over_networks_and_over_rows(name: str) -> None:
    nets = [VARIANTS[name]().eval() for _ in range(3)]
    parameters, buffers = stack_module_state(nets)  # type: ignore[arg-type]
    x = rows(nets[0], 3, 5)

    def call(p: dict[str, torch.Tensor], b: dict[str, torch.Tensor], own: torch.Tensor) -> torch.Tensor:
        return functional_call(nets[0], (p, b), (own,))

    expected = torch.stack([net(own) for net, own in zip(nets, x, strict=True)])
    torch.testing.assert_close(vmap(call)(parameters, buffers, x), expected, rtol=1e-5, atol=1e-6)


@every_variant
def test_leading_dimensions_are_rows(net: EmbeddedNetwork) -> None:
    x = rows(net, 2, 3)
    torch.testing.assert_close(net(x), net(x.reshape(6, -1)).reshape(2, 3, 3))
    assert net(x[0, 0]).shape == (3,) and net(x[:0]).shape == (0, 3, 3)
    assert net.embed(x).shape == (2, 3, net.shape.embedding.n_outputs)
    assert net.embed(x[0, 0]).shape == (net.shape.embedding.n_outputs,)


def test_it_shows_what_it_is() -> None:
    text = repr(EmbeddedNetwork(EMBEDDING, body()))
    assert "levels=(4, 300)" in text and "n_nodes=30" in text


# what is done, the error, a part of its message
TABLE: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: InputEmbedding(-1), ValueError, "n_plain=-1 is too small; expected an integer >= 0"),
    (lambda: InputEmbedding(0), ValueError, r"define no columns; expected at least one"),
    (lambda: InputEmbedding(1, 1, "fourier"), ValueError, "numeric='fourier' is not known; use one of 'periodic'"),  # type: ignore[arg-type]
    (lambda: InputEmbedding(1, n_basis=0), ValueError, "n_basis=0 is too small"),
    (lambda: InputEmbedding(1, numeric_dim=0), ValueError, "numeric_dim=0 is too small"),
    (lambda: InputEmbedding(1, level_dim=0), ValueError, "level_dim=0 is too small"),
    (lambda: InputEmbedding(1, frequency_scale=0.0), ValueError, "frequency_scale=0.0 is out of range; expected a finite"),
    (lambda: InputEmbedding(1, frequency_scale=math.nan), ValueError, "frequency_scale=nan is out of range"),
    (lambda: InputEmbedding(1, levels=3), TypeError, r"levels=3 is not a sequence; .* e.g. levels=\(3,\)"),  # type: ignore[arg-type]
    (lambda: InputEmbedding(1, levels=(3, 0)), ValueError, r"levels\[1\]=0 is too small"),
    (lambda: EmbeddedShape(InputEmbedding(3), MLPShape(4, 1, ())), ValueError, r"body.n_inputs=4 does not match the embedding, which has 3 outputs for 3 columns; use n_inputs=embedding.n_outputs"),
    (lambda: EmbeddedShape(3, MLPShape(4, 1, ())), TypeError, "embedding is a int; expected an InputEmbedding"),  # type: ignore[arg-type]
    (lambda: EmbeddedShape(InputEmbedding(3), MLP(3, 1)), TypeError, "body is a MLP; expected a GNMShape or MLPShape"),  # type: ignore[arg-type]
    (lambda: VARIANTS["mlp"]()(torch.tensor([[0.0, 0, 0, 4, 0]])), ValueError, "column 3 of x contains 4; expected the codes 0 to 3 of a category with 4 levels"),
    (lambda: VARIANTS["mlp"]()(torch.tensor([[0.0, 0, 0, 3, -1]])), ValueError, "column 4 of x contains -1; expected the codes 0 to 299"),
    (lambda: VARIANTS["mlp"]()(torch.tensor([[0.0, 0, 0, 3, 0.5]])), ValueError, "column 4 of x contains 0.5"),
    (lambda: VARIANTS["mlp"]()(torch.tensor([[0.0, 0, 0, math.nan, 0]])), ValueError, "column 3 of x contains nan"),
    (lambda: VARIANTS["mlp"]().embed(torch.tensor([[0.0, 0, 0, 9, 0]])), ValueError, "column 3 of x contains 9"),
    (lambda: VARIANTS["mlp"]().embed(torch.zeros(2, 4)), ValueError, r"x has shape \(2, 4\); expected \(..., 5\), the columns of the embedding"),
    (lambda: VARIANTS["mlp"]()(torch.zeros(2, 4)), ValueError, r"x has shape \(2, 4\); expected \(..., 5\)"),
]  # fmt: skip


@pytest.mark.parametrize(("action", "error", "message"), TABLE, ids=[row[2][:50] for row in TABLE])
def test_bad_input_is_explained(action: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        action()
