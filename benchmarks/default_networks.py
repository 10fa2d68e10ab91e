"""The network of the ReLU candidate, which the estimators train by default on a GPU, for two synthetic tables."""

from __future__ import annotations

from benchmarks import synthetic
from benchmarks.synthetic import Rows
from tabgnm.nn import EmbeddedShape, GNMShape, InputEmbedding

# Columns of the tables: numbers, and the levels of each category.
TABLES: dict[str, tuple[int, tuple[int, ...]]] = {
    "8 numbers": (8, ()),
    "6 numbers, 8 categories": (6, (12,) * 8),
}
N_CLASSES = 2
BATCH_SIZE = 256
DROPOUT = 0.1


def network(table: str) -> EmbeddedShape:
    """Return the network for a table. A test compares it with that of `GNMClassifier()`."""
    n_numeric, levels = TABLES[table]
    embedding = InputEmbedding(
        n_plain=0,
        n_numeric=n_numeric,
        numeric="periodic",
        n_basis=16,
        numeric_dim=4,
        frequency_scale=0.1,
        levels=levels,
        level_dim=8,
    )
    return EmbeddedShape(embedding, GNMShape(embedding.n_outputs, N_CLASSES, n_nodes=256, n_layers=3, init="kaiming"))


def rows(table: str, *, quick: bool = False) -> Rows:
    """Generate the table."""
    n_train, n_val = (512, 64) if quick else (8192, 1024)
    return synthetic.numbers_and_categories(n_train, n_val, *TABLES[table])
