"""Epoch times of a GNM and an MLP with equally many parameters, as counted in the paper, each as a fleet of one."""

from __future__ import annotations

from typing import Any

from benchmarks import our_fleet, synthetic
from benchmarks.timing import Options, duration, epoch_sampler, median_epoch_times, print_table, ratio
from tabgnm.nn import GNMShape, MLPShape

COUNTS = {"500k": 500_000, "1m": 1_000_000, "2m": 2_000_000, "3m": 3_000_000}
# Rows for training and validation together, inputs, classes.
DATA_SETS = {
    "Car": (1555, 21, 4),
    "Wireless": (1800, 7, 4),
    "Letter": (18000, 16, 26),
    "Connect4": (60800, 126, 3),
}
N_LAYERS = 3
# The time of an epoch is proportional to its steps; on a CPU, larger sets are timed on a part of their rows and scaled.
MAX_ROWS = {"cpu": 3200, "cuda": 60800}


def gnm_of_size(n_parameters: int, n_inputs: int, n_outputs: int) -> GNMShape:
    """Return the GNM whose number of parameters K n (n - 1) is closest."""
    n_nodes = round((1 + (1 + 4 * n_parameters / N_LAYERS) ** 0.5) / 2)
    return GNMShape(n_inputs, n_outputs, n_nodes=n_nodes, n_layers=N_LAYERS)


def mlp_of_size(n_parameters: int, n_inputs: int, n_outputs: int) -> MLPShape:
    """Return the MLP with two hidden layers of width h whose count h^2 + (m + c + 2) h + c is closest."""
    half = (n_inputs + n_outputs + 2) / 2
    width = round((half**2 + n_parameters - n_outputs) ** 0.5 - half)
    return MLPShape(n_inputs, n_outputs, hidden=(width, width))


def run(options: Options) -> dict[str, Any]:
    counts = {"500k": COUNTS["500k"]} if options.quick else COUNTS
    data_sets = {"Car": DATA_SETS["Car"]} if options.quick else DATA_SETS
    most_rows = 320 if options.quick else MAX_ROWS[options.device]
    cells, rows = [], []
    for name, (n_rows, n_inputs, n_classes) in data_sets.items():
        timed_rows = min(n_rows, most_rows)
        n_val = timed_rows // 10
        data = synthetic.classification(timed_rows - n_val, n_val, n_inputs, n_classes)
        for label, n_parameters in counts.items():
            shapes = {
                "gnm": gnm_of_size(n_parameters, n_inputs, n_classes),
                "mlp": mlp_of_size(n_parameters, n_inputs, n_classes),
            }
            samplers = {
                kind: epoch_sampler(our_fleet.trainer(shape, data, 1, options.device), options)
                for kind, shape in shapes.items()
            }
            times = median_epoch_times(samplers, min(3, options.repeats))
            seconds = {kind: time.epoch * n_rows / timed_rows for kind, time in times.items()}
            cell = {
                "data_set": name,
                "wanted_parameters": n_parameters,
                "timed_rows": timed_rows,
                "n_parameters": {kind: shape.n_parameters() for kind, shape in shapes.items()},
                "n_effective_parameters": {kind: shape.n_effective_parameters() for kind, shape in shapes.items()},
                "seconds_per_epoch": seconds,
                "ratio": seconds["gnm"] / seconds["mlp"],
            }
            cells.append(cell)
            live = cell["n_effective_parameters"]["gnm"]
            sizes = [f"{shapes['gnm'].n_nodes}", f"{shapes['mlp'].hidden[0]}", f"{live:,}"]
            rows.append(
                [f"{name}, {label}", *sizes, *map(duration, (seconds["gnm"], seconds["mlp"])), ratio(cell["ratio"])]
            )
            print(*rows[-1], sep="  ", flush=True)  # immediately, because all of them take minutes
    header = ["data set, parameters", "GNM n", "MLP h", "live in the GNM", "GNM", "MLP", "GNM / MLP"]
    print_table(f"Time per epoch at equal parameter counts, {N_LAYERS} layers ({options.device})", header, rows)
    if any(cell["timed_rows"] < DATA_SETS[cell["data_set"]][0] for cell in cells):
        print(f"  Sets of more than {most_rows:,} rows are timed on {most_rows:,} rows, and scaled to all rows.")
    return {"n_layers": N_LAYERS, "batch_size": 64, "cells": cells}
