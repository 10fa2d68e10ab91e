"""The Graph Neural Machine of Nikolentzos et al. (2024), section 5 of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tabgnm.nn import adjacency, conversions
from tabgnm.nn.gnm_shape import Combine, GNMShape
from tabgnm.nn.hard_concrete import CERTAIN
from tabgnm.nn.network import Network

if TYPE_CHECKING:
    from tabgnm.nn.mlp import MLP


class GNM(Network):
    """A Graph Neural Machine: synchronous message passing on a nearly complete graph.

    The nodes are inputs, hidden nodes, one bias node and outputs. Every node except the bias is updated K times from
    all nodes, with a separate weight for each edge and layer. Weights that cannot affect an output are not stored;
    `adjacency` returns the full matrices of the paper. The parameters `weight_k` have shape (sources, targets), the
    transpose of these matrices.

    Parameters
    ----------
    n_inputs, n_outputs : int
        The number of features, and the number of classes or targets.
    n_nodes : int, default=50
        The number of nodes, including inputs, bias and outputs.
    n_layers : int, default=2
        The number of message passing layers, K.
    activation : str, default="relu"
        The activation function of all layers except the last. See `tabgnm.nn.activation_names()` for the valid names.
    init : {"paper", "kaiming"}, default="paper"
        The standard deviation of the initial weights: sqrt(2) / n_nodes with "paper", as in the authors' code; sqrt(2 /
        fan_in) in each layer with "kaiming".
    combine : {"none", "residual", "gated"}, default="none"
        The COMBINE step of the GNN framework: the new state replaces the old state, is added to it, or is mixed with it
        by a learned gate per node.
    clamp_inputs : bool, default=False
        Whether input nodes keep their values in all layers (skip connections from the inputs to every layer).
    persistent_outputs : bool, default=False
        Whether output nodes sum up the messages of all layers, so that they can be read after every layer (see
        `anytime`).
    tied : bool, default=False
        Whether all layers share one adjacency matrix.
    learn_initial : bool, default=False
        Whether to learn the initial values of hidden and output nodes (`trainable_features` in the authors' code). If
        False, they are 0.
    dropout : float, default=0.0
        The dropout rate of the new states in all layers except the last. The bias node is never dropped.
    l0_gates : bool, default=False
        Whether every edge has a hard-concrete gate, for `expected_l0`.
    generator, device, dtype
        As in other PyTorch modules. The generator is used for the initialization.

    Shape
    -----
    - input: (..., n_inputs)
    - output: (..., n_outputs)

    Examples
    --------
    >>> import torch
    >>> from tabgnm.nn import GNM
    >>> net = GNM(n_inputs=2, n_outputs=1, n_nodes=50, n_layers=2)
    >>> net(torch.zeros(5, 2)).shape, net.adjacency().shape
    (torch.Size([5, 1]), torch.Size([2, 50, 50]))
    >>> net.n_parameters(), net.n_effective_parameters()
    (4900, 197)
    """

    shape: GNMShape

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        n_nodes: int = 50,
        n_layers: int = 2,
        activation: str = "relu",
        init: str = "paper",
        *,
        combine: Combine = "none",
        clamp_inputs: bool = False,
        persistent_outputs: bool = False,
        tied: bool = False,
        learn_initial: bool = False,
        dropout: float = 0.0,
        l0_gates: bool = False,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        shape = GNMShape(
            n_inputs,
            n_outputs,
            n_nodes,
            n_layers,
            activation,
            init,
            combine=combine,
            clamp_inputs=clamp_inputs,
            persistent_outputs=persistent_outputs,
            tied=tied,
            learn_initial=learn_initial,
        )
        super().__init__(shape, dropout=dropout, l0_gates=l0_gates, generator=generator, device=device, dtype=dtype)

    def anytime(self, x: Tensor) -> Tensor:
        """Return the predictions after every layer; the last one equals the result of `forward`.

        Requires `persistent_outputs=True`.

        Shape
        -----
        - x: (..., m)
        - output: (K, ..., c)
        """
        if not self.shape.persistent_outputs:
            raise ValueError(
                "anytime requires persistent_outputs=True; without it, output nodes have a prediction only after the "
                "last layer"
            )
        readouts = torch.stack(self._run(x).readouts)
        return readouts.reshape(self.shape.n_layers, *x.shape[:-1], self.shape.n_outputs)

    def set_adjacency(self, matrices: Tensor) -> None:
        """Set the weights from a (K, n, n) tensor as in the paper; ignore entries that cannot affect an output."""
        if isinstance(matrices, Tensor) and matrices.is_floating_point():
            # Cast before the check, because finite values may overflow in the dtype of the network.
            matrices = matrices.to(next(self.parameters()).dtype)
        adjacency.check_adjacency(self.shape, matrices)
        edges = adjacency.edge_weights(self.shape, matrices)
        with torch.no_grad():
            for name, values in edges.items():
                getattr(self, name).copy_(values)
                if self.l0_gates:
                    log_alpha = torch.where(values != 0, CERTAIN, -CERTAIN)
                    getattr(self, f"log_alpha_{name}").copy_(log_alpha)

    @classmethod
    def from_mlp(cls, mlp: MLP) -> GNM:
        """Return the GNM that computes the same function as `mlp`, with one node per neuron (Theorem 5.1)."""
        return conversions.gnm_from_mlp(mlp)

    def to_mlp(self) -> MLP:
        """Return the equivalent MLP if the graph is layered; raise `NotMultipartite` otherwise."""
        return conversions.mlp_from_gnm(self)
