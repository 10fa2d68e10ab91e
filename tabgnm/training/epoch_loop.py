"""An epoch of M models on one device: shuffle, take the steps, validate, keep the best weights.

All data of an epoch is in buffers with fixed addresses, and nothing is read from the host except tables that were
copied before, so that on a GPU the parts of an epoch, or all of a short one, can be captured as CUDA graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.nn.shapes import Shape
from tabgnm.training import counter_random
from tabgnm.training.adam import Adam
from tabgnm.training.dropout import Dropout
from tabgnm.training.early_stopping import EarlyStopping
from tabgnm.training.epoch_records import EpochRecords
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.gates import Gates
from tabgnm.training.held_out_outputs import HeldOutOutputs
from tabgnm.training.model_state import ModelState
from tabgnm.training.prefetch import Prefetch
from tabgnm.training.row_batches import ALIGN, Block, RowBatches, RowSet
from tabgnm.training.settings import FleetSettings, Member
from tabgnm.training.steps import TrainingStep, choose_step
from tabgnm.training.validation import Validation

# Steps whose rows are gathered together. On a GPU, a block is captured as a graph, which takes the host as long as
# launching its kernels one by one, and only pays if the graph is replayed often.
BLOCK_STEPS = 32
_SHORT_BLOCK_STEPS = 8
_SHORT_EPOCH_STEPS = 256


class EpochLoop:
    """Weights, rows and bookkeeping of M models that are trained in the same steps.

    Members must be in the order of their number of training rows, most first. `val` is None without validation rows.
    """

    def __init__(
        self, shape: Shape, members: Sequence[Member], settings: FleetSettings, train: RowSet, val: RowSet | None
    ) -> None:
        self.shape, self.settings, self.members = shape, settings, list(members)
        device, dtype = train.ids.device, settings.dtype
        gates = any(member.l0 for member in members)
        # Gates are drawn by their position in the buffer, so with gates there is no padding.
        self.layout = FlatLayout(shape, gates=gates, align=ALIGN if device.type == "cuda" and not gates else 1)
        self.flat = self.layout.first_weights(members, device, dtype)
        self.grad = torch.zeros_like(self.flat)
        self.adam = Adam(self.layout, members, settings, self.flat, self.grad)
        self.stopping = EarlyStopping(self.flat, settings, validated=val is not None)
        self.epoch = torch.zeros((), dtype=torch.int64, device=device)
        self._set_models(train, val)
        self.held_out: HeldOutOutputs | None = None
        if self.validation is not None and settings.held_out_outputs:
            weights, n_outputs = self.validation.weights, shape.n_outputs
            if HeldOutOutputs.is_possible(weights.shape[1], n_outputs):
                is_second = torch.zeros_like(weights, dtype=torch.bool)
                is_second[:, 1::2] = True
                for model, member in enumerate(self.members):
                    if member.val_halves is not None:
                        is_second[model, : len(member.val_halves)] = member.val_halves.to(device)
                self.held_out = HeldOutOutputs(settings.loss, weights, is_second, n_outputs)

    def _set_models(self, train: RowSet, val: RowSet | None) -> None:
        """Create everything that depends on the set of models."""
        device, n = self.flat.device, len(self.members)
        self.train_loss = self.flat.new_zeros(n)
        self.gates = Gates(self.layout, self.members, self.flat) if self.layout.gates else None
        self.validation: Validation | None = None  # frees the rows of the models before
        if val is not None:
            self.validation = Validation(val, self.settings, self.flat)
        self._seeds = counter_random.seed_array([member.seed for member in self.members])
        n_steps = -(-max(train.sizes) // self.settings.batch_size)
        is_short = device.type == "cuda" and n_steps <= _SHORT_EPOCH_STEPS
        block_steps = _SHORT_BLOCK_STEPS if is_short else BLOCK_STEPS
        self.batches = RowBatches(train, self.settings.batch_size, block_steps, self.flat.dtype)
        self.dropout = Dropout(self.shape, self.members, self.batches.batch_size, self.flat)
        n_streams = 1 + self.dropout.n_streams + (self.gates is not None)
        self._keys = torch.zeros(n_streams, n, dtype=torch.int64, device=device)
        self._next_keys = Prefetch(self._keys)
        self.adam.allocate_rates(self.batches.n_steps)
        metric = None if self.validation is None else self.validation.metric
        self.val_loss = torch.zeros_like(self.train_loss) if self.validation is None else self.validation.loss
        self._recorded = [self.train_loss, self.val_loss, self.stopping.active, *([] if metric is None else [metric])]
        self.records = EpochRecords(len(self._recorded), self.flat)
        state = ModelState(
            shape=self.shape,
            settings=self.settings,
            layout=self.layout,
            flat=self.flat,
            grad=self.grad,
            adam=self.adam,
            dropout=self.dropout,
            gates=self.gates,
            batch_size=self.batches.batch_size,
            n_threads=self.settings.thread_count(),
        )
        self.step: TrainingStep = choose_step(state)

    def select(self, keep: Tensor) -> None:
        """Keep only these models; the others cost nothing from now on."""
        self.step.close()
        on_device = keep.to(self.flat.device)
        self.members = [self.members[i] for i in keep.tolist()]
        self.flat, self.grad = self.flat[on_device], self.grad[on_device]
        self.adam.select(keep, self.flat, self.grad)
        self.stopping.select(on_device)
        train, val = self.batches.rows, None if self.validation is None else self.validation.rows
        for rows in (train, val):
            if rows is not None:
                rows.select(keep)
        if self.held_out is not None and val is not None:
            self.held_out.select(on_device, max(val.sizes))
        self._set_models(train, val)

    # The parts of an epoch, in order. Only `load_epoch` communicates with the host.

    def load_epoch(self, epoch: int) -> None:
        """Prepare what the host computes for an epoch, counted from 0: keys of the random numbers, and rates."""
        self._next_keys.load(epoch, self._keys_of)
        self.adam.load_epoch(epoch)

    def _keys_of(self, epochs: range) -> NDArray[np.int64]:
        """Return the keys of the random numbers of epochs, (epochs, streams, M)."""
        purposes: list[tuple[int | range, ...]] = [(counter_random.SHUFFLE, epochs)]
        purposes += [(counter_random.DROPOUT, epochs, layer) for layer in range(self.dropout.n_streams)]
        if self.gates is not None:
            purposes.append((counter_random.GATES, epochs))
        return np.stack([counter_random.keys(self._seeds, *purpose) for purpose in purposes], axis=1)

    def begin_epoch(self) -> None:
        """Shuffle, and start the random streams."""
        self._next_keys.pick(self.epoch)
        self.adam.begin_epoch(self.epoch)
        self.train_loss.zero_()
        self.batches.shuffle(self._keys[0])
        if self.dropout.needed:
            self.dropout.start(self._keys[1:])
        if self.gates is not None:
            self.gates.streams.start(self._keys[-1])

    def train_block(self, block: Block) -> None:
        """Take the steps of a block; on a GPU, of the next block, which has the same pattern."""
        self.step.train_block(block, self.batches.gather(block, self.adam.rates), self.train_loss)

    def end_epoch(self) -> None:
        """Validate, keep the best weights so far, determine which models are done, and record the losses."""
        self.epoch += 1
        if self.validation is not None:
            keep = None if self.held_out is None else partial(self.held_out.update, active=self.stopping.active)
            self.validation.measure(self.step.outputs, keep)
        self.stopping.update(self.epoch, self.flat, self.train_loss, self.val_loss)
        self.records.write(self.epoch, self._recorded)

    def run_epoch(self) -> None:
        """Run all parts of an epoch after `load_epoch`."""
        self.begin_epoch()
        for block in self.batches.blocks:
            self.step.train_block(block, self.batches.gather(block, self.adam.rates), self.train_loss)
        self.end_epoch()

    def final_weights(self, models: Sequence[int]) -> Tensor:
        """Return the best weights of these models with their gates applied, on the CPU: (models, P)."""
        best = self.stopping.best_flat
        if self.gates is not None:
            best = self.gates.fixed(best)
        if len(models) < len(best):
            best = best[torch.tensor(models, dtype=torch.int64, device=best.device)]
        return self.layout.compact(best)
