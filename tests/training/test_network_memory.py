"""The host and the kernel for small networks agree, as far as can be seen without a GPU.

What the kernel computes is tested in `test_gpu`.
"""

from __future__ import annotations

import ctypes
import itertools
import re
from importlib.resources import files
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tabgnm.nn.shapes import GNMShape
from tabgnm.training import cuda_networks
from tabgnm.training.cuda_networks import Memory, best_memory, n_threads_for, tiles_at_once, widths_of

SOURCE = files("tabgnm.training").joinpath("networks.cu").read_text()
H200 = 232_448, 233_472  # bytes of shared memory that a thread block, and all on a multiprocessor, may have

WIDTHS = st.lists(st.integers(1, 130), min_size=2, max_size=9).map(lambda sides: list(itertools.pairwise(sides)))
PLANS: dict[str, Any] = {
    "widths": WIDTHS,
    "batch_size": st.integers(1, 256),
    "moments": st.booleans(),
    "ahead": st.booleans(),
}


def up(number: int, to: int) -> int:
    return -(-number // to) * to


C_TYPES = {"int": ctypes.c_int, "int64": ctypes.c_int64, "float": ctypes.c_float, "*": ctypes.c_void_p}


def members_of(struct: str) -> list[tuple[str, Any]]:
    """Names and types of what a struct of the kernel has, in their order."""
    found = re.search(rf"struct {struct} \{{(.*?)\n\}};", SOURCE, re.DOTALL)
    assert found is not None
    members: list[tuple[str, Any]] = []
    for declaration in re.sub(r"//.*", "", found[1]).split(";")[:-1]:
        declared = re.fullmatch(r"\s*(?:const )?(\w+) (.*)", declaration, re.DOTALL)
        assert declared is not None
        for name in declared[2].split(","):
            array = re.fullmatch(r"(\w+)\[MOST_LAYERS\]", name)
            if array is not None:
                members.append((array[1], getattr(cuda_networks, f"_{declared[1]}") * cuda_networks._MOST_LAYERS))
            else:
                members.append((name.strip(" *"), C_TYPES["*" if "*" in name else declared[1]]))
    return members


@pytest.mark.parametrize("struct", ["Layer", "Arguments"])
def test_structures_have_the_same_members_in_the_same_order(struct: str) -> None:
    assert members_of(struct) == getattr(cuda_networks, f"_{struct}")._fields_


def test_as_many_layers_fit_into_the_arguments() -> None:
    assert f"const int MOST_LAYERS = {cuda_networks._MOST_LAYERS};" in SOURCE


def test_the_kernel_can_compute_as_many_tiles_as_it_is_asked_for() -> None:
    for name, choice in (
        ("forward", cuda_networks._FORWARD),
        ("backward", cuda_networks._BACKWARD),
        ("update", cuda_networks._UPDATE),
    ):
        assert [int(n) for n in re.findall(rf" {name}<(\d)>\(", SOURCE)] == list(choice)


@given(**PLANS)
def test_nothing_lies_in_the_place_of_something_else(
    widths: list[tuple[int, int]], batch_size: int, moments: bool, ahead: bool
) -> None:
    memory = Memory.plan(widths, batch_size, moments=moments, ahead=ahead)
    padded = [up(targets, 8) for _, targets in widths]
    parts = [(memory.inputs, (1 + ahead) * up(widths[0][0], 8) * memory.row_stride)]
    assert memory.input_size == ahead * up(widths[0][0], 8) * memory.row_stride
    for layer, (n_sources, _) in enumerate(widths):
        size = (up(n_sources, 8) + 1) * memory.strides[layer]
        parts.append((memory.weights[layer], size))
        if moments:
            parts += [(memory.moments[layer], size), (memory.squares[layer], size)]
        else:
            assert memory.moments[layer] == memory.squares[layer] == -1
        # Gradients by the layer before are written where the states of a layer between two others were.
        wider = max(padded[layer - 1 : layer + 1]) if 0 < layer < len(widths) - 1 else padded[layer]
        parts.append((memory.states[layer], wider * memory.row_stride))
    if len(widths) > 1:
        parts.append((memory.spare, padded[-2] * memory.row_stride))
    parts.sort()
    for (place, size), (next_place, _) in itertools.pairwise(parts):
        assert place + size <= next_place
    assert parts[-1][0] + parts[-1][1] <= memory.size
    assert all(place % 4 == 0 for place, _ in parts)  # four numbers are read at once


@given(**PLANS)
def test_what_is_read_for_tiles_that_are_not_there_is_memory_of_the_network(
    widths: list[tuple[int, int]], batch_size: int, moments: bool, ahead: bool
) -> None:
    memory = Memory.plan(widths, batch_size, moments=moments, ahead=ahead)

    def columns(n: int, choice: tuple[int, ...]) -> int:
        """Columns of all jobs side by side."""
        at_once, jobs = tiles_at_once(16, n, choice)
        return 8 * at_once * jobs

    last = len(widths) - 1
    for layer, (n_sources, n_targets) in enumerate(widths):
        weights, stride = memory.weights[layer], memory.strides[layer]
        read = [weights + (up(n_sources, 8) - 1) * stride + columns(n_targets, cuda_networks._FORWARD) - 1]
        if layer:
            furthest_row = columns(n_sources, cuda_networks._BACKWARD) - 1
            read.append(weights + furthest_row * stride + up(n_targets, 8) - 1)
        grads = memory.spare if layer == last - 1 else memory.states[min(layer + 1, last)]
        furthest_node = columns(n_targets, cuda_networks._UPDATE) - 1
        read.append(grads + furthest_node * memory.row_stride + memory.n_rows - 1)
        assert max(read) < memory.size


@given(**PLANS)
def test_threads_of_a_warp_read_from_different_banks(
    widths: list[tuple[int, int]], batch_size: int, moments: bool, ahead: bool
) -> None:
    memory = Memory.plan(widths, batch_size, moments=moments, ahead=ahead)
    for stride in (*memory.strides, memory.row_stride):
        assert len({(four * stride + eight) % 32 for four in range(4) for eight in range(8)}) == 32


@given(n_rows=st.integers(1, 400), n_columns=st.integers(1, 400), choice=st.sampled_from([(1, 4, 7), (4, 7)]))
def test_jobs_are_just_enough(n_rows: int, n_columns: int, choice: tuple[int, ...]) -> None:
    at_once, jobs = tiles_at_once(n_rows, n_columns, choice)
    down, across = up(n_rows, 16) // 16, up(n_columns, 8) // 8
    assert at_once in choice
    assert jobs % down == 0
    assert across <= jobs // down * at_once < across + at_once


PLANNED: dict[tuple[int, int], dict[str, bool] | None] = {
    (50, 2): {"moments": True},
    (50, 4): {"moments": False},  # so that two fit on a multiprocessor
    (100, 2): {"moments": True},  # one has too many threads for that
    (100, 3): {"moments": False},
    (100, 4): {"moments": False, "ahead": False},
    (300, 2): {"moments": False},
    (200, 3): None,
}


@pytest.mark.parametrize(("n_nodes", "n_layers"), PLANNED)
def test_memory_is_used_as_well_as_can_be(monkeypatch: pytest.MonkeyPatch, n_nodes: int, n_layers: int) -> None:
    monkeypatch.setattr(cuda_networks, "shared_memory", lambda device: H200)
    widths, expected = widths_of(GNMShape(21, 4, n_nodes=n_nodes, n_layers=n_layers)), PLANNED[n_nodes, n_layers]
    plan = best_memory(widths, 64, torch.device("cuda", 0))
    assert plan == (None if expected is None else Memory.plan(widths, 64, **expected))


@given(widths=WIDTHS, batch_size=st.integers(1, cuda_networks._MOST_ROWS))
def test_half_of_the_threads_have_a_row_each(widths: list[tuple[int, int]], batch_size: int) -> None:
    memory = Memory.plan(widths, batch_size, moments=False)
    assert 2 * memory.n_rows <= n_threads_for(widths, batch_size)
