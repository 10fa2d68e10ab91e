"""The cost of faster arithmetic: loss and accuracy on held-out rows after training in each precision."""

from __future__ import annotations

import statistics
from typing import Any

import torch
from sklearn.datasets import load_breast_cancer, load_digits

from benchmarks.timing import Options, duration, print_table, seconds
from tabgnm.nn import GNMShape
from tabgnm.nn.losses import CrossEntropy
from tabgnm.training import Fleet, FleetSettings, Member, Table

PRECISIONS = {"cpu": ("float64", "float32"), "cuda": ("float64", "float32", "tf32", "bf16")}
DATA_SETS = {"digits": load_digits, "breast cancer": load_breast_cancer}
N_SEEDS, EPOCHS = 20, 100


def run(options: Options) -> dict[str, Any]:
    n_seeds, epochs = (2, 3) if options.quick else (N_SEEDS, EPOCHS)
    cells, rows = [], []
    for name, load in DATA_SETS.items():
        table = _table(load)
        # Each seed holds out a different fifth of the rows, the same in every precision.
        members = []
        for seed in range(n_seeds):
            order = torch.randperm(len(table.x), generator=torch.Generator().manual_seed(seed))
            n_val = len(order) // 5
            members.append(Member(train=order[n_val:], val=order[:n_val], seed=seed, learning_rate=1e-3))
        shape = GNMShape(table.x.shape[1], int(table.y.max()) + 1, n_nodes=150, n_layers=3)
        for precision in PRECISIONS[options.device]:
            settings = FleetSettings(
                loss=CrossEntropy(), max_epochs=epochs, batch_size=64, precision=precision, device=options.device
            )
            fleet, results = Fleet(shape, members, settings), []
            taken = seconds(lambda f=fleet, t=table, r=results: r.append(f.fit(t)), options.device)
            result = results[0]
            losses = [model.history.val_loss[-1] for model in result.models]
            best = [model.history.best_val_loss for model in result.models]
            outputs = result.predict(table.x.float())
            hits = [
                (own[member.val].argmax(dim=-1) == table.y[member.val]).double().mean().item()
                for own, member in zip(outputs, members, strict=True)
            ]
            cell = {
                "data_set": name,
                "precision": precision,
                "val_loss": losses,
                "best_val_loss": best,
                "accuracy": hits,
            }
            cells.append(cell | {"seconds": taken})
            rows.append([f"{name}, {precision}", *map(_spread, (losses, best, hits)), duration(taken)])
    header = ["data set, precision", "last loss", "best loss", "accuracy", "time of the fit"]
    title = f"Held-out rows, n=150 K=3, {epochs} epochs, mean of {n_seeds} seeds ± standard error ({options.device})"
    print_table(title, header, rows)
    return {"epochs": epochs, "n_seeds": n_seeds, "cells": cells}


def _table(load: Any) -> Table:
    x, y = load(return_X_y=True)
    x = torch.as_tensor(x)
    x = (x - x.mean(dim=0)) / x.std(dim=0).clamp(min=1e-12)
    return Table(x, torch.as_tensor(y).long())


def _spread(values: list[float]) -> str:
    error = statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.4f} ± {error:.4f}"
