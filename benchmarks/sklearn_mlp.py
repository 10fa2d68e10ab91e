"""scikit-learn's MLPClassifier with the size of the MLP that a dense GNM equals: K - 1 hidden layers of n - 1 units."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from benchmarks.synthetic import Rows
from tabgnm.nn import GNMShape


def train(shape: GNMShape, data: Rows, epochs: int, batch_size: int = 64) -> MLPClassifier:
    """Train for exactly `epochs` epochs, without validation, which saves a little work."""
    model = MLPClassifier(
        hidden_layer_sizes=(shape.n_nodes - 1,) * (shape.n_layers - 1),
        batch_size=batch_size,
        solver="adam",
        learning_rate_init=1e-3,
        alpha=0.0,
        max_iter=epochs,
        tol=0.0,
        n_iter_no_change=epochs,
        early_stopping=False,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the epochs are fixed on purpose
        return model.fit(data.x[data.train].numpy(), data.y[data.train].numpy())
