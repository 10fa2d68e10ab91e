"""Random numbers that only depend on a model's seed, a purpose and a counter.

The random numbers of a model must not depend on the other models in its fleet, on its chunk, or on where training was
resumed. So there is no shared generator: every number is a hash of (seed, purpose, epoch, position), or, for
dropout and gates, of a short sequence that such a hash starts. All are computed with exact integer arithmetic and are
therefore the same on every device. Integers are stored in int64 and wrap around like unsigned integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.training.kernels import kernels_for

_MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # splitmix64 (Steele, Lea, Flood, 2014)
# A 32-bit linear congruential generator (Press et al., Numerical Recipes), of which only the high bits matter.
STREAM_FACTOR, STREAM_STEP = 1664525, 1013904223

# Purposes separate the streams of one seed.
INITIAL_WEIGHTS, SHUFFLE, DROPOUT, GATES = 1, 2, 3, 4


def _signed(value: int) -> int:
    value &= _MASK
    return value - 2**64 if value >= 2**63 else value


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash unsigned integers, in place."""
    for bits, factor in zip((30, 27), MIX, strict=True):
        values ^= values >> np.uint64(bits)
        values *= np.uint64(factor)
    values ^= values >> np.uint64(31)
    return values


def seed_array(seeds: Sequence[int]) -> NDArray[np.uint64]:
    """Return seeds, which may be any integers, in the form that `keys` requires."""
    return np.array([seed & _MASK for seed in seeds], dtype=np.uint64)


def keys(seeds: NDArray[np.uint64], *parts: int | range) -> NDArray[np.int64]:
    """Return a 64-bit key for each seed and these parts; a range among the parts gives a row for each number."""
    values = _mix(seeds + np.uint64(GOLDEN))
    for part in parts:
        if isinstance(part, range):
            values = _mix(values + np.array([(each + 1) * GOLDEN & _MASK for each in part], np.uint64)[:, None])
        else:
            values = _mix(values + np.uint64((part + 1) * GOLDEN & _MASK))
    return values.view(np.int64)


def _shift(values: Tensor, bits: int) -> Tensor:
    """Shift right without copying the sign."""
    return (values >> bits).bitwise_and_(2 ** (64 - bits) - 1)


def hashes(keys: Tensor, n: int) -> Tensor:
    """Return (M, n) random 64-bit integers: entry (i, j) depends only on keys[i] and j."""
    if keys.is_cpu:  # NumPy's calls cost less, and it has unsigned integers
        counters = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(GOLDEN)
        return torch.from_numpy(_mix(counters + keys.numpy().view(np.uint64)[:, None]).view(np.int64))
    kernels = kernels_for(keys.device, "epochs")
    if kernels is not None:
        return kernels.hashes(keys, n)  # type: ignore[no-any-return] # an optional module
    counter = torch.arange(1, n + 1, device=keys.device, dtype=torch.int64).mul_(_signed(GOLDEN))
    values = counter + keys.unsqueeze(1)
    values.bitwise_xor_(_shift(values, 30)).mul_(_signed(MIX[0]))
    values.bitwise_xor_(_shift(values, 27)).mul_(_signed(MIX[1]))
    return values.bitwise_xor_(_shift(values, 31))


def uniform(keys: Tensor, n: int) -> Tensor:
    """Return (M, n) float64 numbers in the open interval (0, 1)."""
    return _shift(hashes(keys, n), 12).to(torch.float64).add_(0.5).mul_(2.0**-52)


def normal(keys: Tensor, n: int) -> Tensor:
    """Return (M, n) float64 standard normal numbers, by the Box-Muller transform."""
    half = (n + 1) // 2
    numbers = uniform(keys, 2 * half)
    radius = numbers[:, :half].log().mul_(-2).sqrt_()
    angle = numbers[:, half:].mul(2 * math.pi)
    return torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1)[:, :n]


def shuffled(keys: Tensor, largest: int, sizes: Tensor | None) -> Tensor:
    """Return (M, largest) random permutations; with `sizes`, row i begins with a permutation of range(sizes[i])."""
    order_by = hashes(keys, largest)
    if sizes is not None:
        positions = torch.arange(largest, device=keys.device)
        order_by = torch.where(positions < sizes.unsqueeze(1), order_by >> 2, positions + 2**62)
    if keys.is_cpu:  # NumPy's vectorised sort is several times faster than torch's here
        return torch.from_numpy(np.argsort(order_by.numpy(), axis=1))
    return order_by.argsort(dim=1)


class Streams:
    """One linear-congruential stream per element of a (M, ...) tensor, for numbers that are needed in every step.

    `start` seeds all streams by counter hashes; `advance` is one multiplication and one addition of 32-bit integers.
    The high bits of the states are good enough for dropout masks and gates, and cheaper than other generators.
    """

    def __init__(self, n_models: int, size: Sequence[int], device: torch.device, *, rows_last: bool = False) -> None:
        size = size[::-1] if rows_last else size  # the layout of the states in memory
        self.states = torch.empty(n_models, *size, dtype=torch.int32, device=device)
        if rows_last:
            self.states = self.states.mT
        self._step = torch.tensor(STREAM_STEP, dtype=torch.int32, device=device)

    def start(self, keys: Tensor) -> None:
        """Begin the streams of an epoch."""
        n_models, *size = self.states.shape
        values = hashes(keys, math.prod(size)) >> 32
        self.states.copy_(values.view(n_models, *size))

    def advance(self, models: slice) -> Tensor:
        """Advance the streams of some models; a state is a signed integer, uniform over the range of 32 bits."""
        states = self.states[models]
        if states.device.type == "cpu":  # two NumPy operations are faster than one of torch
            unsigned = states.numpy().view(np.uint32)
            np.multiply(unsigned, np.uint32(STREAM_FACTOR), out=unsigned)
            np.add(unsigned, np.uint32(STREAM_STEP), out=unsigned)
            return states
        return torch.add(self._step, states, alpha=STREAM_FACTOR, out=states)

    @staticmethod
    def to_uniform(states: Tensor, dtype: torch.dtype) -> Tensor:
        """Convert stream states to numbers in the open interval (0, 1)."""
        return states.to(torch.float64).add_(2.0**31 + 0.5).mul_(2.0**-32).to(dtype).clamp_(1e-6, 1 - 1e-6)


def threshold(rate: float) -> int:
    """Return the signed 32-bit integer that is larger than a stream state with probability `rate`."""
    return max(-(2**31), min(2**31 - 1, round((rate - 0.5) * 2.0**32)))
