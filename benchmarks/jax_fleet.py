"""The fleet's work in JAX: jit, vmap over the models, scan over the steps of an epoch.

Meant as the strongest competitor there is for this work. It has the compact weights of `tabgnm.nn`, so no arithmetic is
wasted; the state is donated, so the update happens in place; a fleet's epoch is one compiled program, so Python costs
nothing; and it never waits for a result until the last epoch is under way.
"""

from __future__ import annotations

import os
import time
from typing import Any, Literal

# Or JAX takes most of the GPU's memory at its first call, and leaves none to the other competitors.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.synthetic import Rows
from tabgnm.nn import GNMShape

# "default" multiplies float32 as TF32 on a GPU that can; "highest" is float32 proper. On a CPU they are the same.
Precision = Literal["default", "highest"]
Parameters = dict[str, jax.Array]

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


def jax_device(device: str) -> jax.Device:
    """Give JAX's name for a device of torch; RuntimeError if JAX is not installed for it."""
    return jax.devices("gpu" if device == "cuda" else "cpu")[0]


def forward(parameters: Parameters, x: jax.Array, n_layers: int, precision: Precision = "default") -> jax.Array:
    """Give the outputs of one GNM, from parameters named and shaped as `GNMShape.parameter_shapes` says."""
    states = x
    for layer in range(1, n_layers + 1):
        states = jnp.dot(states, parameters[f"weight_{layer}"], precision=precision) + parameters[f"bias_{layer}"]
        if layer < n_layers:
            states = jax.nn.relu(states)
    return states


class JaxFleet:
    """M models of one shape on the same rows, compiled; `compile_seconds` is what that took."""

    def __init__(
        self,
        shape: GNMShape,
        data: Rows,
        n_models: int,
        device: str,
        precision: Precision = "default",
        batch_size: int = 64,
        learning_rate: float = 1e-3,
    ) -> None:
        self.shape, self.n_models, self.precision, self.batch_size = shape, n_models, precision, batch_size
        self.device = jax_device(device)
        table = (data.x.numpy(), data.y.numpy().astype(np.int32))
        rows = [np.tile(part.numpy().astype(np.int32), (n_models, 1)) for part in (data.train, data.val)]
        rates = np.full(n_models, learning_rate, dtype=np.float32)
        # Everything that can differ between models has a leading axis M: the state, the rows, the learning rate.
        self.inputs = jax.device_put((*table, *rows, rates), self.device)
        one_epoch = jax.vmap(self._epoch, in_axes=(0, None, None, 0, 0, 0))
        start = time.perf_counter()
        self._compiled = jax.jit(one_epoch, donate_argnums=0).lower(self.new_state(), *self.inputs).compile()
        self.compile_seconds = time.perf_counter() - start

    def new_state(self) -> dict[str, Any]:
        """Draw as `init="paper"` does; the numbers come from NumPy so that drawing needs no compilation."""
        random = np.random.default_rng(0)
        scale = np.float32(2**0.5 / self.shape.n_nodes)
        sizes = {name: (self.n_models, *size) for name, size in self.shape.parameter_shapes().items()}
        state = {
            "weights": {name: random.standard_normal(size, dtype=np.float32) * scale for name, size in sizes.items()},
            "mean": {name: np.zeros(size, dtype=np.float32) for name, size in sizes.items()},
            "square": {name: np.zeros(size, dtype=np.float32) for name, size in sizes.items()},
            "steps": np.zeros(self.n_models, dtype=np.float32),
            "key": random.integers(2**32, size=(self.n_models, 2), dtype=np.uint32),  # raw threefry keys
        }
        return jax.device_put(state, self.device)

    def train(self, epochs: int) -> np.ndarray:
        """Train new models; gives the training and validation loss of every epoch and model, (epochs, 2, M)."""
        state = self.new_state()
        losses = []
        for _ in range(epochs):
            state, loss = self._compiled(state, *self.inputs)
            losses.append(loss)
        jax.block_until_ready(state)
        return np.array([np.stack(pair) for pair in jax.device_get(losses)])

    def _loss(self, weights: Parameters, x: jax.Array, y: jax.Array) -> jax.Array:
        outputs = forward(weights, x, self.shape.n_layers, self.precision)
        # A product with the one-hot target fuses; picking the entries would need a scatter in the backward pass.
        return -(jax.nn.log_softmax(outputs) * jax.nn.one_hot(y, self.shape.n_outputs)).sum(axis=-1).mean()

    def _epoch(
        self, state: dict[str, Any], x: jax.Array, y: jax.Array, train: jax.Array, val: jax.Array, rate: jax.Array
    ) -> tuple[dict[str, Any], tuple[jax.Array, jax.Array]]:
        """Train one model for one epoch; vmap makes it M models."""
        key, shuffle = jax.random.split(jax.random.wrap_key_data(state["key"]))
        rows = jax.random.permutation(shuffle, train)
        n_full = len(rows) // self.batch_size
        in_full = n_full * self.batch_size
        batches, rest = rows[:in_full].reshape(n_full, self.batch_size), rows[in_full:]

        def step(carry: dict[str, Any], batch: jax.Array) -> tuple[dict[str, Any], jax.Array]:
            return self._step(carry, x[batch], y[batch], rate)

        carry, losses = jax.lax.scan(step, {name: state[name] for name in state if name != "key"}, batches)
        total = losses.sum() * self.batch_size
        if len(rest):
            carry, loss = step(carry, rest)
            total += loss * len(rest)
        val_loss = self._loss(carry["weights"], x[val], y[val])
        return {**carry, "key": jax.random.key_data(key)}, (total / len(rows), val_loss)

    def _step(self, carry: dict[str, Any], x: jax.Array, y: jax.Array, rate: jax.Array) -> tuple[dict, jax.Array]:
        """Adam, on one batch of one model."""
        loss, gradients = jax.value_and_grad(self._loss)(carry["weights"], x, y)
        steps = carry["steps"] + 1
        mean = jax.tree.map(lambda m, g: BETA_1 * m + (1 - BETA_1) * g, carry["mean"], gradients)
        square = jax.tree.map(lambda s, g: BETA_2 * s + (1 - BETA_2) * g * g, carry["square"], gradients)
        size = rate / (1 - BETA_1**steps)
        correction = 1 / jnp.sqrt(1 - BETA_2**steps)
        weights = jax.tree.map(
            lambda w, m, s: w - size * m / (jnp.sqrt(s) * correction + EPSILON), carry["weights"], mean, square
        )
        return {"weights": weights, "mean": mean, "square": square, "steps": steps}, loss
