"""What the page draws, as messages: small integers in base64, and numbers with few digits."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm._files.strict_json import dumps
from tabgnm.play.learner import Learner, Scores
from tabgnm.play.points import Points
from tabgnm.play.settings import BOUNDS, GENERATED, OWN_DATA, Settings
from tabgnm.sparsity import Machine

Array = NDArray[Any]

GRID = 50  # cells of a side of the plane
SCALE = 10_000  # 1 in a map; with 127, lines between cells would be visibly uneven
_LONGEST_HISTORY = 240
_DIGITS = 4


@dataclass
class History:
    """Losses of the epochs so far; of a long training every second, fourth, ... epoch."""

    epochs: list[int] = field(default_factory=list)
    train: list[float] = field(default_factory=list)
    test: list[float] = field(default_factory=list)
    _every: int = 1

    def add(self, epoch: int, scores: Scores) -> None:
        """Keep the losses of an epoch, if it is one of those that are kept."""
        if epoch % self._every:
            return
        self.epochs.append(epoch)
        self.train.append(_short(scores.train_loss))
        self.test.append(_short(scores.test_loss))
        if len(self.epochs) > _LONGEST_HISTORY:
            self._every *= 2
            # Epochs from 0 on, each as far from the next as all others: every second one is kept.
            del self.epochs[1::2], self.train[1::2], self.test[1::2]

    def message(self) -> dict[str, list[Any]]:
        """Return the part of a frame that shows them."""
        return {"epochs": self.epochs, "train": self.train, "test": self.test}


def event(name: str, content: Any) -> bytes:
    """Return a server-sent event."""
    return b"event: " + name.encode("ascii") + b"\ndata: " + dumps(content) + b"\n\n"


def welcome(has_own_data: bool) -> bytes:
    """Return the first event: what can be chosen, and within which bounds."""
    names = [*GENERATED, *([OWN_DATA] if has_own_data else [])]
    return event(
        "welcome",
        {
            "datasets": names,
            "bounds": {name: [own.low, own.high] for name, own in BOUNDS.items()},
            "grid": GRID,
            "scale": SCALE,
        },
    )


def points_event(points: Points) -> bytes:
    """Return the event with the points of the plane, as shares of the window in per mille, from the lower left."""
    low, high = points.window[:, 0], points.window[:, 1]
    places = np.clip(np.rint(1000 * (points.rows - low) / (high - low)), 0, 1000).astype(int)
    corners = points.center[:, None] + points.scale[:, None] * points.window
    return event(
        "points",
        {
            "places": places.tolist(),
            "labels": points.labels.tolist(),
            "n_train": points.n_train,
            "names": points.names,
            "classes": points.class_names,
            "center": points.center.tolist(),
            "scale": points.scale.tolist(),
            "window": [[_short(value) for value in axis] for axis in corners.tolist()],
        },
    )


def grid_rows(points: Points) -> Array:
    """Return the centers of the cells, in the order of the pixels of a picture: from the upper left."""
    (left, right), (bottom, top) = points.window
    steps = (np.arange(GRID) + 0.5) / GRID
    x, y = np.meshgrid(left + steps * (right - left), top - steps * (top - bottom))
    return np.column_stack([x.ravel(), y.ravel()])


def frame_event(
    learner: Learner, grid: Array, history: History, settings: Settings, running: bool, notice: str
) -> bytes:
    """Return the event with all that changes while a machine learns; `grid` is what `grid_rows` returns."""
    scores = learner.scores()
    machine = learner.machine()
    values = machine.values(grid).T  # (values, cells)
    outputs = values[list(machine.outputs)]
    return event(
        "frame",
        {
            "epoch": learner.epoch,
            "running": running,
            "notice": notice,
            "settings": asdict(settings),
            "loss": [_short(scores.train_loss), _short(scores.test_loss)],
            "accuracy": [_short(scores.train_accuracy), _short(scores.test_accuracy)],
            "history": history.message(),
            "n_edges": machine.n_edges,
            "n_possible_edges": learner.n_possible_edges,
            "n_layers": learner.network.shape.n_layers,
            "probabilities": [_bytes(np.rint(SCALE * own)) for own in _probabilities(outputs)],
            "nodes": _nodes(machine, values),
            "outputs": machine.outputs,
            "edges": [
                [source, target, _short(weight)]
                for target, unit in enumerate(machine.units, start=machine.n_inputs)
                for source, weight in zip(unit.sources, unit.weights, strict=True)
            ],
        },
    )


def _probabilities(outputs: Array) -> list[Array]:
    """Return the probability of each class in each cell; of two classes only that of the second."""
    logits = np.vstack([np.zeros_like(outputs), outputs]) if len(outputs) == 1 else outputs
    shares = np.exp(logits - logits.max(axis=0))
    shares /= shares.sum(axis=0)
    return list(shares[1:] if len(outputs) == 1 else shares)


def _nodes(machine: Machine, values: Array) -> list[dict[str, Any]]:
    """Return what the page draws as nodes; a map is the argument of a node's function.

    The page applies the function. It gets the argument because a line where a ReLU begins can be drawn exactly between
    cells of both signs, but not between zeros and other values.
    """
    used = set(machine.used_inputs)
    nodes: list[dict[str, Any]] = [
        {"node": name, "layer": 0, "kind": "input", "used": i in used, "bias": 0, "function": "identity"}
        | {"map": _map(values[i], "identity")}
        for i, name in enumerate(machine.input_names)
    ]
    for value, unit in enumerate(machine.units, start=machine.n_inputs):
        kind = "output" if value in machine.outputs else "hidden"
        argument = unit.bias + np.array(unit.weights) @ values[list(unit.sources)]
        own = {"node": unit.node, "layer": unit.layer, "kind": kind, "used": True, "bias": _short(unit.bias)}
        nodes.append(own | {"function": unit.function, "map": _map(argument, unit.function)})
    return nodes


def _map(argument: Array, function: str) -> str:
    """Return values as shares of the largest one that the function leaves; a ReLU leaves only positive ones."""
    peak = float((argument if function == "relu" else np.abs(argument)).max())
    shares = argument / peak if peak > 0 else np.zeros_like(argument)
    return _bytes(np.rint(SCALE * np.clip(shares, -1, 1)))


def _bytes(values: Array) -> str:
    return base64.b64encode(values.astype("<i2").tobytes()).decode("ascii")


def _short(value: float) -> float:
    """Round to a few significant digits: what a page shows, in fewer bytes."""
    return float(f"{value:.{_DIGITS}g}")
