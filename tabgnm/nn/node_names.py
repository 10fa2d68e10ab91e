"""Names of the nodes of a network."""

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
        The name of each input node. With a learned embedding, these are learned features, such as "age[3]".
    columns : tuple of str
        The column of the table that each input node comes from.
    outputs : tuple of str
        The name of each output node.

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
        """Return the names of the nodes of a network, given the names of its encoded columns.

        Parameters
        ----------
        encoded : sequence of str
            The names of the encoded columns, such as "city=Oslo".
        columns : sequence of str
            The column of the table that each encoded column comes from.
        outputs : sequence of str
            The name of each output node.
        embedding : InputEmbedding or None, default=None
            The embedding of the encoded columns, if any. The features of an embedded column are numbered from 0;
            feature 0 of a periodic embedding is the number itself.
        """
        if embedding is None:
            return cls(tuple(encoded), tuple(columns), tuple(outputs))
        owners = embedding.owners()
        inputs, first = [], 0
        for position, owner in enumerate(owners):
            if position and owners[position - 1] != owner:
                first = position
            inputs.append(encoded[owner] if owner < embedding.n_plain else f"{encoded[owner]}[{position - first}]")
        return cls(tuple(inputs), tuple(columns[owner] for owner in owners), tuple(outputs))

    @classmethod
    def numbered(cls, shape: Shape) -> NodeNames:
        """Return names for a network whose columns have no names: x0, x1, ... and y0, y1, ..."""
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
