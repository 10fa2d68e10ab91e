"""Adam, AdamW and proximal Adam over the flat buffers of stacked models, each model with its own rates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.training.ahead import Ahead, Window
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.fused import fused_kernels
from tabgnm.training.schedules import schedule_factors
from tabgnm.training.settings import FleetSettings, Member

# Columns of the table of step rates.
_SCALE, _OFFSET, _RATE = 0, 1, 2
_SMALLEST_RATE = 1e-30  # below, numbers that are divided by the rate overflow; no weight would move anyway

# torch.optim.Adam(fused=True) without its bookkeeping: one pass over memory, several times faster than single
# operations on a CPU. It is not a documented function, so the plain operations stay as the way without it.
_torch_fused_adam = getattr(torch, "_fused_adam_", None)


class Adam:
    """Moments of M models, and the step from their gradients.

    With rate r, step t and bias corrections c1 = 1 - b1^t, c2 = 1 - b2^t, Adam subtracts
    (r / c1) m / (sqrt(v / c2) + eps) = m / (scale sqrt(v) + offset), so the two numbers `scale` and `offset` per model
    and step are all that the device needs; they are computed on the host.
    """

    def __init__(
        self, layout: FlatLayout, members: Sequence[Member], settings: FleetSettings, flat: Tensor, grad: Tensor
    ) -> None:
        self.settings = settings
        self.layout = layout
        self.bind(flat, grad)
        self.exp_avg = torch.zeros_like(flat)
        self.exp_avg_sq = torch.zeros_like(flat)
        self.factors = layout.rate_factors(dict(settings.rate_factors), flat.device, flat.dtype)
        self._triton = fused_kernels(flat.device) if flat.dtype == torch.float32 else None
        self._by_rows = flat.device.type == "cpu" and self.factors is None and _torch_fused_adam is not None
        self._base_rates = np.array([member.learning_rate for member in members])
        decoupled = settings.optimiser != "adam"
        self.decay = self._column([m.weight_decay if decoupled else 0.0 for m in members], flat)
        # As in torch, the penalty is part of the gradient that is clipped, and weight decay is added afterwards.
        self.l2_penalty = self._column([2 * m.l2 for m in members], flat)
        self.coupled_decay = self._column([0.0 if decoupled else m.weight_decay for m in members], flat)
        self.l2 = self._column([2 * m.l2 + (0.0 if decoupled else m.weight_decay) for m in members], flat)
        proximal = settings.optimiser == "proximal_adam"
        self.l1_gradient = self._column([0.0 if proximal else m.l1 for m in members], flat)
        self.l1_threshold = self._column([m.l1 if proximal else 0.0 for m in members], flat)
        extras = (self.decay, self.l2, self.l1_gradient, self.l1_threshold, settings.clip_norm)
        self._plain = self._by_rows and all(extra is None for extra in extras)
        # Filled for each epoch: rates (steps, 3, M, 1) on the device; on a CPU, also rates and numbers of the steps.
        self.rates: Tensor
        self._host_rates: NDArray[np.float64]
        self._host_steps: NDArray[np.float64]

    def bind(self, flat: Tensor, grad: Tensor) -> None:
        """Work on these buffers of weights and gradients from now on."""
        self.flat, self.grad = flat, grad
        self._rows: dict[tuple[int, ...], _Rows] = {}

    @staticmethod
    def _column(values: list[float], like: Tensor) -> Tensor | None:
        """One number per model as (M, 1), or None if all are 0."""
        return like.new_tensor(values).unsqueeze(1) if any(values) else None

    def select(self, keep: Tensor) -> None:
        """Keep these models only."""
        self._base_rates = self._base_rates[keep.numpy()]
        on_device = keep.to(self.exp_avg.device)
        columns = ("decay", "l2", "l2_penalty", "coupled_decay", "l1_gradient", "l1_threshold")
        for name in ("exp_avg", "exp_avg_sq", *columns):
            value = getattr(self, name)
            setattr(self, name, None if value is None else value[on_device])

    def allocate_rates(self, n_steps: Sequence[int]) -> None:
        """Make room for the rates of an epoch, which stays where it is from then on."""
        self._steps_before = np.arange(max(n_steps), dtype=np.float64)[:, None]
        self.rates = self.exp_avg.new_zeros(max(n_steps), 3, len(n_steps), 1)
        # Most fleets have few different rates and numbers of steps; what follows from them is computed once for each.
        pairs = np.stack([self._base_rates, np.asarray(n_steps, dtype=np.float64)])
        self._kinds, kind_of = np.unique(pairs, axis=1, return_inverse=True)
        self._kind_of = kind_of.reshape(-1)  # some versions of NumPy give it two dimensions
        self._kind_on_device = torch.from_numpy(self._kind_of).to(self.rates.device)
        self._rates_of_kinds = self.rates.new_zeros(max(n_steps), 3, self._kinds.shape[1])
        self._ahead = Ahead(self._rates_of_kinds)
        self._host = Window[tuple[NDArray[np.float64], NDArray[np.float64]]](self._rates_of_kinds.numel())

    def load_epoch(self, epoch: int) -> None:
        """Compute the numbers for all steps of an epoch (from 0 on), and of some after it."""
        if self.flat.device.type == "cpu":
            self._host.move_to(epoch, self._rates_and_steps)
            rates, steps_before = (values[self._host.place(epoch)][:, self._kind_of] for values in self._host.values)
            self._host_rates, self._host_steps = rates, steps_before + 1
            self._first_model = list(zip(self._host_rates[:, 0].tolist(), self._host_steps[:, 0].tolist(), strict=True))
            self._all_alike = self._kinds.shape[1] == 1
        if not self._plain:
            self._ahead.load(epoch, self._numbers)

    def begin_epoch(self, epoch: Tensor) -> None:
        """Give each model its numbers of an epoch, by the device."""
        if not self._plain:
            self._ahead.pick(epoch)
            torch.index_select(self._rates_of_kinds, 2, self._kind_on_device, out=self.rates.squeeze(3))

    def _rates_and_steps(self, epochs: range) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Rate of each step, and how many steps were taken before it, (epochs, steps, kinds) each."""
        settings = self.settings
        base_rates, own_steps = self._kinds
        done = np.array(epochs, dtype=np.float64)[:, None, None] * own_steps + self._steps_before
        if settings.schedule == "constant" and not settings.warmup:
            return np.broadcast_to(base_rates, done.shape), done
        progress = np.minimum(done / (settings.max_epochs * own_steps), 1.0)
        return base_rates * schedule_factors(settings.schedule, settings.warmup, progress), done

    def _numbers(self, epochs: range) -> NDArray[np.float64]:
        """All that the device needs of each step, (epochs, steps, 3, kinds)."""
        rate, done = self._rates_and_steps(epochs)
        correction_1, correction_2 = (1 - beta ** (done + 1) for beta in self.settings.betas)
        # With a rate of 0 the step divides by infinity, so that not even a weight of 0 moves.
        moves = rate >= _SMALLEST_RATE
        inverse = np.divide(correction_1, rate, out=np.full_like(done, np.inf), where=moves)
        scale = np.where(moves, inverse, 1.0) / np.sqrt(correction_2)
        return np.stack([scale, self.settings.eps * inverse, np.where(moves, rate, 0.0)], axis=2)

    def step(self, models: slice, index: int, rates: Tensor) -> None:
        """Update some models; several threads may do so at the same time, each with its own ones.

        `index` is the step in the epoch, and `rates` its part of the table (in a CUDA graph a copy of it).
        """
        if self._plain:
            self._update_by_rows(models, index)
            return
        settings, edges = self.settings, self.layout.n_edges
        flat, grad = self.flat[models], self.grad[models]
        if self._triton is not None and settings.clip_norm is None:
            assert models.start == 0
            self._triton.adam_step(
                flat,
                grad,
                self.exp_avg,
                self.exp_avg_sq,
                rates,
                settings.betas,
                edges,
                l2=self.l2,
                l1=self.l1_gradient,
                decay=self.decay,
                threshold=self.l1_threshold,
                factors=self.factors,
            )
            return
        weights = flat[:, :edges]
        if self.l2_penalty is not None:
            grad[:, :edges].addcmul_(weights, self.l2_penalty[models])
        if self.l1_gradient is not None:
            grad[:, :edges].addcmul_(weights.sign(), self.l1_gradient[models])
        if settings.clip_norm is not None:
            norm = torch.linalg.vector_norm(grad, dim=1, keepdim=True)
            grad.mul_((settings.clip_norm / norm.clamp(min=1e-30)).clamp_(max=1.0))
        if self.coupled_decay is not None:
            grad[:, :edges].addcmul_(weights, self.coupled_decay[models])
        if self.decay is not None:
            shrink = rates[_RATE, models] * self.decay[models]
            weights.mul_(1 - (shrink if self.factors is None else shrink * self.factors[:edges]))
        if self._by_rows:
            self._update_by_rows(models, index)
        else:
            self._update(models, flat, grad, rates)
        if self.l1_threshold is not None:
            threshold = rates[_RATE, models] * self.l1_threshold[models]
            if self.factors is not None:
                threshold = threshold * self.factors[:edges]
            weights.sub_(torch.maximum(torch.minimum(weights, threshold), -threshold))

    def _update(self, models: slice, flat: Tensor, grad: Tensor, rates: Tensor) -> None:
        beta_1, beta_2 = self.settings.betas
        moment, square = self.exp_avg[models], self.exp_avg_sq[models]
        moment.lerp_(grad, 1 - beta_1)
        square.mul_(beta_2).addcmul_(grad, grad, value=1 - beta_2)
        below = torch.addcmul(rates[_OFFSET, models], square.sqrt(), rates[_SCALE, models])
        if self.factors is None:
            flat.addcdiv_(moment, below, value=-1)
        else:
            flat.sub_(torch.div(moment, below, out=below).mul_(self.factors))

    def _update_by_rows(self, models: slice, index: int) -> None:
        """The same by torch's fused kernel: one call for all models with the same rate and number of steps."""
        together = models.start, models.stop
        if self._all_alike:
            self._fused_update(together, *self._first_model[index])
            return
        rates, steps = self._host_rates[index, models], self._host_steps[index, models]
        if (rates == rates[0]).all() and (steps == steps[0]).all():
            self._fused_update(together, float(rates[0]), float(steps[0]))
            return
        groups: dict[tuple[float, float], list[int]] = {}
        for i, pair in enumerate(zip(rates.tolist(), steps.tolist(), strict=True), start=models.start):
            groups.setdefault(pair, []).append(i)
        for (rate, step), rows in groups.items():
            self._fused_update((0, 0, *rows), rate, step)

    def _fused_update(self, which: tuple[int, ...], rate: float, step: float) -> None:
        """Update models from one to another, `which` being (first, end), or single ones, (0, 0, *rows)."""
        assert _torch_fused_adam is not None
        if which not in self._rows:
            first, end, *single = which
            rows = [slice(i, i + 1) for i in single] or [slice(first, end)]
            self._rows[which] = _Rows([[buffer[own] for own in rows] for buffer in self._buffers])
        own = self._rows[which]
        beta_1, beta_2 = self.settings.betas
        own.step_number[()] = step
        _torch_fused_adam(
            *own.buffers,
            [],
            own.steps,
            lr=rate,
            beta1=beta_1,
            beta2=beta_2,
            weight_decay=0.0,
            eps=self.settings.eps,
            amsgrad=False,
            maximize=False,
        )

    @property
    def _buffers(self) -> tuple[Tensor, ...]:
        return self.flat, self.grad, self.exp_avg, self.exp_avg_sq


class _Rows:
    """What torch's fused kernel is called with for some models."""

    def __init__(self, buffers: list[list[Tensor]]) -> None:
        self.buffers = buffers
        self.step_number = np.zeros((), np.float32)  # written through NumPy, which is faster than a call of torch
        self.steps = [torch.from_numpy(self.step_number)] * len(buffers[0])
