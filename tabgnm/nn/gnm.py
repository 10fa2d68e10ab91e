"""The Graph Neural Machine of Nikolentzos et al. (2024), section 5 of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tabgnm.nn import adjacency, conversions
from tabgnm.nn.hard_concrete import CERTAIN
from tabgnm.nn.network import Network
from tabgnm.nn.shapes import Combine, GNMShape

if TYPE_CHECKING:
    from tabgnm.nn.mlp import MLP


class GNM(Network):
    """A Graph Neural Machine: synchronous message passing on a nearly complete graph.

    The nodes are inputs, hidden, one bias, outputs. Every node but the bias is updated K times from all nodes, with
    its own weight per edge and layer. Weights that no output can depend on are not computed with: see `adjacency` for
    the paper's full matrices. Parameters `weight_k` are (sources, targets), the transpose of those.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Number of features, and of classes or targets.
    n_nodes : int, default=50
        All nodes, inputs, bias and outputs counted.
    n_layers : int, default=2
        K, the rounds of message passing.
    activation : str, default="relu"
        Applied in all but the last layer; `tabgnm.nn.activation_names()` lists the names.
    init : {"paper", "kaiming"}, default="paper"
        "paper": standard deviation sqrt(2) / n, as in the authors' code; "kaiming": sqrt(2 / fan-in) per layer.
    combine : {"none", "residual", "gated"}, default="none"
        COMBINE step of the GNN framework: the new feature alone, added to the old one, or mixed with it by a learned
        gate per node.
    clamp_inputs : bool, default=False
        Input nodes keep their value in every layer (skip connections from the inputs to every layer).
    persistent_outputs : bool, default=False
        Output nodes add up what they receive, and can be read after every layer (`anytime`).
    tied : bool, default=False
        One adjacency matrix for all layers.
    learn_initial : bool, default=False
        Hidden and output nodes start at learned values instead of 0 (the authors' `trainable_features`).
    dropout : float, default=0.0
        Rate on the new node features in all layers but the last (the bias is never dropped).
    l0_gates : bool, default=False
        Put a hard-concrete gate on every edge, for `expected_l0`.
    generator, device, dtype
        As in torch's own modules.

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
        """Predictions after every layer, for persistent outputs; the last one is what `forward` gives.

        Shape
        -----
        - x: (..., m)
        - output: (K, ..., c)
        """
        if not self.shape.persistent_outputs:
            raise ValueError(
                "persistent_outputs=False: output nodes hold a prediction only after the last layer; "
                "use GNM(..., persistent_outputs=True) to read them after every layer"
            )
        readouts = torch.stack(self._run(x).readouts)
        return readouts.reshape(self.shape.n_layers, *x.shape[:-1], self.shape.n_outputs)

    def set_adjacency(self, matrices: Tensor) -> None:
        """Take over weights given as the paper's (K, n, n) tensor; entries that cannot matter are not kept."""
        if isinstance(matrices, Tensor) and matrices.is_floating_point():
            matrices = matrices.to(
                next(self.parameters()).dtype
            )  # before the check: what is finite there may not be here
        adjacency.check_adjacency(self.shape, matrices)
        edges = adjacency.edge_weights(self.shape, matrices)
        with torch.no_grad():
            for name, values in edges.items():
                getattr(self, name).copy_(values)
                if self.l0_gates:
                    decided = torch.where(values != 0, CERTAIN, -CERTAIN)
                    getattr(self, f"log_alpha_{name}").copy_(decided)

    @classmethod
    def from_mlp(cls, mlp: MLP) -> GNM:
        """Theorem 5.1: the GNM with one node per neuron of `mlp`, plus the bias, that computes the same function."""
        return conversions.gnm_from_mlp(mlp)

    def to_mlp(self) -> MLP:
        """Give the MLP that this machine is, if its graph is layered; raises `NotMultipartite` otherwise."""
        return conversions.mlp_from_gnm(self)
