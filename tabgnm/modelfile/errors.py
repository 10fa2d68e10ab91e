"""Errors of model files."""

from __future__ import annotations


class ModelFileError(ValueError):
    """A model file cannot be read, or a model cannot be saved."""


def shown(value: object, longest: int = 80) -> str:
    """Return the `repr` of a value from a file, truncated as the file may contain anything."""
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]}..."


def cause(error: Exception) -> str:
    """Return the message of an exception, truncated."""
    text = str(error)
    return text if len(text) <= 400 else f"{text[:400]}..."
