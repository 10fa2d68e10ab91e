"""Our side of the comparisons: a fleet of M equal models, trained for a number of epochs."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.synthetic import Rows
from tabgnm.nn import EmbeddedShape, GNMShape, MLPShape
from tabgnm.nn.losses import CrossEntropy, SquaredError
from tabgnm.training import Fleet, FleetSettings, Member, Table


def trainer(
    shape: GNMShape | MLPShape | EmbeddedShape,
    data: Rows,
    n_models: int,
    device: str,
    precision: str = "float32",
    batch_size: int = 64,
    dropout: float = 0.0,
) -> Callable[[int], object]:
    """Return a function that trains `n_models` new models for a number of epochs, and returns the result."""
    loss = SquaredError() if data.y.is_floating_point() else CrossEntropy()
    table = Table(data.x, data.y)
    members = [
        Member(train=data.train, val=data.val, seed=i, learning_rate=1e-3, dropout=dropout) for i in range(n_models)
    ]

    def train(epochs: int) -> object:
        settings = FleetSettings(
            loss=loss,
            max_epochs=epochs,
            batch_size=batch_size,
            optimizer="adam",
            precision=precision,
            device=device,
        )
        return Fleet(shape, members, settings).fit(table)

    return train
