"""Parts of dates in ONNX, from microseconds since 1970."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tabgnm.export.onnx_graph import GraphBuilder

_DAY = 86_400_000_000  # microseconds
MISSING = int(np.iinfo(np.int64).min)  # the integer that NumPy stores for NaT


class Moments(NamedTuple):
    """Tensors (rows, 1) of moments."""

    is_missing: str
    micros: str  # 0 if missing
    of_day: str  # microseconds since midnight
    days: str  # since 1970


def split_moments(graph: GraphBuilder, micros: str) -> Moments:
    """Split microseconds since 1970 into days and the time of day."""
    missing = graph.op("Equal", micros, graph.constant(MISSING, np.int64))
    present = graph.op("Where", missing, graph.constant(0, np.int64), micros)
    of_day, days = _divided(graph, present, _DAY)
    return Moments(missing, present, of_day, days)


def date_part(graph: GraphBuilder, moments: Moments, part: str) -> str:
    """Return one of `DATE_PARTS` in double; NaN if the date is missing."""
    if part == "days":
        value = graph.op("Div", graph.cast(moments.micros, "float64"), graph.constant(float(_DAY)))
    elif part == "hour":
        value = graph.op("Div", graph.cast(moments.of_day, "float64"), graph.constant(3.6e9))
    elif part == "weekday":
        shifted = graph.op("Add", moments.days, graph.constant(3, np.int64))  # 1970-01-01 was a Thursday
        value = graph.cast(graph.op("Mod", shifted, graph.constant(7, np.int64)), "float64")
    else:
        value = graph.cast(_civil(graph, moments.days)[part], "float64")
    return graph.op("Where", moments.is_missing, graph.constant(np.nan), value)


def _divided(graph: GraphBuilder, tensor: str, by: int) -> tuple[str, str]:
    """Return the remainder and the quotient, which is rounded down also for negative numbers."""
    divisor = graph.constant(by, np.int64)
    rest = graph.op("Mod", tensor, divisor)
    return rest, graph.op("Div", graph.op("Sub", tensor, rest), divisor)


def _civil(graph: GraphBuilder, days: str) -> dict[str, str]:
    """Return year, month and day of days since 1970 in the Gregorian calendar.

    Years begin in March here, so that leap days are at the end of a year; 400 years have 146,097 days.
    """

    def op(kind: str, a: str, b: str | int) -> str:
        return graph.op(kind, a, graph.constant(b, np.int64) if isinstance(b, int) else b)

    of_era, era = _divided(graph, op("Add", days, 719_468), 146_097)
    shortened = op("Sub", op("Add", of_era, op("Div", of_era, 36_524)), op("Div", of_era, 1_460))
    year = op("Div", op("Sub", shortened, op("Div", of_era, 146_096)), 365)
    before = op("Sub", op("Add", op("Mul", year, 365), op("Div", year, 4)), op("Div", year, 100))
    of_year = op("Sub", of_era, before)
    month = op("Div", op("Add", op("Mul", of_year, 5), 2), 153)  # 0 is March
    day = op("Add", op("Sub", of_year, op("Div", op("Add", op("Mul", month, 153), 2), 5)), 1)
    next_year = graph.op("GreaterOrEqual", month, graph.constant(10, np.int64))
    month = op("Add", month, graph.op("Where", next_year, graph.constant(-9, np.int64), graph.constant(3, np.int64)))
    year = op("Add", op("Add", year, op("Mul", era, 400)), graph.cast(next_year, "int64"))
    return {"year": year, "month": month, "day": day}
