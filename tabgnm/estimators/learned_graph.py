"""The learned graph of a fitted estimator, with the names of the user's columns and labels."""

from __future__ import annotations

import itertools
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
    target_name_: str
    _names: list[str]  # of the columns of the table

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
        outputs = output_names(group.targets, self._named_target(group))
        return NodeNames.of_columns(encoder.encoded_names, owners, outputs, group.shape.embedding)

    def _named_target(self, group: NetworkGroup) -> str:
        """Return the name of the target, or "y" if it has none; another one if a column is called so."""
        taken = {*self._names, *group.encoder.encoded_names}
        usual = (name for name in (getattr(self, "target_name_", ""), "y", "target") if name)
        for name in itertools.chain(usual, (f"target_{number}" for number in itertools.count(2))):
            if not taken & {name, *output_names(group.targets, name)}:
                return name
        raise AssertionError("an endless iterator ended")


def output_names(targets: Targets, target: str = "y") -> list[str]:
    """Return the names of the outputs of a network, given that of the target.

    The target itself for a single number; "y0", "y1", ... for several; "y_q10" for one of several quantiles; and the
    label that an output stands for, "y=yes".
    """
    n_outputs = targets.n_outputs
    if not isinstance(targets, ClassTargets):
        if targets.quantiles is not None:
            return [f"{target}_q{100 * quantile:g}" for quantile in targets.quantiles]
        return [target] if n_outputs == 1 else [f"{target}{output}" for output in range(n_outputs)]
    if targets.kind == "multilabel":
        return [f"{target}{output}" for output in range(n_outputs)]
    if targets.kind == "joint":
        return [f"{target}{place}={label}" for place, labels in enumerate(targets.classes) for label in labels]
    labels = targets.classes[0]
    return [f"{target}={labels[-1]}"] if n_outputs == 1 else [f"{target}={label}" for label in labels]
