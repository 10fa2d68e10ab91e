"""The rows of every model in a fleet: shuffled, cut into batches, and gathered block by block on the device.

Models may have different numbers of rows. They are kept in the order of these, so that the models which still have a
batch in a step are the first ones: later steps of an epoch simply work on fewer models, and nobody is updated without
rows. Where the last batches of models have different sizes, a GPU takes rows beyond a model's own end with weight 0. A
CPU takes the step for those with equal sizes together, as sums over other numbers of rows would be rounded differently.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tabgnm.nn.losses import BinaryCrossEntropy, CrossEntropy, Loss
from tabgnm.training import counter_random
from tabgnm.training.fused import fused_kernels
from tabgnm.training.settings import Member

ALIGN = 16  # sides of matrices on a GPU are multiples of this, and a model's row of weights everywhere


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers to learn from: rows `x` (N, m) and targets `y`, (N,) class numbers or (N, c) numbers."""

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        for name in ("x", "y"):
            object.__setattr__(self, name, torch.as_tensor(getattr(self, name)))
        if self.x.dim() != 2:
            raise ValueError(f"x has shape {tuple(self.x.shape)}; expected (rows, features)")
        if len(self.x) == 0:
            raise ValueError("x has no rows; expected at least one")
        if self.y.dim() == 0 or len(self.y) != len(self.x):
            n_targets = len(self.y) if self.y.dim() else 0
            raise ValueError(f"x has {len(self.x)} rows but y has {n_targets} targets; expected as many")
        if not torch.isfinite(self.x).all():
            row, column = (int(i) for i in (~torch.isfinite(self.x)).nonzero()[0])
            value = self.x[row, column].item()
            raise ValueError(f"x[{row}, {column}] is {value}; expected finite numbers: impute or drop such rows first")


def row_weights(member: Member, loss: Loss, table: Table, rows: Tensor) -> Tensor | None:
    """Weights of a model's rows from its sample and class weights, scaled to a mean of 1; None if it has none."""
    if member.sample_weight is None and member.class_weight is None:
        return None
    weights = torch.ones(len(rows), dtype=torch.float64)
    if member.sample_weight is not None:
        given = torch.as_tensor(member.sample_weight, dtype=torch.float64)
        if given.shape != (len(table.x),):
            raise ValueError(
                f"sample_weight has shape {tuple(given.shape)}; expected ({len(table.x)},): one weight per row"
            )
        weights = weights * given[rows]
    if member.class_weight is not None:
        given = torch.as_tensor(member.class_weight, dtype=torch.float64)
        classes = _class_numbers(loss, table.y)
        n_classes = 2 if isinstance(loss, BinaryCrossEntropy) else int(classes.max()) + 1
        if given.dim() != 1 or len(given) < n_classes:
            raise ValueError(f"class_weight has shape {tuple(given.shape)}; expected one weight for each class")
        weights = weights * given[classes[rows]]
    if not torch.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample or class weights are negative or not finite; expected numbers >= 0")
    total = weights.sum()
    if total == 0:
        raise ValueError("all rows of a model have weight 0; expected at least one positive weight")
    return weights * (len(rows) / total)


def _class_numbers(loss: Loss, y: Tensor) -> Tensor:
    if isinstance(loss, CrossEntropy):
        return y
    if isinstance(loss, BinaryCrossEntropy) and y.shape[-1] == 1 and torch.isin(y, y.new_tensor([0.0, 1.0])).all():
        return y[:, 0].long()
    raise ValueError(
        f"class_weight was given with the {loss.name} loss; it is for cross-entropy, or binary cross-entropy with one "
        "output: use sample_weight instead"
    )


def member_rows(member: Member, table: Table, which: str) -> Tensor:
    """Return the training or validation rows of a model, checked."""
    given = getattr(member, which)
    if given is None:
        return torch.arange(len(table.x)) if which == "train" else torch.arange(0)
    rows = torch.as_tensor(given)
    if rows.dtype == torch.bool or rows.is_floating_point() or rows.dim() != 1:
        raise ValueError(
            f"{which} rows have dtype {rows.dtype} and shape {tuple(rows.shape)}; expected a 1-D tensor of integers"
        )
    if len(rows) == 0:
        remedy = "; use val=None for no validation" if which == "val" else ""
        raise ValueError(f"a model has no {which} rows; expected at least one{remedy}")
    if int(rows.min()) < 0 or int(rows.max()) >= len(table.x):
        raise ValueError(
            f"{which} rows lie in [{int(rows.min())}, {int(rows.max())}]; expected 0 to {len(table.x) - 1}, the rows "
            "of the table"
        )
    return rows.long()


class Tables:
    """All tables of a fleet one below the other on the device."""

    def __init__(self, tables: Sequence[Table], device: torch.device, dtype: torch.dtype, x_dtype: torch.dtype) -> None:
        x = torch.cat([table.x.to(device=device, dtype=x_dtype) for table in tables])
        # On a GPU zeros are added for the matrix kernels; see FlatLayout.
        self.n_columns = x.shape[1]
        self.x = F.pad(x, (0, -self.n_columns % ALIGN)) if device.type == "cuda" else x
        y = [table.y.to(device=device, dtype=dtype if table.y.is_floating_point() else None) for table in tables]
        self.y = torch.cat(y)
        lengths = [len(table.x) for table in tables]
        self.first_row = [sum(lengths[:i]) for i in range(len(lengths))]


class RowSet:
    """Padded row numbers of M models, with their weights."""

    def __init__(
        self,
        tables: Tables,
        sources: Sequence[int],
        rows: Sequence[Tensor],
        weights: Sequence[Tensor | None],
        dtype: torch.dtype,
    ) -> None:
        device = tables.x.device
        self.tables = tables
        self.sizes = [len(r) for r in rows]
        largest = max(self.sizes)
        self.ids = torch.zeros(len(rows), largest, dtype=torch.int64)
        for i, (source, own) in enumerate(zip(sources, rows, strict=True)):
            self.ids[i, : len(own)] = own + tables.first_row[source]
            # Rows beyond the end count 0; they are the model's own, as 0 times another one's infinity would be NaN.
            self.ids[i, len(own) :] = self.ids[i, 0]
        self.ids = self.ids.to(device)
        self.weights: Tensor | None = None
        if any(w is not None for w in weights):
            table = torch.zeros(len(rows), largest, dtype=dtype)
            for i, (given, size) in enumerate(zip(weights, self.sizes, strict=True)):
                table[i, :size] = 1.0 if given is None else given
            self.weights = table.to(device)

    def select(self, keep: Tensor) -> None:
        """Keep these models only."""
        self.sizes = [self.sizes[i] for i in keep.tolist()]
        keep, largest = keep.to(self.ids.device), max(self.sizes)
        self.ids = self.ids[keep, :largest].contiguous()
        if self.weights is not None:
            self.weights = self.weights[keep, :largest].contiguous()

    @property
    def ragged(self) -> bool:
        """Whether models have different numbers of rows."""
        return min(self.sizes) < max(self.sizes)

    def shares(self, dtype: torch.dtype) -> Tensor:
        """Return 1 / size for a model's own rows and 0 beyond, (M, largest)."""
        sizes = torch.tensor(self.sizes, device=self.ids.device).unsqueeze(1)
        own = torch.arange(self.ids.shape[1], device=self.ids.device) < sizes
        return own.to(dtype) / sizes.to(dtype)


@dataclass(frozen=True)
class Group:
    """Models next to each other with the same number of rows."""

    first: int
    end: int
    n_rows: int

    def within(self, models: slice) -> slice | None:
        """Return those that are among `models`, or None if none is."""
        first, end = max(self.first, models.start), min(self.end, models.stop)
        return slice(first, end) if first < end else None


def groups_of(n_rows: Sequence[int]) -> tuple[Group, ...]:
    """Group models by their numbers of rows; those without any are left out."""
    groups, first = [], 0
    for own, models in itertools.groupby(n_rows):
        end = first + len(list(models))
        if own:
            groups.append(Group(first, end, own))
        first = end
    return tuple(groups)


@dataclass(frozen=True)
class Step:
    """One step of an epoch: its rows, as positions within the block, and the models that take part."""

    index: int  # in the epoch
    start: int
    models: Group


@dataclass(frozen=True)
class Block:
    """Steps whose rows are gathered together, and how many of these rows are which models' own."""

    first_position: int
    n_positions: int
    n_models: int
    n_steps: int
    steps: tuple[Step, ...]  # in their order; one may stand there several times, for groups of models
    groups: tuple[Group, ...]

    @property
    def pattern(self) -> tuple[tuple[int, Group], ...]:
        """Return what has to be equal for two blocks to run the same computation."""
        return tuple((step.start, step.models) for step in self.steps)


class Epochs:
    """Shuffles and gathers the training rows of M models, epoch by epoch, into buffers that stay where they are."""

    def __init__(self, rows: RowSet, batch_size: int, block_steps: int, dtype: torch.dtype) -> None:
        self.rows = rows
        self.batch_size = min(batch_size, max(rows.sizes))
        self.n_steps = [-(-size // self.batch_size) for size in rows.sizes]
        if sorted(rows.sizes, reverse=True) != rows.sizes:
            raise ValueError("models have to be ordered by their number of rows, most first")
        device, n_models = rows.ids.device, len(rows.sizes)
        self.blocks = self._cut(block_steps, padded=device.type == "cuda")
        n_positions = max(block.n_positions for block in self.blocks)
        x, y = rows.tables.x, rows.tables.y
        self._x = torch.empty(n_models * n_positions, *x.shape[1:], dtype=x.dtype, device=device)
        self._y = torch.empty(n_models * n_positions, *y.shape[1:], dtype=y.dtype, device=device)
        self.ids = torch.zeros_like(rows.ids)
        self._sizes = torch.tensor(rows.sizes, device=device) if rows.ragged else None
        # What each position counts in its step, and in the mean loss of the epoch.
        self._base_step_weights = self._step_shares(dtype)
        self._base_epoch_weights = rows.shares(dtype)
        self.step_weights, self.epoch_weights = self._base_step_weights.clone(), self._base_epoch_weights.clone()

    def _step_shares(self, dtype: torch.dtype) -> Tensor:
        sizes = torch.tensor(self.rows.sizes).unsqueeze(1)
        position = torch.arange(self.rows.ids.shape[1]).unsqueeze(0)
        start = position // self.batch_size * self.batch_size
        in_batch = (sizes - start).clamp(max=self.batch_size).clamp(min=1)
        shares = torch.where(position < sizes, 1.0 / in_batch.to(torch.float64), 0.0)
        return shares.to(device=self.rows.ids.device, dtype=dtype)

    def _cut(self, block_steps: int, *, padded: bool) -> list[Block]:
        """Cut an epoch into blocks; `padded` steps take all models at once, whatever their numbers of rows."""
        n_steps, sizes = self.n_steps[0], self.rows.sizes
        blocks = []
        for first in range(0, n_steps, block_steps):
            steps = []
            for index in range(first, min(first + block_steps, n_steps)):
                before = index * self.batch_size
                groups = groups_of([min(self.batch_size, max(0, size - before)) for size in sizes])
                if padded:
                    groups = (Group(0, groups[-1].end, groups[0].n_rows),)
                steps += [Step(index, (index - first) * self.batch_size, group) for group in groups]
            most, before = self.batch_size * block_steps, first * self.batch_size
            groups = groups_of([min(most, max(0, size - before)) for size in sizes])
            n_own_steps = min(block_steps, n_steps - first)
            blocks.append(Block(before, groups[0].n_rows, groups[-1].end, n_own_steps, tuple(steps), groups))
        return blocks

    def shuffle(self, keys: Sequence[int] | Tensor) -> None:
        """Draw the order of an epoch from a key per model."""
        order = counter_random.shuffled(keys, self.rows.ids.shape[1], self._sizes, self.rows.ids.device)
        torch.gather(self.rows.ids, 1, order, out=self.ids)
        if self.rows.weights is not None:
            weights = self.rows.weights.gather(1, order)
            torch.mul(self._base_step_weights, weights, out=self.step_weights)
            torch.mul(self._base_epoch_weights, weights, out=self.epoch_weights)

    def gather(self, block: Block) -> tuple[Tensor, Tensor]:
        """Fetch the rows of a block: x (M, L, m or aligned) and y (M, L, ...); buffers may be used again."""
        n, m = block.n_positions, block.n_models
        ids = self.ids[:m, block.first_position : block.first_position + n].reshape(-1)
        tables = self.rows.tables
        kernels = fused_kernels(ids.device)
        if kernels is not None:
            return kernels.gather_rows(tables.x, ids).view(m, n, -1), tables.y[ids].view(m, n, *tables.y.shape[1:])
        x, y = self._x[: m * n], self._y[: m * n]
        torch.index_select(tables.x, 0, ids, out=x)
        torch.index_select(tables.y, 0, ids, out=y)
        return x.view(m, n, -1), y.view(m, n, *y.shape[1:])
