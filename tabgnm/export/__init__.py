"""Export of fitted estimators to code that runs without this package: ONNX, C, SQL, Python."""

from tabgnm.export.c import to_c
from tabgnm.export.equations import equations
from tabgnm.export.onnx_model import onnx_model
from tabgnm.export.program import ExportError, Program, RawColumn, program_of
from tabgnm.export.python_file import python_file
from tabgnm.export.sql import to_sql

__all__ = [
    "ExportError",
    "Program",
    "RawColumn",
    "equations",
    "onnx_model",
    "program_of",
    "python_file",
    "to_c",
    "to_sql",
]
