"""Fitted estimators as code that runs without this package: ONNX, C, SQL, Python."""

from tabgnm.export.program import ExportError, Program, RawColumn, program_of

__all__ = ["ExportError", "Program", "RawColumn", "program_of"]
