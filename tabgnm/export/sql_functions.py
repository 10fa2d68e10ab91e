"""Activation functions in SQL, as formulas of functions that all three databases have: exp, ln, tanh and abs.

Arguments of exp are clipped, because PostgreSQL raises an error if the result overflows or underflows.
"""

from __future__ import annotations

import functools

import numpy as np
from scipy.special import erfcx

from tabgnm.export.sql_dialects import Dialect, literal
from tabgnm.table.values import Floats

_MAX_LOG = 300.0  # exp(-300) is 5e-131, so products with it do not underflow
_TAIL_DEGREE = 20  # a higher degree would lose more by rounding than it gains
_MAX_DEVIATIONS = 25.0  # the tail of the normal distribution beyond this is 3e-138

# Functions whose formula contains the argument only once.
SIMPLE = ("identity", "relu", "tanh", "sigmoid")


def prepared(function: str, z: str, dialect: Dialect) -> str | None:
    """Return an intermediate result that has to be computed first from the argument; None for most functions."""
    return f"2 / (2 + {_size(z, dialect)})" if function == "gelu" else None


def activated(function: str, z: str, dialect: Dialect, helper: str = "") -> str:
    """Return the value of an activation function.

    Parameters
    ----------
    function : str
    z : str
        The argument. Unless the function is in SIMPLE, the name of a column, because formulas contain it repeatedly.
    dialect : Dialect
    helper : str
        The name of the column with the result of `prepared`.
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
    return f"EXP({dialect.clamped(z, -_MAX_LOG, _MAX_LOG)})"


def sigmoid(z: str, dialect: Dialect) -> str:
    """Return 1 / (1 + exp(-z))."""
    return f"1 / (1 + {exponential(f'-({z})', dialect)})"


def _softplus(z: str, dialect: Dialect) -> str:
    return f"CASE WHEN {z} > 20 THEN {z} ELSE LN(1 + {exponential(z, dialect)}) END"


def _size(z: str, dialect: Dialect) -> str:
    return dialect.clamped(f"ABS({z})", None, _MAX_DEVIATIONS)


def _tail(t: str, x: str) -> str:
    """Return the probability that a normally distributed number is larger than x >= 0.

    Of the three databases, only PostgreSQL 16 and later has erf. The probability is t exp(-x² / 2 + p(t)) with
    t = 2 / (2 + x) and a polynomial p.
    """
    lowest_first = tail_polynomial()
    polynomial = literal(lowest_first[-1])
    for coefficient in reversed(lowest_first[:-1]):
        polynomial = f"({polynomial} * {t} + {literal(coefficient)})"
    return f"{t} * EXP({polynomial} - {x} * {x} / 2)"


@functools.cache
def tail_polynomial() -> tuple[float, ...]:
    """Return the coefficients of p, the constant first; the relative error of the tail is below 1e-12."""

    def log_ratio(t: Floats) -> Floats:
        x = 2 / t - 2
        return np.asarray(np.log(0.5 * erfcx(x / np.sqrt(2)) / t))

    # The largest x has the smallest t; smaller ones do not occur.
    domain = [2 / (2 + _MAX_DEVIATIONS), 1.0]
    fitted = np.polynomial.Chebyshev.interpolate(log_ratio, _TAIL_DEGREE, domain=domain)
    return tuple(fitted.convert(kind=np.polynomial.Polynomial).coef.tolist())
