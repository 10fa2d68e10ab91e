"""The picture that ``tabgnm demo --compare`` writes: decision regions on the moons, and the training curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tabgnm._extras import import_extra

if TYPE_CHECKING:
    from tabgnm.cli.demo_comparison import Problem, Result

CLASS_COLOURS = ("#2b6ca3", "#d9772b")
REGION_COLOURS = ("#a7c3da", "#ffffff", "#f0c8a8")  # sure of one class, undecided, sure of the other
MODEL_COLOURS = {"GNM": "#16202c", "MLP": "#9a5fb5"}
INK, FAINT = "#16202c", "#77828e"
GRID_POINTS = 300
PURPOSE = "drawing the picture of the demo"

STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelcolor": FAINT,
    "axes.edgecolor": "#c5ccd3",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e8ecef",
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "legend.frameon": False,
}


def require_matplotlib() -> None:
    """Raise `MissingExtraError` when there is nothing to draw with."""
    import_extra("matplotlib", "plot", PURPOSE)


def draw_picture(results: list[Result], output: Path) -> None:
    """Draw the results and write them to a PNG file.

    Parameters
    ----------
    results : list of Result
        A GNM and an MLP per problem. The problems with two features get decision regions (first row), all of
        them get training curves (second row).
    output : pathlib.Path
        The file to write.
    """
    matplotlib = import_extra("matplotlib", "plot", PURPOSE)
    figure_module = import_extra("matplotlib.figure", "plot", PURPOSE)
    flat = [result for result in results if result.problem.X_train.shape[1] == 2]
    problems = list({result.problem.name: result.problem for result in results}.values())
    # A Figure of its own, not pyplot's: no window system, and no state left behind.
    with matplotlib.rc_context(STYLE):
        figure = figure_module.Figure(figsize=(9, 7.2), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
        axes = figure.subplots(2, 2, height_ratios=(1.25, 1))
        for ax, result in zip(axes[0], flat, strict=True):
            draw_regions(ax, result)
        for ax, problem in zip(axes[1], problems, strict=True):
            draw_curves(ax, problem, [result for result in results if result.problem is problem])
        figure.savefig(output, dpi=110, format="png")


def draw_regions(ax: Any, result: Result) -> None:
    """Draw the class probabilities over the plane, the decision boundary and the held-out points."""
    problem = result.problem
    points = torch.cat([problem.X_train, problem.X_test])
    low, high = points.amin(dim=0) - 0.3, points.amax(dim=0) + 0.3
    across = torch.linspace(float(low[0]), float(high[0]), GRID_POINTS)
    up = torch.linspace(float(low[1]), float(high[1]), GRID_POINTS)
    plane = torch.cartesian_prod(up, across).flip(1)  # (GRID_POINTS², 2): one row of the picture after another
    with torch.no_grad():
        second_class = result.net(plane).softmax(dim=1)[:, 1].reshape(GRID_POINTS, GRID_POINTS).numpy()
    colours = import_extra("matplotlib.colors", "plot", PURPOSE)
    blend = colours.LinearSegmentedColormap.from_list("classes", REGION_COLOURS)
    # Bands instead of a smooth shade: the steps of confidence can be told apart, and the file stays small.
    bands = np.linspace(0, 1, 11)
    ax.contourf(across.numpy(), up.numpy(), second_class, levels=bands, cmap=blend)
    if second_class.min() < 0.5 < second_class.max():  # an untrained network may have no boundary in sight
        ax.contour(across.numpy(), up.numpy(), second_class, levels=[0.5], colors=INK, linewidths=1.4)
    for label, colour in enumerate(CLASS_COLOURS):
        x, y = problem.X_test[problem.y_test == label].numpy().T
        ax.scatter(x, y, s=20, color=colour, edgecolor="white", linewidth=0.6)
    ax.set_title(f"{result.model} on the {problem.name.lower()}: {result.accuracies[0]:.1%} (first seed)")
    ax.set(xticks=[], yticks=[], xlabel=f"{result.size}, {len(problem.y_test)} held-out rows")
    ax.spines[:].set_visible(False)


def draw_curves(ax: Any, problem: Problem, results: list[Result]) -> None:
    """Draw the training loss over the epochs, one line per network."""
    for result in results:
        losses = np.array(result.losses)  # (seeds, epochs)
        epochs = np.arange(1, losses.shape[1] + 1)
        colour = MODEL_COLOURS[result.model]
        ax.fill_between(epochs, losses.min(axis=0), losses.max(axis=0), color=colour, alpha=0.15, linewidth=0)
        ax.plot(epochs, losses.mean(axis=0), color=colour, linewidth=1.8, label=f"{result.model}, {len(losses)} seeds")
    ax.set_title(f"{problem.name}: training loss")
    ax.set(xlabel="epoch", yscale="log")
    shown = [loss for result in results for loss in np.mean(result.losses, axis=0)]
    few_decades = max(shown) < 30 * min(shown)
    ticker = import_extra("matplotlib.ticker", "plot", PURPOSE)
    ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if few_decades else (1,)))
    ax.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    ax.yaxis.set_minor_locator(ticker.NullLocator())
    ax.grid(visible=True, axis="y")
    ax.set_axisbelow(True)
    ax.tick_params(length=0)
    ax.legend(loc="upper right")
