"""Export of fitted estimators to ONNX models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from sklearn.utils.validation import check_is_fitted

from tabgnm import __version__
from tabgnm.estimators.machines import advice
from tabgnm.export.labels import plain_labels
from tabgnm.export.onnx_columns import MATRIX, ColumnInput, ColumnReader, known_levels, missing_text
from tabgnm.export.onnx_graph import GraphBuilder, onnx_module
from tabgnm.export.onnx_networks import Arithmetic
from tabgnm.export.onnx_outputs import OutputWriter, output_names
from tabgnm.export.pack_program import PackProgram, pack_program_of
from tabgnm.export.program import ExportError, Program, RawColumn, program_of
from tabgnm.export.small import is_small
from tabgnm.table.recipes import Recipe

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

NumberType = Literal["double", "float"]
_NUMPY_TYPES = {"double": "float64", "float": "float32", "bool": "bool", "int64": "int64", "string": "string"}
_MAX_BYTES = 2_000_000_000  # of an ONNX file


def onnx_model(estimator: TabularEstimator, *, matrix: bool | None = None, number_type: NumberType = "double") -> bytes:
    """Return a fitted estimator as an ONNX model (opset 13, ai.onnx.ml 2).

    Parameters
    ----------
    estimator : TabularEstimator
        A fitted estimator: a whole pack, or the result of `distill` or `fit_sparse`, whose graph is small.
    matrix : bool or None, default=None
        Whether the model has a single input "X" of shape (rows, columns), with the columns in the order of `fit`,
        instead of one input per column. Requires that all columns are numbers. If None, True if the estimator was
        fitted to an array of numbers, none of which are categories.
    number_type : {"double", "float"}, default="double"
        The type of numeric inputs and outputs. "float" may lose digits of the inputs.

    Returns
    -------
    bytes
        The serialized model; see docs/export-onnx.md for its inputs and outputs.
    """
    check_is_fitted(estimator, "fitted_")
    if number_type not in ("double", "float"):
        raise ExportError(f"number_type={number_type!r} is not known; use 'double' or 'float'")
    onnx_module()
    program: Program | PackProgram = program_of(estimator) if is_small(estimator) else pack_program_of(estimator)
    if isinstance(program, PackProgram) and program.n_bytes > _MAX_BYTES:
        raise ExportError(
            f"the weights have {program.n_bytes:,} bytes, but an ONNX file may have at most {_MAX_BYTES:,}; export a "
            f"small machine: {advice(estimator)}"
        )
    all_columns = [RawColumn(i, plan.name, plan.kind) for i, plan in enumerate(estimator.fitted_.encoders[0].plans)]
    is_matrix = _is_matrix(program, matrix, has_names=hasattr(estimator, "feature_names_in_"))
    n_joint = 0 if program.one_dimensional else len(program.classes)
    inputs = _inputs(program.columns or all_columns[:1], output_names(n_joint), estimator, number_type, is_matrix)
    graph = GraphBuilder([*(own.input for own in inputs), *output_names(n_joint)])
    if is_matrix:
        graph.input(MATRIX, _NUMPY_TYPES[number_type], len(all_columns))
    else:
        for own in inputs:
            graph.input(own.input, _NUMPY_TYPES[own.type], 1)
    lists: Sequence[list[Recipe]] = [list(program.recipes)] if isinstance(program, Program) else program.recipes
    levels = known_levels([recipe for recipes in lists for recipe in recipes])
    reader = ColumnReader(graph, inputs, levels, is_matrix=is_matrix)
    _compute(program, graph, reader, OutputWriter(graph, _NUMPY_TYPES[number_type]))
    model = graph.model(type(estimator).__name__)
    _describe(model, estimator, program, inputs, levels)
    return bytes(model.SerializeToString(deterministic=True))


def _compute(program: Program | PackProgram, graph: GraphBuilder, reader: ColumnReader, writer: OutputWriter) -> None:
    if isinstance(program, Program):
        if program.link == "constant":
            writer.only_class(program.classes[0], reader.zeros())
        else:
            encoded = reader.encoded(program.recipes, "float64")
            writer.of_machine(program, Arithmetic(graph, "float64").machine(program.machine, encoded))
        return
    if program.kind == "one":
        writer.only_class(program.classes[0], reader.zeros())
        return
    dtype = "float64" if program.exact else program.dtype
    arithmetic = Arithmetic(graph, dtype)
    rows = [reader.encoded(recipes, program.dtype) for recipes in program.recipes]
    if program.dtype == "float32":  # the estimator rounds encoded rows too
        rows = [graph.cast(own, "float32") for own in rows]
        rows = [graph.cast(own, "float64") for own in rows] if program.exact else rows
    outputs = [arithmetic.outputs(group, rows[group.encoder]) for group in program.groups]
    writer.of_pack(program, [graph.cast(own, "float64") if dtype == "float32" else own for own in outputs])


def _is_matrix(program: Program | PackProgram, wanted: bool | None, *, has_names: bool) -> bool:
    others = [own for own in program.columns if own.kind in ("category", "datetime")]
    if wanted and others:
        codes = "; whole numbers remain numbers with integer_codes=False" if others[0].kind == "category" else ""
        raise ExportError(
            f"matrix=True requires a table of numbers, but column {others[0].name!r} is a {others[0].kind}; use "
            f"matrix=False, which creates one input per column{codes}"
        )
    return not others and not has_names if wanted is None else wanted


def _inputs(
    columns: Sequence[RawColumn],
    taken: Sequence[str],
    estimator: TabularEstimator,
    number_type: str,
    is_matrix: bool,
) -> list[ColumnInput]:
    """Return an input for each column, with the name of the column unless it is empty or the name of an output."""
    if is_matrix:
        return [ColumnInput(own, MATRIX, number_type) for own in columns]
    names, found = {own.name for own in columns} | set(taken), []
    for own in columns:
        name = own.name
        if not name or name in taken:
            name = f"column_{own.position}"
            while name in names:
                name += "_"
        found.append(ColumnInput(own, name, _type_of(own, estimator, number_type)))
    return found


def _type_of(column: RawColumn, estimator: TabularEstimator, number_type: str) -> str:
    if column.kind == "category":
        return "string"
    if column.kind == "datetime":
        return "int64"
    plans = [encoder.plans[column.position] for encoder in estimator.fitted_.encoders]
    if column.kind == "boolean" and not any(plan.n_missing for plan in plans):
        return "bool"
    return number_type


def _describe(
    model: Any,
    estimator: TabularEstimator,
    program: Program | PackProgram,
    inputs: Sequence[ColumnInput],
    levels: Mapping[int, Sequence[str]],
) -> None:
    """Add a description of the model to its metadata."""
    classes = [plain_labels(own)[1] for own in program.classes]
    model.producer_name, model.producer_version = "tabgnm", __version__
    facts = {
        "tabgnm_version": __version__,
        "estimator": type(estimator).__name__,
        "columns": [_described_column(own, levels) for own in inputs],
    }
    if classes:
        facts["classes"] = classes[0] if program.one_dimensional else classes
    for name, value in facts.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = name, value if isinstance(value, str) else json.dumps(value)


def _described_column(own: ColumnInput, levels: Mapping[int, Sequence[str]]) -> dict[str, Any]:
    column = own.column
    described = {"name": column.name, "position": column.position, "kind": column.kind, "input": own.input}
    if column.kind == "category":
        described["missing"] = missing_text(levels.get(column.position, ()))
    return described
