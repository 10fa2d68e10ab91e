"""``tabgnm demo``: from a table to a model, its score beside simple ones, and a small machine that can be read."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from tabgnm.cli.fit import chosen_task, fitted, scores_beside_baselines, tell_scores
from tabgnm.cli.options import Reading
from tabgnm.cli.settings import FitSettings
from tabgnm.cli.sparsify import draw, path_table, require_pictures, tell_machine
from tabgnm.cli.tablefiles import open_writer
from tabgnm.cli.terminal import Output
from tabgnm.cli.training_table import Columns, TrainingTable, read_training_table
from tabgnm.training.progress_display import clock

TARGET = "cultivar"
_CULTIVARS = ("Barolo", "Grignolino", "Barbera")  # scikit-learn calls them class_0 to class_2
# A small machine within seconds: one hidden layer, and fewer mixed rows than `tabgnm sparsify` learns from.
_SMALL = {"n_edges": 25, "n_hidden": 8, "n_layers": 2, "n_folds": 2, "n_starts": 1, "n_augmented": 1000}


def run_demo(folder: Path, *, seed: int, epochs: int | None, quiet: bool, as_json: bool) -> None:
    """Fit a table that scikit-learn has, show what came out and write all of it to a folder.

    Parameters
    ----------
    folder : Path
        For the table, the models, the picture and the report; made if it does not exist.
    seed : int
        Seed of all random numbers.
    epochs : int or None
        Passes over the rows; None for those of `effort="fast"`.
    quiet, as_json : bool
        As in all commands.
    """
    out = Output(as_json=as_json)
    picture = folder / "machine.svg"
    require_pictures(picture)
    folder.mkdir(exist_ok=True)
    data, model_path, small_path = (folder / name for name in ("wine.csv", "wine.tabgnm", "small.tabgnm"))
    write_wine(data)
    set_epochs = [] if epochs is None else [f"max_epochs={epochs}"]
    settings = FitSettings.of("auto", set_epochs, {"effort": "fast", "random_state": seed})
    out.text(f"$ tabgnm fit {data} --target {TARGET} --effort fast -o {model_path}", style="bold")
    with out.showing_warnings():
        table = read_training_table(str(data), Reading(None, None, None, None, False), Columns((TARGET,)))
        task, said = chosen_task(settings.task, table, [TARGET])
        out.text(said)
        model, seconds, _ = fitted(settings, task, table, quiet=quiet)
        model.save(model_path)
        rows = scores_beside_baselines(model, table)
        tell_scores(out, model, rows, len(table.X))
        out.text(f"Trained in {clock(seconds)}.\n")
        out.text(f"A machine with at most {_SMALL['n_edges']} edges, distilled from the model:", style="bold")
        small = model.distill(table.X, table.y, random_state=seed, **_SMALL)  # type: ignore[arg-type] # all integers
        small.save(small_path)
        draw(small, picture)
        out.show(path_table(small))
        tell_machine(out, small)
        report = _report(model, small, table, folder / "report.html")
    out.text(f"\nPicture of the small machine: {picture}")
    if report is not None:
        out.text(f"Report: {report}")
    out.text("Try:")
    out.text(f"  tabgnm predict {model_path} {data} --proba | head")
    out.text(f"  tabgnm export {small_path} {folder / 'wine.c'}")
    out.finish(
        {
            "model": str(model_path),
            "accuracy": model.oof_score_,
            "baselines": {row.name: row.score for row in rows if row.name != "this model"},
            "small": str(small_path),
            "edges": small.machine_.n_edges,
            "picture": str(picture),
            "report": None if report is None else str(report),
        }
    )


def write_wine(path: Path) -> None:
    """Write the wines of scikit-learn as a CSV file, with the names of the cultivars."""
    from sklearn.datasets import load_wine

    wine = load_wine(as_frame=True)
    frame = wine.data.assign(**{TARGET: [_CULTIVARS[label] for label in wine.target]})
    with open_writer(path, list(frame.columns)) as writer:
        writer.write(frame)


def _report(model: Any, small: Any, table: TrainingTable, path: Path) -> Path | None:
    """Write the report, where the package has what that needs."""
    if importlib.util.find_spec("jinja2") is None:
        return None
    from tabgnm.report import write_report

    write_report(model, table.X, table.y, path, target_name=TARGET, machine=small)
    return path
