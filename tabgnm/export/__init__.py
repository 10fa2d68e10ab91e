"""Fitted estimators as code that runs without this package: ONNX, C, SQL, Python."""

from tabgnm.export.onnx_model import onnx_model
from tabgnm.export.program import ExportError, Program, RawColumn, program_of
from tabgnm.export.python_file import python_file

__all__ = ["ExportError", "Program", "RawColumn", "onnx_model", "program_of", "python_file"]
