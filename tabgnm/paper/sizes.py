"""Networks of both models with about a given number of parameters, for the comparisons in the paper's figures."""

from __future__ import annotations

from tabgnm.paper.protocol import Body, Model

TARGETS = {"500k": 500_000, "1m": 1_000_000, "2m": 2_000_000, "3m": 3_000_000}
N_LAYERS = 3  # as in the paper's comparison of running times


def body_of_size(model: Model, n_parameters: int, n_inputs: int, n_outputs: int, n_layers: int = N_LAYERS) -> Body:
    """Return the network whose number of parameters, as counted in the paper, is closest to `n_parameters`."""

    def count(width: int) -> int:
        return Body(model, width, n_layers).shape(n_inputs, n_outputs).n_parameters()

    smallest = n_inputs + n_outputs + 1 if model == "gnm" else 1
    low, high = smallest, smallest + 1
    while count(high) < n_parameters:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) < n_parameters else (low, middle)
    width = min((low, high), key=lambda width: abs(count(width) - n_parameters))
    return Body(model, width, n_layers)
