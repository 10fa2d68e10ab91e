"""Time per model and epoch of the paper's networks on Car-sized data: our fleet, authors' loop, JAX, scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import our_fleet, sklearn_mlp, synthetic
from benchmarks.authors_loop import AuthorsGNM, seconds_per_epoch
from benchmarks.synthetic import Rows
from benchmarks.timing import EpochTime, Options, duration, epoch_sampler, median_epoch_times, print_table, ratio
from tabgnm.nn import GNMShape

SIZES = ((50, 2), (100, 3), (300, 3))  # (n, K)
FLEETS = {"cpu": (1, 40), "cuda": (1, 160)}
# JAX multiplies in TF32 by default on a GPU, so both are also measured in TF32 there, for a fair comparison.
OURS = {"cpu": {"ours": "float32"}, "cuda": {"ours": "float32", "ours, tf32": "tf32"}}
SHARDED = "JAX (sharded)"  # each core trains a part of the models; only for fleets
JAX = {"cpu": {"JAX": "highest", SHARDED: "highest"}, "cuda": {"JAX": "highest", "JAX, tf32": "default"}}
OTHERS = {"cpu": ["authors", "scikit-learn"], "cuda": ["authors"]}


def run(options: Options) -> dict[str, Any]:
    data = synthetic.car_sized()
    sizes = SIZES[:1] if options.quick else SIZES
    cells = []
    for n_models in (2,) if options.quick else FLEETS[options.device]:
        row = [_cell(data, n_models, n_nodes, n_layers, options) for n_nodes, n_layers in sizes]
        _print(n_models, row, options.device)
        cells += row
    return {"training_rows": len(data.train), "validation_rows": len(data.val), "batch_size": 64, "cells": cells}


def _cell(data: Rows, n_models: int, n_nodes: int, n_layers: int, options: Options) -> dict[str, Any]:
    """Measure all competitors at one size, alternating between them."""
    device = options.device
    shape = GNMShape(data.x.shape[1], int(data.y.max()) + 1, n_nodes=n_nodes, n_layers=n_layers)
    fleets: dict[str, Callable[[], EpochTime]] = {}  # an epoch of these trains n_models models
    singles: dict[str, Callable[[], EpochTime]] = {}
    compile_seconds = {}

    for name, precision in OURS[device].items():
        fleets[name] = epoch_sampler(our_fleet.trainer(shape, data, n_models, device, precision), options)
    for name, precision in JAX[device].items() if has_jax(device) else ():
        from benchmarks.jax_fleet import JaxFleet

        if name == SHARDED and n_models == 1:
            continue
        fleet = JaxFleet(shape, data, n_models, device, precision, sharded=name == SHARDED)
        fleets[name] = epoch_sampler(fleet.train, options)
        compile_seconds[name] = fleet.compile_seconds
    singles["authors"] = lambda: seconds_per_epoch(
        AuthorsGNM(shape.n_inputs, shape.n_outputs, n_nodes, n_layers), data, 1 if options.quick else 5, device
    )
    if "scikit-learn" in OTHERS[device]:
        singles["scikit-learn"] = epoch_sampler(lambda epochs: sklearn_mlp.train(shape, data, epochs), options)

    times = median_epoch_times(fleets | singles, options.repeats)
    per_model = {name: time.epoch / (n_models if name in fleets else 1) for name, time in times.items()}
    return {
        "n_models": n_models,
        "n_nodes": n_nodes,
        "n_layers": n_layers,
        "seconds_per_model_and_epoch": per_model,
        "ratio_to_ours": {name: value / per_model[like(name)] for name, value in per_model.items()},
        "set_up_seconds": {name: compile_seconds.get(name, time.set_up) for name, time in times.items()},
    }


def like(name: str) -> str:
    """Return which of our times a competitor is compared with: "ours, tf32" for "JAX, tf32"."""
    _, comma, variant = name.partition(",")
    return "ours" + comma + variant


def has_jax(device: str) -> bool:
    try:
        from benchmarks import jax_fleet

        return bool(jax_fleet.jax_devices(device))
    except (ImportError, RuntimeError):  # RuntimeError: JAX is installed, but not for this device
        return False


def _print(n_models: int, cells: list[dict[str, Any]], device: str) -> None:
    def line(label: str, name: str, key: str, write: Callable[[float | None], str]) -> list[str]:
        return [label, *(write(cell[key][name]) if name in cell[key] else "-" for cell in cells)]

    ours, competitors = list(OURS[device]), [*OTHERS[device], *JAX[device]]
    rows = [line(name, name, "seconds_per_model_and_epoch", duration) for name in ours + competitors]
    rows += [line(f"{name} / {like(name)}", name, "ratio_to_ours", ratio) for name in competitors]
    rows += [line(f"set-up of {name}, once", name, "set_up_seconds", duration) for name in ours]
    rows += [line(f"compilation of {name}, once", name, "set_up_seconds", duration) for name in JAX[device]]
    header = ["", *(f"n={cell['n_nodes']} K={cell['n_layers']}" for cell in cells)]
    title = "1 model" if n_models == 1 else f"{n_models} models"
    print_table(f"{title}: time per model and epoch ({device})", header, rows)
