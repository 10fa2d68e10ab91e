"""Text from files and file names, made safe to show."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Escape what a terminal would act on or cannot show: control characters, direction marks, lone surrogates.

    Examples
    --------
    >>> printable("red \x1b[31m")
    'red \\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def brief(text: str, n_chars: int = 60) -> str:
    """Return a text, or its beginning if it is long: a damaged file may have a megabyte where a name should be.

    Examples
    --------
    >>> brief("a" * 1000, n_chars=5)
    'aaaaa...'
    """
    return text if len(text) <= n_chars else f"{text[:n_chars]}..."


def shown(value: object, n_chars: int = 200) -> str:
    """Return the `repr` of a value for messages: its beginning if it is long, its type if it has none.

    Examples
    --------
    >>> shown("a" * 1000, n_chars=5)
    "'aaaa..."
    """
    try:
        text = repr(value)
    except Exception:  # of an object of the user, or an integer with more digits than Python writes
        text = f"<{type(value).__name__}>"
    return brief(text, n_chars)
