"""Errors of files."""

from __future__ import annotations


class FileError(ValueError):
    """A file cannot be read or written."""


def cause(error: Exception) -> str:
    """Return the message of an exception, truncated."""
    text = str(error)
    return text if len(text) <= 400 else f"{text[:400]}..."


def reason(error: Exception) -> str:
    """Return the message of the operating system, or that of the exception."""
    said = error.strerror if isinstance(error, OSError) else None
    return said or str(error) or type(error).__name__
