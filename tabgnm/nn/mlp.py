"""The multi-layer perceptron, which is the baseline of the paper."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import nn

from tabgnm.nn.mlp_shape import MLPShape
from tabgnm.nn.network import Network


class MLP(Network):
    """A multi-layer perceptron.

    Parameters
    ----------
    n_inputs, n_outputs : int
        The number of features, and the number of classes or targets.
    hidden : sequence of int, default=(64,)
        The widths of the hidden layers. If empty, the model is linear.
    activation : str, default="relu"
        The activation function of all layers except the last. See `tabgnm.nn.activation_names()` for the valid names.
    init : {"torch", "kaiming"}, default="torch"
        The initialization: as in `torch.nn.Linear`, which the authors of the paper use, or from the normal distribution
        of He et al., with zero biases.
    dropout : float, default=0.0
        The dropout rate after every activation.
    l0_gates : bool, default=False
        Whether every weight and bias has a hard-concrete gate, for `expected_l0`.
    generator, device, dtype
        As in other PyTorch modules. The generator is used for the initialization.

    Shape
    -----
    - input: (..., n_inputs)
    - output: (..., n_outputs)

    Examples
    --------
    >>> import torch
    >>> from tabgnm.nn import MLP
    >>> net = MLP(4, 3, hidden=(32, 32))
    >>> net(torch.zeros(5, 4)).shape, net.n_parameters()
    (torch.Size([5, 3]), 1315)
    """

    shape: MLPShape

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        hidden: Sequence[int] = (64,),
        activation: str = "relu",
        init: str = "torch",
        *,
        dropout: float = 0.0,
        l0_gates: bool = False,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        widths = tuple(hidden) if isinstance(hidden, Sequence) and not isinstance(hidden, str) else hidden
        shape = MLPShape(n_inputs, n_outputs, widths, activation, init)
        super().__init__(shape, dropout=dropout, l0_gates=l0_gates, generator=generator, device=device, dtype=dtype)

    @classmethod
    def from_linears(cls, linears: Sequence[nn.Linear], activation: str = "relu") -> MLP:
        """Create an MLP with the weights of consecutive `torch.nn.Linear` layers."""
        if not linears:
            raise ValueError("linears is empty; expected at least one torch.nn.Linear")
        for linear in linears:
            if not isinstance(linear, nn.Linear):
                raise TypeError(f"linears contains a {type(linear).__name__}; expected only torch.nn.Linear")
        for before, after in itertools.pairwise(linears):
            if before.out_features != after.in_features:
                raise ValueError(
                    f"a layer with {before.out_features} outputs is followed by a layer with {after.in_features} "
                    "inputs; expected equal numbers"
                )
        first, last = linears[0], linears[-1]
        net = cls(
            first.in_features,
            last.out_features,
            [linear.out_features for linear in linears[:-1]],
            activation=activation,
            device=first.weight.device,
            dtype=first.weight.dtype,
        )
        with torch.no_grad():
            for layer, linear in enumerate(linears, start=1):
                getattr(net, f"weight_{layer}").copy_(linear.weight.T)
                bias = getattr(net, f"bias_{layer}")
                bias.zero_() if linear.bias is None else bias.copy_(linear.bias)
        return net
