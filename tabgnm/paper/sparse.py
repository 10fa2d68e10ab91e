"""Section 6.5 of the paper: a GNM that learns a sparse graph for an XOR problem, over many seeds.

Each seed draws its own 200 points and splits them 90 to 10 as in the paper; a fifth of the 180 points is used to choose
the strength of the l1 penalty. The paper's model (50 nodes, two layers) is trained for every strength on a path.
Proximal steps give exact zeros. Edges with weights below the paper's threshold of 1e-3 are removed, and so are edges
that are not on a path from an input or the bias to the output. Among the machines whose validation loss is within one
standard error of the lowest, the one with the fewest edges is chosen. As the four Gaussians overlap, accuracy is
measured on 10,000 fresh points and compared with the best possible accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from tabgnm.datasets import make_xor, xor_bayes_accuracy
from tabgnm.nn import GNM, GNMShape, NotMultipartite
from tabgnm.nn.conversions import Edge, live_edges
from tabgnm.nn.losses import BinaryCrossEntropy
from tabgnm.training import Fleet, FleetSettings, Member, Table

N_SEEDS = 20
N_NODES, N_LAYERS = 50, 2
L1_PATH = (0.2, 0.25, 0.32, 0.4, 0.5, 0.63, 0.8)
MAX_EPOCHS = 400
LEARNING_RATE = 0.01
BATCH_SIZE = 64
THRESHOLD = 1e-3  # the paper's
N_FRESH = 10_000
FRESH_SEED = 1_000_003  # far from the seeds of the experiment
# Criteria of a success.
LARGEST_GAP = 1.5  # points of accuracy below the best possible
MAX_EDGES = 20
_SCALES = torch.logspace(-0.5, 1.5, 81)


@dataclass(frozen=True)
class PathPoint:
    """The remaining edges and the validation loss for one strength of the penalty."""

    l1: float
    n_edges: int
    val_loss: float
    val_error: float  # standard error of the loss


@dataclass(frozen=True, eq=False)
class SparseMachine:
    """The machine that was chosen for one seed."""

    seed: int
    l1: float
    network: GNM  # with the live edges only
    edges: list[Edge]
    accuracy: float  # percent of the fresh points
    test_accuracy: float  # percent of the 20 test points, as in the paper
    path: list[PathPoint]

    @property
    def n_edges(self) -> int:
        """The number of edges on a path from an input or the bias to the output."""
        return len(self.edges)

    @property
    def success(self) -> bool:
        """Whether the accuracy is close to the best possible one, with few edges."""
        return self.accuracy >= 100 * xor_bayes_accuracy() - LARGEST_GAP and self.n_edges <= MAX_EDGES

    @property
    def mlp(self) -> str:
        """The widths of the equivalent MLP, or the reason why there is none."""
        try:
            return "-".join(map(str, self.network.to_mlp().shape.widths))
        except NotMultipartite as error:
            return f"not layered: {len(error.edges)} edges lead into or out of a node of another layer"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "seed": self.seed,
            "l1": self.l1,
            "n_edges": self.n_edges,
            "accuracy": self.accuracy,
            "test_accuracy": self.test_accuracy,
            "success": self.success,
            "mlp": self.mlp,
            "edges": [edge._asdict() for edge in self.edges],
            "path": [vars(point) for point in self.path],
        }


@dataclass(frozen=True, eq=False)
class _Problem:
    """The points of one seed, split into training, validation and test rows."""

    table: Table
    train: Tensor
    val: Tensor
    test: Tensor

    @classmethod
    def of_seed(cls, seed: int) -> _Problem:
        X, y = make_xor(random_state=seed)
        order = torch.as_tensor(np.random.default_rng([seed, 1]).permutation(len(X)))
        n_test = len(X) // 10
        n_val = (len(X) - n_test) // 5
        test, val, train = order[:n_test], order[n_test : n_test + n_val], order[n_test + n_val :]
        return cls(_table(X, y), train.sort().values, val.sort().values, test.sort().values)


def _table(X: Any, y: Any) -> Table:
    return Table(torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y, dtype=torch.float32).unsqueeze(1))


def learn_sparse_machines(
    seeds: Sequence[int] = range(N_SEEDS),
    *,
    l1_path: Sequence[float] = L1_PATH,
    max_epochs: int = MAX_EPOCHS,
    device: str = "auto",
    verbose: int = 0,
) -> list[SparseMachine]:
    """Train all seeds and strengths as one fleet, and choose one machine per seed on its validation rows."""
    problems = [_Problem.of_seed(seed) for seed in seeds]
    members = [
        # Without validation rows, the last weights are kept; those of an earlier epoch might not be sparse yet.
        Member(train=problem.train, seed=seed, learning_rate=LEARNING_RATE, l1=l1, table=number)
        for number, (seed, problem) in enumerate(zip(seeds, problems, strict=True))
        for l1 in l1_path
    ]
    settings = FleetSettings(
        loss=BinaryCrossEntropy(),
        max_epochs=max_epochs,
        batch_size=BATCH_SIZE,
        optimizer="proximal_adam",
        device=device,
    )
    shape = GNMShape(2, 1, N_NODES, N_LAYERS, init="paper")
    result = Fleet(shape, members, settings).fit([problem.table for problem in problems], verbose=verbose)
    if any(model.history.status == "interrupted" for model in result.models):
        raise KeyboardInterrupt
    networks = [without_dead_edges(model.network()) for model in result.models]  # type: ignore[arg-type] # all are GNMs
    fresh = _table(*make_xor(N_FRESH, random_state=FRESH_SEED))
    machines = []
    for number, (seed, problem) in enumerate(zip(seeds, problems, strict=True)):
        own = networks[number * len(l1_path) : (number + 1) * len(l1_path)]
        path = [_path_point(l1, net, problem) for l1, net in zip(l1_path, own, strict=True)]
        chosen = _chosen(path)
        net = own[chosen]
        machines.append(
            SparseMachine(
                seed=seed,
                l1=path[chosen].l1,
                network=net,
                edges=_edges(net),
                accuracy=_accuracy(net, fresh),
                test_accuracy=_accuracy(net, Table(problem.table.x[problem.test], problem.table.y[problem.test])),
                path=path,
            )
        )
    return machines


def without_dead_edges(net: GNM) -> GNM:
    """Remove the edges below the threshold, then those that do not affect the output, from `net` in place."""
    matrices = net.adjacency()
    matrices = torch.where(matrices.abs() < THRESHOLD, 0.0, matrices)
    net.set_adjacency(matrices)
    bias = net.layout.bias
    kept = torch.where(live_edges(net, matrices), matrices, 0.0)
    kept[:, bias, bias] = 1.0  # the row of the bias node, as in the paper
    net.set_adjacency(kept)
    return net


def _edges(net: GNM) -> list[Edge]:
    matrices = net.adjacency()
    found = live_edges(net, matrices).nonzero().tolist()
    return [Edge(k + 1, source, target, float(matrices[k, target, source])) for k, target, source in found]


def _path_point(l1: float, net: GNM, problem: _Problem) -> PathPoint:
    """Count the edges and compute the validation loss.

    The penalty removes edges, but it also makes outputs small. So that this does not count against sparse machines,
    their outputs are first multiplied by the factor that fits the training rows best.
    """
    with torch.no_grad():
        outputs, targets = net(problem.table.x), problem.table.y
    train = problem.train
    losses = [binary_cross_entropy_with_logits(scale * outputs[train], targets[train]) for scale in _SCALES]
    scale = _SCALES[int(torch.stack(losses).argmin())]
    val = binary_cross_entropy_with_logits(scale * outputs[problem.val], targets[problem.val], reduction="none")
    n_edges = int(live_edges(net, net.adjacency()).sum())
    return PathPoint(l1, n_edges, float(val.mean()), float(val.std()) / math.sqrt(len(val)))


def _chosen(path: Sequence[PathPoint]) -> int:
    """Return the machine with the fewest edges within one standard error of the lowest loss; ties: the lower loss."""
    best = min(path, key=lambda point: point.val_loss)
    good = [i for i, point in enumerate(path) if point.val_loss <= best.val_loss + best.val_error]
    return min(good, key=lambda i: (path[i].n_edges, path[i].val_loss))


def _accuracy(net: GNM, table: Table) -> float:
    with torch.no_grad():
        return 100 * float(((net(table.x) > 0) == (table.y > 0.5)).double().mean())
