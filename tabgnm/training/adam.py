"""Adam, AdamW and proximal Adam over the flat buffers of stacked models, each model with its own rates."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.kernels import kernels_for
from tabgnm.training.prefetch import Prefetch
from tabgnm.training.schedules import schedule_factors
from tabgnm.training.settings import FleetSettings, Member
from tabgnm.training.thresholds import EdgeThresholds

# Columns of the table of step rates.
_SCALE, _OFFSET, _RATE = 0, 1, 2
_SMALLEST_RATE = 1e-30  # dividing by a smaller rate may overflow, and weights would hardly change anyway

# The kernels of torch.optim.Adam(fused=True): one pass over memory, several times faster than single operations on a
# CPU. They are not documented, so single operations are used with versions of torch that do not have them.
_fused_adam = getattr(torch, "_fused_adam_", None)
_fused_adamw = getattr(torch, "_fused_adamw_", None)


class _ModelKind(NamedTuple):
    """The settings that models must share to be updated by one call of torch's fused kernel."""

    learning_rate: float
    n_steps: int  # per epoch
    decay: float


class Adam:
    """The moments of M models, and the update of their weights.

    With rate r, step t and bias corrections c1 = 1 - b1^t, c2 = 1 - b2^t, Adam subtracts
    (r / c1) m / (sqrt(v / c2) + eps) = m / (scale sqrt(v) + offset), so the device only needs the two numbers `scale`
    and `offset` per model and step; they are computed on the host.
    """

    def __init__(
        self, layout: FlatLayout, members: Sequence[Member], settings: FleetSettings, flat: Tensor, grad: Tensor
    ) -> None:
        self.settings = settings
        self.layout = layout
        self.members = list(members)
        self.exp_avg = torch.zeros_like(flat)
        self.exp_avg_sq = torch.zeros_like(flat)
        self._kernels = kernels_for(flat.device, "elementwise") if flat.dtype == torch.float32 else None
        self.rates: Tensor  # (steps, 3, M, 1), those of the current epoch
        self._bind(flat, grad)

    def _bind(self, flat: Tensor, grad: Tensor) -> None:
        self.flat, self.grad = flat, grad
        members, decoupled = self.members, self.settings.optimizer != "adam"
        proximal = self.settings.optimizer == "proximal_adam"
        self.decay = self._column([m.weight_decay if decoupled else 0.0 for m in members])
        self.l2 = self._column([2 * m.l2 + (0.0 if decoupled else m.weight_decay) for m in members])
        self.l1_gradient = self._column([0.0 if proximal else m.l1 for m in members])
        self.l1_threshold = self._column([m.l1 if proximal else 0.0 for m in members])
        self.thresholds = None
        if proximal and any(m.l1_factors or m.group_l1 for m in members):
            self.thresholds = EdgeThresholds(self.layout, members, self.settings, flat)
        penalized = any(m.l1 or m.l2 or m.l1_factors or m.group_l1 for m in members)
        kernel = _fused_adamw if decoupled else _fused_adam
        self._fused = kernel if flat.device.type == "cpu" and not penalized else None
        self._runs: dict[tuple[int, int], list[tuple[int, list[_FusedCall]]]] = {}

    @property
    def buffers(self) -> tuple[Tensor | None, ...]:
        """The `OptimizerBuffers` of the kernels."""
        penalties = self.l2, self.l1_gradient, self.decay, self.l1_threshold
        return self.flat, self.exp_avg, self.exp_avg_sq, *penalties

    def _column(self, values: list[float]) -> Tensor | None:
        """Return one number per model as (M, 1), or None if all are 0."""
        return self.flat.new_tensor(values).unsqueeze(1) if any(values) else None

    def select(self, keep: Tensor, flat: Tensor, grad: Tensor) -> None:
        """Keep only these models, whose weights and gradients are in `flat` and `grad` from now on."""
        on_device = keep.to(self.exp_avg.device)
        self.members = [self.members[i] for i in keep.tolist()]
        self.exp_avg, self.exp_avg_sq = self.exp_avg[on_device], self.exp_avg_sq[on_device]
        self._bind(flat, grad)

    def allocate_rates(self, n_steps: Sequence[int]) -> None:
        """Allocate the buffer for the rates of an epoch, whose address does not change afterwards."""
        self._steps_before = np.arange(max(n_steps), dtype=np.float64)[:, None]
        self.rates = self.exp_avg.new_zeros(max(n_steps), 3, len(n_steps), 1)
        # Most fleets have few different rates and numbers of steps, so the numbers are computed once for each of them.
        own = [_ModelKind(m.learning_rate, n, m.weight_decay) for m, n in zip(self.members, n_steps, strict=True)]
        self._kinds = sorted(set(own))
        self._kind_of = [self._kinds.index(kind) for kind in own]
        self._kind_on_device = torch.tensor(self._kind_of, device=self.rates.device)
        size = max(n_steps), 3 if self._fused is None else 2, len(self._kinds)
        self._of_kinds = self.rates.new_zeros(size, dtype=None if self._fused is None else torch.float64)
        self._prefetch = Prefetch(self._of_kinds)
        self._runs = {}

    def load_epoch(self, epoch: int) -> None:
        """Compute the numbers for all steps of an epoch, counted from 0, and of some epochs after it."""
        self._prefetch.load(epoch, self._numbers)
        if self._fused is not None:
            self._host_numbers = self._of_kinds.tolist()

    def begin_epoch(self, epoch: Tensor) -> None:
        """Copy the numbers of an epoch to each model, on the device."""
        if self._fused is None:
            self._prefetch.pick(epoch)
            torch.index_select(self._of_kinds, 2, self._kind_on_device, out=self.rates.squeeze(3))

    def _numbers(self, epochs: range) -> NDArray[np.float64]:
        """Return the numbers of each step: its rate and number for a fused kernel, or those for the device.

        Their shape is (epochs, steps, 2 or 3, kinds).
        """
        settings = self.settings
        base_rates = np.array([kind.learning_rate for kind in self._kinds])
        own_steps = np.array([kind.n_steps for kind in self._kinds], dtype=np.float64)
        done = np.array(epochs, dtype=np.float64)[:, None, None] * own_steps + self._steps_before
        progress = np.minimum(done / (settings.max_epochs * own_steps), 1.0)
        rate = base_rates * schedule_factors(settings.schedule, settings.warmup, progress)
        if self._fused is not None:
            return np.stack([rate, done + 1], axis=2)
        correction_1, correction_2 = (1 - beta ** (done + 1) for beta in self.settings.betas)
        moves = rate > _SMALLEST_RATE
        # m / (scale sqrt(v) + infinity) is 0: if the rate is 0, weights do not change.
        inverse = np.divide(correction_1, rate, out=np.full_like(done, np.inf), where=moves)
        scale = np.where(moves, inverse, 1.0) / np.sqrt(correction_2)
        return np.stack([scale, self.settings.eps * inverse, np.where(moves, rate, 0.0)], axis=2)

    def step(self, models: slice, index: int, rates: Tensor | None = None) -> None:
        """Update some models; several threads may do so at the same time, each with different models.

        `index` is the step in the epoch, and `rates` (3, M, 1) a copy of its part of the table, in a CUDA graph.
        """
        if self._fused is not None:
            rates_of, steps_of = self._host_numbers[index]
            for kind, calls in self._runs.get((models.start, models.stop)) or self._runs_of(models):
                for call in calls:
                    call(rates_of[kind], steps_of[kind])
            return
        settings, edges, rates = self.settings, self.layout.n_edges, self.rates[index] if rates is None else rates
        flat, grad = self.flat[models], self.grad[models]
        if self._kernels is not None and self.thresholds is None:
            assert models.start == 0
            self._kernels.adam_step(self._kernels.OptimizerBuffers(*self.buffers), grad, rates, settings.betas, edges)
            return
        weights = flat[:, :edges]
        if self.l2 is not None:
            grad[:, :edges].addcmul_(weights, self.l2[models])
        if self.l1_gradient is not None:
            grad[:, :edges].addcmul_(weights.sign(), self.l1_gradient[models])
        rate = rates[_RATE, models]  # (m, 1)
        if self.decay is not None:
            weights.mul_(1 - rate * self.decay[models])
        self._move(models, flat, grad, rates)
        if self.thresholds is not None:
            self.thresholds.apply(models, flat, rate)
        elif self.l1_threshold is not None:
            threshold = rate * self.l1_threshold[models]
            weights.sub_(torch.maximum(torch.minimum(weights, threshold), -threshold))

    def _move(self, models: slice, flat: Tensor, grad: Tensor, rates: Tensor) -> None:
        """Update the moments and the weights."""
        beta_1, beta_2 = self.settings.betas
        moment, square = self.exp_avg[models], self.exp_avg_sq[models]
        moment.lerp_(grad, 1 - beta_1)
        square.mul_(beta_2).addcmul_(grad, grad, value=1 - beta_2)
        below = torch.addcmul(rates[_OFFSET, models], square.sqrt(), rates[_SCALE, models])
        flat.addcdiv_(moment, below, value=-1)

    def _runs_of(self, models: slice) -> list[tuple[int, list[_FusedCall]]]:
        """Return the calls of torch's fused kernel that update some models, with their kinds."""
        buffers = self.flat, self.grad, self.exp_avg, self.exp_avg_sq
        edges, runs = self.layout.n_edges, []
        for kind, run in itertools.groupby(range(models.start, models.stop), key=lambda i: self._kind_of[i]):
            rows, decay = list(run), self._kinds[kind].decay
            if decay and edges < self.flat.shape[1]:  # only edges have weight decay, and the kernel needs dense tensors
                parts = [(decay, [[b[i, :edges] for i in rows] for b in buffers])]
                parts.append((0.0, [[b[i, edges:] for i in rows] for b in buffers]))
            else:
                parts = [(decay, [[b[rows[0] : rows[-1] + 1]] for b in buffers])]
            runs.append((kind, [_FusedCall(self._fused, own, decay, self.settings) for decay, own in parts]))
        self._runs[models.start, models.stop] = runs
        return runs


class _FusedCall:
    """One call of torch's fused kernel on tensors with fixed addresses."""

    def __init__(self, kernel: object, buffers: list[list[Tensor]], decay: float, settings: FleetSettings) -> None:
        self._kernel, self._buffers = kernel, buffers
        self._step = np.zeros((), np.float32)  # written through NumPy, which is faster than a call of torch
        self._steps = [torch.from_numpy(self._step)] * len(buffers[0])
        beta1, beta2 = settings.betas
        self._options = {"beta1": beta1, "beta2": beta2, "weight_decay": decay, "eps": settings.eps}

    def __call__(self, rate: float, step: float) -> None:
        self._step[()] = step
        self._kernel(  # type: ignore[operator] # torch's kernel is untyped
            *self._buffers, [], self._steps, lr=rate, **self._options, amsgrad=False, maximize=False
        )
