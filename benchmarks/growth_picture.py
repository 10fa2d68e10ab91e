"""The sweeps of `growth` as small multiples: measured time and floor, on logarithmic axes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from benchmarks.timing import Options

MEASURED, FLOOR, TEXT = "#1f5fa8", "#9a9a9a", "#333333"


def draw(sweeps: dict[str, list[dict[str, Any]]], options: Options) -> Path | None:
    """Write `growth-DEVICE.png` to the output folder; without matplotlib, do nothing."""
    if importlib.util.find_spec("matplotlib") is None:
        return None
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    figure = Figure(figsize=(3.0 * len(sweeps), 3.1), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(sweeps), sharey=True, squeeze=False)[0]
    for axis, (what, points) in zip(axes, sweeps.items(), strict=True):
        values = [point[what] for point in points]
        axis.loglog(values, [1e3 * point["seconds_per_epoch"] for point in points], "o-", color=MEASURED, ms=4)
        axis.loglog(values, [1e3 * point["floor_seconds"] for point in points], "--", color=FLOOR, lw=1.2)
        axis.set_xlabel(what, color=TEXT)
        fixed = [f"{points[0][name]:,} {name}" for name in sweeps if name != what]
        axis.set_title(", ".join(fixed), color=TEXT, fontsize=7)
        axis.set_xticks(values, [f"{value:,}" for value in values])
        # Only the measured values and powers of ten are labelled, as plain numbers.
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.yaxis.set_minor_formatter(NullFormatter())
        axis.tick_params(which="minor", bottom=False, left=False)
        axis.tick_params(labelsize=8, colors=TEXT)
        axis.grid(True, axis="y", color="#e6e6e6", lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("ms per epoch of the fleet", color=TEXT)
    what, points = next(iter(sweeps.items()))
    for label, key, color, up in (
        ("measured", "seconds_per_epoch", MEASURED, 9),
        ("floor", "floor_seconds", FLOOR, 22),
    ):
        place = (points[0][what], 1e3 * points[0][key])
        axes[0].annotate(label, place, (0, up), textcoords="offset points", color=color, fontsize=8)
    device = "GPU" if options.device == "cuda" else "CPU"
    figure.suptitle(f"Cost of an epoch, {device}", color=TEXT, fontsize=10)
    path = options.output / f"growth-{options.device}.png"
    figure.savefig(path)
    return path
