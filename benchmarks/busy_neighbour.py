"""Fitting a default model while another program keeps a core busy, with one thread and with the default."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

from benchmarks.timing import Options, duration, print_table, ratio, seconds
from tabgnm import GNMClassifier

N_ROWS, N_COLUMNS, N_EPOCHS = 5000, 8, 10
# Ends when this process ends, for whatever reason.
SPIN = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""
ONE, DEFAULT = "one thread", "default"
BESIDE = ", beside a busy process"
RATIOS = ((DEFAULT, ONE), (DEFAULT + BESIDE, ONE), (ONE + BESIDE, ONE), (DEFAULT + BESIDE, ONE + BESIDE))


def run(options: Options) -> dict[str, Any]:
    n_rows, n_epochs = (500, 2) if options.quick else (N_ROWS, N_EPOCHS)
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, N_COLUMNS))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * random.normal(size=n_rows) > 0).astype(int)
    settings: dict[str, Any] = {
        "max_epochs": n_epochs,
        "patience": None,
        "random_state": 0,
        "device": options.device,
    }
    fits: dict[int, dict[str, Callable[[], object]]] = {}
    for n_members in (4, 1):
        model = GNMClassifier(**settings, n_candidates=1, n_folds=n_members)
        fits[n_members] = {ONE: _with_one_thread(model, X, y), DEFAULT: lambda model=model: model.fit(X, y)}
        for fit in fits[n_members].values():
            fit()  # warm-up

    samples: dict[int, dict[str, list[float]]] = {n_members: {} for n_members in fits}
    for _ in range(options.repeats):
        for beside, neighbour in (("", nullcontext()), (BESIDE, _busy_process())):
            with neighbour:
                for n_members, own in fits.items():
                    for name, fit in own.items():
                        taken = seconds(fit, options.device)
                        samples[n_members].setdefault(name + beside, []).append(taken)
    times = {n: {name: statistics.median(taken) for name, taken in own.items()} for n, own in samples.items()}
    ratios = {n: {f"{a} / {b}": own[a] / own[b] for a, b in RATIOS} for n, own in times.items()}

    rows = [[name, *(duration(own[name]) for own in times.values())] for name in times[1]]
    rows += [[name, *(ratio(own[name]) for own in ratios.values())] for name in ratios[1]]
    header = ["", *("1 member" if n == 1 else f"{n} members" for n in times)]
    print_table(
        f"Fit of a default model, {n_rows:,} rows of {N_COLUMNS} numbers, {n_epochs} epochs ({options.device})",
        header,
        rows,
    )
    return {"rows": n_rows, "epochs": n_epochs, "seconds_by_members": times, "ratios_by_members": ratios}


def _with_one_thread(model: GNMClassifier, X: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    if "n_jobs" in model.get_params():
        alone = GNMClassifier(**{**model.get_params(), "n_jobs": 1})
        return lambda: alone.fit(X, y)

    def fit() -> None:
        n_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            model.fit(X, y)
        finally:
            torch.set_num_threads(n_threads)

    return fit


@contextmanager
def _busy_process() -> Iterator[None]:
    """Keep one core busy."""
    process = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        yield
    finally:
        process.kill()
        process.wait()
