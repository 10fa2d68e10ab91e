"""The node layout of a Graph Neural Machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tabgnm.nn.checks import positive_integer

NodeKind = Literal["input", "hidden", "bias", "output"]


@dataclass(frozen=True)
class NodeLayout:
    """The order of the nodes of a GNM: inputs, hidden, bias, outputs (the sets X, H, B, Y of the paper).

    With n = 50 nodes, two inputs and one output, node 48 is the bias and node 49 the output, as in section 6.5.

    Parameters
    ----------
    n_inputs : int
        m, the number of input nodes (features).
    n_outputs : int
        c, the number of output nodes (classes or targets).
    n_nodes : int
        n, the total number of nodes: inputs, hidden nodes, one bias node and outputs.

    Examples
    --------
    >>> layout = NodeLayout(n_inputs=2, n_outputs=1, n_nodes=50)
    >>> layout.n_hidden, layout.bias, layout.outputs
    (46, 48, range(49, 50))
    """

    n_inputs: int
    n_outputs: int
    n_nodes: int

    def __post_init__(self) -> None:
        for name in ("n_inputs", "n_outputs", "n_nodes"):
            object.__setattr__(self, name, positive_integer(name, getattr(self, name)))
        if self.n_hidden < 0:
            needed = self.n_inputs + self.n_outputs + 1
            raise ValueError(
                f"n_nodes={self.n_nodes} is too small: {self.n_inputs} inputs + {self.n_outputs} outputs + 1 bias "
                f"need at least {needed} nodes; use n_nodes>={needed}"
            )

    @property
    def n_hidden(self) -> int:
        """The number of hidden nodes. It may be 0, because inputs and outputs also take part in message passing."""
        return self.n_nodes - self.n_inputs - self.n_outputs - 1

    @property
    def inputs(self) -> range:
        """Positions of X."""
        return range(self.n_inputs)

    @property
    def hidden(self) -> range:
        """Positions of H."""
        return range(self.n_inputs, self.bias)

    @property
    def bias(self) -> int:
        """Position of the single node of B, the only one that is never updated."""
        return self.n_inputs + self.n_hidden

    @property
    def outputs(self) -> range:
        """Positions of Y."""
        return range(self.bias + 1, self.n_nodes)

    @property
    def updated(self) -> list[int]:
        """Positions of the n - 1 nodes that are updated: all except the bias."""
        return [node for node in range(self.n_nodes) if node != self.bias]

    def kind(self, node: int) -> NodeKind:
        """Return the kind of a node."""
        if not 0 <= node < self.n_nodes:
            raise ValueError(f"node={node} does not exist; expected 0 <= node < n_nodes={self.n_nodes}")
        if node < self.n_inputs:
            return "input"
        if node < self.bias:
            return "hidden"
        return "bias" if node == self.bias else "output"
