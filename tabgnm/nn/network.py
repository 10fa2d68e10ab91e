"""The base class of networks as torch modules: parameters, initialization, gates and the forward pass."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tabgnm._printable import shown
from tabgnm.nn import adjacency, hard_concrete, learned_graphs
from tabgnm.nn.initializers import Initializer
from tabgnm.nn.layout import NodeLayout
from tabgnm.nn.message_passing import Trace, forward
from tabgnm.nn.node_names import NodeNames
from tabgnm.nn.shapes import Shape, body_of

if TYPE_CHECKING:
    import networkx as nx


def dropout_rate(value: float) -> float:
    """Return `value` as a float; raise ValueError if it is not a dropout rate in [0, 1)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= value < 1:
        raise ValueError(f"dropout={shown(value)} is not a rate; expected a number in [0, 1), where 0 means no dropout")
    return float(value)


def initialize_(parameter: Tensor, initializer: Initializer, generator: torch.Generator | None) -> None:
    """Fill a parameter with its initial values."""
    if parameter.is_meta:  # it has no values, and the import of the torch compiler would take time
        return
    with torch.no_grad():
        if initializer.kind == "normal":
            parameter.normal_(0.0, initializer.scale, generator=generator)
        elif initializer.kind == "uniform":
            parameter.uniform_(-initializer.scale, initializer.scale, generator=generator)
        else:
            parameter.fill_(initializer.scale)


class Network(nn.Module):
    """Base class of `GNM`, `MLP` and `EmbeddedNetwork`: a network of a given shape."""

    def __init__(
        self,
        shape: Shape,
        *,
        dropout: float,
        l0_gates: bool,
        generator: torch.Generator | None,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        self.shape = shape
        self.dropout = dropout_rate(dropout)
        self.l0_gates = bool(l0_gates)
        self._names = tuple(shape.parameter_shapes())
        self._gated = tuple(shape.edge_parameters()) if self.l0_gates else ()
        for name, size in shape.parameter_shapes().items():
            setattr(self, name, nn.Parameter(torch.empty(size, device=device, dtype=dtype)))
        for name in self._gated:
            setattr(self, f"log_alpha_{name}", nn.Parameter(torch.empty_like(getattr(self, name))))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Initialize all parameters again."""
        for name, initializer in self.shape.initializers().items():
            initialize_(getattr(self, name), initializer, generator)
        with torch.no_grad():
            self.shape.zero_unused_({name: getattr(self, name) for name in self._names})
        for name in self._gated:
            nn.init.constant_(getattr(self, f"log_alpha_{name}"), hard_concrete.INITIAL_LOG_ALPHA)

    def effective_parameters(self, *, random_gates: bool = False) -> dict[str, Tensor]:
        """Return the parameters as used by message passing, with edge weights multiplied by their gates, if any."""
        # Read from `_parameters` if possible, because getattr of a module takes longer than a small matrix product.
        # torch's pruning and parametrizations replace parameters by other attributes.
        own = self._parameters
        parameters: dict[str, Tensor] = {}
        for name in self._names:
            parameter = own.get(name)
            parameters[name] = getattr(self, name) if parameter is None else parameter
        if not self._gated:
            return parameters
        for name in self._gated:
            log_alpha = getattr(self, f"log_alpha_{name}")
            if random_gates:
                uniform = torch.rand_like(log_alpha).clamp(1e-6, 1 - 1e-6)
                gate = hard_concrete.random_gate(log_alpha, uniform)
            else:
                gate = hard_concrete.fixed_gate(log_alpha)
            parameters[name] = parameters[name] * gate
        return parameters

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs (logits or predictions).

        Shape
        -----
        - x: (..., m)
        - output: (..., c)
        """
        output = self._run(x).output
        return output if x.dim() == 2 else output.reshape(*x.shape[:-1], self.shape.n_outputs)

    def _run(self, x: Tensor) -> Trace:
        # The usual case first, because the checks take measurable time in a small network.
        if isinstance(x, Tensor) and x.dim() == 2 and x.shape[1] == self.shape.n_inputs and x.is_floating_point():
            rows = x
        else:
            rows = self._checked(x)
        parameters = self.effective_parameters(random_gates=self.training)
        dropout = (
            (lambda _, activated: self._dropout_factors(activated)) if self.training and self.dropout > 0 else None
        )
        return forward(self.shape, parameters, rows, dropout)

    def _checked(self, x: Tensor) -> Tensor:
        """Validate `x` and return it with shape (rows, m)."""
        if not isinstance(x, Tensor):
            raise TypeError(f"x is a {type(x).__name__}; expected a torch.Tensor, e.g. torch.as_tensor(x)")
        if x.dim() == 0 or x.shape[-1] != self.shape.n_inputs:
            raise ValueError(
                f"x has shape {tuple(x.shape)}; expected (..., {self.shape.n_inputs}), because the network has "
                f"n_inputs={self.shape.n_inputs}"
            )
        if not x.is_floating_point():
            raise TypeError(f"x has dtype {x.dtype}; expected floating point numbers, e.g. x.float()")
        return x.reshape(-1, self.shape.n_inputs)

    def _dropout_factors(self, activated: Tensor) -> Tensor:
        return F.dropout(torch.ones_like(activated), self.dropout)

    @property
    def layout(self) -> NodeLayout:
        """The order of the nodes. With a learned embedding, the input nodes are the embedded features."""
        return self.shape.layout

    def adjacency(self) -> Tensor:
        """Return the matrices A of the paper: [k, v, u] is the weight of edge u -> v in layer k + 1.

        The result is a copy without gradient. Weights that cannot affect the output are 0. The row of the bias node is
        (0, ..., 1, ..., 0), as in the paper. An MLP has the matrices of Theorem 5.1, with one node per neuron and a
        single bias node. With a learned embedding, the input nodes are the embedded features.

        Shape
        -----
        - output: (K, n, n)
        """
        body = body_of(self.shape)
        with torch.no_grad():
            return adjacency.full_adjacency(body, self.effective_parameters())

    def graphs(
        self, threshold: float = 0.0, *, max_edges: int | None = None, names: NodeNames | None = None
    ) -> list[nx.DiGraph]:
        """Return the learned graph of each layer, as networkx graphs with the same nodes.

        Nodes are positions in `layout` with the attributes `kind` and `name`; input nodes also have `column`, and nodes
        of an MLP `layer`. Edges have the attribute `weight`.

        Parameters
        ----------
        threshold : float, default=0.0
            Only edges with a larger absolute weight are included.
        max_edges : int or None, default=None
            The maximum number of edges per layer; those with the largest absolute weights are kept. If None, all edges
            are kept.
        names : NodeNames or None, default=None
            The names of the nodes. If None, columns and outputs are numbered: x0, x1, ..., y0.
        """
        return learned_graphs.learned_graphs(self.shape, self.effective_parameters(), threshold, max_edges, names)

    def n_parameters(self) -> int:
        """Return the number of parameters as counted in the paper, without the gates of the l0 penalty."""
        return self.shape.n_parameters()

    def n_effective_parameters(self) -> int:
        """Return the number of parameters that can affect the output."""
        return self.shape.n_effective_parameters()

    def extra_repr(self) -> str:
        """Return the arguments for `repr`."""
        settings = self.shape.settings()
        settings |= {"dropout": self.dropout} | ({"l0_gates": True} if self.l0_gates else {})
        return ", ".join(f"{name}={value!r}" for name, value in settings.items())
