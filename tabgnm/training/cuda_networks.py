"""All steps of a block at once: a kernel with a thread block for each network, see `networks.cu`.

Between two kernels a GPU stands still for a microsecond or two, as long as a small layer takes, and what one kernel
leaves for the next goes through memory that all share. A network that has a multiprocessor for itself needs neither.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import torch
from torch import Tensor

from tabgnm.nn.losses import Loss, SquaredError
from tabgnm.nn.shapes import MLPShape, Shape
from tabgnm.training.cuda_source import Kernel, shared_memory
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.fused import LOSS_KINDS
from tabgnm.training.optimisers import Adam
from tabgnm.training.rows import ALIGN
from tabgnm.training.settings import FleetSettings, Member

_MOST_LAYERS = 8  # as in networks.cu
_FORWARD, _BACKWARD, _UPDATE = (1, 4, 7), (4, 7), (1, 4, 7)  # tiles that a warp can compute at once, as there
_FEW_THREADS, _MANY_THREADS = 256, 512  # of a thread block; with so many, registers leave room for one block only
_MOST_ROWS = _MANY_THREADS // 2  # a thread looks at the loss of one row, while others fetch the next rows
_RESERVED = 1024  # bytes of shared memory that each thread block has besides its own
_POINTERS = (
    "x", "shares", "targets", "kept", "flat", "moment", "square", "factors", "rates", "l2", "l1", "decay", "threshold",
    "keys", "drop_thresholds", "jumps", "drop_scales", "n_steps",
)  # fmt: skip
_LONG = ("x_model", "target_model", "share_model", "kept_model", "flat_model", "key_layer")
_INTEGERS = (
    "x_row", "target_row", "kept_row", "rates_step", "rates_stride", "n_layers", "batch_size", "n_positions",
    "first_step", "n_block_steps", "kind", "n_rows", "row_stride", "inputs", "input_size", "spare",
)  # fmt: skip
_NUMBERS = ("setting", "rest_1", "beta_2", "rest_2")
_OF_LAYERS = (
    "n_sources", "n_targets", "aligned_sources", "aligned_targets", "column", "padded_sources", "padded_targets",
    "stride", "weights", "moments", "squares", "states", "n_forward", "n_backward", "n_update",
    "forward_jobs", "backward_jobs", "update_jobs",
)  # fmt: skip


class _Layer(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in _OF_LAYERS]


class _Arguments(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int64) for name in _LONG),
        *((name, ctypes.c_int) for name in _INTEGERS),
        *((name, ctypes.c_float) for name in _NUMBERS),
        ("layers", _Layer * _MOST_LAYERS),
    ]


def _up(number: int, to: int) -> int:
    return -(-number // to) * to


def tiles_at_once(n_rows: int, n_columns: int, choice: Sequence[int]) -> tuple[int, int]:
    """Tiles of 16 x 8 that a warp computes at once, side by side, and how many jobs that makes.

    The more tiles, the less work for each; but where there are few of them, they are better shared by more warps.
    """
    across = -(-n_columns // 8)
    best = min((n for n in choice if n >= across / 2), default=max(choice))
    return best, -(-n_rows // 16) * -(-across // best)


def _whole(n_columns: int, choice: Sequence[int]) -> int:
    """As many columns as make whole jobs."""
    return _up(n_columns, 8 * tiles_at_once(16, n_columns, choice)[0])


@dataclass(frozen=True)
class Memory:
    """Where everything lies in the shared memory of a network, counted in float32 numbers."""

    strides: list[int]  # of weights, in each layer
    weights: list[int]
    moments: list[int]  # -1: in global memory
    squares: list[int]
    states: list[int]
    inputs: int
    input_size: int  # 0: the rows of a step are fetched when those of the step before are no longer needed
    spare: int
    n_rows: int
    row_stride: int
    size: int

    @classmethod
    def plan(cls, widths: Sequence[tuple[int, int]], batch_size: int, *, moments: bool, ahead: bool = True) -> Memory:
        """Lay out networks with so many sources and targets in each layer.

        Strides are odd multiples of 8, so that threads of a warp read from different banks.
        """
        end = 0

        def place(n: int) -> int:
            nonlocal end
            end += n
            return end - n

        n_rows = _up(batch_size, 16)
        row_stride, n_layers = n_rows + 8, len(widths)
        padded = [_up(targets, 8) for _, targets in widths]
        strides = [width + 8 * (width % 16 == 0) for width in padded]
        sizes = [(_up(sources, 8) + 1) * stride for (sources, _), stride in zip(widths, strides, strict=True)]
        weights = [place(size) for size in sizes]
        own, squares = ([place(size) if moments else -1 for size in sizes] for _ in range(2))
        spare = place(padded[-2] * row_stride if n_layers > 1 else 0)
        # Gradients by the layer before take the place of states that are no longer needed; but not of the first
        # layer's, which come after all others: behind gradients a warp may read as many nodes as make whole jobs.
        states = [0] * n_layers
        for layer in range(n_layers - 2, -1, -1):
            states[layer] = place(max(padded[layer], padded[layer - 1] if layer else 0) * row_stride)
        states[-1] = place(padded[-1] * row_stride)
        input_size = _up(widths[0][0], 8) * row_stride
        inputs = place((1 + ahead) * input_size)
        grads = [*states[1:-1], spare, states[-1]][-n_layers:]  # where those of each layer are
        for layer, (n_sources, n_targets) in enumerate(widths):
            forward = _up(n_sources, 8) * strides[layer] + _whole(n_targets, _FORWARD)
            backward = _whole(n_sources, _BACKWARD) * strides[layer]
            update = _whole(n_targets, _UPDATE) * row_stride
            end = max(end, weights[layer] + max(forward, backward), grads[layer] + update)
        return cls(strides, weights, own, squares, states, inputs, input_size * ahead, spare, n_rows, row_stride, end)

    @property
    def n_bytes(self) -> int:
        """How much that is."""
        return 4 * self.size


def n_threads_for(widths: Sequence[tuple[int, int]], batch_size: int) -> int:
    """Return how many threads a network has."""
    is_small = 2 * _up(batch_size, 16) <= _FEW_THREADS and all(targets <= 64 for _, targets in widths)
    return _FEW_THREADS if is_small else _MANY_THREADS


def best_memory(widths: Sequence[tuple[int, int]], batch_size: int, device: torch.device) -> Memory | None:
    """Lay out networks so that two fit on a multiprocessor if they can, with their moments if possible; or None."""
    most, of_multiprocessor = shared_memory(device)
    all_there, some = (Memory.plan(widths, batch_size, moments=moments) for moments in (True, False))
    least = Memory.plan(widths, batch_size, moments=False, ahead=False)
    choice = [(all_there, most), (some, most), (least, most)]
    if n_threads_for(widths, batch_size) == _FEW_THREADS:
        half = of_multiprocessor // 2 - _RESERVED
        choice = [(all_there, half), (some, half), *choice]
    return next((memory for memory, limit in choice if memory.n_bytes <= limit), None)


def networks_for(shape: Shape, adam: Adam, loss: Loss, batch_size: int, n_steps: Sequence[int]) -> Networks | None:
    """Return the steps of networks, or None if they are too large.

    A few larger ones would be faster with more than one multiprocessor each, a layer after the other. But that way
    rounds differently, and how many networks there are must not change any of them.
    """
    memory = memory_for(shape, batch_size, adam.flat.device)
    return None if memory is None else Networks(shape, adam, loss, batch_size, n_steps, memory)


def memory_for(shape: Shape, batch_size: int, device: torch.device) -> Memory | None:
    """Lay out networks, or None if they are too large."""
    if shape.n_layers > _MOST_LAYERS or batch_size > _MOST_ROWS:
        return None
    return best_memory(widths_of(shape), batch_size, device)


@functools.cache
def _kernel(device: torch.device) -> Kernel:
    return Kernel(files("tabgnm.training").joinpath("networks.cu").read_bytes(), "train_networks", device)


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


class Networks:
    """Steps of M networks in the order of their numbers of steps in an epoch, most first.

    Parameters
    ----------
    shape : Shape
        One without variants.
    adam : Adam
        Whose weights and moments are stepped.
    loss : Loss
    batch_size : int
    n_steps : sequence of int
        Steps of each network in an epoch.
    memory : Memory
    """

    def __init__(
        self, shape: Shape, adam: Adam, loss: Loss, batch_size: int, n_steps: Sequence[int], memory: Memory
    ) -> None:
        device = adam.flat.device
        self._kernel, self._memory = _kernel(device), memory
        self._kernel.reserve(memory.n_bytes)
        self._n_steps = torch.tensor(n_steps, dtype=torch.int32, device=device)
        self._first_jumps = torch.tensor([1, 0], device=device).expand(len(n_steps), 2).contiguous()
        self._jumps = self._first_jumps.clone()
        widths = widths_of(shape)
        self._n_threads = n_threads_for(widths, batch_size)
        betas = adam.settings.betas
        self._arguments = own = _Arguments(
            flat=adam.flat.data_ptr(),
            moment=adam.exp_avg.data_ptr(),
            square=adam.exp_avg_sq.data_ptr(),
            factors=_address(adam.factors),
            l2=_address(adam.l2),
            l1=_address(adam.l1_gradient),
            decay=_address(adam.decay),
            threshold=_address(adam.l1_threshold),
            n_steps=self._n_steps.data_ptr(),
            jumps=self._jumps.data_ptr(),
            flat_model=adam.flat.stride(0),
            n_layers=shape.n_layers,
            batch_size=batch_size,
            kind=LOSS_KINDS[loss.name],
            setting=loss.setting,
            n_rows=memory.n_rows,
            row_stride=memory.row_stride,
            inputs=memory.inputs,
            input_size=memory.input_size,
            spare=memory.spare,
            rest_1=1 - betas[0],
            beta_2=betas[1],
            rest_2=1 - betas[1],
        )
        views = adam.layout.padded_views(adam.flat)
        for i, (n_sources, n_targets) in enumerate(widths):
            _, aligned_sources, aligned_targets = views[f"weight_{i + 1}"].shape
            column = adam.layout.offsets[f"weight_{i + 1}"]
            n, sources, targets = memory.n_rows, _up(n_sources, 8), _up(n_targets, 8)
            places = memory.strides[i], memory.weights[i], memory.moments[i], memory.squares[i], memory.states[i]
            tiles = (
                tiles_at_once(n, targets, _FORWARD),
                tiles_at_once(n, sources, _BACKWARD),
                tiles_at_once(n_sources, targets, _UPDATE),
            )
            aligned = aligned_sources, aligned_targets, column, sources, targets
            at_once, jobs = zip(*tiles, strict=True)
            own.layers[i] = _Layer(n_sources, n_targets, *aligned, *places, *at_once, *jobs)

    def begin_epoch(self) -> None:
        """Start the streams of dropout anew."""
        self._jumps.copy_(self._first_jumps)

    def __call__(
        self,
        x: Tensor,
        targets: Tensor,
        shares: Tensor,
        kept: Tensor,
        rates: Tensor,
        first_step: int,
        dropout: tuple[Tensor, Tensor, Tensor] | None,
    ) -> None:
        """Take the steps of a block, which are those from `first_step` on in the epoch.

        `x` (n, L, m or aligned), `targets` (n, L) or (n, L, c) and `shares` (n, L) are its rows; outputs go to `kept`
        (n, L, c). `rates` are (steps, 3, M, 1), `dropout` are keys of the streams (layers, M), thresholds and scales
        (M, 1, 1).
        """
        own, classes = self._arguments, self._arguments.kind == LOSS_KINDS["cross_entropy"]
        assert x.dtype == shares.dtype == kept.dtype == rates.dtype == torch.float32
        assert targets.dtype == (torch.int64 if classes else torch.float32)
        assert x.stride(-1) == shares.stride(-1) == kept.stride(-1) == 1
        for name, tensor in (("x", x), ("targets", targets), ("shares", shares), ("kept", kept), ("rates", rates)):
            setattr(own, name, tensor.data_ptr())
        own.x_model, own.x_row, own.share_model = x.stride(0), x.stride(1), shares.stride(0)
        own.target_model, own.target_row = targets.stride(0), targets.stride(1)
        own.kept_model, own.kept_row = kept.stride(0), kept.stride(1)
        own.rates_step, own.rates_stride = rates.stride(0), rates.stride(1)
        own.n_positions, own.first_step, own.n_block_steps = x.shape[1], first_step, len(rates)
        if dropout is not None:
            own.keys, own.drop_thresholds, own.drop_scales = (tensor.data_ptr() for tensor in dropout)
            own.key_layer = dropout[0].stride(0)
        self._kernel.launch(len(x), self._n_threads, self._memory.n_bytes, own)


def widths_of(shape: Shape) -> list[tuple[int, int]]:
    """Sources and targets of each layer."""
    sizes = shape.parameter_shapes()
    return [(sizes[f"weight_{k}"][0], sizes[f"weight_{k}"][1]) for k in range(1, shape.n_layers + 1)]


def self_check(device: torch.device) -> None:
    """Compile and run the kernel once; an exception here means that it cannot be used on this machine."""
    shape = MLPShape(2, 1, ())
    layout = FlatLayout(shape, align=ALIGN)
    flat = torch.zeros(1, layout.n_flat, device=device)
    loss, betas = SquaredError(), (0.5, 0.5)
    adam = Adam(layout, [Member()], FleetSettings(loss=loss, betas=betas), flat, torch.zeros_like(flat))
    networks = networks_for(shape, adam, loss, 4, [1])
    if networks is None:
        raise RuntimeError("no network fits into shared memory")
    ones, rates = torch.ones(1, 4, ALIGN, device=device), torch.ones(1, 3, 1, 1, device=device)
    networks(ones, ones[..., :1], ones[..., 0] / 8, torch.empty_like(ones[..., :1]), rates, 0, None)
    # Outputs are 0 and targets 1, so each of four rows that count an eighth has a gradient of -2 / 8.
    if not bool((layout.views(adam.exp_avg)["weight_1"] == -0.5).all()):
        raise RuntimeError("a gradient of ones is wrong")
