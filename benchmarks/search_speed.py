"""Hyper-parameter search: `FleetSearchCV` against `GridSearchCV`, over skorch and over our own estimator.

The paper's grid (48 configurations) on Car-sized data in 10 folds. The competitor on the CPU is a skorch
`NeuralNetClassifier` with the same network, batch, epochs and share of validation rows; each search is measured on a
slice of the 300 epochs, as time per epoch is what differs.
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
# (folds, epochs): all folds for the fleet; the slow ones are measured on fewer, and their time is multiplied.
SLICES = {
    "cpu": {"fleet": (10, 4), "skorch": (2, 4), "grid": (1, 4)},
    "cuda": {"fleet": (10, 300), "grid": (1, 300)},
}
QUICK_SLICES = {"fleet": (2, 2), "skorch": (2, 2), "grid": (2, 2)}
# On a GPU single fits take so long that a spread of the grid has to stand for all of it.
GRID_EVERY = {"cpu": 4, "cuda": 12}


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


def every(grid: dict[str, list[Any]], step: int) -> list[dict[str, list[Any]]]:
    """Every step-th candidate of a grid, as a list of grids of one."""
    return [{name: [value] for name, value in one.items()} for one in list(ParameterGrid(grid))[::step]]


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
    n_candidates = len(ParameterGrid(grid))
    n_folds, epochs = slices["fleet"]
    folds = list(StratifiedKFold(n_folds, shuffle=True, random_state=0).split(x, y))

    fleet = FleetSearchCV(our_estimator(epochs, options.device), grid, cv=folds, refit=False)
    warm = FleetSearchCV(our_estimator(1, options.device), QUICK_GRID, cv=folds[:1], refit=False)
    seconds(warm, x, y)  # loads libraries, and compiles kernels on a GPU
    per_epoch = {"FleetSearchCV": seconds(fleet, x, y) / (n_candidates * n_folds * epochs)}
    print(f"fleet: {per_epoch['FleetSearchCV'] * 1e3:.3f} ms per fit and epoch", flush=True)

    step = 1 if options.quick else GRID_EVERY[options.device]
    some = every(grid, step)
    n_own, own_epochs = slices["grid"]
    own = GridSearchCV(our_estimator(own_epochs, options.device), some, cv=folds[:n_own], refit=False)
    per_epoch["GridSearchCV, our estimator"] = seconds(own, x, y) / (len(some) * n_own * own_epochs)
    # The spread of the grid has to be compared with the same candidates, in a fleet of all folds.
    same = FleetSearchCV(our_estimator(epochs, options.device), some, cv=folds, refit=False)
    same_per_epoch = seconds(same, x, y) / (len(some) * n_folds * epochs)

    if options.device == "cpu":
        n_skorch, skorch_epochs = slices["skorch"]
        peer = GridSearchCV(
            skorch_estimator(skorch_epochs), skorch_grid(grid), cv=folds[:n_skorch], refit=False, scoring="accuracy"
        )
        per_epoch["GridSearchCV, skorch"] = seconds(peer, x, y) / (n_candidates * n_skorch * skorch_epochs)

    ours = per_epoch["FleetSearchCV"]
    rows = [[name, f"{value * 1e3:.3f}", f"{value / ours:.1f}x"] for name, value in per_epoch.items()]
    print_table(
        f"{n_candidates} candidates x {n_folds} folds on {N_ROWS} x {N_INPUTS} rows",
        ["search", "ms per fit and epoch", "against the fleet"],
        rows,
    )
    own_time = per_epoch["GridSearchCV, our estimator"]
    print(f"the same {len(some)} candidates: fleet {same_per_epoch * 1e3:.3f} ms, {own_time / same_per_epoch:.1f}x")
    return {
        "candidates": n_candidates,
        "folds": n_folds,
        "epochs": epochs,
        "seconds_per_fit_and_epoch": per_epoch,
        "fleet_on_the_same_candidates": same_per_epoch,
        "ratio_to_our_estimator": own_time / ours,
        "ratio_to_our_estimator_same_candidates": own_time / same_per_epoch,
        "ratio_to_skorch": per_epoch.get("GridSearchCV, skorch", float("nan")) / ours,
    }
