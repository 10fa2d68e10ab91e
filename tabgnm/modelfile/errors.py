"""What goes wrong with model files."""

from __future__ import annotations


class ModelFileError(ValueError):
    """A model file cannot be read, or a model cannot be written as one; the message says what is wrong."""


def shown(value: object, longest: int = 80) -> str:
    """Return the `repr` of a value from a file, cut where it is long: the file decides how long it is."""
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]}..."


def cause(error: Exception) -> str:
    """Return what an exception says, cut where it is long."""
    text = str(error)
    return text if len(text) <= 400 else f"{text[:400]}..."
