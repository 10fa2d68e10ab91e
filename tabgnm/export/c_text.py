"""Conversion of names, strings, comments and numbers with any characters to C source."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tabgnm._printable import brief, printable
from tabgnm.export.program import ExportError

# Keywords of C up to C23 and of C++ (so that a C++ program can include the file), and lower-case macros that compilers
# or standard headers define.
_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class co_await
co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
requires restrict return short signed sizeof static static_assert static_cast struct switch template this
thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using virtual void volatile
wchar_t while xor xor_eq assert complex errno i386 imaginary linux noreturn offsetof stderr stdin stdout unix
"""
_RESERVED = frozenset(_WORDS.split())
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*", re.ASCII | re.IGNORECASE)
_LONGEST_IDENTIFIER = 63  # significant characters in C99
_LONGEST_STRING = 4095  # characters that every C99 compiler accepts


def identifiers(names: Iterable[str]) -> list[str]:
    """Return a unique C identifier for each name.

    Identifiers are in lower case, because names in upper case may be macros.

    Examples
    --------
    >>> identifiers(["Age", "age", "int", "2nd class", "größe", ""])
    ['age', 'age_2', 'int_', 'x2nd_class', 'gr_e', 'x']
    """
    found: list[str] = []
    taken: set[str] = set()
    for name in names:
        clean = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[: _LONGEST_IDENTIFIER - 8]
        if not clean or clean[0].isdigit():
            clean = f"x{clean}"
        clean = f"{clean}_" if clean in _RESERVED else clean
        own, number = clean, 1
        while own in taken:
            number += 1
            own = f"{clean}_{number}"
        taken.add(own)
        found.append(own)
    return found


def check_prefix(prefix: str) -> None:
    """Raise if C names cannot begin with this prefix."""
    if not isinstance(prefix, str) or not _IDENTIFIER.fullmatch(prefix) or len(prefix) > _LONGEST_IDENTIFIER // 2:
        raise ExportError(
            f"prefix={prefix!r:.80} is not a valid prefix of C names; expected at most {_LONGEST_IDENTIFIER // 2} "
            "letters, digits and underscores, starting with a letter, such as prefix='churn'"
        )


def string(text: str) -> str:
    r"""Return a string literal of the text in UTF-8.

    Octal escapes have at most three digits, so a digit may follow. Question marks are escaped, because they could be
    part of a trigraph.

    Examples
    --------
    >>> print(string('"é1"??/'))
    "\"\303\2511\"\?\?/"
    """
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise ExportError(
            f"{brief(text)!a} cannot be encoded in UTF-8, so it cannot be a C string; replace this text before fit"
        ) from None
    if 0 in encoded:
        raise ExportError(
            f"{brief(text)!a} contains a null character, which would end a C string; replace it before fit"
        )
    if len(encoded) > _LONGEST_STRING:
        raise ExportError(
            f"the text {brief(text)!a} has {len(encoded)} bytes, but a C string may have at most {_LONGEST_STRING}; "
            "shorten it before fit"
        )
    return '"' + "".join(map(_escaped, encoded)) + '"'


def _escaped(byte: int) -> str:
    char = chr(byte)
    if char in '"\\?':
        return f"\\{char}"
    return char if 32 <= byte < 127 else f"\\{byte:03o}"


def comment(text: str) -> str:
    """Return a text for use in a comment, which neither begins nor ends a comment."""
    return re.sub(r"(?<=\*)(?=/)|(?<=/)(?=\*)", " ", brief(printable(text), 200))


def number(value: float) -> str:
    """Return a literal of type double, negative ones in parentheses.

    Examples
    --------
    >>> number(1), number(-0.1), number(1e300)
    ('1.0', '(-0.1)', '1e+300')
    """
    text = repr(float(value))
    return f"({text})" if text.startswith("-") else text
