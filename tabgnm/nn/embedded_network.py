"""A network with learned embeddings of its inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from tabgnm.nn.embeddings import InputEmbedding, embed
from tabgnm.nn.message_passing import Trace
from tabgnm.nn.network import Network
from tabgnm.nn.shapes import EmbeddedShape, GNMShape, MLPShape


class EmbeddedNetwork(Network):
    """A GNM or MLP whose inputs are learned embeddings of the columns of a table.

    Parameters
    ----------
    embedding : InputEmbedding
        The embedding of the columns.
    body : GNMShape or MLPShape
        The shape of the network after the embedding; its n_inputs must be `embedding.n_outputs`.
    dropout : float, default=0.0
        The dropout rate in all layers of the body except the last.
    l0_gates : bool, default=False
        Whether every edge of the body has a hard-concrete gate, for `expected_l0`.
    generator, device, dtype
        As in other PyTorch modules. The generator is used for the initialization. Codes above 256 require at least
        float32 inputs, because bfloat16 rounds them.

    Shape
    -----
    - input: (..., embedding.n_columns)
    - output: (..., body.n_outputs)

    Examples
    --------
    >>> import torch
    >>> from tabgnm.nn import EmbeddedNetwork, GNMShape, InputEmbedding
    >>> embedding = InputEmbedding(n_plain=0, n_numeric=2, levels=(7,))
    >>> body = GNMShape(embedding.n_outputs, 1, n_nodes=40, n_layers=2)
    >>> net = EmbeddedNetwork(embedding, body)
    >>> net(torch.tensor([[0.5, -1.0, 6.0], [0.1, 2.0, 0.0]])).shape
    torch.Size([2, 1])
    """

    shape: EmbeddedShape

    def __init__(
        self,
        embedding: InputEmbedding,
        body: GNMShape | MLPShape,
        *,
        dropout: float = 0.0,
        l0_gates: bool = False,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        shape = EmbeddedShape(embedding, body)
        super().__init__(shape, dropout=dropout, l0_gates=l0_gates, generator=generator, device=device, dtype=dtype)

    def embed(self, x: Tensor) -> Tensor:
        """Return the embedded rows, which are the inputs of the body.

        Shape
        -----
        - x: (..., embedding.n_columns)
        - output: (..., embedding.n_outputs)
        """
        embedding = self.shape.embedding
        if x.dim() == 0 or x.shape[-1] != embedding.n_columns:
            raise ValueError(
                f"x has shape {tuple(x.shape)}; expected (..., {embedding.n_columns}), the columns of the embedding"
            )
        self._check_codes(x)
        embedded = embed(embedding, self.effective_parameters(), x.reshape(-1, embedding.n_columns))
        return embedded.reshape(*x.shape[:-1], embedding.n_outputs)

    def _run(self, x: Tensor) -> Trace:
        if isinstance(x, Tensor) and x.dim() and x.shape[-1] == self.shape.n_inputs:  # otherwise, the base class raises
            self._check_codes(x)
        return super()._run(x)

    def _check_codes(self, x: Tensor) -> None:
        """Raise ValueError for invalid codes, which would select levels of another category."""
        if torch.compiler.is_compiling() or x.device.type == "meta":  # values are not available
            return
        try:
            self.shape.embedding.check_codes(x)
        except RuntimeError as error:  # values are not available inside vmap
            if "vmap" not in str(error):
                raise
