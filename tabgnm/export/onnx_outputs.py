"""Computing the outputs of an ONNX graph from those of networks: probabilities and labels, or numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.export.labels import plain_labels
from tabgnm.export.onnx_graph import GraphBuilder
from tabgnm.export.pack_program import PackGroup, PackProgram
from tabgnm.export.program import Program

Array = NDArray[Any]


class OutputWriter:
    """Adds the outputs of a graph; everything is computed in double.

    Parameters
    ----------
    graph : GraphBuilder
    number_type : {"float32", "float64"}
        The type of probabilities and predicted numbers.
    """

    def __init__(self, graph: GraphBuilder, number_type: str) -> None:
        self.graph, self.op, self._number_type = graph, graph.op, number_type

    # Whole packs

    def of_pack(self, program: PackProgram, outputs: Sequence[str]) -> None:
        """Add the outputs of a pack, given those of the networks of each group, (networks, rows, outputs) in double."""
        pairs = list(zip(program.groups, outputs, strict=True))
        if program.kind == "number":
            means = [self._mean(group, self._numbers(program, group, own), 3) for group, own in pairs]
            self.numbers(self._sorted(program, self._sum(means)), len(_link(program.groups[0]).scale))
        elif program.kind in ("binary", "multilabel"):
            mean = self._sum([self._mean(group, self._of_log_odds(own), 4) for group, own in pairs])
            mean = self._tempered(mean, program.temperature)
            if program.kind == "multilabel":
                self._multilabel(mean, len(program.classes))
            else:
                self.classes("", self.op("Squeeze", mean, self.graph.constant([1], np.int64)), program.classes[0])
        else:
            joint = program.kind == "joint"
            for (name, start), labels in zip(_targets(program.classes, joint=joint), program.classes, strict=True):
                means = []
                for group, own in pairs:
                    part = self.graph.columns(own, start, start + len(labels)) if joint else own
                    means.append(self._mean(group, self.op("Softmax", part, axis=-1), 3))
                self.classes(name, self._tempered(self._sum(means), program.temperature), labels)

    def _mean(self, group: PackGroup, values: str, rank: int) -> str:
        """Return the weighted sum over the networks of a group, the first axis of a tensor with `rank` axes."""
        axis = self.graph.constant([0], np.int64)
        if len(group.shares) == 1 and group.shares[0] == 1:
            return self.op("Squeeze", values, axis)
        shares = self.graph.constant(group.shares.reshape(-1, *[1] * (rank - 1)))
        return self.op("ReduceSum", self.op("Mul", values, shares), axis, keepdims=0)

    def _tempered(self, probabilities: str, temperature: float) -> str:
        if temperature == 1:
            return probabilities
        logs = self.op("Div", self.op("Log", probabilities), self.graph.constant(temperature))
        return self.op("Softmax", logs, axis=-1)

    def _sum(self, tensors: Sequence[str]) -> str:
        return tensors[0] if len(tensors) == 1 else self.op("Sum", *tensors)

    def _of_log_odds(self, z: str) -> str:
        """Return the probabilities of 0 and 1 on a new last axis."""
        both = [self.op("Unsqueeze", own, self.graph.constant([-1], np.int64)) for own in (self.op("Neg", z), z)]
        return self.op("Sigmoid", self.graph.joined(both))

    def _numbers(self, program: PackProgram, group: PackGroup, outputs: str) -> str:
        link = _link(group)
        if link.most is not None:
            outputs = self.op("Clip", outputs, self.graph.constant(-link.most), self.graph.constant(link.most))
        numbers = self.op(
            "Add", self.op("Mul", outputs, self.graph.constant(link.scale)), self.graph.constant(link.offset)
        )
        if link.most is not None:
            numbers = self.op("Exp", numbers)
        limits = self.graph.constant(-program.largest), self.graph.constant(program.largest)
        return self._sorted(program, self.op("Clip", numbers, *limits))

    def _sorted(self, program: PackProgram | Program, numbers: str) -> str:
        if isinstance(program, PackProgram):
            if not program.is_sorted:
                return numbers
            n_numbers = len(_link(program.groups[0]).scale)
        else:
            n_numbers = len(program.machine.outputs)
        count = self.graph.constant([n_numbers], np.int64)
        return self.graph.op_with_outputs("TopK", numbers, count, outputs=[None, None], axis=-1, largest=0)[0]

    # Small machines

    def of_machine(self, program: Program, outputs: str) -> None:
        """Add the outputs of a program, given those of its machine, (rows, outputs) in double."""
        if program.link in ("identity", "sorted", "exp"):
            if program.link == "exp":
                limits = self.graph.constant(-program.most), self.graph.constant(program.most)
                outputs = self.op("Exp", self.op("Clip", outputs, *limits))
                outputs = self.op("Mul", outputs, self.graph.constant([program.center]))
            elif program.link == "sorted":
                outputs = self._sorted(program, outputs)
            self.numbers(outputs, len(program.machine.outputs))
        elif program.link == "sigmoid":
            if program.multilabel:
                self._multilabel(self._of_log_odds(outputs), len(program.classes))
            else:
                both = self.op("Concat", self.op("Neg", outputs), outputs, axis=1)
                self.classes("", self.op("Sigmoid", both), program.classes[0])
        else:
            joint = not program.one_dimensional
            for (name, start), own in zip(_targets(program.classes, joint=joint), program.classes, strict=True):
                part = self.graph.columns(outputs, start, start + len(own)) if joint else outputs
                self.classes(name, self.op("Softmax", part, axis=-1), own)

    # Outputs

    def only_class(self, label: Array, zeros: str) -> None:
        """Add the outputs of a model with a single class; `zeros` are (rows, 1) in double."""
        self.classes("", self.op("Add", zeros, self.graph.constant(1.0)), label)

    def numbers(self, tensor: str, n_numbers: int) -> None:
        """Add the output of a regressor."""
        self.graph.output("variable", self._typed(tensor), self._number_type, [n_numbers])

    def classes(self, name: str, probabilities: str, labels: Array) -> None:
        """Add labels and probabilities, (rows, classes), of one target."""
        best = self.op("ArgMax", probabilities, axis=1, keepdims=0)
        dtype, plain = plain_labels(labels)
        known = self.graph.constant(plain, object if dtype == "string" else dtype)
        self.graph.output(f"label{name}", self.op("Gather", known, best, axis=0), dtype, [])
        self.graph.output(f"probabilities{name}", self._typed(probabilities), self._number_type, [len(labels)])

    def _multilabel(self, probabilities: str, n_targets: int) -> None:
        """Add the label (0 or 1) and the probability of 1 of each target, given probabilities (rows, targets, 2)."""
        self.graph.output("label", self.op("ArgMax", probabilities, axis=2, keepdims=0), "int64", [n_targets])
        of_ones = self.op("Gather", probabilities, self.graph.constant(1, np.int64), axis=2)
        self.graph.output("probabilities", self._typed(of_ones), self._number_type, [n_targets])

    def _typed(self, tensor: str) -> str:
        return tensor if self._number_type == "float64" else self.graph.cast(tensor, self._number_type)


def output_names(n_joint: int) -> list[str]:
    """Return all possible names of outputs; `n_joint` is the number of class targets if there are several, else 0."""
    suffixes = ["", *(f"_{target}" for target in range(n_joint))]
    return ["variable", *(f"{what}{suffix}" for what in ("label", "probabilities") for suffix in suffixes)]


def _targets(classes: Sequence[Array], *, joint: bool) -> list[tuple[str, int]]:
    """Return for each target the suffix of its output names, and the position of its first network output."""
    starts = np.cumsum([0, *map(len, classes)]).tolist()
    return [(f"_{target}" if joint else "", starts[target]) for target in range(len(classes))]


def _link(group: PackGroup) -> Any:
    assert group.link is not None
    return group.link
