"""Errors and warnings about tables."""

import sys
import warnings


class TableError(ValueError):
    """A table or one of its cells is invalid. The message names the column and the remedy."""


class CellTypeError(TableError, TypeError):
    """A column or cell has a type that cannot be converted to a number or category (also a `TypeError`)."""


def printable(text: str) -> str:
    r"""Return a text with control characters and other invisible characters escaped as in Python literals.

    Examples
    --------
    >>> print(printable("red\x1b[31m"))
    red\x1b[31m
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def warn_caller(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points at the line outside this package that called it."""
    level, frame = 1, sys._getframe()
    inner = __name__.partition(".")[0], "functools"  # which computes cached properties
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inner:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
