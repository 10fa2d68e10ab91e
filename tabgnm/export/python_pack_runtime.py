"""Predictions of a pack with NumPy; exported Python files contain this code.

The code below the line of dashes is copied into files unchanged, after `python_arrays_runtime` and the constants.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tabgnm.export.python_arrays_runtime import Rows, _columns_of, _side_by_side

COLUMNS: Any = {}
UNNAMED: Any = []
CLASSES: Any = []
_MODEL: Any = {}
_FLOAT32 = ""
_FLOAT64 = ""

# ----------------------------------------------------------------------------------------------------------------------
import base64  # noqa: E402

_BLOCK_ROWS = 256  # computed at a time
_BUFFERS: dict[str, Any] = {}


def _array(place: Any) -> Any:
    """Return the array at a place: type, position of its first number, shape."""
    kind, start, shape = place
    if kind not in _BUFFERS:
        text = _FLOAT32 if kind == "<f4" else _FLOAT64
        _BUFFERS[kind] = np.frombuffer(base64.b85decode(text.replace("\n", "")), kind)
    size = 1
    for width in shape:
        size *= width
    return _BUFFERS[kind][start : start + size].reshape(shape).astype(np.float64)


def _loaded(value: Any) -> Any:
    """Return a value of _MODEL with places replaced by their arrays."""
    if isinstance(value, dict):
        return {name: _loaded(own) for name, own in value.items()}
    if isinstance(value, list):
        return [_loaded(own) for own in value]
    return _array(value) if isinstance(value, tuple) else value


def _model() -> Any:
    if "groups" not in _BUFFERS:
        _BUFFERS["groups"] = _loaded(_MODEL["groups"])
    return _BUFFERS["groups"]


def _encoded(cells: dict[str, Any], n_rows: int, steps: Any) -> Any:
    """Return encoded rows, in the precision that the networks were trained with."""
    encoded = np.zeros((n_rows, len(steps)), dtype=_MODEL["dtype"])
    for place, (function, name, part, arguments) in enumerate(steps):
        if function != "nothing":
            cell = Rows.date_part(cells[name], part) if part else cells[name]
            encoded[:, place] = getattr(Rows, function)(cell, *arguments)
    return encoded.astype(np.float64)


def _embedded(group: Any, x: Any) -> Any:
    """Return the inputs of the networks, (networks, rows, inputs), or (1, rows, inputs) if all of them share them."""
    how = group["embedding"]
    if how is None:
        return x[None]
    n_networks, n_rows, n_plain, n_numeric = len(group["shares"]), len(x), how["n_plain"], how["n_numeric"]
    parts = [np.broadcast_to(x[:, :n_plain], (n_networks, n_rows, n_plain))]
    if n_numeric:
        numbers = x[:, n_plain : n_plain + n_numeric].T[:, :, None]  # (columns, rows, 1)
        if how["frequency"] is not None:
            basis = np.cos(numbers * (2 * np.pi * how["frequency"][:, :, None]) + how["phase"][:, :, None])
        else:
            basis = np.clip(numbers - np.arange(how["weight"].shape[2]), 0.0, 1.0)
        mixed = basis @ how["weight"] + how["bias"][:, :, None]  # (networks, columns, rows, width)
        if how["frequency"] is not None:
            every = np.broadcast_to(numbers, (*mixed.shape[:-1], 1))
            mixed = np.concatenate([every, mixed], axis=-1)
        parts.append(mixed.transpose(0, 2, 1, 3).reshape(n_networks, n_rows, -1))
    if how["starts"]:
        codes = x[:, n_plain + n_numeric :].astype(np.int64) + np.array(how["starts"])
        parts.append(how["levels"][:, codes].reshape(n_networks, n_rows, -1))
    return np.concatenate(parts, axis=-1)


def _outputs(group: Any, x: Any) -> Any:
    """Return the outputs of the networks of a group, (networks, rows, outputs)."""
    held = {"inputs": _embedded(group, x)}
    activation = getattr(Rows, group["activation"])
    for layer in group["layers"]:
        message = layer["bias"]
        for source, weight in zip(layer["sources"], layer["weights"]):  # noqa: B905
            message = message + held[source] @ weight
        n_free = message.shape[-1] - layer["n_persistent"]
        if layer["n_persistent"]:
            held["outputs"] = held.get("outputs", 0.0) + message[..., n_free:]
            message = message[..., :n_free]
        if n_free:
            candidate = message if layer["is_last"] else activation(message)
            held["state"] = _combined(layer["combination"], candidate, message, held)
    return held["outputs" if group["layers"][-1]["n_persistent"] else "state"]


def _combined(how: Any, candidate: Any, message: Any, held: Any) -> Any:
    if how is None:
        return candidate
    previous = held[how["source"]][..., how["first"] :]
    if how["n_zeros"]:
        zeros = np.zeros((*previous.shape[:-1], how["n_zeros"]))
        previous = np.concatenate([previous, zeros], axis=-1)
    if how["initial"] is not None:
        previous = previous + how["initial"]
    if how["gates"] is None:
        return previous + candidate
    by_state, by_message, constant = how["gates"]
    return previous + Rows.sigmoid(by_state * previous + by_message * message + constant) * (candidate - previous)


def _probabilities(outputs: Any) -> list[Any]:
    """Return the probabilities of the classes of each target, (networks, rows, classes)."""
    if _MODEL["kind"] not in ("multiclass", "joint"):
        return [np.stack([Rows.sigmoid(-z), Rows.sigmoid(z)], axis=-1) for z in np.moveaxis(outputs, -1, 0)]
    ends = np.cumsum([len(own) for own in CLASSES])[:-1]
    powers = [np.exp(part - part.max(axis=-1, keepdims=True)) for part in np.split(outputs, ends, axis=-1)]
    return [own / own.sum(axis=-1, keepdims=True) for own in powers]


def _numbers(group: Any, outputs: Any) -> list[Any]:
    """Return outputs in units of the target, (networks, rows, outputs)."""
    most = group["most"]
    numbers = (outputs if most is None else np.clip(outputs, -most, most)) * group["scale"] + group["offset"]
    numbers = np.clip(numbers if most is None else np.exp(numbers), -_MODEL["largest"], _MODEL["largest"])
    return [np.sort(numbers, axis=-1) if _MODEL["is_sorted"] else numbers]


def _block(cells: dict[str, Any], n_rows: int) -> list[Any]:
    """Return the means over all networks, one array per target."""
    rows = [_encoded(cells, n_rows, steps) for steps in _MODEL["encoders"]]
    means: list[Any] = []
    for group in _model():
        outputs = _outputs(group, rows[group["encoder"]])
        parts = _numbers(group, outputs) if _MODEL["kind"] == "number" else _probabilities(outputs)
        own = [np.tensordot(group["shares"], part, 1) for part in parts]
        means = [a + b for a, b in zip(means, own)] if means else own  # noqa: B905
    if _MODEL["kind"] == "number":
        return [np.sort(own, axis=-1) if _MODEL["is_sorted"] else own for own in means]
    with np.errstate(divide="ignore"):
        means = means if _MODEL["temperature"] == 1 else [np.log(own) / _MODEL["temperature"] for own in means]
    if _MODEL["temperature"] != 1:
        means = [np.exp(own - own.max(axis=1, keepdims=True)) for own in means]
    return [own / own.sum(axis=1, keepdims=True) for own in means]


def _means(rows: Any) -> list[Any]:
    try:
        columns, n_rows = _columns_of(rows, COLUMNS, UNNAMED)
    except KeyError as error:
        if error.args and error.args[0] in COLUMNS:
            raise ValueError(f"column {error.args[0]!r} is missing; expected the columns {list(COLUMNS)}") from None
        raise
    cells = {name: getattr(Rows, reader)(columns, name) for name, reader in _MODEL["readers"].items()}
    blocks = []
    with np.errstate(over="ignore", under="ignore"):
        for start in range(0, max(n_rows, 1), _BLOCK_ROWS):
            some = {name: own[start : start + _BLOCK_ROWS] for name, own in cells.items()}
            blocks.append(_block(some, min(_BLOCK_ROWS, n_rows - start)))
    return [np.concatenate(parts) for parts in zip(*blocks)]  # noqa: B905


def predict_proba(rows: Any) -> Any:
    """Return the probabilities for rows as an array (rows, classes).

    `rows` is a list of dicts, a dict of columns, or a frame. For several targets, a list of arrays is returned; for
    multilabel targets, the probabilities of 1, (rows, targets).
    """
    if not CLASSES:
        raise TypeError("this model predicts numbers; use predict")
    parts = _means(rows)
    if _MODEL["kind"] == "one":
        return np.ones((len(parts[0]), 1))
    if _MODEL["kind"] == "multilabel":
        return np.column_stack([part[:, 1] for part in parts])
    return parts if _MODEL["kind"] == "joint" else parts[0]


def predict(rows: Any) -> Any:
    """Return the labels or numbers for rows: a list of dicts, a dict of columns, or a frame."""
    parts = _means(rows)
    if not CLASSES:
        return parts[0][:, 0] if _MODEL["one_dimensional"] else parts[0]
    if _MODEL["kind"] == "one":
        return np.repeat(np.array(CLASSES[0]), len(parts[0]))
    labels = [np.array(own)[part.argmax(axis=1)] for own, part in zip(CLASSES, parts)]  # noqa: B905
    return labels[0] if _MODEL["one_dimensional"] else _side_by_side(labels)
