"""Building ONNX graphs from nodes and constants with unique names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm._extras import import_extra

Array = NDArray[Any]

# The lowest versions in which all operators used here have their current meaning.
OPSET = 13
ML_OPSET = 2
IR_VERSION = 7


def onnx_module(name: str = "onnx") -> Any:
    """Return the module onnx, or one of its submodules."""
    return import_extra(name, "onnx", "exporting to ONNX")


class GraphBuilder:
    """Collects nodes, constants, inputs and outputs.

    Parameters
    ----------
    reserved : iterable of str
        The names of inputs and outputs, which are not given to other tensors.
    """

    def __init__(self, reserved: Iterable[str]) -> None:
        self._helper = onnx_module("onnx.helper")
        self._numpy_helper = onnx_module("onnx.numpy_helper")
        self._names = set(reserved)
        self._counts: dict[str, int] = {}
        self._constants: dict[Any, str] = {}
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def _new_name(self, base: str) -> str:
        while True:
            self._counts[base] = self._counts.get(base, 0) + 1
            name = f"{base}_{self._counts[base]}"
            if name not in self._names:
                self._names.add(name)
                return name

    def input(self, name: str, dtype: str, width: int) -> str:
        """Add an input of shape (rows, width); `dtype` is the name of a NumPy type, or "string"."""
        self.inputs.append(self._helper.make_tensor_value_info(name, self._type(dtype), ["rows", width]))
        return name

    def output(self, name: str, tensor: str, dtype: str, widths: Sequence[int]) -> None:
        """Add a tensor of the graph as an output of shape (rows, *widths)."""
        self.op("Identity", tensor, output=name)
        self.outputs.append(self._helper.make_tensor_value_info(name, self._type(dtype), ["rows", *widths]))

    def _type(self, dtype: str) -> int:
        kind = np.dtype(object) if dtype == "string" else np.dtype(dtype)
        return int(self._helper.np_dtype_to_tensor_dtype(kind))

    def constant(self, values: Any, dtype: Any = None) -> str:
        """Return the name of a constant; equal constants are stored only once."""
        array = np.asarray(values, dtype=dtype)
        if array.dtype.kind in "UO":
            array = array.astype(object)
        key: Any = (array.dtype.str, array.shape, tuple(array.flat) if array.dtype.kind == "O" else array.tobytes())
        if key not in self._constants:
            name = self._constants[key] = self._new_name("constant")
            self.initializers.append(self._numpy_helper.from_array(array.copy(order="C"), name))
        return self._constants[key]

    def op(self, kind: str, *inputs: str, output: str | None = None, domain: str = "", **attributes: Any) -> str:
        """Add a node, and return the name of its only output."""
        return self.op_with_outputs(kind, *inputs, outputs=[output], domain=domain, **attributes)[0]

    def op_with_outputs(
        self, kind: str, *inputs: str, outputs: Sequence[str | None], domain: str = "", **attributes: Any
    ) -> list[str]:
        """Add a node, and return the names of its outputs; None in `outputs` stands for a new name."""
        names = [self._new_name(kind) if own is None else own for own in outputs]
        self.nodes.append(self._helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return names

    def cast(self, tensor: str, dtype: str) -> str:
        """Convert a tensor."""
        return self.op("Cast", tensor, to=self._type(dtype))

    def columns(self, tensor: str, first: int, end: int) -> str:
        """Return a slice of the last axis."""
        ends = [self.constant([own], np.int64) for own in (first, end, -1)]
        return self.op("Slice", tensor, *ends)

    def joined(self, tensors: Sequence[str], axis: int = -1) -> str:
        """Concatenate tensors; a single tensor is returned unchanged."""
        return tensors[0] if len(tensors) == 1 else self.op("Concat", *tensors, axis=axis)

    def model(self, name: str) -> Any:
        """Return the model."""
        graph = self._helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.initializers)
        opsets = [self._helper.make_opsetid("", OPSET)]
        if any(node.domain == "ai.onnx.ml" for node in self.nodes):
            opsets.append(self._helper.make_opsetid("ai.onnx.ml", ML_OPSET))
        return self._helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
