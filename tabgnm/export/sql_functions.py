"""Activation functions in SQL, as formulas of what all three databases have: exp, ln, tanh and abs.

Arguments of exp are limited: PostgreSQL raises an error where the result is too large, or rounds to 0.
"""

from __future__ import annotations

import functools

import numpy as np
from scipy.special import erfcx

from tabgnm.export.sql_dialects import Dialect, literal
from tabgnm.table.values import Floats

_MOST_LOG = 300.0  # exp(-300) is 5e-131, and products with it are not yet 0
_TAIL_DEGREE = 20  # a higher one would lose more to rounding than it gains
_MOST_DEVIATIONS = 25.0  # beyond which the normal distribution has nothing left: 3e-138

# Functions whose formula needs their argument only once.
SIMPLE = ("identity", "relu", "tanh", "sigmoid")


def prepared(function: str, z: str, dialect: Dialect) -> str | None:
    """Return what has to be computed from the argument of a function before its value; None for most."""
    return f"2 / (2 + {_size(z, dialect)})" if function == "gelu" else None


def activated(function: str, z: str, dialect: Dialect, helper: str = "") -> str:
    """Return the value of an activation function.

    Parameters
    ----------
    function : str
    z : str
        Its argument; the name of a column unless the function is in SIMPLE, as formulas have it several times.
    dialect : Dialect
    helper : str
        Name of the column with what `prepared` returns.
    """
    if function == "identity":
        return z
    if function == "relu":
        return dialect.clamped(z, 0.0, None)
    if function == "tanh":
        return f"TANH({z})"
    if function == "sigmoid":
        return sigmoid(z, dialect)
    if function == "leaky_relu":
        return f"CASE WHEN {z} > 0 THEN {z} ELSE {literal(0.01)} * {z} END"
    if function == "elu":
        return f"CASE WHEN {z} > 0 THEN {z} ELSE {exponential(z, dialect)} - 1 END"
    if function == "silu":
        return f"{z} * {sigmoid(z, dialect)}"
    if function == "softplus":
        return _softplus(z, dialect)
    if function == "mish":
        return f"{z} * TANH({_softplus(z, dialect)})"
    if function == "gelu":
        tail = _tail(helper, _size(z, dialect))
        return f"{dialect.clamped(z, 0.0, None)} - ABS({z}) * {tail}"
    raise ValueError(f"function={function!r} is not known")


def exponential(z: str, dialect: Dialect) -> str:
    """Return exp(z)."""
    return f"EXP({dialect.clamped(z, -_MOST_LOG, _MOST_LOG)})"


def sigmoid(z: str, dialect: Dialect) -> str:
    """Return 1 / (1 + exp(-z))."""
    return f"1 / (1 + {exponential(f'-({z})', dialect)})"


def _softplus(z: str, dialect: Dialect) -> str:
    return f"CASE WHEN {z} > 20 THEN {z} ELSE LN(1 + {exponential(z, dialect)}) END"


def _size(z: str, dialect: Dialect) -> str:
    return dialect.clamped(f"ABS({z})", None, _MOST_DEVIATIONS)


def _tail(t: str, x: str) -> str:
    """Return the probability that a normally distributed number is larger than x, which is at least 0.

    No database but PostgreSQL 16 has erf. With t = 2 / (2 + x) it is t exp(-x² / 2 + p(t)), with a polynomial p.
    """
    lowest_first = tail_polynomial()
    polynomial = literal(lowest_first[-1])
    for coefficient in reversed(lowest_first[:-1]):
        polynomial = f"({polynomial} * {t} + {literal(coefficient)})"
    return f"{t} * EXP({polynomial} - {x} * {x} / 2)"


@functools.cache
def tail_polynomial() -> tuple[float, ...]:
    """Return the coefficients of p, the constant one first; the tail is exact to 1e-12 of its value."""

    def log_ratio(t: Floats) -> Floats:
        x = 2 / t - 2
        return np.asarray(np.log(0.5 * erfcx(x / np.sqrt(2)) / t))

    # t of the largest x is the least; nothing beyond it is asked for.
    domain = [2 / (2 + _MOST_DEVIATIONS), 1.0]
    fitted = np.polynomial.Chebyshev.interpolate(log_ratio, _TAIL_DEGREE, domain=domain)
    return tuple(fitted.convert(kind=np.polynomial.Polynomial).coef.tolist())
