"""The number of models to train at once: as many as fit into memory and, on a CPU, into its caches."""

from __future__ import annotations

import math

import torch

from tabgnm.nn.shapes import Shape
from tabgnm.training.epoch_loop import BLOCK_STEPS
from tabgnm.training.gpu_sharing import n_sharing
from tabgnm.training.hardware import available_memory
from tabgnm.training.settings import FleetSettings
from tabgnm.training.validation import VALIDATION_ROWS

_GPU_SHARE = 0.7  # of the free memory: kernels and the allocator need room too
_GPU_SHARE_UNASKED = 0.02  # of all memory: asking how much is free stops the device for a while
_GPU_MODELS = 2**16 - 1  # kernels have a program for each model in a dimension of their grid
_CPU_SHARE = 0.5
# More models at once hide overhead until the buffers of a step no longer fit into the last-level cache.
_CPU_STEP_BYTES = 64 * 2**20


def bytes_per_model(shape: Shape, settings: FleetSettings, n_train: int, n_val: int) -> tuple[int, int]:
    """Return the estimated memory of one model in bytes, slightly too large: of a step, and in total."""
    size = 8 if settings.precision == "float64" else 4
    n_parameters = sum(math.prod(s) for s in shape.parameter_shapes().values())
    activations = shape.activations_per_row
    batch = min(settings.batch_size, n_train)
    step = size * (4 * n_parameters + 3 * batch * activations)
    block = size * min(n_train, batch * BLOCK_STEPS) * (shape.n_inputs + 2 * shape.n_outputs + 4)
    everything = step + block + size * 4 * n_parameters + n_train * (4 * 8 + 2 * size) + n_val * (8 + 2 * size)
    everything += size * min(n_val, VALIDATION_ROWS) * (activations + shape.n_inputs)
    return step, everything


def models_per_chunk(
    shape: Shape,
    settings: FleetSettings,
    device: torch.device,
    n_models: int,
    n_train: int,
    n_val: int,
) -> int:
    """Return how many models to train at once."""
    step, everything = bytes_per_model(shape, settings, n_train, n_val)
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        n_models = min(n_models, _GPU_MODELS)
        if n_models * everything * n_sharing() < _GPU_SHARE_UNASKED * total:
            return n_models
        free, _ = torch.cuda.mem_get_info(device)
        return max(1, min(n_models, int(free * _GPU_SHARE / n_sharing()) // everything))
    fitting = int(available_memory() * _CPU_SHARE / n_sharing()) // everything
    cached = max(1, _CPU_STEP_BYTES // step)
    return max(1, min(n_models, fitting, cached))
