"""A fleet in JAX: jit, vmap over the models, scan over the steps of an epoch.

This is meant to be the strongest possible competitor. It uses the compact weights of `tabgnm.nn`, so no arithmetic is
wasted; the state is donated, so updates happen in place; an epoch of a fleet is one compiled program, so Python costs
nothing; and it does not wait for results before the last epoch has been launched. On a CPU, the models can also be
divided among as many JAX devices as there are cores (`sharded`); each device trains its models without waiting for the
others.
"""

from __future__ import annotations

import math
import os
import time
from typing import Any, Literal

from benchmarks.timing import n_cores

# Otherwise JAX allocates most of the GPU's memory at its first call, and leaves none to the other competitors.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# One device per core; JAX reads this at its first call.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={n_cores()}"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from benchmarks.jax_embedding import embed
from benchmarks.synthetic import Rows
from tabgnm.nn import EmbeddedShape, GNMShape

# "default" multiplies float32 numbers in TF32 on a GPU that supports it, "highest" in float32. On a CPU they are equal.
Precision = Literal["default", "highest"]
Parameters = dict[str, jax.Array]

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
BY_MODEL, WHOLE = PartitionSpec("models"), PartitionSpec()


def jax_devices(device: str) -> list[jax.Device]:
    """Return the JAX devices for a torch device: one GPU, or the cores. Raises RuntimeError if there are none."""
    return jax.devices("gpu")[:1] if device == "cuda" else jax.devices("cpu")


def forward(
    shape: GNMShape | EmbeddedShape,
    parameters: Parameters,
    x: jax.Array,
    precision: Precision = "default",
    dropout: float = 0.0,
    key: jax.Array | None = None,
) -> jax.Array:
    """Return the outputs of one network, whose parameters have the names and shapes of `shape.parameter_shapes`.

    If there is a `key`, dropout is applied as in our networks, in all layers except the last.
    """
    states = embed(shape.embedding, parameters, x, precision) if isinstance(shape, EmbeddedShape) else x
    for layer in range(1, shape.n_layers + 1):
        states = jnp.dot(states, parameters[f"weight_{layer}"], precision=precision) + parameters[f"bias_{layer}"]
        if layer < shape.n_layers:
            states = jax.nn.relu(states)
            if dropout and key is not None:
                kept = jax.random.bernoulli(jax.random.fold_in(key, layer), 1 - dropout, states.shape)
                states = jnp.where(kept, states / (1 - dropout), 0)
    return states


class JaxFleet:
    """M models of one shape on the same rows, compiled; `compile_seconds` is the time of the compilation."""

    def __init__(
        self,
        shape: GNMShape | EmbeddedShape,
        data: Rows,
        n_models: int,
        device: str,
        precision: Precision = "default",
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        dropout: float = 0.0,
        *,
        sharded: bool = False,
    ) -> None:
        self.shape, self.n_models, self.precision, self.batch_size = shape, n_models, precision, batch_size
        self.dropout = dropout
        available = jax_devices(device) if sharded else jax_devices(device)[:1]
        per_device = math.ceil(n_models / len(available))
        devices = available[: math.ceil(n_models / per_device)]
        # All devices have the same number of models. A model that is added for this costs nothing: with 25 models on 2
        # cores, one core has 13 anyway.
        self.n_stacked = per_device * len(devices)
        mesh = Mesh(np.array(devices), "models")
        self._by_model, whole = NamedSharding(mesh, BY_MODEL), NamedSharding(mesh, WHOLE)

        table = (data.x.numpy(), data.y.numpy().astype(np.int32))
        rows = [np.tile(part.numpy().astype(np.int32), (self.n_stacked, 1)) for part in (data.train, data.val)]
        rates = np.full(self.n_stacked, learning_rate, dtype=np.float32)
        # Everything that can differ between models has a leading axis M: the state, the rows, the learning rate.
        self.inputs = (*jax.device_put(table, whole), *jax.device_put((*rows, rates), self._by_model))
        one_epoch = jax.shard_map(
            jax.vmap(self._epoch, in_axes=(0, None, None, 0, 0, 0)),
            mesh=mesh,
            in_specs=(BY_MODEL, WHOLE, WHOLE, BY_MODEL, BY_MODEL, BY_MODEL),
            out_specs=BY_MODEL,
        )
        start = time.perf_counter()
        self._compiled = jax.jit(one_epoch, donate_argnums=0).lower(self.new_state(), *self.inputs).compile()
        self.compile_seconds = time.perf_counter() - start

    def new_state(self) -> dict[str, Any]:
        """Draw the initial state from `shape.initializers` with NumPy, so that drawing needs no compilation."""
        random = np.random.default_rng(0)
        sizes = {name: (self.n_stacked, *size) for name, size in self.shape.parameter_shapes().items()}
        weights = {}
        for name, initializer in self.shape.initializers().items():
            if initializer.kind == "normal":
                numbers = random.standard_normal(sizes[name], dtype=np.float32)
            elif initializer.kind == "uniform":
                numbers = 2 * random.random(sizes[name], dtype=np.float32) - 1
            else:
                numbers = np.ones(sizes[name], dtype=np.float32)
            weights[name] = numbers * np.float32(initializer.scale)
        state = {
            "weights": weights,
            "mean": {name: np.zeros(size, dtype=np.float32) for name, size in sizes.items()},
            "square": {name: np.zeros(size, dtype=np.float32) for name, size in sizes.items()},
            "steps": np.zeros(self.n_stacked, dtype=np.float32),
            "key": random.integers(2**32, size=(self.n_stacked, 2), dtype=np.uint32),  # raw threefry keys
        }
        return jax.device_put(state, self._by_model)

    def train(self, epochs: int) -> np.ndarray:
        """Train new models; return the training and validation loss of every epoch and model, (epochs, 2, M)."""
        return self.trained(epochs)[1]

    def trained(self, epochs: int) -> tuple[Parameters, np.ndarray]:
        """Train new models; return their stacked weights, and the losses as `train` does."""
        state = self.new_state()
        losses = []
        for _ in range(epochs):
            state, loss = self._compiled(state, *self.inputs)
            losses.append(loss)
        jax.block_until_ready(state)
        return state["weights"], np.array([np.stack(pair)[:, : self.n_models] for pair in jax.device_get(losses)])

    def _loss(self, weights: Parameters, x: jax.Array, y: jax.Array, key: jax.Array | None = None) -> jax.Array:
        outputs = forward(self.shape, weights, x, self.precision, self.dropout, key)
        # A product with the one-hot target is fused; selecting the entries would need a scatter in the backward pass.
        return -(jax.nn.log_softmax(outputs) * jax.nn.one_hot(y, self.shape.n_outputs)).sum(axis=-1).mean()

    def _epoch(
        self, state: dict[str, Any], x: jax.Array, y: jax.Array, train: jax.Array, val: jax.Array, rate: jax.Array
    ) -> tuple[dict[str, Any], tuple[jax.Array, jax.Array]]:
        """Train one model for one epoch; vmap extends this to M models."""
        key, shuffle, drop = jax.random.split(jax.random.wrap_key_data(state["key"]), 3)
        rows = jax.random.permutation(shuffle, train)
        n_full = len(rows) // self.batch_size
        in_full = n_full * self.batch_size
        batches, rest = rows[:in_full].reshape(n_full, self.batch_size), rows[in_full:]

        def step(carry: dict[str, Any], one: tuple[jax.Array, jax.Array]) -> tuple[dict[str, Any], jax.Array]:
            batch, number = one
            # Without dropout the key is not used, and the compiler removes it.
            return self._step(carry, x[batch], y[batch], rate, jax.random.fold_in(drop, number))

        carry = {name: state[name] for name in state if name != "key"}
        carry, losses = jax.lax.scan(step, carry, (batches, jnp.arange(n_full)))
        total = losses.sum() * self.batch_size
        if len(rest):
            carry, loss = step(carry, (rest, n_full))
            total += loss * len(rest)
        val_loss = self._loss(carry["weights"], x[val], y[val])
        return {**carry, "key": jax.random.key_data(key)}, (total / len(rows), val_loss)

    def _step(
        self, carry: dict[str, Any], x: jax.Array, y: jax.Array, rate: jax.Array, key: jax.Array
    ) -> tuple[dict, jax.Array]:
        """Perform a step of Adam on one batch of one model."""
        loss, gradients = jax.value_and_grad(self._loss)(carry["weights"], x, y, key)
        steps = carry["steps"] + 1
        mean = jax.tree.map(lambda m, g: BETA_1 * m + (1 - BETA_1) * g, carry["mean"], gradients)
        square = jax.tree.map(lambda s, g: BETA_2 * s + (1 - BETA_2) * g * g, carry["square"], gradients)
        size = rate / (1 - BETA_1**steps)
        correction = 1 / jnp.sqrt(1 - BETA_2**steps)
        weights = jax.tree.map(
            lambda w, m, s: w - size * m / (jnp.sqrt(s) * correction + EPSILON), carry["weights"], mean, square
        )
        return {"weights": weights, "mean": mean, "square": square, "steps": steps}, loss
