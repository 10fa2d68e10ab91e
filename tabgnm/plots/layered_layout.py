"""Places of the nodes of a layered graph with few crossings (Sugiyama et al. 1981)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from tabgnm.plots.drawn_graph import DrawnGraph

_SWEEPS = 24
_WAYPOINT = 0.35  # room of an edge that passes a layer, where a node takes 1


@dataclass(frozen=True)
class Layout:
    """Where to draw.

    Attributes
    ----------
    heights : list of float
        Of each node.
    routes : list of list of (float, float)
        Of each edge: the layers and heights that it leads through, its ends included.
    tallest : float
        Room that the layer with the most nodes takes.
    """

    heights: list[float]
    routes: list[list[tuple[float, float]]]
    tallest: float


def layered_layout(graph: DrawnGraph) -> Layout:
    """Order the nodes of each layer by the mean place of their neighbors, back and forth, and keep the best order.

    An edge that skips layers gets a waypoint in each of them, so that it is led around nodes.
    """
    layers: list[list[int]] = [[] for _ in range(graph.n_layers)]
    sizes: list[float] = []
    for node in graph.nodes:
        layers[node.layer].append(len(sizes))
        sizes.append(1.0)
    chains, links = [], []
    for edge in graph.edges:
        chain = [edge.source]
        for layer in range(graph.nodes[edge.source].layer + 1, graph.nodes[edge.target].layer):
            layers[layer].append(len(sizes))
            chain.append(len(sizes))
            sizes.append(_WAYPOINT)
        chain.append(edge.target)
        chains.append(chain)
        links += list(itertools.pairwise(chain))
    before: list[list[int]] = [[] for _ in sizes]
    after: list[list[int]] = [[] for _ in sizes]
    for source, target in links:
        before[target].append(source)
        after[source].append(target)

    order = [list(own) for own in layers]
    best, fewest = order, _crossings(order, after)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        order = _sorted_by_neighbors(order, before if forward else after, forward)
        crossings = _crossings(order, after)
        if crossings < fewest:
            best, fewest = [list(own) for own in order], crossings
    tallest = max(sum(sizes[node] for node in own) for own in best)
    heights = _heights(best, sizes, tallest)
    layer_of = {node: layer for layer, own in enumerate(best) for node in own}
    routes = [[(float(layer_of[node]), heights[node]) for node in chain] for chain in chains]
    return Layout([heights[node] for node in range(len(graph.nodes))], routes, tallest)


def _sorted_by_neighbors(order: list[list[int]], neighbors: list[list[int]], forward: bool) -> list[list[int]]:
    """Sort layer after layer by the mean place of the neighbors in the layer before (behind)."""
    order = [list(own) for own in order]
    place = {node: number / max(1, len(own) - 1) for own in order for number, node in enumerate(own)}
    for own in order[1:] if forward else order[-2::-1]:
        mean = {node: np.mean([place[other] for other in neighbors[node]] or [place[node]]) for node in own}
        own.sort(key=lambda node: mean[node])
        place |= {node: number / max(1, len(own) - 1) for number, node in enumerate(own)}
    return order


def _crossings(order: list[list[int]], after: list[list[int]]) -> int:
    """Count pairs of edges between neighboring layers that cross."""
    place = {node: number for own in order for number, node in enumerate(own)}
    total = 0
    for own in order[:-1]:
        ends = np.array([(place[node], place[target]) for node in own for target in after[node]])
        if len(ends):
            above = ends[:, None, :] < ends[None, :, :]
            total += int((above[..., 0] & above[..., 1].T).sum())
    return total


def _heights(order: list[list[int]], sizes: list[float], tallest: float) -> list[float]:
    """Center each layer; those with little in them are spread out, but not over the whole height."""
    heights = [0.0] * len(sizes)
    for own in order:
        needed = sum(sizes[node] for node in own)
        spread = min(tallest / needed, 2.5) if needed else 1.0
        top = -needed * spread / 2
        for node in own:
            heights[node] = -(top + sizes[node] * spread / 2)
            top += sizes[node] * spread
    return heights
