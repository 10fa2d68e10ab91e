"""Speed of pruned networks: compiled machines compared with the dense network, and one row in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.export_speed import N_EDGES, random_program
from benchmarks.timing import Options, duration, median_seconds, print_table
from tabgnm.export.python_machine import machine_source
from tabgnm.nn import GNM
from tabgnm.sparsity import CompiledMachine, simplified, unrolled

N_NODES, N_LAYERS, N_INPUTS, N_ROWS = 300, 4, 30, 1024
SHARES = (0.01, 0.1)


def run(options: Options) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N_ROWS, N_INPUTS, generator=generator)
    inputs = x.numpy()
    results: dict[str, Any] = {}
    rows = []
    for share in SHARES:
        network = pruned_network(share, generator)
        compiled = CompiledMachine(simplified(unrolled(network)))
        np.testing.assert_allclose(compiled.run(inputs), network(x).detach().numpy(), rtol=1e-3, atol=1e-4)

        def dense(network: GNM = network) -> None:
            with torch.inference_mode():
                network(x)

        times = median_seconds({"dense": dense, "compiled": lambda compiled=compiled: compiled.run(inputs)}, options)
        results[f"{share:.0%}"] = times | {"edges": compiled.machine.n_edges}
        ratio = times["dense"] / times["compiled"]
        edges = f"{compiled.machine.n_edges:,}"
        rows.append([f"{share:.0%}", edges, duration(times["dense"]), duration(times["compiled"]), f"{ratio:.1f}x"])
    title = f"n={N_NODES}, K={N_LAYERS}, {N_ROWS:,} rows: a pruned network, dense and as a compiled machine"
    print_table(title, ["edges kept", "of them live", "dense", "compiled", "faster"], rows)

    program = random_program("relu")
    namespace: dict[str, Any] = {"__name__": "model"}
    exec(compile(machine_source(program, []), "model.py", "exec"), namespace)  # the exported file, as a user runs it
    row = dict.fromkeys((f"column_{place}" for place in range(20)), 0.5)
    one = median_seconds({"row": lambda: namespace["predict_row"](row)}, options)["row"]
    print_table("One row in exported plain Python", ["edges", "time"], [[N_EDGES, duration(one)]])
    return {"pruned": results, "python_row": one}


def pruned_network(share: float, generator: torch.Generator) -> GNM:
    """Return a network with this share of its edges.

    The edges are between some of the nodes only, like those that a penalty leaves; few edges between random nodes would
    lead to an output.
    """
    network = GNM(N_INPUTS, 1, n_nodes=N_NODES, n_layers=N_LAYERS, init="kaiming", generator=generator)
    used = min(1.0, 3 * share**0.5)
    node = torch.rand(N_NODES, generator=generator) < used
    node[-1] = True  # the output
    edge = torch.rand(N_LAYERS, N_NODES, N_NODES, generator=generator) < share / used**2
    network.set_adjacency(network.adjacency().detach() * (edge & node & node[:, None]))
    return network
