"""Plots of small machines, and of the strongest edges of large networks."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from tabgnm._extras import import_extra
from tabgnm.nn.checks import positive_integer
from tabgnm.plots.axes import (
    DARK_NEGATIVE,
    DARK_POSITIVE,
    FAINT,
    FONT_SIZE,
    INK,
    NEGATIVE,
    POSITIVE,
    PURPOSE,
    axes_or_new,
    shown,
)
from tabgnm.plots.drawn_graph import DrawnGraph, DrawnNode, graph_of_estimator, graph_of_machine
from tabgnm.plots.layered_layout import Layout, layered_layout
from tabgnm.sparsity import Machine

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

_LAYER_WIDTH = 2.3  # inches
_ROW = 0.34
_SMALLEST, _LARGEST = 2.2, 16.0
_MAX_WEIGHTS = 20  # edges that are labelled with their weights
_MAX_NAMED = 14  # hidden units of a layer that are named
_LONGEST_NAME = 36
_LONGEST_HIDDEN_NAME = 16  # which is written among the edges
_BEND = 0.45  # how far edges are horizontal near their ends
_CHARACTER = 0.55 / 72  # width of a character in inches, per point


def plot_graph(
    model: TabularEstimator | Machine, ax: Any = None, *, max_edges: int = 200, show_weights: bool | None = None
) -> Any:
    """Draw a machine as a graph, with inputs on the left and outputs on the right.

    The width and color of an edge show its weight; edges with a negative weight are dashed. Units without incoming
    edges and biases are not drawn. The weights are those of `edges()`.

    Parameters
    ----------
    model : fitted estimator or Machine
        If the estimator has a single machine, as returned by `distill` and `fit_sparse`, the whole machine is drawn.
        Otherwise the network with the largest weight is drawn, without its learned embeddings.
    ax : matplotlib Axes or None, default=None
        The axes to draw on. If None, a new figure is created.
    max_edges : int, default=200
        The maximum number of edges to draw: those on the strongest paths from inputs to outputs, of which each output
        has at least one if `max_edges` allows. The strength of a path is the product of its absolute weights.
    show_weights : bool or None, default=None
        Whether to write weights next to the edges. If None, they are written if there are at most 20 edges.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from tabgnm.plots import plot_graph
    >>> from tabgnm.sparsity import Machine, Unit
    >>> hidden = Unit("h0", 1, (0, 1), (1.0, -1.0), 0.5, "relu")
    >>> output = Unit("y", 2, (2,), (2.0,), 0.0, "identity")
    >>> ax = plot_graph(Machine(("age", "height"), (hidden, output), (3,), ("y",)))
    >>> sorted(text.get_text() for text in ax.texts)
    ['-1', '1', '2', 'age', 'h0', 'height', 'relu', 'y']
    """
    graph = _drawn(model, positive_integer("max_edges", max_edges))
    layout = layered_layout(graph)
    longest = {"hidden": _LONGEST_HIDDEN_NAME}
    names = [shown(node.name, longest.get(node.kind, _LONGEST_NAME)) for node in graph.nodes]
    left = _longest([name for name, node in zip(names, graph.nodes, strict=True) if node.kind == "input"])
    right = _longest([name for name, node in zip(names, graph.nodes, strict=True) if node.kind == "output"])
    room = (left + right) * FONT_SIZE * _CHARACTER + 0.4
    height = min(max(_ROW * layout.tallest + 0.7, _SMALLEST), _LARGEST)
    ax = axes_or_new(ax, _LAYER_WIDTH * (graph.n_layers - 1) + room + 0.4, height)
    size = ax.get_position()
    figure_width, figure_height = ax.figure.get_size_inches()
    ax_width, ax_height = size.width * figure_width, size.height * figure_height
    font = min(FONT_SIZE, max(3.0, 0.8 * 72 * ax_height / (layout.tallest + 2)))

    # Room for names at both sides, as a share of the width of the axes.
    shares = [min(0.4, (own * font * _CHARACTER + 0.2) / ax_width) for own in (left, right)]
    n_steps = max(1, graph.n_layers - 1)
    whole = n_steps / (1 - sum(shares))
    ax.set_xlim(-shares[0] * whole, n_steps + shares[1] * whole)
    ax.set_ylim(-layout.tallest / 2 - 1.0, layout.tallest / 2 + 0.3)
    _draw_edges(ax, graph, layout)
    if len(graph.edges) <= _MAX_WEIGHTS if show_weights is None else show_weights:
        _draw_weights(ax, graph, layout, font, (ax_width / whole, ax_height / (layout.tallest + 1.3)))
    _draw_nodes(ax, graph, layout, names, font)
    _draw_legend(ax, graph, font)
    ax.axis("off")
    return ax


def _drawn(model: Any, max_edges: int) -> DrawnGraph:
    if isinstance(model, Machine):
        return graph_of_machine(model, max_edges)
    from tabgnm.estimators.base import TabularEstimator
    from tabgnm.estimators.machines import NoSingleMachine

    if not isinstance(model, TabularEstimator):
        raise TypeError(
            f"model has type {type(model).__name__}; expected a fitted tabgnm estimator or a tabgnm.sparsity.Machine"
        )
    try:
        machine = model.machine_
    except NoSingleMachine:
        return graph_of_estimator(model, max_edges)
    return graph_of_machine(machine, max_edges)


def _longest(names: list[str]) -> int:
    return max(map(len, names), default=0)


def _draw_edges(ax: Any, graph: DrawnGraph, layout: Layout) -> None:
    patches = import_extra("matplotlib.patches", "plot", PURPOSE)
    largest = max((abs(edge.weight) for edge in graph.edges), default=1.0)
    thin = 0.5 if len(graph.edges) > 60 else 0.8
    # The strongest edges are first; they are drawn last, above the others.
    for edge, route in reversed(list(zip(graph.edges, layout.routes, strict=True))):
        share = abs(edge.weight) / largest
        ax.add_patch(
            patches.PathPatch(
                _curve(route),
                facecolor="none",
                edgecolor=POSITIVE if edge.weight > 0 else NEGATIVE,
                linewidth=thin + (3.2 - thin) * share,
                linestyle="solid" if edge.weight > 0 else (0, (4, 1.6)),
                alpha=0.35 + 0.6 * share,
                capstyle="butt",
                zorder=1,
            )
        )


def _curve(route: list[tuple[float, float]]) -> Any:
    """Return a smooth path through points that leaves and reaches each of them horizontally."""
    path = import_extra("matplotlib.path", "plot", PURPOSE).Path
    vertices, codes = [route[0]], [path.MOVETO]
    for (x0, y0), (x1, y1) in itertools.pairwise(route):
        bend = _BEND * (x1 - x0)
        vertices += [(x0 + bend, y0), (x1 - bend, y1), (x1, y1)]
        codes += [path.CURVE4] * 3
    return path(vertices, codes)


def _draw_weights(ax: Any, graph: DrawnGraph, layout: Layout, font: float, unit: tuple[float, float]) -> None:
    """Write weights onto their edges, each where no other weight stands; weights without such a place are left out.

    `unit` is the size of a layer and of a row in inches.
    """
    n_out = np.bincount([edge.source for edge in graph.edges], minlength=len(graph.nodes))
    n_in = np.bincount([edge.target for edge in graph.edges], minlength=len(graph.nodes))
    size = 0.8 * font
    taken: list[tuple[float, float, float, float]] = []
    for edge, route in zip(graph.edges, layout.routes, strict=True):
        text = f"{edge.weight:.2g}"
        wide, high = (len(text) * size * _CHARACTER + 0.04) / unit[0], (size / 72 + 0.02) / unit[1]
        for x, y in _places(route, at_source=bool(n_out[edge.source] <= n_in[edge.target])):
            if all(abs(x - a) > (wide + w) / 2 or abs(y - b) > (high + h) / 2 for a, b, w, h in taken):
                taken.append((x, y, wide, high))
                color = DARK_POSITIVE if edge.weight > 0 else DARK_NEGATIVE
                box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.85}
                ax.text(x, y, text, fontsize=size, color=color, ha="center", va="center", zorder=2, bbox=box)
                break


def _places(route: list[tuple[float, float]], at_source: bool) -> list[tuple[float, float]]:
    """Return points of an edge, the best ones for its weight first: in the middle, then where fewer edges meet."""
    segments = list(itertools.pairwise(route))
    middle = (len(segments) - 1) / 2
    segments.sort(key=lambda segment: abs(route.index(segment[0]) - middle))
    shares = [0.5, 0.64, 0.36, 0.57, 0.43, 0.71, 0.29, 0.78, 0.22]
    if at_source:
        shares = [1 - share for share in shares]
    places = []
    for (x0, y0), (x1, y1) in segments:
        for share in shares:
            across, up = _bezier((0, _BEND, 1 - _BEND, 1), share), _bezier((0, 0, 1, 1), share)
            places.append((x0 + (x1 - x0) * across, y0 + (y1 - y0) * up))
    return places


def _bezier(points: tuple[float, float, float, float], share: float) -> float:
    rest = 1 - share
    a, b, c, d = points
    return a * rest**3 + 3 * b * rest**2 * share + 3 * c * rest * share**2 + d * share**3


def _draw_nodes(ax: Any, graph: DrawnGraph, layout: Layout, names: list[str], font: float) -> None:
    n_hidden = np.bincount([node.layer for node in graph.nodes if node.kind == "hidden"], minlength=graph.n_layers)
    x = [node.layer for node in graph.nodes]
    halo = [import_extra("matplotlib.patheffects", "plot", PURPOSE).withStroke(linewidth=2, foreground="white")]
    colors = [{"input": "white", "hidden": INK, "output": FAINT}[node.kind] for node in graph.nodes]
    ax.scatter(x, layout.heights, s=(0.9 * font) ** 2, c=colors, edgecolors=INK, linewidths=0.9, zorder=3)
    for node, height, name in zip(graph.nodes, layout.heights, names, strict=True):
        offset, aligned = _name_place(node, font)
        # Names of hidden nodes are written among edges.
        if node.kind != "hidden" or n_hidden[node.layer] <= _MAX_NAMED:
            ax.annotate(
                name,
                (node.layer, height),
                offset,
                textcoords="offset points",
                fontsize=font if node.kind != "hidden" else 0.85 * font,
                color=INK if node.kind != "hidden" else FAINT,
                path_effects=halo,
                **aligned,
            )
    for layer in range(1, graph.n_layers):
        found = {node.function for node in graph.nodes if node.layer == layer and node.kind == "hidden"} - {
            "",
            "identity",
        }
        if found:
            ax.text(
                layer,
                -layout.tallest / 2 - 0.55,
                ", ".join(sorted(found)),
                fontsize=0.85 * font,
                color=FAINT,
                style="italic",
                ha="center",
                va="center",
            )


def _name_place(node: DrawnNode, font: float) -> tuple[tuple[float, float], dict[str, str]]:
    if node.kind == "input":
        return (-0.8 * font, 0), {"ha": "right", "va": "center"}
    if node.kind == "output":
        return (0.8 * font, 0), {"ha": "left", "va": "center"}
    return (0, 0.65 * font), {"ha": "center", "va": "bottom"}


def _draw_legend(ax: Any, graph: DrawnGraph, font: float) -> None:
    lines = import_extra("matplotlib.lines", "plot", PURPOSE)
    handles = [
        lines.Line2D([], [], color=POSITIVE, linewidth=1.8, label="positive weight"),
        lines.Line2D([], [], color=NEGATIVE, linewidth=1.8, linestyle=(0, (4, 1.6)), label="negative weight"),
    ]
    title = None
    if graph.n_left_out:
        title = f"{len(graph.edges):,} edges on the strongest paths; {graph.n_left_out:,} more are not drawn"
    legend = ax.legend(
        handles=handles,
        title=title,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=2,
        frameon=False,
        fontsize=0.9 * font,
        title_fontsize=0.9 * font,
        labelcolor=FAINT,
    )
    legend.get_title().set_color(FAINT)
