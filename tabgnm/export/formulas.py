"""Formulas as trees, independent of notation; `equations` converts them to text, LaTeX or SymPy."""

from __future__ import annotations

import keyword
import re
import unicodedata
from dataclasses import dataclass, field

FUNCTION_NAMES = {
    "relu": "relu(z) = max(z, 0)",
    "leaky_relu": "leaky_relu(z) = z if z > 0 else 0.01*z",
    "elu": "elu(z) = z if z > 0 else exp(z) - 1",
    "gelu": "gelu(z) = z*(1 + erf(z/sqrt(2)))/2",
    "silu": "silu(z) = z/(1 + exp(-z))",
    "mish": "mish(z) = z*tanh(log(1 + exp(z)))",
    "softplus": "softplus(z) = log(1 + exp(z))",
    "tanh": "",
    "sigmoid": "sigmoid(z) = 1/(1 + exp(-z))",
    "exp": "",
    "clip": "clip(z, a, b) = min(max(z, a), b)",
    "smooth": "smooth(z) = z/sqrt(1 + (z/3)**2)",
    "interpolate": "interpolate(x, knots, values): linear between the knots, constant outside of them",
    "kth_smallest": "kth_smallest(k, ...): the k-th smallest of the numbers that follow",
}
_RESERVED = {*FUNCTION_NAMES, *keyword.kwlist, *keyword.softkwlist, "erf", "log", "max", "min", "sqrt"}


@dataclass(frozen=True)
class Name:
    """A symbol: a quantity of the table, or the result of another line.

    Attributes
    ----------
    text : str
        The name in text and in SymPy.
    latex : str
    """

    text: str
    latex: str


@dataclass(frozen=True)
class Sum:
    """A constant plus multiples of expressions."""

    terms: tuple[tuple[float, Expression], ...]
    constant: float = 0.0


@dataclass(frozen=True)
class Call:
    """One of `FUNCTION_NAMES`, applied to expressions."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Ratio:
    """A fraction."""

    numerator: Expression
    denominator: Expression


@dataclass(frozen=True)
class Interpolation:
    """Linear interpolation between points, constant outside of them."""

    argument: Expression
    knots: tuple[float, ...]
    values: tuple[float, ...]


Expression = Name | Sum | Call | Ratio | Interpolation


@dataclass(frozen=True)
class Line:
    """An equation: name = expression.

    Attributes
    ----------
    name : Name
    expression : Expression
    unit : int or None, default=None
        The position of the unit of the machine that the line computes; None for other lines.
    """

    name: Name
    expression: Expression
    unit: int | None = None


@dataclass(frozen=True)
class Note:
    """A comment below the formulas.

    Attributes
    ----------
    parts : tuple of str and Name
        Texts, and names that are written as in the formulas.
    of_text : bool, default=False
        Whether the note is about a name that only text and SymPy have.
    """

    parts: tuple[str | Name, ...]
    of_text: bool = False

    @property
    def text(self) -> str:
        """The note beside formulas in text."""
        return "".join(part.text if isinstance(part, Name) else part for part in self.parts)


def note(*parts: str | Name, of_text: bool = False) -> Note:
    """Return a note of these parts."""
    return Note(parts, of_text)


@dataclass(frozen=True)
class Formulas:
    """Lines, each of which only uses earlier ones, and notes for readers.

    Attributes
    ----------
    lines : tuple of Line
    predictions : tuple of Name
        The names of the lines that are predictions.
    notes : tuple of Note
    """

    lines: tuple[Line, ...]
    predictions: tuple[Name, ...]
    notes: tuple[Note, ...]


@dataclass
class Identifiers:
    """Creates unique names that differ from functions and from Python's keywords."""

    taken: set[str] = field(default_factory=lambda: set(_RESERVED))

    def new(self, wanted: str, otherwise: str = "x") -> str:
        """Return an identifier of ASCII letters, digits and underscores that is similar to the wanted name.

        Examples
        --------
        >>> names = Identifiers()
        >>> [names.new(wanted) for wanted in ("age", "sepal length (cm)", "age", "lambda", "Größe", "面積")]
        ['age', 'sepal_length_cm', 'age_2', 'lambda_2', 'Gro_e', 'x']
        """
        plain = "".join(own for own in unicodedata.normalize("NFKD", wanted) if not unicodedata.combining(own))
        name = wanted if re.fullmatch(r"[A-Za-z_]\w*", wanted, re.ASCII) else ""
        name = name or re.sub(r"\W+", "_", plain, flags=re.ASCII).strip("_")
        if not name or name[0].isdigit():
            name = f"{otherwise}_{name}" if name else otherwise
        unique, number = name, 1
        while unique in self.taken:
            number += 1
            unique = f"{name}_{number}"
        self.taken.add(unique)
        return unique


def number_text(number: float) -> str:
    """Return the shortest text that reads back as the same number.

    Examples
    --------
    >>> number_text(3.0), number_text(0.1), number_text(1e-7)
    ('3', '0.1', '1e-07')
    """
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e15 else repr(float(number))
