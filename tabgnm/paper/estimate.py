"""Rough estimates of the time that work will take, from a few seconds of similar work on this machine."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tabgnm.nn.losses import CrossEntropy
from tabgnm.paper.protocol import BATCH_SIZE, Body, Unit
from tabgnm.paper.timing import seconds_of_fit, seconds_per_epoch
from tabgnm.training import FleetSettings, Member, Table

_N_INPUTS, _N_OUTPUTS, _N_MODELS, _N_BATCHES = 20, 4, 40, 12


@dataclass(frozen=True)
class Speed:
    """Seconds per step and per multiply-add of a model in a fleet on this machine, and the time to measure them."""

    per_step: float
    per_operation: float
    measured_in: float

    def seconds(self, units: Sequence[Unit], n_jobs: int = 1) -> float:
        """Estimate the time for units of work, `n_jobs` of them at once."""
        total = sum(self.per_step * unit.n_steps + self.per_operation * unit.cost for unit in units)
        return total / max(1, n_jobs)


NO_WORK = Speed(0.0, 0.0, 0.0)  # if nothing is left to do, nothing has to be measured


def measure_speed(device: str = "auto") -> Speed:
    """Measure the speed by briefly training two fleets, of a small and of a large network of the grid."""
    began = time.perf_counter()
    small, large = (_seconds_per_step(body, device) for body in (Body("gnm", 50, 2), Body("gnm", 300, 3)))
    (small_time, small_cost), (large_time, large_cost) = small, large
    # Two measurements determine two unknowns; noise must not make one of them negative.
    per_operation = max(0.0, (large_time - small_time) / (large_cost - small_cost))
    per_step = max(0.0, small_time - per_operation * small_cost)
    return Speed(per_step, per_operation, time.perf_counter() - began)


def _seconds_per_step(body: Body, device: str) -> tuple[float, float]:
    """Return the time of one step of one model in a fleet, and its multiply-adds."""
    shape = body.shape(_N_INPUTS, _N_OUTPUTS)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(_N_BATCHES * BATCH_SIZE, _N_INPUTS, generator=generator)
    y = torch.randint(_N_OUTPUTS, (len(x),), generator=generator)
    members = [Member(seed=seed) for seed in range(_N_MODELS)]

    def train(epochs: int) -> float:
        settings = FleetSettings(loss=CrossEntropy(), max_epochs=epochs, batch_size=BATCH_SIZE, device=device)
        return seconds_of_fit(shape, members, settings, Table(x, y))

    per_epoch = seconds_per_epoch(train, device)
    return per_epoch / (_N_MODELS * _N_BATCHES), 3.0 * shape.n_effective_parameters() * BATCH_SIZE


def in_words(seconds: float) -> str:
    """Return a readable duration."""
    if math.isnan(seconds):
        return "unknown"
    if seconds == 0:
        return "nothing"
    if seconds < 1:
        return "less than a second"
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 72 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
