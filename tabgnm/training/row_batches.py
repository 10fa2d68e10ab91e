"""The training rows of every model in a fleet: shuffled, split into batches, and gathered block by block.

Models may have different numbers of rows. They are sorted by this number, most rows first, so that the models that
still have a batch in a step are the first ones: later steps of an epoch are for fewer models. If the last batches of
models have different sizes, the rows beyond the end of a model have weight 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from tabgnm.training import counter_random
from tabgnm.training.data import Table
from tabgnm.training.kernels import kernels_for

ALIGN = 16  # on a GPU, the sizes of matrices are multiples of this


class DeviceTables:
    """All tables of a fleet on the device, concatenated by rows; `x` has further columns behind those of the tables."""

    def __init__(self, tables: Sequence[Table], device: torch.device, dtype: torch.dtype, x_dtype: torch.dtype) -> None:
        self.first_row = [0, *itertools.accumulate(len(table.x) for table in tables)]
        # The kernels of a GPU read aligned rows, see FlatLayout; NumpyStep reads the bias node as a column of ones.
        on_gpu, n_columns = device.type == "cuda", tables[0].x.shape[1]
        n_more = -n_columns % ALIGN if on_gpu else 1
        self.x = torch.empty(self.first_row[-1], n_columns + n_more, dtype=x_dtype, device=device)
        self.x[:, n_columns:] = 0.0 if on_gpu else 1.0
        for table, first in zip(tables, self.first_row, strict=False):  # without a second copy of the table
            self.x[first : first + len(table.x), :n_columns] = table.x
        y = [table.y.to(device=device, dtype=dtype if table.y.is_floating_point() else None) for table in tables]
        self.y = torch.cat(y)


class RowSet:
    """The row numbers of M models, (M, most rows), and the weights of the rows."""

    def __init__(
        self,
        tables: DeviceTables,
        sources: Sequence[int],
        rows: Sequence[Tensor],
        weights: Sequence[Tensor | None],
        dtype: torch.dtype,
    ) -> None:
        device = tables.x.device
        self.tables = tables
        self.sizes = [len(own) for own in rows]
        largest = max(self.sizes)
        self.ids = torch.zeros(len(rows), largest, dtype=torch.int64)
        for i, (source, own) in enumerate(zip(sources, rows, strict=True)):
            self.ids[i, : len(own)] = own + tables.first_row[source]
            # Rows beyond the end have weight 0. They repeat a row of the model: 0 times an infinity of another model's
            # row would be NaN.
            self.ids[i, len(own) :] = self.ids[i, 0]
        self.ids = self.ids.to(device)
        self.weights: Tensor | None = None
        if any(own is not None for own in weights):
            table = torch.zeros(len(rows), largest, dtype=dtype)
            for i, (given, size) in enumerate(zip(weights, self.sizes, strict=True)):
                table[i, :size] = 1.0 if given is None else given
            self.weights = table.to(device)

    def select(self, keep: Tensor) -> None:
        """Keep only these models."""
        self.sizes = [self.sizes[i] for i in keep.tolist()]
        keep, largest = keep.to(self.ids.device), max(self.sizes)
        self.ids = self.ids[keep, :largest].contiguous()
        if self.weights is not None:
            self.weights = self.weights[keep, :largest].contiguous()

    def shares(self, dtype: torch.dtype, batch_size: int | None = None) -> Tensor:
        """Return the share of each row in the mean of its batch, or of all rows if None; 0 beyond a model's end.

        (M, most rows)
        """
        sizes, positions = torch.tensor(self.sizes).unsqueeze(1), torch.arange(self.ids.shape[1])
        batch_size = batch_size or self.ids.shape[1]
        in_batch = (sizes - positions // batch_size * batch_size).clamp(1, batch_size)
        shares = torch.where(positions < sizes, 1.0 / in_batch.to(torch.float64), 0.0)
        return shares.to(device=self.ids.device, dtype=dtype)


@dataclass(frozen=True)
class Batch:
    """One step of an epoch: the positions of its rows in the block, and how many of the first models take part."""

    index: int  # of the step in the epoch
    start: int
    n_rows: int
    n_models: int


@dataclass(frozen=True)
class Block:
    """Steps whose rows are gathered together."""

    n_positions: int
    n_models: int
    batches: tuple[Batch, ...]

    @cached_property
    def pattern(self) -> tuple[tuple[int, int, int], ...]:
        """Return a key that is equal for blocks with the same computation."""
        return tuple((batch.start, batch.n_rows, batch.n_models) for batch in self.batches)


class BlockRows(NamedTuple):
    """What the steps of a block read: rows, targets, weights in the loss of a step and of the epoch, learning rates.

    Rows and targets of blocks with the same pattern lie in the same place.
    """

    x: Tensor  # (M, L, at least m), see DeviceTables
    y: Tensor  # (M, L, ...)
    weights: Tensor  # (M, L)
    shares: Tensor  # (M, L)
    rates: Tensor  # (steps, 3, M, 1), see Adam


class RowBatches:
    """Shuffles and gathers the training rows of M models in each epoch, into buffers with fixed addresses."""

    def __init__(self, rows: RowSet, batch_size: int, block_steps: int, dtype: torch.dtype) -> None:
        self.rows = rows
        self.batch_size = min(batch_size, max(rows.sizes))
        self.n_steps = [-(-size // self.batch_size) for size in rows.sizes]
        device, n_models = rows.ids.device, len(rows.sizes)
        self.blocks = self._cut(block_steps)
        n_positions = max(block.n_positions for block in self.blocks)
        x, y = rows.tables.x, rows.tables.y
        self._x = torch.empty(n_models * n_positions, *x.shape[1:], dtype=x.dtype, device=device)
        self._y = torch.empty(n_models * n_positions, *y.shape[1:], dtype=y.dtype, device=device)
        self._counted = torch.arange(n_positions, device=device)
        # On a GPU, the step at which the next block begins, so that a captured graph serves all equal blocks.
        self.next_step = torch.zeros((), dtype=torch.int64, device=device) if device.type == "cuda" else None
        self.ids = torch.zeros_like(rows.ids)
        self._sizes = torch.tensor(rows.sizes, device=device) if min(rows.sizes) < max(rows.sizes) else None
        # The weight of each position in its step, and in the mean loss of the epoch.
        self._base_step_weights = rows.shares(dtype, self.batch_size)
        self._base_epoch_weights = rows.shares(dtype)
        self.step_weights, self.epoch_weights = self._base_step_weights.clone(), self._base_epoch_weights.clone()

    def _cut(self, block_steps: int) -> list[Block]:
        sizes, n_steps = self.rows.sizes, self.n_steps[0]
        blocks = []
        for first in range(0, n_steps, block_steps):
            batches = []
            for index in range(first, min(first + block_steps, n_steps)):
                position = index * self.batch_size
                n_rows = min(self.batch_size, sizes[0] - position)
                n_models = sum(size > position for size in sizes)
                batches.append(Batch(index, (index - first) * self.batch_size, n_rows, n_models))
            n_positions = batches[-1].start + batches[-1].n_rows
            blocks.append(Block(n_positions, batches[0].n_models, tuple(batches)))
        return blocks

    def shuffle(self, keys: Tensor) -> None:
        """Begin an epoch: draw the order of its rows, from a key per model."""
        order = counter_random.shuffled(keys, self.rows.ids.shape[1], self._sizes)
        torch.gather(self.rows.ids, 1, order, out=self.ids)
        if self.next_step is not None:
            self.next_step.zero_()
        if self.rows.weights is not None:
            weights = self.rows.weights.gather(1, order)
            torch.mul(self._base_step_weights, weights, out=self.step_weights)
            torch.mul(self._base_epoch_weights, weights, out=self.epoch_weights)

    def gather(self, block: Block, rates: Tensor) -> BlockRows:
        """Gather the rows of a block; `rates` are those of the epoch. The buffers are reused for the next block."""
        n, n_positions, first, n_steps = block.n_models, block.n_positions, block.batches[0].index, len(block.batches)
        tables, all_weights = (self.rows.tables.x, self.rows.tables.y), (self.step_weights, self.epoch_weights)
        x, y = (out[: n * n_positions].view(n, n_positions, *out.shape[1:]) for out in (self._x, self._y))
        kernels = kernels_for(x.device, "elementwise")
        if kernels is not None:
            both = self.step_weights.new_empty(2, n, n_positions)
            kernels.gather_block(tables, self.ids, all_weights, self.next_step, self.batch_size, (x, y, both))
            step_weights, epoch_weights = both
        else:
            positions: slice | Tensor = slice(first * self.batch_size, first * self.batch_size + n_positions)
            if self.next_step is not None:
                positions = self.next_step * self.batch_size + self._counted[:n_positions]
            ids, step_weights, epoch_weights = (table[:n, positions] for table in (self.ids, *all_weights))
            for table, out in zip(tables, (x, y), strict=True):
                torch.index_select(table, 0, ids.reshape(-1), out=out.flatten(0, 1))
        own_rates = rates[first : first + n_steps]
        if self.next_step is not None:
            own_rates = rates.flatten(1).index_select(0, self.next_step + self._counted[:n_steps]).view_as(own_rates)
            self.next_step += n_steps
        return BlockRows(x, y, step_weights, epoch_weights, own_rates)
