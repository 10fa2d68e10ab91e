"""How much work a fit does: what "auto" means for candidates, folds, epochs and width. The only place that says it.

`docs/recipe.md` explains the figures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

EFFORT_NAMES = ("fast", "default", "best")
SMALL_TABLE = 500  # rows; folds of smaller tables are drawn and trained twice
SMALL_TABLE_BATCH, LARGEST_BATCH = 32, 512


@dataclass(frozen=True)
class Effort:
    """What a fit spends.

    Attributes
    ----------
    n_candidates : int
    n_folds : int
        Networks per candidate, each validated on a fold of its own.
    max_epochs, patience : int
    n_nodes : int
        Nodes of a network, where inputs and outputs leave enough of them free.
    most_row_epochs : float
        Epochs are reduced on large tables, so that rows x epochs is at most this.
    race_rows : int
        Candidates race from so many rows on; below it, a second round would take longer than it saves.
    most_networks : int
        Networks to keep, which bounds the time of predictions and the size of a model file.
    n_steps : int
        Steps of an epoch, roughly, as long as the batches are not too small or large for this.
    smallest_batch : int
    """

    n_candidates: int
    n_folds: int
    max_epochs: int
    patience: int
    n_nodes: int
    most_row_epochs: float
    race_rows: int
    most_networks: int
    n_steps: int
    smallest_batch: int

    def batch_size(self, n_rows: int) -> int:
        """Return the number of rows of a batch, a power of 2, for so many training rows."""
        smallest = self.smallest_batch if n_rows >= SMALL_TABLE else SMALL_TABLE_BATCH
        power = 1 << max(0, (n_rows // self.n_steps).bit_length() - 1)
        return min(max(power, smallest), LARGEST_BATCH)


# A GPU trains many networks in the time of one, so it is given more of them. On a CPU, time grows with each of them;
# networks of 128 nodes are nearly as good as those of 256, and three times as fast.
_EFFORTS = {
    ("cpu", "fast"): Effort(2, 4, 100, 20, 128, 1.0e6, 2_000, 8, 32, 64),
    ("cpu", "default"): Effort(8, 5, 130, 30, 128, 2.5e6, 2_000, 25, 32, 64),
    ("cpu", "best"): Effort(16, 8, 300, 60, 256, 1.0e7, 2_000, 64, 64, 32),
    ("cuda", "fast"): Effort(3, 5, 150, 30, 256, 3.0e6, 100_000, 15, 64, 32),
    ("cuda", "default"): Effort(9, 8, 300, 60, 256, 6.0e6, 20_000, 32, 64, 32),
    ("cuda", "best"): Effort(20, 8, 400, 80, 256, 1.2e7, 20_000, 64, 64, 32),
}
FEWEST_EPOCHS = 20
# Numbers that learned features of all numeric columns together may have: with more columns, each gets fewer.
MOST_NUMERIC_INPUTS = 400


def effort_for(name: str, device_type: str, n_rows: int) -> Effort:
    """Return what a fit on this device to a table with so many rows spends."""
    effort = _EFFORTS["cpu" if device_type == "cpu" else "cuda", name]
    epochs = max(FEWEST_EPOCHS, int(effort.most_row_epochs / max(1, n_rows)))
    if epochs < effort.max_epochs:
        # The patience is the same share of the epochs, but not so short that chance decides.
        patience = max(FEWEST_EPOCHS // 2, round(effort.patience * epochs / effort.max_epochs))
        effort = replace(effort, max_epochs=epochs, patience=patience)
    return effort


def check_effort(value: object) -> None:
    """Raise unless the value is the name of an effort."""
    if value not in EFFORT_NAMES:
        raise ValueError(f"effort={value!r} is not known; use one of {', '.join(map(repr, EFFORT_NAMES))}")
