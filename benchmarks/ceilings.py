"""What the machine can do at best, measured, and the least time that training could take by that."""

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
    """Floating-point operations per second of a large product, and bytes per second of copies by their size."""

    operations: float
    bytes_by_size: dict[int, float]

    def bandwidth(self, working_set: int) -> float:
        """Bytes per second for data of that size: what fits into a cache moves faster than what does not.

        The generous side: the best rate of any copy that is at least as large as the largest one below the working set.
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
        half = size // 2  # a copy of half as much touches the whole size
        works[str(size)] = lambda half=half: target[:half].copy_(source[:half])
    times = median_seconds(works, options)
    return Ceilings(2 * side**3 / times["product"], {size: size / times[str(size)] for size in sizes})


@dataclass(frozen=True)
class Work:
    """What one epoch of a fleet of GNMs cannot avoid."""

    operations: int
    bytes_moved: int
    working_set: int

    def floor(self, ceilings: Ceilings) -> float:
        """Seconds that this takes if arithmetic and memory are each used to their ceiling, both at once."""
        return max(self.operations / ceilings.operations, self.bytes_moved / ceilings.bandwidth(self.working_set))


def work_of_epoch(shape: GNMShape, n_models: int, n_train: int, n_val: int, batch_size: int = 64) -> Work:
    """Count an epoch of M GNMs.

    Operations: a multiplication and an addition per row and weight in the forward pass, the same for the gradient of
    the weights, and for the gradient of the states in all layers but the first. Bytes: in a step each weight is read
    forward, read backward (not in the first layer), its gradient written, and Adam reads four numbers and writes three;
    a hidden state is written and read twice, its gradient written and read; a row is read once.
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
    """Count the operations of the matrix products in an epoch of M networks behind embeddings.

    As in `work_of_epoch`, but the first layer needs the gradient of its inputs too: they are learned. So do the
    products that mix the basis functions of numbers. Cosines, lookups and Adam are not counted.
    """
    sizes = shape.parameter_shapes()
    weights = sum(math.prod(size) for name, size in sizes.items() if name.startswith(("weight", "embed_weight")))
    return n_models * weights * (6 * n_train + 2 * n_val)


def product_sampler(sizes: tuple[int, int, int, int], options: Options) -> Callable[[], EpochTime]:
    """Prepare timing `torch.bmm` on M products of (a, b) by (b, c), in turns with what trains."""
    n_products, a, b, c = sizes
    left, right = torch.randn(n_products, a, b), torch.randn(n_products, b, c)
    out = torch.empty(n_products, a, c)

    def taken(calls: int) -> float:
        return seconds(lambda: [torch.bmm(left, right, out=out) for _ in range(calls)], "cpu") / calls

    taken(3)  # warm-up
    calls = max(1, round(options.seconds_per_sample / taken(3)))
    return lambda: EpochTime(taken(calls))
