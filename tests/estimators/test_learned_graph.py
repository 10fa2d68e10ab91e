"""The learned graph of every estimator, with the names of the user's columns and labels."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

from tabgnm import GNMClassifier, GNMRegressor, MLPClassifier, MLPRegressor, load
from tests.estimators.examples import frame, gnm, gnmr, mlp, mlpr, numbers

X, Y, T = numbers()
F = frame()


@pytest.fixture(scope="module", params=["gnm", "gnmr", "mlp", "mlpr"])
def fitted(request: Any) -> Any:
    """Estimators with learned embeddings, as they have by default."""
    make = {"gnm": gnm, "gnmr": gnmr, "mlp": mlp, "mlpr": mlpr}[request.param]
    more = {"n_nodes": 120} if request.param.startswith("gnm") else {}
    return make(**more).fit(F, Y if request.param in ("gnm", "mlp") else T)


def test_the_graph_is_that_of_the_network_behind_its_embeddings(fitted: Any) -> None:
    for member, net in enumerate(fitted.members_):
        assert net.shape.embedding is not None
        matrices, graphs = net.adjacency(), fitted.graph(member)
        assert len(graphs) == len(matrices) == net.shape.n_layers
        for matrix, graph in zip(matrices, graphs, strict=True):
            matrix[net.layout.bias] = 0
            found = torch.zeros_like(matrix)
            for source, target, weight in graph.edges(data="weight"):
                found[target, source] = weight
            assert torch.equal(found, matrix)


def test_input_nodes_have_the_names_of_columns_features_and_levels(fitted: Any) -> None:
    nodes = fitted.graph_[0].nodes
    column_of = {data["name"]: data["column"] for _, data in nodes(data=True) if data["kind"] == "input"}
    assert {"size[0]", "size is missing", "count[2]", "colour=red", "town[7]", "flag", "when.month[1]"} <= set(
        column_of
    )
    assert set(column_of.values()) == set(F.columns)
    assert all(name.startswith(column) for name, column in column_of.items())
    encoder = fitted.fitted_.groups[0].encoder
    owners = np.asarray(encoder.owners)[list(fitted.members_[0].shape.embedding.owners())]
    assert [nodes[v]["column"] for v in range(len(owners))] == [F.columns[owner] for owner in owners]
    [output] = [data["name"] for _, data in nodes(data=True) if data["kind"] == "output"]
    assert output == ("y=1" if hasattr(fitted, "classes_") else "y")


def test_the_graph_of_a_loaded_model_is_the_same(fitted: Any, tmp_path: Any) -> None:
    fitted.save(tmp_path / "model.tabgnm")
    for ours, theirs in zip(fitted.graph_, load(tmp_path / "model.tabgnm").graph_, strict=True):
        assert nx.utils.graphs_equal(ours, theirs)


def test_networkx_can_write_the_graph(fitted: Any) -> None:
    graph, file = fitted.graph(max_edges=20)[0], io.BytesIO()
    nx.write_graphml(graph, file)
    again = nx.read_graphml(io.BytesIO(file.getvalue()), node_type=int)
    assert dict(again.nodes(data=True)) == dict(graph.nodes(data=True))
    assert {edge[:2]: edge[2] for edge in again.edges(data="weight")} == pytest.approx(
        {edge[:2]: edge[2] for edge in graph.edges(data="weight")}
    )


def test_the_default_is_the_network_with_the_largest_weight() -> None:
    model = mlp().fit(X, Y)
    (group,) = model.fitted_.groups
    heavier = replace(group, weight=3 * group.weight, parameters={k: -v for k, v in group.parameters.items()})
    model.fitted_.groups.append(heavier)
    for default, first, third in zip(model.graph_, model.graph(0), model.graph(2), strict=True):
        assert nx.utils.graphs_equal(default, third) and not nx.utils.graphs_equal(default, first)


@pytest.mark.parametrize("cls", [GNMClassifier, GNMRegressor, MLPClassifier, MLPRegressor])
def test_the_papers_models_have_a_graph_of_plain_columns(cls: Any) -> None:
    size = {"n_nodes": 10} if cls in (GNMClassifier, GNMRegressor) else {"hidden": (5,)}
    model = cls.paper(max_epochs=1, random_state=0, **size).fit(X, Y if cls in (GNMClassifier, MLPClassifier) else T)
    first, second = model.graph_
    assert [first.nodes[v]["name"] for v in range(5)] == ["x0", "x1", "x2", "x3", "n0"]
    assert first.number_of_edges() + second.number_of_edges() == model.members_[0].n_effective_parameters()
    if cls in (MLPClassifier, MLPRegressor):
        assert nx.is_directed_acyclic_graph(nx.compose(first, second))


def test_edges_without_weight_are_not_in_the_graph() -> None:
    model = mlpr(n_folds=1, numeric_embedding=None).fit(X, T)
    model.fitted_.groups[0].parameters["weight_1"][:, 2] = 0.0  # as a pruned or a left-out column
    first, _ = model.graph_
    assert first.out_degree(2) == 0 and first.out_degree(0) == 8
    assert [graph.number_of_edges() for graph in model.graph(max_edges=3)] == [3, 3]
    strongest = max(abs(weight) for *_, weight in first.edges(data="weight"))
    assert model.graph(threshold=strongest)[0].number_of_edges() == 0


LABELS = np.array(["no", "yes", "maybe"])[np.arange(120) % 3]
OUTPUTS = {
    "several classes": (mlp, LABELS, ["y=maybe", "y=no", "y=yes"]),
    "two classes": (mlp, LABELS == "yes", ["y=True"]),
    "one class": (mlp, np.full(120, "only"), ["y=only"]),
    "labels": (mlp, np.column_stack([Y, 1 - Y, Y]), ["y0", "y1", "y2"]),
    "several targets": (
        mlp,
        np.column_stack([LABELS, np.where(Y, "a", "b")]),
        ["y0=maybe", "y0=no", "y0=yes", "y1=a", "y1=b"],
    ),
    "a number": (mlpr, T, ["y"]),
    "two numbers": (mlpr, np.column_stack([T, -T]), ["y0", "y1"]),
}


@pytest.mark.parametrize("case", list(OUTPUTS))
def test_output_nodes_have_the_names_of_the_labels(case: str) -> None:
    make, y, expected = OUTPUTS[case]
    model = make(n_folds=1, max_epochs=1).fit(X, y)
    nodes = model.graph_[0].nodes(data=True)
    assert [data["name"] for _, data in nodes if data["kind"] == "output"] == expected


def test_hidden_nodes_and_units_of_equations_have_different_names() -> None:
    model = mlpr(n_folds=0, max_epochs=1, numeric_embedding=None).fit(X, T)
    hidden = {data["name"] for _, data in model.graph_[0].nodes(data=True) if data["kind"] == "hidden"}
    units = {unit.name for unit in model.machine_.units}
    assert {"n0", "n1"} <= hidden and "h1" in units and not hidden & units
    assert {unit.node for unit in model.machine_.units} <= hidden | {"y"}


def test_a_member_that_does_not_exist_is_named(fitted: Any) -> None:
    with pytest.raises(ValueError, match=r"member=2 does not exist; the model has 2 networks"):
        fitted.graph(2)
    with pytest.raises(ValueError, match="member=-1 is too small"):
        fitted.graph(-1)
    assert not hasattr(mlp(), "graph_")
