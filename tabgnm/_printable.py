"""Making text from files and file names safe to show."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Escape characters that a terminal interprets or cannot show: control characters, direction marks, surrogates.

    Examples
    --------
    >>> printable("red \x1b[31m")
    'red \\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def brief(text: str, n_chars: int = 60) -> str:
    """Return a text, or its beginning if it is long: in a damaged file, a name may have a megabyte.

    Examples
    --------
    >>> brief("a" * 1000, n_chars=5)
    'aaaaa...'
    """
    return text if len(text) <= n_chars else f"{text[:n_chars]}..."


def shortened(text: str, longest: int = 24) -> str:
    """Return a text, or its beginning and end if it is long: columns often differ only at the end.

    Examples
    --------
    >>> shortened("a_very_long_name_of_a_column_2024", 17)
    'a_very_lo…mn_2024'
    """
    if len(text) <= longest:
        return text
    end = (longest - 1) * 7 // 16
    return f"{text[: longest - 1 - end]}…{text[len(text) - end :]}"


def shown(value: object, n_chars: int = 200) -> str:
    """Return the `repr` of a value for messages: its beginning if it is long, its type if `repr` fails.

    Examples
    --------
    >>> shown("a" * 1000, n_chars=5)
    "'aaaa..."
    """
    try:
        text = repr(value)
    except Exception:  # the user's object may raise anything, and Python refuses to write huge integers
        text = f"<{type(value).__name__}>"
    return brief(text, n_chars)
