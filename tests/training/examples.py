"""Small tables, shapes and members that the tests of training share, and how to compare trained models."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tabgnm.nn import EmbeddedShape, GNMShape, InputEmbedding, MLPShape
from tabgnm.nn.losses import (
    AbsoluteError,
    BinaryCrossEntropy,
    CrossEntropy,
    Gamma,
    Huber,
    JointCrossEntropy,
    LogLinkLoss,
    Loss,
    Pinball,
    Poisson,
    Quantiles,
    SquaredError,
    Tweedie,
)
from tabgnm.nn.shapes import Shape
from tabgnm.training import Fleet, FleetSettings, Member, Table, TrainedModel, counter_random
from tests.nn.strategies import random_columns

CPU = torch.device("cpu")

BASE = GNMShape(6, 3, n_nodes=16, n_layers=3)
EVERYTHING = GNMShape(
    6,
    3,
    n_nodes=16,
    n_layers=3,
    combine="gated",
    clamp_inputs=True,
    persistent_outputs=True,
    tied=True,
    learn_initial=True,
)
RESIDUAL = GNMShape(6, 3, n_nodes=14, n_layers=4, activation="silu", combine="residual", learn_initial=True)
PERCEPTRON = MLPShape(6, 3, (12, 8))
PERIODIC = EmbeddedShape(
    InputEmbedding(2, 2, n_basis=4, numeric_dim=2, frequency_scale=0.3, levels=(3, 5), level_dim=2),
    GNMShape(12, 3, n_nodes=24, n_layers=3),
)
PIECEWISE = EmbeddedShape(
    InputEmbedding(0, 4, "piecewise", n_basis=4, numeric_dim=2, levels=(2, 9), level_dim=3),
    GNMShape(14, 3, n_nodes=24, n_layers=3, combine="gated", clamp_inputs=True, persistent_outputs=True, tied=True),
)
EMBEDDED: dict[str, Shape] = {"periodic": PERIODIC, "piecewise": PIECEWISE}
SHAPES: dict[str, Shape] = {"base": BASE, "everything": EVERYTHING, "residual": RESIDUAL, "mlp": PERCEPTRON}

LOSSES: list[Loss] = [
    SquaredError(),
    Huber(0.3),
    Pinball(0.8),
    CrossEntropy(),
    CrossEntropy(0.1),
    BinaryCrossEntropy(),
    AbsoluteError(),
    Poisson(),
    Gamma(),
    Tweedie(1.3),
]

OPTIONS: dict[str, dict[str, Any]] = {
    "adam": {},
    "adamw": {"optimizer": "adamw"},
    "proximal_adam": {"optimizer": "proximal_adam"},
    "schedule": {"schedule": "cosine", "warmup": 0.2, "betas": (0.8, 0.99)},
}


def table_for(
    loss: Loss,
    n_rows: int = 200,
    *,
    n_inputs: int = 6,
    n_outputs: int = 3,
    shape: Shape | None = None,
    seed: int = 0,
) -> Table:
    """A table that a network can learn something from: targets are noisy functions of the features."""
    generator = torch.Generator().manual_seed(seed)
    shape = shape or MLPShape(n_inputs, n_outputs, ())
    x = random_columns(shape, n_rows, generator=generator)
    mix = torch.randn(shape.n_inputs, shape.n_outputs, dtype=torch.float64, generator=generator)
    noise = torch.randn(n_rows, shape.n_outputs, dtype=torch.float64, generator=generator)
    scores = torch.tanh(x @ mix) + 0.3 * noise
    if isinstance(loss, CrossEntropy):
        return Table(x, scores.argmax(dim=1))
    if isinstance(loss, JointCrossEntropy):
        return Table(x, torch.stack([part.argmax(dim=1) for part in scores.split(loss.sizes, dim=1)], dim=1))
    if isinstance(loss, BinaryCrossEntropy):
        return Table(x, (scores > 0).double())
    if isinstance(loss, LogLinkLoss):
        return Table(x, scores.exp())
    if isinstance(loss, Quantiles):
        return Table(x, scores[:, :1])
    return Table(x, scores)


def different_members(n: int, n_rows: int = 200, *, val: bool = True, l0: float = 0.0) -> list[Member]:
    """Members that differ in everything that may be a model's own, the numbers of their rows included."""
    choose = random.Random(0)
    members = []
    for seed in range(n):
        order = torch.randperm(n_rows, generator=torch.Generator().manual_seed(seed))
        n_val = choose.randint(n_rows // 40, n_rows // 4)
        n_train = choose.randint(n_rows // 10, n_rows - n_val)
        members.append(
            Member(
                train=order[n_val : n_val + n_train],
                val=order[:n_val] if val else None,
                seed=seed,
                learning_rate=choose.choice([1e-3, 3e-3, 1e-2]),
                weight_decay=choose.choice([0.0, 1e-3, 1e-2]),
                dropout=choose.choice([0.0, 0.1, 0.4]),
                l1=choose.choice([0.0, 1e-4, 1e-3]),
                l2=choose.choice([0.0, 1e-3]),
                l0=l0 * choose.choice([1, 2, 5]),
            )
        )
    return members


def settings_for(loss: Loss | None = None, **changes: Any) -> FleetSettings:
    """Settings with which a test takes little time and rounding plays no part."""
    defaults: dict[str, Any] = {"max_epochs": 5, "precision": "float64"}
    return FleetSettings(loss=loss or CrossEntropy(), **(defaults | changes))


def on_gpu(settings: FleetSettings, **changes: Any) -> FleetSettings:
    """The same on a GPU."""
    return replace(settings, device="cuda", **changes)


def kernel_device() -> torch.device:
    """A GPU, or the CPU in Triton's interpreter (`make test-kernels`)."""
    return torch.device("cpu" if os.environ.get("TRITON_INTERPRET") else "cuda")


def train(
    shape: Shape,
    members: list[Member],
    settings: FleetSettings,
    tables: Table | list[Table] | None = None,
    *,
    chunk_size: int | None = None,
    **fit: Any,
) -> list[TrainedModel]:
    """Train a fleet, on a table that suits its loss unless another is given."""
    if tables is None:
        tables = table_for(settings.loss, shape=shape)
    return Fleet(shape, members, settings, chunk_size=chunk_size).fit(tables, **fit).models


def weights_of(model: TrainedModel) -> Tensor:
    """All parameters of a model in one row."""
    return torch.cat([value.flatten() for value in model.parameters.values()])


def assert_same(actual: TrainedModel, expected: TrainedModel, tolerance: float = 0.0) -> None:
    """Weights and histories are equal: bit by bit, or up to a tolerance."""
    assert actual.history.status == expected.history.status
    assert actual.history.n_epochs == expected.history.n_epochs
    assert actual.history.best_epoch == expected.history.best_epoch
    near = {"rtol": tolerance, "atol": tolerance, "equal_nan": True}
    assert actual.parameters.keys() == expected.parameters.keys()
    for name, value in expected.parameters.items():
        torch.testing.assert_close(actual.parameters[name], value, **near, msg=lambda m, n=name: f"{n}: {m}")
    for which in ("train_loss", "val_loss", "val_metric"):
        losses = (torch.tensor(getattr(model.history, which), dtype=torch.float64) for model in (actual, expected))
        torch.testing.assert_close(*losses, **near, msg=lambda m, n=which: f"{n}: {m}")


def assert_all_same(actual: list[TrainedModel], expected: list[TrainedModel], tolerance: float = 0.0) -> None:
    """Two lists of models are equal, one by one."""
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert_same(one, other, tolerance)


def random_keys(seeds: Sequence[int], *parts: int) -> Tensor:
    """Return the keys of random numbers, one for each seed."""
    return torch.from_numpy(counter_random.keys(counter_random.seed_array(seeds), *parts))
