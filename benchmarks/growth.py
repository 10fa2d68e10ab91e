"""Growth of the cost of an epoch with models, nodes, rows and inputs, compared with the minimum cost (floor)."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any

from benchmarks import ceilings, growth_picture, our_fleet, synthetic
from benchmarks.ceilings import Ceilings
from benchmarks.timing import ROOT, Options, duration, epoch_sampler, median_epoch_times, print_table, ratio
from tabgnm.nn import GNMShape

N_CLASSES = 4


@dataclass(frozen=True)
class Size:
    """One point of a sweep."""

    models: int = 8
    nodes: int = 100
    rows: int = 1400
    inputs: int = 21
    layers: int = 3


SWEEPS: dict[str, dict[str, tuple[int, ...]]] = {
    "cpu": {
        "models": (1, 2, 5, 10, 20, 40),
        "nodes": (50, 100, 200, 400),
        "rows": (350, 700, 1400, 2800, 5600),
        "inputs": (10, 30, 100, 300),
    },
    "cuda": {
        "models": (1, 4, 16, 64, 160, 640),
        "nodes": (50, 100, 200, 400, 800, 1600),
        "rows": (700, 1400, 5600, 22400, 89600),
        "inputs": (10, 30, 100, 300, 1000),
    },
}
QUICK = {"models": (1, 2), "nodes": (50,), "rows": (700,), "inputs": (10,)}
# Inputs are nodes too, so the sweep over inputs needs a graph with enough nodes for the largest number.
NODES_FOR_INPUTS = {"cpu": 400, "cuda": 1100}


def run(options: Options) -> dict[str, Any]:
    top = ceilings.measure(options)
    sweeps: dict[str, list[dict[str, Any]]] = {}
    for what, values in (QUICK if options.quick else SWEEPS[options.device]).items():
        base = Size(nodes=NODES_FOR_INPUTS[options.device]) if what == "inputs" and not options.quick else Size()
        sweeps[what] = [_point(replace(base, **{what: value}), top, options) for value in values]
        _print(what, base, sweeps[what], options)  # immediately, because all of them take minutes
    print(f"  Ceilings: {top.operations / 1e9:,.0f} GFLOP/s; copies in GB/s by size: ", end="")
    print(", ".join(f"{size >> 20} MB {rate / 1e9:,.0f}" for size, rate in top.bytes_by_size.items()))
    year = year_in_a_fresh_process(options)
    picture = growth_picture.draw(sweeps, options)
    if picture is not None:
        print(f"\nWrote {picture}")
    bandwidth = {str(size): rate for size, rate in top.bytes_by_size.items()}
    measured = {"operations_per_second": top.operations, "copied_bytes_per_second_by_size": bandwidth}
    return {"ceilings": measured, "sweeps": sweeps, "year_sized": year}


def _point(size: Size, top: Ceilings, options: Options) -> dict[str, Any]:
    n_val = size.rows // 9
    data = synthetic.classification(size.rows, n_val, size.inputs, N_CLASSES)
    shape = GNMShape(size.inputs, N_CLASSES, n_nodes=size.nodes, n_layers=size.layers)
    sampler = epoch_sampler(our_fleet.trainer(shape, data, size.models, options.device), options)
    time = median_epoch_times({"ours": sampler}, min(3, options.repeats))["ours"]
    work = ceilings.work_of_epoch(shape, size.models, size.rows, n_val)
    return {
        **vars(size),
        "seconds_per_epoch": time.epoch,
        "set_up_seconds": time.set_up,
        "operations": work.operations,
        "bytes_moved": work.bytes_moved,
        "floor_seconds": work.floor(top),
    }


def _print(what: str, base: Size, points: list[dict[str, Any]], options: Options) -> None:
    rows = []
    for point in points:
        epoch, models, floor = point["seconds_per_epoch"], point["models"], point["floor_seconds"]
        work = [f"{point['operations'] / 1e9:.3g}", f"{point['bytes_moved'] / 1e9:.3g}"]
        times = [duration(epoch), duration(epoch / models), *work, duration(floor), ratio(epoch / floor)]
        rows.append([f"{point[what]:,}", *times])
    fixed = ", ".join(f"{value:,} {name}" for name, value in vars(base).items() if name != what)
    header = [what, "epoch", "per model", "GFLOP", "GB", "floor", "epoch / floor"]
    print_table(f"Growth with {what}; {fixed} ({options.device})", header, rows)


def year_in_a_fresh_process(options: Options) -> dict[str, Any]:
    """Run `benchmarks.year_sized` in its own process, because peak memory includes everything a process has done."""
    command = [sys.executable, "-m", "benchmarks.year_sized", options.device, *(["--quick"] if options.quick else [])]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    year = json.loads(done.stdout)
    memory = [f"{year[name] / 1e6:,.0f} MB" if year[name] else "-" for name in ("peak_host_bytes", "peak_gpu_bytes")]
    row = [f"{year['rows']:,} × {year['inputs']}", duration(year["seconds"]), f"{year['table_bytes'] / 1e6:,.0f} MB"]
    header = ["rows × inputs", "one epoch, with set-up", "table", "peak memory", "on the GPU"]
    print_table("Year-sized regression, n=100 K=2, batch 256, one model", header, [[*row, *memory]])
    return year
