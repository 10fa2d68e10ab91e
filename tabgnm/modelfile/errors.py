"""Errors of model files."""

from __future__ import annotations

from tabgnm._files.errors import FileError


class ModelFileError(FileError):
    """A model file cannot be read, or a model cannot be saved."""
