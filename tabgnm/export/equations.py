"""Export of small machines to equations in the names and units of the table: text, LaTeX or SymPy."""

from __future__ import annotations

import itertools
import textwrap
from typing import TYPE_CHECKING, Any

from tabgnm.export.formula_building import formulas_of
from tabgnm.export.formula_inputs import latex_escaped
from tabgnm.export.formulas import (
    Call,
    Expression,
    Formulas,
    Interpolation,
    Line,
    Name,
    Note,
    Ratio,
    Sum,
    number_text,
)

if TYPE_CHECKING:
    from tabgnm.export.program import Program

FORMATS = ("text", "latex", "sympy")
DIGITS = 6
_LINE = 100  # characters of a line of text
_TERMS = 5  # of a line of LaTeX
_KEPT_SPACE = "\0"  # a space within a name, at which lines are not broken
_MAX_SORTED = 8  # outputs that SymPy can express in sorted order


def equations(program: Program, format: str = "text", digits: int | None = DIGITS) -> Any:  # noqa: A002 - the usual name
    """Return the equations of a program; see `GNMRegressor.equations`.

    Parameters
    ----------
    program : Program
    format : {"text", "latex", "sympy"}, default="text"
    digits : int or None, default=6
        The number of significant digits. If None, numbers are exact.

    Returns
    -------
    str, or a dict from predictions to SymPy expressions
    """
    if format not in FORMATS:
        raise ValueError(f"format={format!r} is not known; use one of {', '.join(map(repr, FORMATS))}")
    if digits is not None and (isinstance(digits, bool) or not isinstance(digits, int) or not 1 <= digits <= 17):
        raise ValueError(
            f"digits={digits!r} is out of range; expected an integer from 1 to 17, or None for exact numbers"
        )
    formulas = formulas_of(program, digits)
    if format == "text":
        return _as_text(formulas)
    return _as_latex(formulas) if format == "latex" else _as_sympy(formulas)


# Text


def line_text(line: Line) -> str:
    """Return an equation as text; long ones are wrapped, and further lines are indented."""
    return _wrapped(f"{line.name.text} = {_text(line.expression)}", "    ").replace(_KEPT_SPACE, " ")


def _as_text(formulas: Formulas) -> str:
    lines = [line_text(line) for line in formulas.lines]
    return "\n".join([*lines, "", *(_wrapped(f"# {note.text}", "#   ") for note in formulas.notes)])


def _wrapped(line: str, indent: str) -> str:
    return textwrap.fill(line, _LINE, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _text(own: Expression) -> str:
    if isinstance(own, Name):
        return own.text.replace(" ", _KEPT_SPACE)
    if isinstance(own, Sum):
        return _joined([(factor, _text(term)) for factor, term in own.terms], own.constant, number_text, "*")
    if isinstance(own, Call):
        return f"{own.function}({', '.join(map(_text, own.arguments))})"
    if isinstance(own, Ratio):
        return f"{_text(own.numerator)}/{_text(own.denominator)}"
    knots, values = ([number_text(each) for each in numbers] for numbers in (own.knots, own.values))
    return f"interpolate({_text(own.argument)}, [{', '.join(knots)}], [{', '.join(values)}])"


def _joined(terms: list[tuple[float, str]], constant: float, number: Any, times: str) -> str:
    """Return a sum with signs between its terms."""
    parts = [
        (factor < 0, term if abs(factor) == 1 else f"{number(abs(factor))}{times}{term}") for factor, term in terms
    ]
    if constant or not parts:
        # 1 - p reads better than -p + 1.
        first = 0 if constant > 0 and all(negative for negative, _ in parts) else len(parts)
        parts.insert(first, (constant < 0, number(abs(constant))))
    text = "".join(f" {'-' if negative else '+'} {part}" for negative, part in parts)
    return text[3:] if text.startswith(" + ") else f"-{text[3:]}"


# LaTeX


def _as_latex(formulas: Formulas) -> str:
    lines = [rf"  {line.name.latex} &= {_latex(line.expression)}" for line in formulas.lines]
    notes = [f"% {_latex_note(note)}" for note in formulas.notes if not note.of_text]
    return "\n".join([r"\begin{align*}", " \\\\\n".join(lines), r"\end{align*}", *notes])


def _latex_note(own: Note) -> str:
    """Return a note that is also valid outside of a comment."""
    return "".join(f"${part.latex}$" if isinstance(part, Name) else latex_escaped(part) for part in own.parts)


def _latex(own: Expression) -> str:
    if isinstance(own, Name):
        return own.latex
    if isinstance(own, Sum):
        terms = [(factor, _latex(term)) for factor, term in own.terms]
        if len(terms) <= _TERMS:
            return _joined(terms, own.constant, _latex_number, r"\,")
        parts = [_joined(terms[:_TERMS], 0.0, _latex_number, r"\,")]
        for first in range(_TERMS, len(terms), _TERMS):
            last = first + _TERMS >= len(terms)
            part = _joined(terms[first : first + _TERMS], own.constant if last else 0.0, _latex_number, r"\,")
            parts.append(f"- {part[1:]}" if part.startswith("-") else f"+ {part}")
        return " \\\\\n    &\\quad ".join(parts)
    if isinstance(own, Call):
        name = rf"\operatorname{{{own.function.replace('_', ' ')}}}"
        known = {"exp": r"\exp", "tanh": r"\tanh", "sigmoid": r"\sigma"}
        # Without \left( and \right), so that a long sum can be broken into lines.
        return f"{known.get(own.function, name)}({', '.join(map(_latex, own.arguments))})"
    if isinstance(own, Ratio):
        return rf"\frac{{{_latex(own.numerator)}}}{{{_latex(own.denominator)}}}"
    points = [f"({_latex_number(x)}, {_latex_number(y)})" for x, y in zip(own.knots, own.values, strict=True)]
    rows = [", ".join(points[first : first + _TERMS]) for first in range(0, len(points), _TERMS)]
    listed = ", \\\\\n    &\\quad ".join(rows)
    return rf"\operatorname{{interpolate}}({_latex(own.argument)};\ {listed})"


def _latex_number(number: float) -> str:
    text = number_text(number)
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}"


# SymPy


def _as_sympy(formulas: Formulas) -> dict[str, Any]:
    known: dict[Name, Any] = {}
    for line in formulas.lines:
        known[line.name] = _sympy(line, line.expression, known)
    return {name.text: known[name] for name in formulas.predictions}


def _sympy(line: Line, own: Expression, known: dict[Name, Any]) -> Any:
    import sympy  # type: ignore[import-untyped]

    def of(expression: Expression) -> Any:
        return _sympy(line, expression, known)

    if isinstance(own, Name):
        return known.get(own, sympy.Symbol(own.text, real=True))
    if isinstance(own, Sum):
        terms = [of(term) if factor == 1 else sympy.Float(factor) * of(term) for factor, term in own.terms]
        return sympy.Add(*terms, sympy.Float(own.constant) if own.constant or not terms else 0)
    if isinstance(own, Ratio):
        return of(own.numerator) / of(own.denominator)
    if isinstance(own, Interpolation):
        return _interpolated(of(own.argument), own)
    return _called(own, [of(argument) for argument in own.arguments])


def _called(own: Call, arguments: list[Any]) -> Any:
    import sympy

    z = arguments[0]
    if own.function == "relu":
        return sympy.Max(z, 0)
    if own.function == "leaky_relu":
        return sympy.Piecewise((z, z > 0), (sympy.Float(0.01) * z, True))
    # SymPy rewrites exp(z + 1000) as exp(1000)*exp(z), which overflows; it does not rewrite the following forms.
    if own.function == "elu":
        return sympy.Max(z, 0) + sympy.exp(sympy.Min(z, 0)) - 1
    if own.function == "gelu":
        return z * (1 + sympy.erf(z / sympy.sqrt(2))) / 2
    if own.function == "silu":
        return z * (1 + sympy.tanh(z / 2)) / 2
    if own.function in ("softplus", "mish"):
        softplus = sympy.Max(z, 0) + sympy.log(1 + sympy.exp(-sympy.Abs(z)))
        return softplus if own.function == "softplus" else z * sympy.tanh(softplus)
    if own.function == "tanh":
        return sympy.tanh(z)
    if own.function == "sigmoid":
        return (1 + sympy.tanh(z / 2)) / 2
    if own.function == "exp":
        return sympy.exp(z, evaluate=False)
    if own.function == "clip":
        return sympy.Min(sympy.Max(z, arguments[1]), arguments[2])
    if own.function == "smooth":
        return z / sympy.sqrt(1 + (z / 3) ** 2)
    assert own.function == "kth_smallest"
    place, numbers = int(z), arguments[1:]
    if len(numbers) > _MAX_SORTED:
        raise ValueError(
            f"{len(numbers)} quantiles are too many for SymPy; expected at most {_MAX_SORTED}: use format='text'"
        )
    # The k-th smallest number is the smallest maximum of k numbers. Not evaluated, as comparing them all takes long.
    maxima = [sympy.Max(*own, evaluate=False) for own in itertools.combinations(numbers, place)]
    return sympy.Min(*maxima, evaluate=False)


def _interpolated(x: Any, own: Interpolation) -> Any:
    import sympy

    pieces = [(sympy.Float(own.values[0]), x <= own.knots[0])]
    points = list(zip(own.knots, own.values, strict=True))
    for (left, low), (right, high) in itertools.pairwise(points):
        if right > left:
            slope = sympy.Float((high - low) / (right - left))
            pieces.append((sympy.Float(low) + slope * (x - sympy.Float(left)), x <= right))
    return sympy.Piecewise(*pieces, (sympy.Float(own.values[-1]), True))
