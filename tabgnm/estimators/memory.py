"""Estimates of the memory that `fit` and predictions use, computed from shapes before anything large is allocated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from tabgnm.estimators import importance, out_of_fold, pack, prediction
from tabgnm.estimators.targets import ClassTargets
from tabgnm.nn.shapes import GNMShape, Shape, body_of, with_frequency_scale
from tabgnm.training.chunks import bytes_per_model, models_per_chunk
from tabgnm.training.hardware import total_memory
from tabgnm.training.plan import division_of_threads, step_work

if TYPE_CHECKING:
    from tabgnm.estimators.fitting import PreparedCandidate, PreparedFit

# Memory that threads, allocators and libraries take in a first fit, independent of the table.
_OVERHEAD = 40 * 2**20
_ROW_BYTES = 64  # targets, folds, weights and permutations, per row
_COPIES_OF_OUTPUTS = 4  # of predictions: pieces, concatenated and converted

ENCODED, TRAINED, STEPS, OUT_OF_FOLD = "encoded table", "trained networks", "training steps", "out-of-fold predictions"
_GRADIENTS, _ROWS, _LIBRARIES, _OUTPUTS = "importances", "rows and folds", "libraries", "outputs"


@dataclass(frozen=True)
class MemoryUse:
    """Memory use in bytes, by purpose.

    Attributes
    ----------
    parts : dict of int
        The use of main memory.
    gpu_parts : dict of int
        The use of the memory of the GPU, or of each GPU if several are used; empty on a CPU.
    """

    parts: Mapping[str, int]
    gpu_parts: Mapping[str, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The peak use of main memory."""
        return sum(self.parts.values())

    @property
    def gpu_bytes(self) -> int:
        """The peak use of GPU memory."""
        return sum(self.gpu_parts.values())

    def __repr__(self) -> str:
        text = f"{shown(self.bytes)} ({_listed(self.parts)})"
        return f"{text}, GPU {shown(self.gpu_bytes)} ({_listed(self.gpu_parts)})" if self.gpu_parts else text


@dataclass(frozen=True)
class MemoryEstimate:
    """Memory that `fit` uses, and predictions for the same number of rows, in addition to the table itself.

    Attributes
    ----------
    training, prediction : MemoryUse
    """

    training: MemoryUse
    prediction: MemoryUse

    def __repr__(self) -> str:
        return f"training: {self.training}\nprediction: {self.prediction}"


def estimate(prepared: PreparedFit) -> MemoryEstimate:
    """Estimate the memory of a fit that has been prepared, and of predictions."""
    return MemoryEstimate(_training(prepared), _prediction(prepared))


def check_memory(prepared: PreparedFit) -> None:
    """Raise MemoryError if a fit needs more memory than the machine or the GPU has."""
    device = prepared.candidates[0].fleet.torch_device()
    needed = _training(prepared)
    limit = total_memory()
    if needed.bytes > limit:
        raise MemoryError(_refusal(prepared, needed.parts, limit, "of memory, but this process may use"))
    if device.type == "cuda":
        # As many networks are trained at once as fit in memory, but at least one.
        gpu = {ENCODED: needed.gpu_parts[ENCODED], STEPS: max(map(_bytes_of_one, prepared.candidates))}
        limit = torch.cuda.get_device_properties(device).total_memory
        if sum(gpu.values()) > limit:
            raise MemoryError(_refusal(prepared, gpu, limit, f"of GPU memory, but {device} has"))


def shown(n_bytes: float) -> str:
    """Return a number of bytes in a readable unit."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n_bytes < 1000 or unit == "TB":
            break
        n_bytes /= 1000
    return f"{n_bytes:,.0f} {unit}" if n_bytes >= 10 or unit == "B" else f"{n_bytes:.1f} {unit}"


def _listed(parts: Mapping[str, int]) -> str:
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {shown(n_bytes)}" for name, n_bytes in ordered)


def _training(prepared: PreparedFit) -> MemoryUse:
    rows, candidates = prepared.rows, prepared.candidates
    device, n_rows = candidates[0].fleet.torch_device(), _n_rows(prepared)
    own_tables = {id(own.data): _table_bytes(own, n_rows) for own in candidates}
    screened = sum(len(own.members) * _table_bytes(own, n_rows) for own in candidates if own.settings["screen_columns"])
    encoded = sum(own_tables.values()) + screened
    n_at_once = _fleets_at_once(prepared)
    copied = n_at_once * max(own_tables.values()) + screened  # what fleets read, on their device
    n_folds = pack.n_folds_at_once(prepared)
    steps = sum(sorted(_chunk_bytes(own, n_folds, device) for own in _fleets(candidates))[-n_at_once:])
    n_outputs, n_weights = _n_predicted(prepared), [_n_weights(own.shape) for own in candidates]
    n_networks = pack.n_networks(prepared)
    size = _size(candidates[0])
    trained = size * sum(n * own for n, own in zip(n_networks, n_weights, strict=True))
    kept = size * max(n_weights) * _n_kept(prepared)
    parts = {ENCODED: encoded, TRAINED: trained + kept, _ROWS: n_rows * _ROW_BYTES, _LIBRARIES: _OVERHEAD}
    if rows.validated:
        parts[OUT_OF_FOLD] = out_of_fold.n_bytes(n_rows, n_outputs, len(candidates), len(rows.folds))
    parts[_GRADIENTS] = max(map(_gradient_bytes, candidates))
    if device.type == "cuda":
        return MemoryUse(parts, {ENCODED: copied, STEPS: steps})
    # Importances are computed after training, so only the larger of the two counts.
    return MemoryUse(parts | {ENCODED: encoded + copied, STEPS: max(0, steps - parts[_GRADIENTS])})


def _prediction(prepared: PreparedFit) -> MemoryUse:
    candidates, n_rows = prepared.candidates, prepared.rows.n_given
    largest = max(candidates, key=lambda own: _n_weights(own.shape))
    size, n_kept, n_folds = _size(largest), _n_kept(prepared), len(largest.members)
    weights = size * _n_weights(largest.shape) * n_kept
    if n_rows <= prediction.EXACT_ROWS:
        weights += 8 * _n_weights(largest.shape) * n_kept  # a copy in float64
    widths = {id(own.data.encoder): own.data.encoder.n_encoded for own in candidates}
    block = min(n_rows, prediction.block_rows(sum(widths.values())))
    activations = max(n_folds * own.shape.activations_per_row for own in candidates)
    piece = min(block, prediction.piece_rows(max(activations, *widths.values())))
    n_outputs = _n_predicted(prepared)
    parts = {
        TRAINED: weights,
        ENCODED: block * sum(widths.values()) * 2 * 8,
        _OUTPUTS: _COPIES_OF_OUTPUTS * 8 * n_rows * n_outputs + 2 * 8 * piece * n_outputs * n_kept,
    }
    steps = {STEPS: 2 * size * piece * activations}
    if prediction.device_for(largest.fleet.device, n_rows).type == "cuda":
        return MemoryUse(parts, {TRAINED: weights} | steps)
    return MemoryUse(parts | {"networks at work": steps[STEPS]})


def _n_rows(prepared: PreparedFit) -> int:
    rows = prepared.rows
    return rows.n_rows + (0 if rows.raw_val is None else rows.raw_val.n_rows)


def _n_predicted(prepared: PreparedFit) -> int:
    """Return the number of predicted values per row: all probabilities, or all targets."""
    targets = prepared.rows.targets
    if isinstance(targets, ClassTargets):
        return sum(max(2, len(classes)) for classes in targets.classes)
    return targets.n_outputs


def _size(candidate: PreparedCandidate) -> int:
    return candidate.fleet.dtype.itemsize


def _n_weights(shape: Shape) -> int:
    return sum(math.prod(size) for size in shape.parameter_shapes().values())


def _table_bytes(candidate: PreparedCandidate, n_rows: int) -> int:
    return n_rows * candidate.data.encoder.n_encoded * _size(candidate)


def _n_kept(prepared: PreparedFit) -> int:
    """Return the maximum number of networks that are kept."""
    n_folds = len(prepared.candidates[0].members)
    return min(len(prepared.candidates), prepared.effort.most_candidates(n_folds)) * n_folds


def _fleets(candidates: list[PreparedCandidate]) -> Iterator[list[PreparedCandidate]]:
    """Yield lists of candidates whose networks are trained in one fleet."""
    groups: dict[Any, list[PreparedCandidate]] = {}
    for own in candidates:
        groups.setdefault((with_frequency_scale(own.shape, 1.0), own.fleet), []).append(own)
    yield from groups.values()


def _fleets_at_once(prepared: PreparedFit) -> int:
    """Return the number of fleets that are trained at once, each with its own memory; 1 on a GPU."""
    settings = prepared.candidates[0].fleet
    if settings.torch_device().type == "cuda":
        return 1
    works = [
        step_work(group[0].shape, settings, sum(len(own.members) for own in group))
        for group in _fleets(prepared.candidates)
    ]
    table_bytes = max(_table_bytes(own, _n_rows(prepared)) for own in prepared.candidates)
    return division_of_threads(settings.thread_count(), works, table_bytes)[0]


def _n_fold_rows(candidate: PreparedCandidate) -> tuple[int, int]:
    members = candidate.members
    train = max(0 if own.train is None else len(own.train) for own in members)
    return train, max(0 if own.val is None else len(own.val) for own in members)


def _bytes_of_one(candidate: PreparedCandidate) -> int:
    return bytes_per_model(candidate.shape, candidate.fleet, *_n_fold_rows(candidate))[1]


def _chunk_bytes(candidates: list[PreparedCandidate], n_folds: int, device: torch.device) -> int:
    first, n_networks = candidates[0], n_folds * len(candidates)
    at_once = models_per_chunk(first.shape, first.fleet, device, n_networks, *_n_fold_rows(first))
    return at_once * _bytes_of_one(first)


def _gradient_bytes(candidate: PreparedCandidate) -> int:
    shape, n_rows = candidate.shape, min(importance.GRADIENT_ROWS, sum(_n_fold_rows(candidate)))
    n_inputs = body_of(shape).n_inputs
    of_row = _size(candidate) * shape.activations_per_row + 2 * 8 * n_inputs
    return len(candidate.members) * (n_rows * of_row + _size(candidate) * _n_weights(shape))


def _refusal(prepared: PreparedFit, parts: Mapping[str, int], limit: int, of_what: str) -> str:
    largest = max(parts, key=lambda name: parts[name])
    n_rows, wide = _n_rows(prepared), max(prepared.candidates, key=lambda own: _n_weights(own.shape))
    body = body_of(wide.shape)
    if largest == OUT_OF_FOLD:
        cause = f"each candidate predicts {_n_predicted(prepared):,} numbers for each of {n_rows:,} rows, out of fold"
        fewer = "fewer candidates, " if len(prepared.candidates) > 1 else ""
        remedy = f"use {fewer}fewer rows, fewer classes or targets, or n_folds=0, which needs no such predictions"
    elif largest == ENCODED:
        widest = max(prepared.candidates, key=lambda own: own.data.encoder.n_encoded)
        cause = f"{n_rows:,} rows have {widest.data.encoder.n_encoded:,} encoded columns"
        remedy = "use fewer rows or columns, or a smaller max_one_hot"
    elif isinstance(body, GNMShape):
        cause = (
            f"networks of {body.n_nodes:,} nodes and {body.n_layers} layers have {_n_weights(wide.shape):,} weights: "
            f"there are {body.n_inputs:,} inputs and {body.n_outputs:,} outputs"
        )
        remedy = "use a smaller n_nodes or n_layers, fewer columns or classes, or an MLP"
    else:
        cause = (
            f"networks with hidden={body.hidden!r:.60} have {_n_weights(wide.shape):,} weights, with {body.n_inputs:,} "
            f"inputs and {body.n_outputs:,} outputs"
        )
        remedy = "use a smaller hidden, or fewer columns or classes"
    return f"fit needs about {shown(sum(parts.values()))} {of_what} {shown(limit)}: {cause}; {remedy}"
