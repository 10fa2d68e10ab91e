"""M models of one shape trained in lockstep on one device: the inner loop of the fleet.

Everything a step touches lies in buffers that never move, and an epoch reads nothing from the host but the tables
copied in before it, so that on a GPU a whole epoch can be captured as one CUDA graph.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.nn.evenly import use_kernels
from tabgnm.nn.message_passing import backward, forward
from tabgnm.nn.shapes import Shape
from tabgnm.training import counter_random
from tabgnm.training.ahead import Ahead
from tabgnm.training.crews import Crews
from tabgnm.training.dropout import Dropout
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.fused import LOSS_KINDS, fused_epochs, fused_kernels, fused_layers, fused_networks, fused_products
from tabgnm.training.gated_weights import Gates
from tabgnm.training.notes import Notes
from tabgnm.training.optimisers import Adam
from tabgnm.training.plain_gpu_step import LayerGpuStep, PlainGpuStep
from tabgnm.training.plain_step import PlainStep, is_plain
from tabgnm.training.rows import ALIGN, Block, Epochs, Group, RowSet, Step
from tabgnm.training.settings import FleetSettings, Member
from tabgnm.training.validation import Validation, add_losses

# Multiply-adds of a forward pass of all models, up to which a second thread hardly pays: if each thread goes through
# the steps of its own models in NumPy, and if they share torch's operations.
_SMALL_FLEET = 12_000_000
_ONE_THREAD_WORK = 3_000_000
_LARGEST_OF_ONE_THREAD = 20_000_000  # of one model; larger ones are rounded differently if they are alone

# What a single model keeps account of in NumPy, in the order in which `_judge_one` takes it.
_NOTES = ("active", "diverged", "best_loss", "best_epoch", "waited", "train_loss", "val_loss")


def takes_small_way(shape: Shape, settings: FleetSettings, device: torch.device, n_rows: int) -> bool:
    """Whether a model with so many rows is one for the faster way of small ones; all models of a lockstep are, or none.

    On a CPU that is one thread for each model, on a GPU the kernel for all steps of an epoch.
    """
    batch_size = min(settings.batch_size, n_rows)
    if device.type == "cpu":
        return batch_size * shape.n_effective_parameters() <= _LARGEST_OF_ONE_THREAD
    networks = fused_networks(device) if is_plain(shape) and settings.precision == "float32" else None
    return networks is not None and networks.memory_for(shape, batch_size, device) is not None


class BlockData(NamedTuple):
    """What the steps of a block read: rows, targets, what a row counts in its step and in the epoch, and the rates."""

    x: Tensor  # (M, L, m)
    y: Tensor  # (M, L, ...)
    weights: Tensor  # (M, L)
    shares: Tensor  # (M, L)
    rates: Tensor  # (steps, 3, M, 1)


class Lockstep:
    """Weights, moments, rows and bookkeeping of M models that take every step together.

    Parameters
    ----------
    shape : Shape
    members : sequence of Member
        Ordered by their number of steps per epoch, most first.
    settings : FleetSettings
    train : RowSet
    val : RowSet or None
        None if no model has validation rows.
    """

    def __init__(
        self,
        shape: Shape,
        members: Sequence[Member],
        settings: FleetSettings,
        train: RowSet,
        val: RowSet | None,
        *,
        block_steps: int,
    ) -> None:
        self.shape, self.settings = shape, settings
        self.members = list(members)
        self.block_steps = block_steps
        self._n_threads = torch.get_num_threads()
        device, dtype = train.ids.device, settings.dtype
        gates = any(member.l0 for member in members)
        # Gates are drawn by their place in the buffer, so with gates there is nothing between the places.
        align = ALIGN if device.type == "cuda" and not gates else 1
        self.layout = FlatLayout(shape, gates=gates, align=align, align_rows=ALIGN)
        seeds, starts = [member.seed for member in members], [member.start for member in members]
        self.flat = self.layout.first_weights(seeds, device, dtype, starts)
        self.grad = torch.zeros_like(self.flat)
        self._fused = fused_kernels(device) if dtype == torch.float32 else None
        products = fused_products(device)
        if products is not None:
            use_kernels(self.flat.device, products)
        self.adam = Adam(self.layout, members, settings, self.flat, self.grad)
        self.gates = Gates(self.layout, members, self.flat) if self.layout.gates else None
        # Bookkeeping on the device; the host asks for it only when it has to.
        n = len(members)
        self.best_flat = self.flat.clone()
        self.best_loss = torch.full((n,), torch.inf, dtype=dtype, device=device)
        self.best_epoch = torch.zeros(n, dtype=torch.int64, device=device)
        self.waited = torch.zeros(n, dtype=torch.int64, device=device)
        self.active = torch.ones(n, dtype=torch.bool, device=device)
        self.diverged = torch.zeros(n, dtype=torch.bool, device=device)
        self.epoch = torch.zeros((), dtype=torch.int64, device=device)
        self.train_loss = torch.zeros(n, dtype=dtype, device=device)
        self.validation: Validation | None = None
        self._set_rows(train, val)

    def _set_rows(self, train: RowSet, val: RowSet | None = None) -> None:
        """(Re)build what depends on which models are there."""
        device, dtype = self.flat.device, self.flat.dtype
        self._seeds = counter_random.seed_array([member.seed for member in self.members])
        self.epochs = Epochs(train, self.settings.batch_size, self.block_steps, dtype)
        n, work = len(self.members), self.epochs.batch_size * self.shape.n_effective_parameters()
        is_small = device.type == "cpu" and work <= _LARGEST_OF_ONE_THREAD
        self.in_numpy = is_small and is_plain(self.shape) and self.gates is None
        # Products of one pair of matrices by several threads are rounded differently, those of several pairs are not.
        self.one_thread = self.in_numpy or (is_small and (n == 1 or n * work <= _ONE_THREAD_WORK))
        self.dropout = Dropout(self.shape, self.members, self.epochs.batch_size, self.flat, rows_last=self.in_numpy)
        n_streams = 1 + self.dropout.n_streams + (self.gates is not None)
        self._keys = torch.zeros(n_streams, n, dtype=torch.int64, device=device)
        self._keys_ahead = Ahead(self._keys)
        self.adam.allocate_rates(self.epochs.n_steps)
        low = torch.bfloat16 if self.settings.precision == "bf16" else None
        self._low = None if low is None else (self.flat.to(low), torch.zeros_like(self.flat, dtype=low))
        positions = max(block.n_positions for block in self.epochs.blocks)
        self._outputs = torch.empty(n, positions, self.shape.n_outputs, dtype=dtype, device=device)
        self._views: dict[tuple[int, int], tuple[dict[str, Tensor], dict[str, Tensor]]] = {}
        if val is not None:
            self.validation = Validation(val, self.settings, self.flat, bias_column=self.in_numpy)
        with_metric = self.validation is not None and self.validation.metric is not None
        self.val_loss = torch.zeros_like(self.train_loss) if self.validation is None else self.validation.loss
        self.notes = Notes(3 + with_metric, self.flat)
        self.crews = Crews(n, self._n_threads if self.in_numpy and n * work > _SMALL_FLEET else 1)
        self._make_plain_steps()

    def select(self, keep: Tensor) -> None:
        """Keep these models only; the others cost nothing from now on."""
        on_device = keep.to(self.flat.device)
        self.members = [self.members[i] for i in keep.tolist()]
        for name in (
            "flat", "grad", "best_flat", "best_loss", "best_epoch", "waited", "active", "diverged", "train_loss",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name)[on_device])
        self.adam.select(keep)
        self.adam.bind(self.flat, self.grad)
        if self.gates is not None:
            self.gates.select(keep)
        if self.validation is not None:
            self.validation.select(keep)
        train = self.epochs.rows
        train.select(keep)
        self.crews.close()
        self._set_rows(train)

    # An epoch, in the order of its parts. Only `load_epoch` speaks to the host.

    def load_epoch(self, epoch: int) -> None:
        """Have ready what the host computes for an epoch (from 0 on): keys of the random numbers, and rates."""
        self._keys_ahead.load(epoch, self._keys_of)
        self.adam.load_epoch(epoch)

    def _keys_of(self, epochs: range) -> NDArray[np.int64]:
        """Keys of the random numbers of epochs, (epochs, streams, M)."""
        purposes: list[tuple[int | range, ...]] = [(counter_random.SHUFFLE, epochs)]
        purposes += [(counter_random.DROPOUT, epochs, layer) for layer in range(self.dropout.n_streams)]
        if self.gates is not None:
            purposes.append((counter_random.GATES, epochs))
        return np.stack([counter_random.keys(self._seeds, *purpose) for purpose in purposes], axis=1)

    def begin_epoch(self) -> None:
        """Shuffle, and start the streams."""
        self._keys_ahead.pick(self.epoch)
        self.adam.begin_epoch(self.epoch)
        self.train_loss.zero_()
        self.epochs.shuffle(self._keys[0])
        if self._networks is not None:  # which draws numbers of dropout from keys
            self._networks.begin_epoch()
        else:
            self.dropout.start(list(self._dropout_keys))
        if self.gates is not None:
            self.gates.streams.start(self._keys[-1])

    @property
    def _dropout_keys(self) -> Tensor:
        """Keys of the streams of dropout, (layers, M)."""
        return self._keys[1 : 1 + self.dropout.n_streams]

    def load_block(self, block: Block) -> BlockData:
        """Gather what the steps of a block read, into buffers that are used again."""
        x, y = self.epochs.gather(block)
        first, last = block.first_position, block.first_position + block.n_positions
        n, first_step = block.n_models, block.steps[0].index
        return BlockData(
            x,
            y,
            self.epochs.step_weights[:n, first:last],
            self.epochs.epoch_weights[:n, first:last],
            self.adam.rates[first_step : first_step + block.n_steps],
        )

    def take_steps(self, block: Block, data: BlockData) -> None:
        """Take the steps of a block, and add up the loss."""
        n, n_positions = block.n_models, block.n_positions
        if self._networks is not None:
            limits = self.dropout.limits()
            dropout = None if limits is None else (self._dropout_keys, *limits)
            kept, first = self._outputs[:n, :n_positions], block.steps[0].index
            self._networks(data.x, data.y, data.weights, kept, data.rates, first, dropout)
            add_losses(self.settings.loss, kept, data.y, data.shares, self.train_loss[:n])
        elif self._plain_gpu is not None:
            for step, rates in zip(block.steps, data.rates, strict=True):
                self._fused_step(step, data, rates)
            add_losses(self.settings.loss, self._outputs[:n, :n_positions], data.y, data.shares, self.train_loss[:n])
        elif self._plain:
            self.crews.each(lambda crew, models: self._take_plain_steps(self._plain[crew], models, block, data))
        else:
            self.crews.each(lambda _, models: self._take_crew_steps(models, block, data))

    def _take_crew_steps(self, crew: slice, block: Block, data: BlockData) -> None:
        """Do what `take_steps` does for some models."""
        first = block.steps[0].index
        for step in block.steps:
            models = step.models.within(crew)
            if models is not None:
                self._step(step, models, data, data.rates[step.index - first])
        for group in [Group(0, block.n_models, block.n_positions)] if self._fused is not None else block.groups:
            models, rows = group.within(crew), slice(0, group.n_rows)
            if models is not None:
                own = data.y[models, rows], data.shares[models, rows], self.train_loss[models]
                add_losses(self.settings.loss, self._outputs[models, rows], *own)

    def _step(self, step: Step, models: slice, data: BlockData, rates: Tensor) -> None:
        rows = slice(step.start, step.start + step.models.n_rows)
        parameters, gradients = self._step_views(models)
        flat, grad = self.flat[models], self.grad[models]
        if self.gates is not None:
            uniform = self.gates.open_randomly(flat, models)
        if self._low is not None:
            self._low[0][models].copy_(flat if self.gates is None else self.gates.effective[models])
        x, y, weights = data.x[models, rows, : self.shape.n_inputs], data.y[models, rows], data.weights[models, rows]
        trace = forward(self.shape, parameters, x, self.dropout.factors(models, step.models.n_rows), keep=True)
        output = trace.output if self._low is None else trace.output.to(flat.dtype)
        grad_output = self._grad_output(output, y, weights, self._outputs[models, rows]).to(trace.output.dtype)
        backward(self.shape, parameters, trace, grad_output, gradients)
        if self._low is not None:
            body = slice(0, self.layout.n_body)  # embeddings have their gradients in place
            grad[:, body].copy_(self._low[1][models, body])
        if self.gates is not None:
            self.gates.backward(flat, grad, models, uniform)
        self.adam.step(models, step.index, rates)

    def _take_plain_steps(self, plain: PlainStep, crew: slice, block: Block, data: BlockData) -> None:
        """Do what `take_steps` does for some models, in NumPy."""
        own = slice(crew.start, min(crew.stop, block.n_models))
        if own.start >= own.stop:
            return
        plain.load(data.x[own], data.y[own], data.weights[own])
        shares = data.shares[own]
        with np.errstate(all="ignore"):  # a model that diverges is noticed at the end of the epoch
            for step in block.steps:
                models = step.models.within(own)
                if models is None:
                    continue
                n_rows = step.models.n_rows
                plain.run(_from(crew, models), step.start, n_rows, self.dropout.factors(models, n_rows))
                self.adam.step(models, step.index, self._rates_of_steps[step.index])
            for group in block.groups:
                models = group.within(own)
                if models is not None:
                    self._train_loss[models] += plain.train_loss(_from(crew, models), group.n_rows, shares)

    def _fused_step(self, step: Step, data: BlockData, rates: Tensor) -> None:
        """Do what `_step` does, for models without variants on a GPU."""
        n, rows = step.models.end, slice(step.start, step.start + step.models.n_rows)
        read = data.x[:n, rows], data.y[:n, rows], data.weights[:n, rows], self._outputs[:n, rows]
        if isinstance(self._plain_gpu, LayerGpuStep):
            self._plain_gpu.run(*read, self.dropout.states(), rates)
            return
        assert self._plain_gpu is not None
        self._plain_gpu.run(*read, self.dropout.states())
        self.adam.step(slice(0, n), step.index, rates)

    def _make_plain_steps(self) -> None:
        """Prepare the faster ways for models without variants, where there is one."""
        shape, settings, device = self.shape, self.settings, self.flat.device
        self._plain: list[PlainStep] = []  # of each crew
        self._plain_gpu: LayerGpuStep | PlainGpuStep | None = None
        self._networks: Any = None  # of a module that may not be there
        if not is_plain(shape) or self.gates is not None:
            return
        batch_size = self.epochs.batch_size
        if self.in_numpy:
            for own in self.crews.slices:
                self._plain.append(PlainStep(self.layout, self.flat[own], self.grad[own], settings.loss))
            self._rates_of_steps = self.adam.rates.unbind()
            self._train_loss = self.train_loss.numpy()
            self._notes = [getattr(self, name).numpy() for name in _NOTES]
        if self._fused is None or settings.loss.name not in LOSS_KINDS:
            return
        layers = fused_layers(device)
        if layers is not None and LayerGpuStep.can_do(layers, shape, self.adam):
            networks = fused_networks(device) if settings.precision == "float32" else None
            if networks is not None:
                self._networks = networks.networks_for(shape, self.adam, settings.loss, batch_size, self.epochs.n_steps)
            n_rows = batch_size if self._networks is None else 0  # it computes outputs of validation rows either way
            self._plain_gpu = LayerGpuStep(layers, shape, self.adam, settings.loss, n_rows)
        elif self._low is None:
            views = self.layout.padded_views(self.flat), self.layout.padded_views(self.grad)
            self._plain_gpu = PlainGpuStep(self._fused, shape, *views, settings.loss, batch_size)

    def _grad_output(self, output: Tensor, y: Tensor, weights: Tensor, kept: Tensor) -> Tensor:
        """Weighted gradient of the loss by the outputs, which are kept for the mean loss of the epoch."""
        loss = self.settings.loss
        if self._fused is None or loss.name not in LOSS_KINDS:
            kept.copy_(output)
            return loss.gradient(output, y).mul_(weights.unsqueeze(-1))
        gradient = torch.empty_like(output)
        self._fused.loss_gradient(loss.name, loss.setting, output, y, weights, kept, gradient)
        return gradient

    def _step_views(self, models: slice) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Parameters and gradients of some models by name."""
        key = models.start, models.stop
        if key not in self._views:
            flat = self.flat if self.gates is None else self.gates.effective
            low, grad_low = (None, None) if self._low is None else (half[models] for half in self._low)
            self._views[key] = self._mixed_views(flat[models], low), self._mixed_views(self.grad[models], grad_low)
        return self._views[key]

    def _mixed_views(self, flat: Tensor, low: Tensor | None) -> dict[str, Tensor]:
        """Views of `low`, where there is one; only embeddings are always computed as exactly as `flat` is."""
        views = self.layout.views(flat if low is None else low)
        if low is not None and self.shape.embedding is not None:
            exact = self.layout.views(flat)
            views |= {name: exact[name] for name in self.shape.embedding.parameter_shapes()}
        return views

    def end_epoch(self) -> None:
        """Validate, keep what is best so far, see who is done, and write it down."""
        self.epoch += 1
        if self.validation is not None:
            self.validation.begin()
            self.crews.each(functools.partial(self._validate, self.validation))
        if self._plain and len(self.members) == 1:
            self._judge_one()
        else:
            self._judge()
        metric = None if self.validation is None else self.validation.metric
        self.notes.write(
            self.epoch, [self.train_loss, self.val_loss, self.active, *([] if metric is None else [metric])]
        )

    def _judge(self) -> None:
        """Keep what is best so far, and see who is done. Models that are done are not looked at."""
        kernels = None if self._fused is None else fused_epochs(self.flat.device)
        if kernels is not None:
            kernels.keep_best(
                self.train_loss,
                None if self.validation is None else self.val_loss,
                self.epoch,
                self.active,
                self.diverged,
                self.best_loss,
                self.best_epoch,
                self.waited,
                self.flat,
                self.best_flat,
                self.settings.min_delta,
                self.settings.patience,
            )
            return
        finite = torch.isfinite(self.train_loss)
        if self.validation is not None:
            finite &= torch.isfinite(self.val_loss)
        self.diverged |= self.active & ~finite
        self.active &= finite
        if self.validation is not None:
            better = self.active & (self.val_loss < self.best_loss - self.settings.min_delta)
            torch.where(better, self.val_loss, self.best_loss, out=self.best_loss)
        else:
            better = self.active.clone()
        torch.where(better, self.epoch, self.best_epoch, out=self.best_epoch)  # masked_fill_ would wait for a GPU
        torch.where(better.unsqueeze(1), self.flat, self.best_flat, out=self.best_flat)
        self.waited.add_(1).masked_fill_(better, 0)
        if self.settings.patience is not None and self.validation is not None:
            self.active &= self.waited < self.settings.patience

    def _judge_one(self) -> None:
        """Do what `_judge` does for a single model in NumPy, where looking at a number costs next to nothing."""
        active, diverged, best_loss, best_epoch, waited, train_loss, val_loss = self._notes
        validated, patience = self.validation is not None, self.settings.patience
        finite = np.isfinite(train_loss[0]) and (not validated or np.isfinite(val_loss[0]))
        diverged[0] |= active[0] and not finite
        better = active[0] and finite
        active[0] = better
        if validated:
            better = better and val_loss[0] < best_loss[0] - self.settings.min_delta
        waited[0] += 1
        if better:
            best_loss[0] = val_loss[0] if validated else best_loss[0]
            best_epoch[0], waited[0] = int(self.epoch), 0
            self.best_flat.copy_(self.flat)
        if patience is not None and validated:
            active[0] &= waited[0] < patience

    def _validate(self, validation: Validation, crew: int, models: slice) -> None:
        """Add up the losses of the validation rows of a crew's models."""
        if self._plain:
            for piece in validation.pieces(models):
                validation.add(piece, self._plain[crew].outputs(_from(models, piece.models), piece.x))
            return
        flat = self.flat[models] if self.gates is None else self.gates.fixed(self.flat[models], models)
        parameters = self._mixed_views(flat, None if self._low is None else flat.to(self._low[0].dtype))
        for piece in validation.pieces(models):
            if isinstance(self._plain_gpu, LayerGpuStep):
                outputs = self._plain_gpu.outputs(piece.x)
            else:
                own = {name: view[_from(models, piece.models)] for name, view in parameters.items()}
                outputs = forward(self.shape, own, piece.x).output.to(self.flat.dtype)
            validation.add(piece, outputs)

    def run_epoch(self) -> None:
        """Do everything between `load_epoch` and the next question of the host."""
        self.begin_epoch()
        for block in self.epochs.blocks:
            self.take_steps(block, self.load_block(block))
        self.end_epoch()

    def final_weights(self, rows: Sequence[int]) -> Tensor:
        """Best weights of these models with their gates applied, on the CPU: (rows, P)."""
        best = self.best_flat
        if self.gates is not None:
            best = self.gates.fixed(best, slice(0, len(best)))
        if len(rows) < len(best):
            best = best[torch.tensor(rows, dtype=torch.int64, device=best.device)]
        return self.layout.compact(best)


def _from(crew: slice, models: slice) -> slice:
    """Return where `models` stand among those of their crew."""
    return slice(models.start - crew.start, models.stop - crew.start)
