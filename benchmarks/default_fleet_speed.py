"""Time per model and epoch of the estimators' default network: our fleet, JAX, and an older checkout of ours."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from benchmarks import ceilings, default_networks, our_fleet
from benchmarks.default_networks import BATCH_SIZE, DROPOUT, TABLES
from benchmarks.fleet_speed import JAX, OURS, SHARDED, has_jax, like
from benchmarks.older_checkout import FleetTask, OlderCheckout
from benchmarks.timing import EpochTime, Options, duration, epoch_sampler, median_epoch_times, print_table, ratio

FLEETS = {"cpu": (1, 25), "cuda": (1, 80)}
PRODUCT = "torch.bmm"
WITH_DROPOUT = f"dropout {DROPOUT}"


def run(options: Options) -> dict[str, Any]:
    fleets = (2,) if options.quick else FLEETS[options.device]
    cells = []
    with ExitStack() as stack:
        before = None if options.before is None else stack.enter_context(OlderCheckout(options.before))
        for table in TABLES:
            row = [_cell(table, n_models, n_models == fleets[-1], before, options) for n_models in fleets]
            _print(table, row, options.device)
            cells += row
    data = default_networks.rows(table, quick=options.quick)
    return {
        "training_rows": len(data.train),
        "validation_rows": len(data.val),
        "batch_size": BATCH_SIZE,
        "before": None if before is None else {"path": str(before.path), "commit": before.commit},
        "cells": cells,
    }


def _cell(
    table: str, n_models: int, with_dropout: bool, before: OlderCheckout | None, options: Options
) -> dict[str, Any]:
    """Measure all competitors on one table at one size of the fleet, alternating between them."""
    device = options.device
    shape, data = default_networks.network(table), default_networks.rows(table, quick=options.quick)
    samplers: dict[str, Callable[[], EpochTime]] = {}
    compile_seconds = {}

    def add_ours(name: str, precision: str, dropout: float = 0.0) -> None:
        train = our_fleet.trainer(shape, data, n_models, device, precision, BATCH_SIZE, dropout)
        samplers[name] = epoch_sampler(train, options)

    def add_jax(name: str, precision: str, dropout: float = 0.0) -> None:
        from benchmarks.jax_fleet import JaxFleet

        sharded = name == SHARDED
        fleet = JaxFleet(shape, data, n_models, device, precision, BATCH_SIZE, dropout=dropout, sharded=sharded)
        samplers[name] = epoch_sampler(fleet.train, options)
        compile_seconds[name] = fleet.compile_seconds

    for name, precision in OURS[device].items():
        add_ours(name, precision)
        if before is not None:
            task = FleetTask(table, n_models, device, precision, 0.0, options.quick, options.seconds_per_sample)
            samplers[name.replace("ours", "before")] = before.sampler(task)
    if with_dropout:
        add_ours(f"ours, {WITH_DROPOUT}", OURS[device]["ours"], DROPOUT)
    if has_jax(device):
        for name, precision in JAX[device].items():
            if n_models > 1 or name != SHARDED:
                add_jax(name, precision)
        if with_dropout:
            add_jax(f"JAX, {WITH_DROPOUT}", JAX[device]["JAX"], DROPOUT)
    if device == "cpu":
        n_nodes = shape.body.n_updated
        samplers[PRODUCT] = ceilings.product_sampler((n_models, BATCH_SIZE, n_nodes, n_nodes), options)

    times = median_epoch_times(samplers, options.repeats)
    gigaflops = {}
    if device == "cpu":
        operations = ceilings.operations_of_embedded_epoch(shape, n_models, len(data.train), len(data.val))
        gigaflops["ours"] = operations / times["ours"].epoch / 1e9
        gigaflops[PRODUCT] = 2 * n_models * BATCH_SIZE * n_nodes**2 / times.pop(PRODUCT).epoch / 1e9
        gigaflops["share"] = gigaflops["ours"] / gigaflops[PRODUCT]
    per_model = {name: time.epoch / n_models for name, time in times.items()}
    return {
        "table": table,
        "n_models": n_models,
        "seconds_per_model_and_epoch": per_model,
        "ratio_to_ours": {name: value / per_model[like(name)] for name, value in per_model.items()},
        "set_up_seconds": {name: compile_seconds.get(name, time.set_up) for name, time in times.items()},
        "gigaflops": gigaflops,
    }


def _print(table: str, cells: list[dict[str, Any]], device: str) -> None:
    def line(label: str, name: str, key: str, write: Callable[[float | None], str]) -> list[str]:
        return [label, *(write(cell[key].get(name)) for cell in cells)]

    names = list(cells[-1]["seconds_per_model_and_epoch"])  # the last cell, which also has dropout
    competitors = [name for name in names if not name.startswith("ours")]
    rows = [line(name, name, "seconds_per_model_and_epoch", duration) for name in names]
    rows += [line(f"{name} / {like(name)}", name, "ratio_to_ours", ratio) for name in competitors]
    rows += [line(f"set-up of {name}, once", name, "set_up_seconds", duration) for name in OURS[device]]
    rows += [
        line(f"compilation of {name}, once", name, "set_up_seconds", duration) for name in JAX[device] if name in names
    ]
    if device == "cpu":
        rows += [line(f"{name}, GFLOP/s", name, "gigaflops", "{:.0f}".format) for name in ("ours", PRODUCT)]
        rows.append(line(f"ours / {PRODUCT}", "share", "gigaflops", "{:.0%}".format))
    header = ["", *(f"{cell['n_models']} model{'s'[: cell['n_models'] > 1]}" for cell in cells)]
    print_table(f"Default network, {table}: time per model and epoch ({device})", header, rows)
    if any(name.startswith("JAX") for name in names):
        print("  JAX draws dropout with jax.random.bernoulli.")
    else:
        print("  JAX is not installed for this device.")
