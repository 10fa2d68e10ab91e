"""The results of `small` as small multiples: error against size, one panel for each data set.

`python -m benchmarks small-picture RESULTS.jsonl PICTURE.svg`
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from benchmarks.small_machines import SIZES

N_COLUMNS = 5
CURVES = {
    "distilled": ("#1f5fa8", "o-", "distilled"),
    "labels": ("#c65b12", "s--", "learned from labels"),
    "tree": ("#8a8a8a", "^:", "decision tree"),
}
LEVELS = {
    "ebm": ("#3a7d44", "-.", "EBM"),
    "linear": ("#8a8a8a", (0, (1, 3)), "linear model"),
    "teacher": ("#1f5fa8", ":", "teacher"),
}


def errors(path: Path) -> dict[str, dict[str, list[float]]]:
    """Return the errors on the folds, by data set and model."""
    found: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if record["kind"] != "stability":
            found[record["slug"]][record["model"]][record["fold"]] = record["error"]
    return {slug: {model: list(folds.values()) for model, folds in own.items()} for slug, own in found.items()}


def draw(results: dict[str, dict[str, list[float]]]) -> Figure:
    n_rows = -(-len(results) // N_COLUMNS)
    figure = Figure(figsize=(2.5 * N_COLUMNS, 2.2 * n_rows + 0.4), layout="constrained")
    FigureCanvasSVG(figure)
    panels = figure.subplots(n_rows, N_COLUMNS, squeeze=False).ravel()
    for panel, (slug, own) in zip(panels, sorted(results.items()), strict=False):
        for kind, (color, style, label) in CURVES.items():
            sizes = [size for size in SIZES if f"{kind} {size}" in own]
            means = [np.mean(own[f"{kind} {size}"]) for size in sizes]
            spreads = [np.std(own[f"{kind} {size}"]) for size in sizes]
            panel.errorbar(sizes, means, spreads, fmt=style, color=color, ms=3.5, lw=1.2, elinewidth=0.7, label=label)
        for model, (color, dashes, label) in LEVELS.items():
            if model in own:
                panel.axhline(float(np.mean(own[model])), color=color, ls=dashes, lw=1.0, label=label)
        _dress(panel, slug)
    for panel in panels[len(results) :]:
        panel.set_visible(False)
    handles: dict[str, Any] = {}
    for panel in panels[: len(results)]:
        handles |= {label: handle for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), frameon=False, fontsize=8
    )
    return figure


def _dress(panel: Any, title: str) -> None:
    panel.set_title(title, fontsize=9)
    panel.set_xscale("log")
    panel.set_xticks(SIZES, [str(size) for size in SIZES])
    panel.minorticks_off()
    panel.tick_params(labelsize=7)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(True, axis="y", color="#e6e6e6", lw=0.6)


def main(arguments: Sequence[str]) -> None:
    results, picture = map(Path, arguments)
    draw(errors(results)).savefig(picture, metadata={"Date": None})
