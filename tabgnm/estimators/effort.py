"""How much work a fit does: the meaning of "auto" for candidates, folds, epochs and width.

`docs/recipe.md` explains the figures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tabgnm._printable import shown
from tabgnm.training.settings import torch_device

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

EFFORT_NAMES = ("fast", "default", "best")
SMALL_TABLE = 500  # rows; on smaller tables, k-fold cross-validation is repeated, and batches are smaller
SMALL_TABLE_BATCH = 32


@dataclass(frozen=True)
class Effort:
    """The amount of work of a fit.

    Attributes
    ----------
    n_candidates : int
        The number of candidates.
    n_folds : int
        The number of networks per candidate, each validated on a different fold.
    max_epochs, patience : int
        The epochs of each network.
    n_nodes : int
        The number of nodes of a network; more are used if too few of them would be hidden nodes.
    most_row_epochs : float
        The maximum of rows x epochs; the epochs are reduced for larger tables.
    race_rows : int
        The minimum number of rows for a race of the candidates. On smaller tables, a race costs more time than it
        saves.
    most_networks : int
        The maximum number of networks to keep, which limits the prediction time and the size of a model file.
    n_steps : int
        The approximate number of steps per epoch, if the batch size is within its limits.
    smallest_batch, largest_batch : int
        The limits of the batch size.
    most_weights : float
        Networks with more weights than this get fewer epochs even on small tables; see `for_networks`.
    is_short : bool
        Whether networks are trained with few steps, which uses a different list of candidates.
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
    largest_batch: int
    most_weights: float
    is_short: bool = False

    def for_networks(self, n_weights: int, n_rows: int) -> Effort:
        """Return this effort with fewer epochs and candidates if the networks have many weights."""
        most = self.most_row_epochs * self.most_weights
        work = n_weights * max(n_rows, MIN_ROWS) * self.max_epochs
        if work <= most:
            return self
        epochs = max(MIN_EPOCHS, int(self.max_epochs * most / work))
        too_much = work * epochs / self.max_epochs / most
        return replace(
            self.with_epochs(epochs),
            n_candidates=min(self.n_candidates, max(MIN_CANDIDATES, int(self.n_candidates / max(1.0, too_much)))),
        )

    def with_epochs(self, max_epochs: int) -> Effort:
        """Return this effort with at most `max_epochs` epochs, and a patience that is reduced proportionally."""
        if max_epochs >= self.max_epochs:
            return self
        patience = max(MIN_EPOCHS // 2, round(self.patience * max_epochs / self.max_epochs))
        return replace(self, max_epochs=max_epochs, patience=patience)

    def most_candidates(self, n_folds: int) -> int:
        """Return the maximum number of candidates to keep, given the number of networks per candidate."""
        return max(MIN_KEPT, self.most_networks // n_folds)

    def batch_size(self, n_rows: int) -> int:
        """Return the batch size, a power of 2, for `n_rows` training rows."""
        smallest = self.smallest_batch if n_rows >= SMALL_TABLE else SMALL_TABLE_BATCH
        power = 1 << max(0, (n_rows // self.n_steps).bit_length() - 1)
        return min(max(power, smallest), self.largest_batch)


# A GPU trains many networks in the time of one, so more are trained on it. On a CPU, the time is proportional to their
# number, and networks with 128 nodes are nearly as accurate as those with 256 and three times as fast. Large batches
# hardly save time on a CPU, and large tables get few epochs, so small batches (more steps) improve the networks.
_EFFORTS = {
    ("cpu", "fast"): Effort(
        n_candidates=2,
        n_folds=4,
        max_epochs=100,
        patience=20,
        n_nodes=128,
        most_row_epochs=1.3e6,
        race_rows=2_000,
        most_networks=8,
        n_steps=32,
        smallest_batch=64,
        largest_batch=128,
        most_weights=5e4,
        is_short=True,
    ),
    ("cpu", "default"): Effort(
        n_candidates=8,
        n_folds=5,
        max_epochs=130,
        patience=30,
        n_nodes=128,
        most_row_epochs=2.5e6,
        race_rows=2_000,
        most_networks=25,
        n_steps=32,
        smallest_batch=64,
        largest_batch=128,
        most_weights=5e4,
        is_short=True,
    ),
    ("cpu", "best"): Effort(
        n_candidates=16,
        n_folds=8,
        max_epochs=300,
        patience=60,
        n_nodes=256,
        most_row_epochs=1.0e7,
        race_rows=2_000,
        most_networks=64,
        n_steps=64,
        smallest_batch=32,
        largest_batch=128,
        most_weights=2e5,
    ),
    ("cuda", "fast"): Effort(
        n_candidates=3,
        n_folds=5,
        max_epochs=150,
        patience=30,
        n_nodes=256,
        most_row_epochs=3.0e6,
        race_rows=20_000,
        most_networks=15,
        n_steps=64,
        smallest_batch=32,
        largest_batch=512,
        most_weights=1e6,
    ),
    ("cuda", "default"): Effort(
        n_candidates=9,
        n_folds=8,
        max_epochs=300,
        patience=60,
        n_nodes=256,
        most_row_epochs=6.0e6,
        race_rows=20_000,
        most_networks=32,
        n_steps=64,
        smallest_batch=32,
        largest_batch=512,
        most_weights=1e6,
    ),
    ("cuda", "best"): Effort(
        n_candidates=20,
        n_folds=8,
        max_epochs=400,
        patience=80,
        n_nodes=256,
        most_row_epochs=1.2e7,
        race_rows=20_000,
        most_networks=64,
        n_steps=64,
        smallest_batch=32,
        largest_batch=512,
        most_weights=1e6,
    ),
}
MIN_EPOCHS = 20
MIN_CANDIDATES = 3
MIN_KEPT = 3  # the maximum number of candidates to keep is at least this, regardless of the number of folds
MIN_ROWS = 2000  # with fewer rows, the time of an epoch is assumed not to decrease further
# The maximum number of learned features of all numeric columns together. With many columns, each gets fewer features;
# with more than half as many columns as this, they get none.
MAX_NUMERIC_INPUTS = 400


def effort_for(name: str, device_type: str, n_rows: int) -> Effort:
    """Return the effort for a table with `n_rows` rows on a type of device."""
    effort = _EFFORTS["cpu" if device_type == "cpu" else "cuda", name]
    return effort.with_epochs(max(MIN_EPOCHS, int(effort.most_row_epochs / max(1, n_rows))))


def check_effort(value: object) -> None:
    """Raise unless the value is the name of an effort."""
    if value not in EFFORT_NAMES:
        raise ValueError(f"effort={shown(value)} is not known; use one of {', '.join(map(repr, EFFORT_NAMES))}")


def effort_of(estimator: TabularEstimator, n_rows: int) -> Effort:
    """Return the effort of an estimator for a table with `n_rows` rows."""
    return effort_for(estimator.effort, torch_device(str(estimator.device)).type, n_rows)
