"""Names of the nodes of a network: the only place where they are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tabgnm.nn.embeddings import InputEmbedding
from tabgnm.nn.layout import NodeLayout

if TYPE_CHECKING:
    from tabgnm.nn.shapes import Shape


@dataclass(frozen=True)
class NodeNames:
    """Names of the nodes of a network, and the columns of the table that its inputs come from.

    Parameters
    ----------
    inputs : tuple of str
        Of each input node; behind a learned embedding these are the learned features, such as "age[3]".
    columns : tuple of str
        Of each input node, the column of the table that it comes from.
    outputs : tuple of str
        Of each output node.

    Examples
    --------
    >>> from tabgnm.nn import InputEmbedding, NodeNames
    >>> embedding = InputEmbedding(n_plain=2, n_numeric=1, numeric_dim=2)
    >>> names = NodeNames.of_columns(["city=Oslo", "city=Rome", "age"], ["city", "city", "age"], ["y"], embedding)
    >>> names.inputs, names.columns
    (('city=Oslo', 'city=Rome', 'age[0]', 'age[1]', 'age[2]'), ('city', 'city', 'age', 'age', 'age'))
    """

    inputs: tuple[str, ...]
    columns: tuple[str, ...]
    outputs: tuple[str, ...]

    @classmethod
    def of_columns(
        cls,
        encoded: Sequence[str],
        columns: Sequence[str],
        outputs: Sequence[str],
        embedding: InputEmbedding | None = None,
    ) -> NodeNames:
        """Name the nodes of a network that reads encoded columns.

        Parameters
        ----------
        encoded : sequence of str
            Names of the encoded columns, such as "city=Oslo".
        columns : sequence of str
            Of each encoded column, the column of the table that it comes from.
        outputs : sequence of str
        embedding : InputEmbedding or None, default=None
            What the network makes of the encoded columns before message passing. The features of an embedded column
            are numbered from 0 on; feature 0 of a periodic embedding is the number itself.
        """
        if embedding is None:
            return cls(tuple(encoded), tuple(columns), tuple(outputs))
        owners = embedding.owners()
        inputs, before = [], 0
        for place, owner in enumerate(owners):
            before = place if place == 0 or owners[place - 1] != owner else before
            inputs.append(encoded[owner] if owner < embedding.n_plain else f"{encoded[owner]}[{place - before}]")
        return cls(tuple(inputs), tuple(columns[owner] for owner in owners), tuple(outputs))

    @classmethod
    def numbered(cls, shape: Shape) -> NodeNames:
        """Name the nodes of a network whose columns have no names: x0, x1, ... and y0, y1, ..."""
        columns = [f"x{column}" for column in range(shape.n_inputs)]
        return cls.of_columns(columns, columns, [f"y{output}" for output in range(shape.n_outputs)], shape.embedding)

    def of_node(self, layout: NodeLayout, node: int) -> str:
        """Return the name of a node; hidden nodes are n0, n1, ..."""
        kind = layout.kind(node)
        if kind == "input":
            return self.inputs[node]
        if kind == "output":
            return self.outputs[node - layout.outputs.start]
        return "bias" if kind == "bias" else f"n{node - layout.hidden.start}"
