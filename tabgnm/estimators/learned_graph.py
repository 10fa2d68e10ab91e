"""The learned graph of a fitted estimator, with the names of the user's columns and labels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tabgnm.estimators.checks import check_integer
from tabgnm.estimators.fitting import FittedPack, NetworkGroup
from tabgnm.estimators.targets import ClassTargets, Targets
from tabgnm.nn.learned_graphs import learned_graphs
from tabgnm.nn.node_names import NodeNames

if TYPE_CHECKING:
    import networkx as nx


class LearnedGraph:
    """Methods of estimators that return a network as a graph."""

    fitted_: FittedPack
    _names: list[str]  # of the columns of the table
    _target_names: Callable[[], list[str]]

    @property
    def graph_(self) -> list[nx.DiGraph]:
        """The learned graph of the network with the largest weight, one per layer; see `graph`."""
        return self.graph()

    def graph(
        self, member: int | None = None, *, threshold: float = 0.0, max_edges: int | None = None
    ) -> list[nx.DiGraph]:
        """Return the learned graph of one network: one networkx graph per layer, all with the same nodes.

        Nodes are numbered in the order inputs, hidden, bias, outputs, as in `members_[member].adjacency()`. They have
        the attributes `kind` ("input", "hidden", "bias" or "output") and `name`; input nodes also have `column`, and
        nodes of an MLP `layer`. The name of an input consists of the column of the table and the learned feature or the
        level: "age[3]", "city=Oslo". Edges have the attribute `weight`; edges of weight 0 are omitted.

        Parameters
        ----------
        member : int or None, default=None
            The position of the network in `members_`. If None, the network with the largest weight.
        threshold : float, default=0.0
            Omit edges whose absolute weight is not larger than this.
        max_edges : int or None, default=None
            The maximum number of edges per layer; those with the largest absolute weights are kept. If None, all edges
            are kept.

        Returns
        -------
        list of networkx.DiGraph
        """
        check_is_fitted(self, "fitted_")
        if member is None:
            member = int(np.argmax(self.fitted_.network_weights))
        position = check_integer("member", member, smallest=0)
        if position >= self.fitted_.n_networks:
            raise ValueError(
                f"member={position} does not exist; the model has {self.fitted_.n_networks} networks, numbered from 0"
            )
        for group in self.fitted_.groups:
            if position < group.n_networks:
                break
            position -= group.n_networks
        names = self._node_names(group)
        return learned_graphs(group.shape, group.network(position), threshold, max_edges, names)

    def _node_names(self, group: NetworkGroup) -> NodeNames:
        """Return the names of the nodes of a candidate's networks."""
        encoder = group.encoder
        owners = [self._names[owner] for owner in encoder.owners]
        outputs = output_names(group.targets, self._named_targets(group))
        return NodeNames.of_columns(encoder.encoded_names, owners, outputs, group.shape.embedding)

    def _named_targets(self, group: NetworkGroup) -> tuple[str, ...]:
        """Return the names of the targets, or default names for those without a name or with that of a column."""
        targets, known = group.targets, self._target_names()
        n_targets = _n_targets(targets)
        taken = {*self._names, *group.encoder.encoded_names}
        others = next(
            names
            for names in _usual_names(n_targets)
            if not taken.union(known) & {*names, *output_names(targets, names)}
        )
        names = []
        for place, other in enumerate(others):
            name = known[place] if len(known) == n_targets else ""
            own = {name, *_outputs_of(targets, place, name)}
            names.append(other if not name or taken & own else name)
            taken |= own
        return tuple(names)


def output_names(targets: Targets, names: Sequence[str]) -> list[str]:
    """Return the names of the outputs of a network, given those of the targets.

    The name of the target if it is a number or one of several multilabel columns, "y_q10" for one of several quantiles,
    and "y=yes" for a class.
    """
    return [output for place, name in enumerate(names) for output in _outputs_of(targets, place, name)]


def _outputs_of(targets: Targets, place: int, name: str) -> list[str]:
    """Return the names of the outputs of one target."""
    if not isinstance(targets, ClassTargets):
        return [name] if targets.quantiles is None else [f"{name}_q{100 * own:g}" for own in targets.quantiles]
    if targets.kind == "multilabel":
        return [name]
    labels = targets.classes[place]
    return [f"{name}={label}" for label in (labels[-1:] if targets.n_outputs == 1 else labels)]


def _n_targets(targets: Targets) -> int:
    return len(targets.classes) if isinstance(targets, ClassTargets) else targets.n_targets


def _usual_names(n_targets: int) -> Iterator[list[str]]:
    """Yield default names of targets: y; target; target_2; ... or y0, y1; target_0, target_1; ..."""
    for number in itertools.count():
        name = "y" if number == 0 else "target" if number == 1 else f"target_{number}"
        joint = "" if number == 0 else "_"
        yield [name] if n_targets == 1 else [f"{name}{joint}{place}" for place in range(n_targets)]
