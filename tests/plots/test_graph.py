"""The picture of a machine: what is drawn, in which order, and how negative weights are told apart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from sklearn.datasets import load_wine

from tabgnm import GNMClassifier, MLPClassifier
from tabgnm.nn import MLP
from tabgnm.plots import plot_graph
from tabgnm.plots.drawn_graph import DrawnEdge, DrawnGraph, DrawnNode, graph_of_estimator, graph_of_machine
from tabgnm.plots.layered_layout import layered_layout
from tabgnm.sparsity import Machine, Unit, unrolled

HIDDEN = (Unit("h0", 1, (0, 1), (1.0, -2.0), 0.5, "relu"), Unit("h1", 1, (1,), (0.5,), 0.0, "relu"))
SMALL = Machine(
    ("age", "pay", "unused"), (*HIDDEN, Unit("y", 2, (0, 3, 4), (0.1, 3.0, 1.0), 0.0, "identity")), (5,), ("y",)
)


def texts(ax: Any) -> set[str]:
    return {text.get_text() for text in ax.texts}


def curves(ax: Any) -> list[PathPatch]:
    return [patch for patch in ax.patches if isinstance(patch, PathPatch)]


def test_inputs_are_at_the_left_outputs_at_the_right_and_what_is_unused_is_left_out() -> None:
    ax = plot_graph(SMALL)
    assert {"age", "pay", "h0", "h1", "y", "relu"} <= texts(ax)
    assert "unused" not in texts(ax)
    place = {text.get_text(): text.xy[0] for text in ax.texts if hasattr(text, "xy")}
    assert place["age"] == place["pay"] == 0 and place["h0"] == place["h1"] == 1 and place["y"] == 2


def test_negative_weights_are_dashed_and_large_ones_are_wide() -> None:
    ax = plot_graph(SMALL)
    assert len(curves(ax)) == 6
    assert sum(curve.get_linestyle() != "solid" for curve in curves(ax)) == 1
    widths = [curve.get_linewidth() for curve in curves(ax)]  # from the weakest to the strongest
    assert widths == sorted(widths) and widths[-1] > 2 * widths[0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["positive weight", "negative weight"]


def test_weights_are_written_on_few_edges_or_when_asked_for() -> None:
    assert {"-2", "3", "0.1"} <= texts(plot_graph(SMALL))
    assert not {"-2", "3", "0.1"} & texts(plot_graph(SMALL, show_weights=False))


def test_no_two_weights_and_no_two_names_overlap(tmp_path: Path) -> None:
    torch.manual_seed(0)
    ax = plot_graph(
        unrolled(MLP(6, 2, [3]), [f"a long name of column {place}" for place in range(6)]), show_weights=True
    )
    ax.figure.savefig(tmp_path / "picture.png")
    boxes = [text.get_window_extent() for text in ax.texts if text.get_bbox_patch() or hasattr(text, "xy")]
    for first, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[first + 1 :])
    figure = ax.figure.bbox
    assert all(figure.x0 <= box.x0 and box.x1 <= figure.x1 for box in boxes)


def test_the_axes_that_are_given_are_drawn_on_and_returned() -> None:
    ax = Figure(figsize=(6, 4)).subplots()
    assert plot_graph(SMALL, ax) is ax
    assert "age" in texts(ax)


def test_of_many_edges_those_on_the_strongest_paths_are_drawn_and_all_are_connected() -> None:
    torch.manual_seed(0)
    machine = unrolled(MLP(20, 3, [15, 15]))
    graph = graph_of_machine(machine, 40)
    assert 10 < len(graph.edges) <= 40
    assert graph.n_left_out == 20 * 15 + 15 * 15 + 15 * 3 - len(graph.edges)
    read, led_to = {edge.source for edge in graph.edges}, {edge.target for edge in graph.edges}
    for number, node in enumerate(graph.nodes):
        if node.kind == "hidden":
            assert number in read and number in led_to
    ax = plot_graph(machine, max_edges=40)
    assert f"{len(graph.edges)} edges on the strongest paths" in ax.get_legend().get_title().get_text()


def test_every_output_keeps_its_strongest_path() -> None:
    hidden = [Unit(f"h{place}", 1, (0, 1), (5.0, 4.0), 0.0, "relu") for place in range(6)]
    outputs = [
        Unit("strong", 2, tuple(range(2, 8)), (9.0, 8.0, 7.0, 6.0, 5.0, 4.0), 0.0, "identity"),
        Unit("weak", 2, (2, 3), (0.001, 0.002), 0.0, "identity"),
        Unit("constant", 2, (), (), 1.0, "identity"),
    ]
    machine = Machine(("a", "b"), (*hidden, *outputs), (8, 9, 10), ("strong", "weak", "constant"))
    for max_edges in (4, 8):
        graph = graph_of_machine(machine, max_edges)
        named = {(graph.nodes[own.source].name, graph.nodes[own.target].name) for own in graph.edges}
        assert {("a", "h1"), ("h1", "weak"), ("a", "h0"), ("h0", "strong")} <= named
        assert len(named) <= max_edges
    assert [node.name for node in graph.nodes if node.kind == "output"] == ["strong", "weak", "constant"]
    # Where not all fit, the strongest ones are drawn.
    assert {graph_of_machine(machine, 2).nodes[own.target].name for own in graph_of_machine(machine, 2).edges} == {
        "h0",
        "strong",
    }


def test_a_strong_edge_that_leads_nowhere_is_not_drawn() -> None:
    units = (
        Unit("h0", 1, (0,), (100.0,), 0.0, "relu"),
        Unit("h1", 1, (1,), (1.0,), 0.0, "relu"),
        Unit("y", 2, (2, 3), (1e-6, 1.0), 0.0, "identity"),
    )
    graph = graph_of_machine(Machine(("a", "b"), units, (4,), ("y",)), 2)
    assert [node.name for node in graph.nodes] == ["b", "h1", "y"]


def test_constant_outputs_and_outputs_that_are_inputs_can_be_drawn() -> None:
    constant = Machine(("a",), (Unit("y", 1, (), (), 2.0, "identity"),), (1,), ("y",))
    assert "y" in texts(plot_graph(constant))
    assert "a" in texts(plot_graph(Machine(("a", "b"), (), (0,), ("y",))))


def crossings(graph: DrawnGraph) -> int:
    routes = layered_layout(graph).routes
    found = 0
    for first, one in enumerate(routes):
        for other in routes[first + 1 :]:
            found += sum(
                (a[1] - c[1]) * (b[1] - d[1]) < 0 for a, b, c, d in zip(one, one[1:], other, other[1:], strict=False)
            )
    return found


def test_nodes_are_ordered_so_that_edges_do_not_cross_where_that_is_possible() -> None:
    order = np.random.default_rng(0).permutation(8)
    nodes = [DrawnNode(f"a{place}", "input", 0) for place in range(8)] + [
        DrawnNode(f"b{place}", "output", 1) for place in range(8)
    ]
    graph = DrawnGraph(tuple(nodes), tuple(DrawnEdge(place, 8 + int(order[place]), 1.0) for place in range(8)))
    assert crossings(graph) == 0


def test_an_edge_that_skips_a_layer_is_led_around_its_nodes() -> None:
    layout = layered_layout(graph_of_machine(SMALL, 10))
    [skipping] = [route for route in layout.routes if len(route) == 3]
    nodes = graph_of_machine(SMALL, 10).nodes
    hidden = [height for node, height in zip(nodes, layout.heights, strict=True) if node.layer == 1]
    assert min(abs(skipping[1][1] - height) for height in hidden) > 0.3


@pytest.mark.parametrize("kind", [GNMClassifier, MLPClassifier])
def test_the_strongest_paths_of_a_pack_are_drawn(kind: Any) -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    model = kind(n_candidates=1, n_folds=2, max_epochs=1, random_state=0).fit(X, y)
    graph = graph_of_estimator(model, 50)
    assert 0 < len(graph.edges) <= 50 and graph.n_left_out > 1000
    assert {node.name for node in graph.nodes if node.kind == "output"} == {"target=0", "target=1", "target=2"}
    assert all(graph.nodes[edge.source].layer < graph.nodes[edge.target].layer for edge in graph.edges)
    inputs = [node.name for node in graph.nodes if node.kind == "input"]
    assert all(name.partition("[")[0] in X.columns for name in inputs)
    assert plot_graph(model, max_edges=50)


def test_other_objects_and_sizes_are_refused() -> None:
    with pytest.raises(TypeError, match=r"model has type dict; expected a fitted tabgnm estimator or a"):
        plot_graph({})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_edges=0"):
        plot_graph(SMALL, max_edges=0)


def test_matplotlib_is_loaded_only_when_a_picture_is_drawn() -> None:
    code = "import sys, tabgnm; tabgnm.plots.plot_graph; assert 'matplotlib' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
