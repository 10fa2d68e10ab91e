"""The pictures of the experiments, with matplotlib."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tabgnm._extras import import_extra
from tabgnm.nn import NotMultipartite
from tabgnm.nn.graphs import mlp_graph
from tabgnm.paper.curves import Curve
from tabgnm.paper.runtime import Runtime
from tabgnm.paper.sparse import SparseMachine
from tabgnm.paper.summary import Cell

PURPOSE = "drawing the picture of an experiment"
COLOURS = {"gnm": "#2b6ca3", "mlp": "#d9772b"}
INK, FAINT = "#16202c", "#77828e"
_KIND_COLOURS = {"input": "#a7c3da", "hidden": "#ffffff", "bias": "#e8ecef", "output": "#f0c8a8"}
_FAR = 10.0  # standard deviations
_STYLE = {
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": FAINT,
    "axes.edgecolor": "#c5ccd3",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "legend.frameon": False,
}


def require_matplotlib() -> None:
    """Raise `MissingExtraError` if matplotlib is not installed."""
    import_extra("matplotlib", "plot", PURPOSE)


@contextmanager
def _figure(path: Path, n_rows: int, n_columns: int, size: tuple[float, float]) -> Iterator[Any]:
    """Yield axes, and save the figure at the end; no window system is needed."""
    figure_module: Any = import_extra("matplotlib.figure", "plot", PURPOSE)
    matplotlib: Any = import_extra("matplotlib", "plot", PURPOSE)
    with matplotlib.rc_context(_STYLE):
        figure = figure_module.Figure(figsize=(size[0] * n_columns, size[1] * n_rows), layout="constrained")
        yield figure.subplots(n_rows, n_columns, squeeze=False)
        figure.savefig(path, dpi=150)


def draw_tables(cells: Sequence[Cell], path: Path) -> None:
    """Draw the difference of each cell from the paper, in units of the paper's standard deviation."""
    known = [cell for cell in cells if cell.difference is not None]
    labels = list(dict.fromkeys(cell.label for cell in known))
    with _figure(path, 1, 1, (8.0, max(2.0, 0.35 * len(labels) + 1))) as axes:
        axis = axes[0, 0]
        axis.axvspan(-2, 2, color="#e8ecef", zorder=0)
        axis.axvline(0, color=FAINT, linewidth=1)
        for model, shift in (("gnm", 0.12), ("mlp", -0.12)):
            own = [cell for cell in known if cell.model == model]
            places = [len(labels) - 1 - labels.index(cell.label) + shift for cell in own]
            for cell, place in zip(own, places, strict=True):
                gain = cell.difference or 0.0
                # Values that are very far away are arrows at the edge; the table has their numbers.
                shape = "o" if abs(gain) <= _FAR else "<" if gain < 0 else ">"
                # If the paper's standard deviation is 0, only the sign is known.
                fill = COLOURS[model] if math.isfinite(gain) else "white"
                where = max(-_FAR, min(_FAR, gain))
                axis.scatter([where], [place], marker=shape, color=fill, edgecolors=COLOURS[model], zorder=2)
            axis.scatter([], [], color=COLOURS[model], label=model.upper())
        axis.set_yticks(range(len(labels)), [textwrap.fill(label, 36) for label in labels[::-1]])
        axis.set_ylim(-0.6, max(len(labels), 1) - 0.4)
        caption = "improvement over the paper, in its standard deviations (shaded: within two)"
        if any(_FAR < abs(cell.difference or 0.0) < math.inf for cell in known):
            caption += f"\narrow at the edge: more than {_FAR:.0f}"
        if any(not math.isfinite(cell.difference or 0.0) for cell in known):
            caption += "\nhollow: the paper's standard deviation is 0, so only the sign is known"
        axis.figure.supxlabel(caption, fontsize=9, color=FAINT)  # of the whole figure: it is wider than the axis
        if known:
            axis.legend(loc="upper left", bbox_to_anchor=(1, 1))


def draw_curves(curves: Sequence[Curve], path: Path) -> None:
    """Draw training and validation loss by epoch, with a row per data set and a column per size."""
    names = list(dict.fromkeys(curve.task.source.name for curve in curves))
    sizes = list(dict.fromkeys(curve.task.size for curve in curves))
    with _figure(path, len(names), len(sizes), (3.2, 2.4)) as axes:
        for curve in curves:
            axis = axes[names.index(curve.task.source.name), sizes.index(curve.task.size)]
            epochs = range(1, curve.history.n_epochs + 1)
            colour, model = COLOURS[curve.task.body.model], curve.task.body.model.upper()
            axis.plot(epochs, curve.history.train_loss, color=colour, label=f"{model}, training")
            axis.plot(epochs, curve.history.val_loss, color=colour, linestyle=":", label=f"{model}, validation")
            axis.set_title(f"{curve.task.source.name}, about {curve.task.size} parameters", loc="left")
            axis.set(xlabel="epoch", yscale="log")  # the first epochs on raw features are far above all others
        for axis in axes[:, 0]:
            axis.set_ylabel("loss")
        lines, labels = axes[0, 0].get_legend_handles_labels()
        axes[0, 0].figure.legend(lines, labels, loc="outside upper center", ncols=len(lines))


def draw_runtimes(runtimes: Sequence[Runtime], path: Path) -> None:
    """Draw the time per epoch against parameters for both models, and time and parameters against nodes."""
    by_nodes = [own for own in runtimes if not own.task.size]
    compared = [own for own in runtimes if own.task.size]
    names = list(dict.fromkeys(own.task.dataset for own in compared))
    n_plots = len(names) + (2 if by_nodes else 0)
    n_columns = min(3, max(1, n_plots))
    with _figure(path, max(1, -(-n_plots // n_columns)), n_columns, (3.2, 2.8)) as grid:
        axes = list(grid.flat)
        for unused in axes[n_plots:]:
            unused.set_axis_off()
        for axis, name in zip(axes, names, strict=False):
            for model, colour in COLOURS.items():
                own = [o for o in compared if (o.task.dataset, o.task.body.model) == (name, model)]
                times = [1000 * o.seconds for o in own]
                axis.plot([o.n_parameters / 1e6 for o in own], times, "o-", color=colour, label=model.upper())
            axis.set(title=name, xlabel="parameters (millions)", ylabel="ms per epoch", ylim=(0, None))
            axis.legend()
        if by_nodes:
            nodes = [own.task.body.width for own in by_nodes]
            times, counts = axes[len(names)], axes[len(names) + 1]
            times.plot(nodes, [1000 * own.seconds for own in by_nodes], "o-", color=COLOURS["gnm"])
            times.set(title="GNM on Car", xlabel="nodes", ylabel="ms per epoch", ylim=(0, None))
            counts.plot(nodes, [own.n_parameters / 1e3 for own in by_nodes], "o-", color=COLOURS["gnm"], label="all")
            effective = [own.n_effective_parameters / 1e3 for own in by_nodes]
            counts.plot(nodes, effective, "o--", color=COLOURS["gnm"], label="effective")
            counts.set(title="GNM, two layers", xlabel="nodes", ylabel="parameters (thousands)", ylim=(0, None))
            counts.legend()


def draw_sparse(shown: SparseMachine, machines: Sequence[SparseMachine], path: Path) -> None:
    """Draw the learned graph of a machine, its equivalent MLP, and accuracy against edges for all machines."""
    with _figure(path, 1, 3, (4.2, 3.6)) as axes:
        _draw_machine(axes[0, 0], shown)
        _draw_mlp(axes[0, 1], shown)
        axis = axes[0, 2]
        axis.scatter(
            [own.n_edges for own in machines], [own.accuracy for own in machines], color=COLOURS["gnm"], alpha=0.6
        )
        from tabgnm.datasets import xor_bayes_accuracy

        axis.axhline(100 * xor_bayes_accuracy(), color=FAINT, linewidth=1, linestyle="--")
        axis.set(title="all seeds (dashed: best possible)", xlabel="edges", ylabel="accuracy on fresh points (%)")


def _draw_machine(axis: Any, machine: SparseMachine) -> None:
    """Draw the nodes before, between and after the layers, except nodes without edges."""
    import networkx as nx

    layout = machine.network.layout
    graph = nx.DiGraph()
    for edge in machine.edges:
        for step, node in ((edge.layer - 1, edge.source), (edge.layer, edge.target)):
            graph.add_node((step, node), layer=step, kind=layout.kind(node), label=str(node))
        graph.add_edge((edge.layer - 1, edge.source), (edge.layer, edge.target), weight=edge.weight)
    _draw_layered(axis, graph)
    axis.set_title(f"seed {machine.seed}: {machine.n_edges} edges, nodes by number", loc="left")


def _draw_mlp(axis: Any, machine: SparseMachine) -> None:
    try:
        mlp = machine.network.to_mlp()
    except NotMultipartite as error:
        axis.text(0.5, 0.5, f"not an MLP: {len(error.edges)} edges\nare not layered", ha="center", va="center")
        axis.set_axis_off()
        return
    widths = mlp.shape.widths
    graph = mlp_graph(widths)
    by_layer: list[list[Any]] = [[n for n, d in graph.nodes(data=True) if d["layer"] == k] for k in range(len(widths))]
    for k in range(1, len(widths)):
        weights = getattr(mlp, f"weight_{k}").detach().numpy()  # (sources, targets)
        full = np.concatenate([weights, getattr(mlp, f"bias_{k}").detach().numpy()[None]])
        for row, source in enumerate(by_layer[k - 1]):
            for column, target in enumerate(by_layer[k][: widths[k]]):
                if full[row, column] == 0:
                    graph.remove_edge(source, target)
                else:
                    graph.edges[source, target]["weight"] = float(full[row, column])
    graph.remove_nodes_from(
        [n for n, d in list(graph.nodes(data=True)) if d["kind"] == "bias" and not graph.out_degree(n)]
    )
    _draw_layered(axis, graph)
    axis.set_title(f"equivalent MLP: {machine.mlp}", loc="left")


def _draw_layered(axis: Any, graph: Any) -> None:
    import networkx as nx

    places = {}
    for layer in sorted({data["layer"] for _, data in graph.nodes(data=True)}):
        own = sorted(node for node, data in graph.nodes(data=True) if data["layer"] == layer)
        places.update({node: (layer, (len(own) - 1) / 2 - at) for at, node in enumerate(own)})
    colours = [_KIND_COLOURS[data["kind"]] for _, data in graph.nodes(data=True)]
    weights = [data["weight"] for _, _, data in graph.edges(data=True)]
    largest = max(map(abs, weights), default=1.0)
    nx.draw_networkx(
        graph,
        places,
        ax=axis,
        node_color=colours,
        edgecolors=FAINT,
        node_size=320,
        font_size=7,
        labels={node: data.get("label", data["kind"][0]) for node, data in graph.nodes(data=True)},
        edge_color=[COLOURS["gnm"] if weight > 0 else COLOURS["mlp"] for weight in weights],
        width=[0.5 + 2 * abs(weight) / largest for weight in weights],
    )
    axis.set_axis_off()
