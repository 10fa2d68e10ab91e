"""The paper's whole grid on one data set: `tabgnm.paper` compared with the authors' loop over single models.

Wireless (2,000 rows, 7 inputs, 4 classes): 24 networks x 4 ways to train them x 10 folds, for a part of the epochs.
Ours is timed as a whole, including reading, encoding, set-up and evaluation. The authors' loop is timed on one fold of
every network with and without dropout, epochs only, and multiplied; the learning rate does not affect the time. If
Wireless is not available, the generated noisy moons (1,000 rows, 2 inputs) are used, and the table names them.
"""

from __future__ import annotations

import time
from statistics import fmean
from typing import Any

import torch

from benchmarks.authors_loop import AuthorsGNM, authors_mlp, seconds_per_epoch
from benchmarks.synthetic import Rows
from benchmarks.timing import Options, print_table
from tabgnm.nn import GNMShape
from tabgnm.paper import Setting, Unit, run_unit
from tabgnm.paper import data as paper_data
from tabgnm.paper.data import PaperData
from tabgnm.paper.protocol import DROPOUTS, MAX_EPOCHS, MODELS, Body, Source, bodies, folds, trainings

DATA_SET = "wireless"
EPOCHS = {"cpu": 10, "cuda": 300}
AUTHORS_EPOCHS = 2


def run(options: Options) -> dict[str, Any]:
    data = _data(options)
    source = data.source
    setting = Setting(max_epochs=2 if options.quick else EPOCHS[options.device])
    every_fold = tuple(range(2 if options.quick else setting.n_folds))
    networks = [body for model in MODELS for body in bodies(source, model)[0]]
    networks = networks[:1] if options.quick else networks

    fold = next(folds(source.n_rows, setting))
    [encoded] = data.encoded([fold], setting)
    rows = Rows(encoded.table.x, encoded.table.y, torch.as_tensor(fold.train), torch.as_tensor(fold.val))
    found = []
    for body in networks:
        run_unit(Unit(source, Setting(max_epochs=2), body, (0,)), device=options.device)  # compiles kernels on a GPU
        began = time.perf_counter()
        results = run_unit(Unit(source, setting, body, every_fold), device=options.device)
        ours = (time.perf_counter() - began) / (len(results) * setting.max_epochs)
        authors = fmean(_authors_epoch(body, source, rows, dropout, options.device) for dropout in DROPOUTS)
        found.append({"network": str(body), "ours": ours, "authors": authors})
        print(f"{body}: {ours * 1e3:.2f} ms, authors {authors * 1e3:.1f} ms", flush=True)
    mean = {name: fmean(own[name] for own in found) for name in ("ours", "authors")}
    n_trainings = len(found) * len(trainings()) * len(every_fold)
    print_table(
        f"{source.name}: {n_trainings} trainings in {len(every_fold)} folds, {setting.max_epochs} epochs",
        ["", "ms per model and epoch", "minutes for 300 epochs of all"],
        [[name, f"{value * 1e3:.2f}", f"{value * n_trainings * MAX_EPOCHS / 60:.1f}"] for name, value in mean.items()],
    )
    print(f"{mean['authors'] / mean['ours']:.1f}x")
    return {"data": source.name, "networks": found, "mean": mean, "ratio": mean["authors"] / mean["ours"]}


def _data(options: Options) -> PaperData:
    if not options.quick:
        try:
            return paper_data.load(DATA_SET, "paper", None)
        except (OSError, RuntimeError) as error:
            print(f"{error}\nWithout it, the noisy moons are used.")
    return paper_data.load("noisy_moons", "paper", None)


def _authors_epoch(body: Body, source: Source, rows: Rows, dropout: float, device: str) -> float:
    shape = body.shape(source.n_inputs, source.n_outputs)
    if isinstance(shape, GNMShape):
        model: torch.nn.Module = AuthorsGNM(shape.n_inputs, shape.n_outputs, shape.n_nodes, shape.n_layers, dropout)
    else:
        model = authors_mlp([shape.n_inputs, *shape.hidden, shape.n_outputs], dropout)
    return seconds_per_epoch(model, rows, AUTHORS_EPOCHS, device).epoch
