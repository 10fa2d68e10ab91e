"""Hyperparameter search: `FleetSearchCV` compared with `GridSearchCV` over skorch and over our own estimator.

The search is over the paper's grid (48 configurations) on Car-sized data in 10 folds. The competitor on the CPU is a
skorch `NeuralNetClassifier` with the same network, batch size, epochs and share of validation rows. Each search is
measured on a part of the 300 epochs, because only the time per epoch differs. With our own estimator, parts of the grid
by the size of the network are measured too: the larger the networks, the fewer are needed to fill a device.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import GridSearchCV, ParameterGrid, StratifiedKFold

from benchmarks import synthetic
from benchmarks.timing import Options, print_table
from tabgnm import FleetSearchCV, GNMClassifier
from tabgnm.nn import GNM

N_ROWS, N_INPUTS, N_CLASSES = 1728, 21, 4
GRID = {
    "n_nodes": [50, 100, 200, 300],
    "n_layers": [2, 3, 4],
    "dropout": [0.0, 0.2],
    "learning_rate": [0.01, 0.001],
}
QUICK_GRID = {"n_nodes": [50], "n_layers": [2], "dropout": [0.0, 0.2], "learning_rate": [0.01, 0.001]}
# (folds, epochs): all folds for the fleet; searches that train models one by one are measured on fewer folds.
SLICES = {
    "cpu": {"fleet": (10, 4), "skorch": (2, 4), "grid": (1, 4)},
    "cuda": {"fleet": (10, 300), "grid": (1, 300)},
}
QUICK_SLICES = {"fleet": (2, 2), "skorch": (2, 2), "grid": (2, 2)}
# If our estimator trains candidates one by one, only every n-th candidate of a size is measured.
GRID_EVERY = {"cpu": 4, "cuda": 1}


def our_estimator(epochs: int, device: str) -> GNMClassifier:
    return GNMClassifier.paper(max_epochs=epochs, device=device, random_state=0)


def skorch_estimator(epochs: int) -> Any:
    from skorch import NeuralNetClassifier
    from skorch.dataset import ValidSplit

    return NeuralNetClassifier(
        GNM,
        criterion=torch.nn.CrossEntropyLoss,
        module__n_inputs=N_INPUTS,
        module__n_outputs=N_CLASSES,
        optimizer=torch.optim.Adam,
        batch_size=64,
        max_epochs=epochs,
        train_split=ValidSplit(0.1, stratified=True, random_state=0),
        verbose=0,
    )


def skorch_grid(grid: dict[str, list[Any]]) -> dict[str, list[Any]]:
    names = {"learning_rate": "lr"}
    return {names.get(name, f"module__{name}"): values for name, values in grid.items()}


def of_sizes(grid: dict[str, list[Any]], sizes: list[int], every: int = 1) -> list[dict[str, list[Any]]]:
    """Return every n-th candidate with networks of these sizes, as a list of grids with one candidate each."""
    candidates = [one for one in ParameterGrid(grid) if one["n_nodes"] in sizes]
    return [{name: [value] for name, value in one.items()} for one in candidates[::every]]


def seconds(search: Any, x: np.ndarray, y: np.ndarray) -> float:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(x, y)
    return time.perf_counter() - began


def run(options: Options) -> dict[str, Any]:
    data = synthetic.classification(N_ROWS, 0, N_INPUTS, N_CLASSES)
    x, y = data.x.numpy().astype(np.float32), data.y.numpy().astype(np.int64)
    grid = QUICK_GRID if options.quick else GRID
    slices = QUICK_SLICES if options.quick else SLICES[options.device]
    n_folds, epochs = slices["fleet"]
    n_own, own_epochs = slices["grid"]
    folds = list(StratifiedKFold(n_folds, shuffle=True, random_state=0).split(x, y))

    def per_fit(search: Any, candidates: list[Any], n_folds: int, epochs: int) -> float:
        """Return the seconds of a search per fit and epoch.

        A short search comes first, to load libraries and compile kernels, which depend on the size of the fleet.
        """
        seconds(search(candidates, folds[:n_folds], 2), x, y)
        return seconds(search(candidates, folds[:n_folds], epochs), x, y) / (len(candidates) * n_folds * epochs)

    def fleet(candidates: list[Any], folds: Any, epochs: int) -> FleetSearchCV:
        return FleetSearchCV(our_estimator(epochs, options.device), candidates, cv=folds, refit=False)

    def one_by_one(candidates: list[Any], folds: Any, epochs: int) -> GridSearchCV:
        return GridSearchCV(our_estimator(epochs, options.device), candidates, cv=folds, refit=False)

    sizes = grid["n_nodes"]
    step = 1 if options.quick else GRID_EVERY[options.device]
    own = {size: per_fit(one_by_one, of_sizes(grid, [size], step), n_own, own_epochs) for size in sizes}
    together: dict[str, tuple[list[int], float]] = {}
    for some in [*([size] for size in sizes), sizes[:2], sizes]:
        candidates = of_sizes(grid, some)
        if str(some) not in together:
            together[str(some)] = some, per_fit(fleet, candidates, n_folds, epochs)
    table = []
    for name, (some, value) in together.items():
        alone = sum(own[size] for size in some) / len(some)
        n_fits = len(of_sizes(grid, some)) * n_folds
        table.append([name, n_fits, f"{alone * 1e3:.3f}", f"{value * 1e3:.4f}", f"{alone / value:.1f}x"])
    print_table(
        f"{n_folds} folds, {epochs} epochs, {N_ROWS} x {N_INPUTS} rows: ms per fit and epoch",
        ["nodes", "fits", "GridSearchCV, our estimator", "FleetSearchCV", "ratio"],
        table,
    )
    whole = together[str(sizes)][1]
    result = {
        "candidates": len(ParameterGrid(grid)),
        "folds": n_folds,
        "epochs": epochs,
        "seconds_per_fit_and_epoch": {
            "GridSearchCV, our estimator": own,
            "FleetSearchCV": {name: value for name, (_, value) in together.items()},
        },
        "ratio_to_our_estimator": {
            name: sum(own[size] for size in some) / len(some) / value for name, (some, value) in together.items()
        },
    }
    if options.device == "cpu":
        n_skorch, skorch_epochs = slices["skorch"]
        peer = GridSearchCV(
            skorch_estimator(skorch_epochs), skorch_grid(grid), cv=folds[:n_skorch], refit=False, scoring="accuracy"
        )
        skorch = seconds(peer, x, y) / (len(ParameterGrid(grid)) * n_skorch * skorch_epochs)
        print(f"whole grid over skorch: {skorch * 1e3:.3f} ms per fit and epoch, {skorch / whole:.1f}x the fleet's")
        result |= {"skorch_seconds_per_fit_and_epoch": skorch, "ratio_to_skorch": skorch / whole}
    return result
