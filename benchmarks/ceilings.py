"""Measured limits of the machine, and the minimum time of training that follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.timing import EpochTime, Options, median_seconds, seconds
from tabgnm.nn import EmbeddedShape, GNMShape

FLOAT = 4  # bytes
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Ceilings:
    """Floating-point operations per second in a large product, and bytes per second in copies, by their size."""

    operations: float
    bytes_by_size: dict[int, float]

    def bandwidth(self, working_set: int) -> float:
        """Return the bytes per second for data of this size; data that fits into a cache is faster.

        This is an optimistic estimate: the best rate of all copies that are at least as large as the largest one below
        the working set.
        """
        sizes = sorted(self.bytes_by_size)
        below = max((size for size in sizes if size <= working_set), default=sizes[0])
        return max(rate for size, rate in self.bytes_by_size.items() if size >= below)


def measure(options: Options) -> Ceilings:
    """Multiply two large float32 matrices, and copy blocks of several sizes."""
    side = {"cpu": 1024, "cuda": 8192}[options.device] if not options.quick else 256
    a, b = (torch.randn(side, side, device=options.device) for _ in range(2))
    out = torch.empty_like(a)
    largest = 32 * MEGABYTE if options.quick else {"cpu": 512, "cuda": 4096}[options.device] * MEGABYTE
    sizes = [size for size in (MEGABYTE << (2 * i) for i in range(7)) if size < largest] + [largest]
    source = torch.ones(largest // 2, dtype=torch.uint8, device=options.device)
    target = torch.empty_like(source)
    works = {"product": lambda: torch.mm(a, b, out=out)}
    for size in sizes:
        half = size // 2  # a copy reads and writes, so half the size is copied
        works[str(size)] = lambda half=half: target[:half].copy_(source[:half])
    times = median_seconds(works, options)
    return Ceilings(2 * side**3 / times["product"], {size: size / times[str(size)] for size in sizes})


@dataclass(frozen=True)
class Work:
    """The minimum work of one epoch of a fleet of GNMs."""

    operations: int
    bytes_moved: int
    working_set: int

    def floor(self, ceilings: Ceilings) -> float:
        """Return the time in seconds if arithmetic and memory are both used to their limit, at the same time."""
        return max(self.operations / ceilings.operations, self.bytes_moved / ceilings.bandwidth(self.working_set))


def work_of_epoch(shape: GNMShape, n_models: int, n_train: int, n_val: int, batch_size: int = 64) -> Work:
    """Count the work of an epoch of M GNMs.

    Operations: a multiplication and an addition per row and weight in the forward pass, the same for the gradient of
    the weights, and for the gradient of the states in all layers except the first. Bytes: in a step, each weight is
    read in the forward pass and (except in the first layer) in the backward pass, its gradient is written, and Adam
    reads four numbers and writes three; a hidden state is written and read twice, its gradient is written and read; a
    row is read once.
    """
    sizes = shape.parameter_shapes()
    weights = sum(math.prod(sizes[f"weight_{layer}"]) for layer in range(1, shape.n_layers + 1))
    later = weights - math.prod(sizes["weight_1"])
    parameters = shape.n_effective_parameters()
    hidden = (shape.n_layers - 1) * shape.n_updated
    steps = math.ceil(n_train / batch_size)
    operations = n_train * (4 * weights + 2 * later) + n_val * 2 * weights
    numbers = steps * (9 * parameters + later) + n_train * (5 * hidden + shape.n_inputs)
    numbers += parameters + n_val * (2 * hidden + shape.n_inputs)
    held = 4 * parameters + batch_size * 2 * hidden  # weights, gradient, Adam's two averages, states
    return Work(n_models * operations, n_models * numbers * FLOAT, n_models * held * FLOAT)


def operations_of_embedded_epoch(shape: EmbeddedShape, n_models: int, n_train: int, n_val: int) -> int:
    """Count the operations of the matrix products in an epoch of M networks with embeddings.

    As in `work_of_epoch`, but the first layer needs the gradient of its inputs too, because they are learned. So do the
    products with the basis functions of numbers. Cosines, lookups and Adam are not counted.
    """
    sizes = shape.parameter_shapes()
    weights = sum(math.prod(size) for name, size in sizes.items() if name.startswith(("weight", "embed_weight")))
    return n_models * weights * (6 * n_train + 2 * n_val)


def product_sampler(sizes: tuple[int, int, int, int], options: Options) -> Callable[[], EpochTime]:
    """Prepare timing `torch.bmm` on M products of (a, b) by (b, c), alternating with training."""
    n_products, a, b, c = sizes
    left, right = torch.randn(n_products, a, b), torch.randn(n_products, b, c)
    out = torch.empty(n_products, a, c)

    def taken(calls: int) -> float:
        return seconds(lambda: [torch.bmm(left, right, out=out) for _ in range(calls)], "cpu") / calls

    taken(3)  # warm-up
    calls = max(1, round(options.seconds_per_sample / taken(3)))
    return lambda: EpochTime(taken(calls))
