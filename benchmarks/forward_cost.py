"""Time of one forward pass: our compact one compared with the paper's formula with full n x n matrices."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from benchmarks.timing import Options, duration, median_seconds, print_table, ratio
from tabgnm.nn import GNM

N_INPUTS, N_OUTPUTS, N_NODES, BATCH = 16, 26, 300, 64


def literal_forward(adjacency: Tensor, x: Tensor, n_outputs: int) -> Tensor:
    """Compute all n nodes in all K layers; nodes in the order inputs, hidden, bias, outputs.

    Shape
    -----
    - adjacency: (K, n, n), where [k, v, u] is the weight of edge u -> v
    - x: (B, m)
    - output: (B, c)
    """
    n_layers, n_nodes, _ = adjacency.shape
    bias = n_nodes - n_outputs - 1
    states = x.new_zeros(len(x), n_nodes)
    states[:, : x.shape[1]] = x
    states[:, bias] = 1
    for layer in range(n_layers):
        states = states @ adjacency[layer].T
        if layer < n_layers - 1:
            states = torch.relu(states)
        states[:, bias] = 1
    return states[:, bias + 1 :]


def run(options: Options) -> dict[str, Any]:
    cells, rows = [], []
    n_threads = torch.get_num_threads()
    threads = sorted({1, n_threads}) if options.device == "cpu" else [n_threads]
    for n_layers, n in itertools.product((2, 3), threads):
        torch.set_num_threads(n)
        net = GNM(N_INPUTS, N_OUTPUTS, n_nodes=N_NODES, n_layers=n_layers, device=options.device).eval()
        adjacency = net.adjacency()
        x = torch.randn(BATCH, N_INPUTS, device=options.device)
        with torch.no_grad():
            works = {"ours": lambda: net(x), "literal": lambda: literal_forward(adjacency, x, N_OUTPUTS)}  # noqa: B023 - called within this round
            times = median_seconds(works, options)
        arithmetic = n_layers * N_NODES**2 / net.n_effective_parameters()
        cells.append({"n_layers": n_layers, "threads": n, "seconds": times, "ratio": times["literal"] / times["ours"]})
        row = [duration(times["ours"]), duration(times["literal"]), ratio(cells[-1]["ratio"]), ratio(arithmetic)]
        rows.append([f"K={n_layers}, {n} thread{'s' if n > 1 else ''}", *row])
    torch.set_num_threads(n_threads)
    title = f"Forward pass, n={N_NODES}, {N_INPUTS} inputs, {N_OUTPUTS} outputs, batch {BATCH} ({options.device})"
    print_table(title, ["", "ours", "literal", "literal / ours", "by arithmetic alone"], rows)
    return {"n_nodes": N_NODES, "n_inputs": N_INPUTS, "n_outputs": N_OUTPUTS, "batch_size": BATCH, "cells": cells}
