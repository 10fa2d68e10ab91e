"""Reading and encoding cells of tables without other packages; exported Python files contain this code.

The code below the line of dashes is copied into files unchanged, so it may only use the standard library.
"""

from __future__ import annotations

# ----------------------------------------------------------------------------------------------------------------------
import bisect
import datetime
import decimal
import math
import struct
from typing import Any

_LARGEST = 1.7976931348623157e308
_EPOCH = datetime.datetime(1970, 1, 1)


def _is_missing(value: Any) -> bool:
    """Whether a cell is None, NaN, NaT or pandas.NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    try:
        return bool(value != value)
    except (TypeError, decimal.InvalidOperation):
        return True


def _refused(value: Any, name: str, expected: str) -> ValueError:
    return ValueError(f"column {name!r} has {value!r:.60}; expected {expected}, or None if it is missing")


def _shortest(number: float) -> float:
    """Return a number that float32 can hold as the shortest decimal of float32, so that a float32 of 0.1 is 0.1."""
    try:
        narrow = struct.pack("f", number)
        if struct.unpack("f", narrow)[0] == number:
            for digits in range(1, 10):
                short = float(f"{number:.{digits}g}")
                if struct.pack("f", short) == narrow:
                    return short
    except OverflowError:
        pass
    return number


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python object."""
    if type(value).__module__ != "numpy":
        return value
    is_time = type(value).__name__ in ("datetime64", "timedelta64")
    return value.astype(f"{type(value).__name__}[us]").item() if is_time else value.item()


class Row:
    """Functions for one row, in pure Python."""

    # Cells: a float, or NaN if missing; a text or a moment, or None if missing.

    @staticmethod
    def number(row: Any, name: str) -> float:
        value = row[name]
        if type(value) is not float:
            if _is_missing(value):
                return math.nan
            if isinstance(value, (str, bytes)):
                raise _refused(value, name, "a number")
            try:
                value = float(value)
            except (TypeError, ValueError):
                raise _refused(value, name, "a number") from None
        if value in (math.inf, -math.inf):
            raise _refused(value, name, "a finite number")
        return value

    @staticmethod
    def boolean(row: Any, name: str) -> float:
        value = Row.number(row, name)
        if value not in (0.0, 1.0) and value == value:
            raise _refused(row[name], name, "True or False")
        return value

    @staticmethod
    def seconds(row: Any, name: str) -> float:
        value = row[name]
        if _is_missing(value):
            return math.nan
        value = _plain(value)
        if isinstance(value, datetime.timedelta):
            return value.total_seconds()
        if isinstance(value, datetime.time):
            return value.hour * 3600.0 + value.minute * 60.0 + value.second + value.microsecond / 1e6
        return Row.number({name: value}, name)

    @staticmethod
    def text(row: Any, name: str) -> str | None:
        value = row[name]
        if type(value) is str:
            return value
        if _is_missing(value):
            return None
        value = _plain(value)
        if isinstance(value, (bool, str)):
            return str(value)
        if isinstance(value, int):
            return str(int(value))
        if isinstance(value, float):
            value = value if value.is_integer() or math.isinf(value) else _shortest(value)
            return str(int(value)) if value.is_integer() and abs(value) < 2.0**63 else repr(value)
        if isinstance(value, decimal.Decimal) and value.is_finite():
            return str(int(value)) if value == value.to_integral_value() else format(value.normalize(), "f")
        if isinstance(value, datetime.datetime):
            return _in_utc(value).isoformat(" ").removesuffix(" 00:00:00")
        return str(value)

    @staticmethod
    def moment(row: Any, name: str) -> datetime.datetime | None:
        value = row[name]
        if _is_missing(value):
            return None
        plain = _plain(value)
        if isinstance(plain, datetime.datetime):
            return _in_utc(plain)
        if isinstance(plain, datetime.date):
            return datetime.datetime(plain.year, plain.month, plain.day)
        raise _refused(value, name, "a date: datetime.datetime, datetime.date or numpy.datetime64")

    @staticmethod
    def date_part(moment: datetime.datetime | None, part: str) -> float:
        if moment is None:
            return math.nan
        if part == "days":
            return (moment - _EPOCH) // datetime.timedelta(microseconds=1) / 86_400_000_000
        if part == "hour":
            since = moment - moment.replace(hour=0, minute=0, second=0, microsecond=0)
            return since // datetime.timedelta(microseconds=1) / 3.6e9
        return float(moment.weekday() if part == "weekday" else getattr(moment, part))

    # Encoded columns

    @staticmethod
    def unscaled(value: float, fill: float, largest: float = _LARGEST) -> float:
        return fill if value != value else max(-largest, min(largest, value))

    @staticmethod
    def scaled(value: float, center: float, scale: float, fill: float, largest: float = _LARGEST) -> float:
        if value != value:
            return fill
        z = (value - center) / scale
        return z if -largest <= z <= largest else math.copysign(largest, z)

    @staticmethod
    def smooth(value: float, center: float, scale: float, fill: float) -> float:
        if value != value:
            return fill
        z = max(-1e9, min(1e9, (value - center) / scale))
        return z / math.sqrt(1 + (z / 3) ** 2)

    @staticmethod
    def joined_lines(value: float, knots: Any, targets: Any, fill: float, unit: float = 1.0) -> float:
        if value != value:
            return fill
        value *= unit
        if value <= knots[0]:
            return float(targets[0])
        if value >= knots[-1]:
            return float(targets[-1])
        i = bisect.bisect_right(knots, value) - 1
        slope = (targets[i + 1] - targets[i]) / (knots[i + 1] - knots[i])
        return float(slope * (value - knots[i]) + targets[i])

    @staticmethod
    def missing(value: float) -> float:
        return 1.0 if value != value else 0.0

    @staticmethod
    def picked(text: str | None, numbers: Any, other: float) -> float:
        return numbers.get(text, other)  # type: ignore[no-any-return]

    # Activations

    @staticmethod
    def identity(z: float) -> float:
        return z

    @staticmethod
    def relu(z: float) -> float:
        return z if z > 0.0 else 0.0

    @staticmethod
    def leaky_relu(z: float) -> float:
        return z if z > 0.0 else 0.01 * z

    @staticmethod
    def elu(z: float) -> float:
        return z if z > 0.0 else math.expm1(z)

    @staticmethod
    def gelu(z: float) -> float:
        return 0.5 * z * (1.0 + math.erf(z * math.sqrt(0.5)))

    @staticmethod
    def sigmoid(z: float) -> float:
        if z >= 0.0:
            return 1.0 / (1.0 + math.exp(-z))
        e = math.exp(z)
        return e / (1.0 + e)

    @staticmethod
    def silu(z: float) -> float:
        return z * Row.sigmoid(z)

    @staticmethod
    def softplus(z: float) -> float:
        return z if z > 20.0 else math.log1p(math.exp(z))

    @staticmethod
    def mish(z: float) -> float:
        return z * math.tanh(Row.softplus(z))

    tanh = math.tanh


def _in_utc(moment: datetime.datetime) -> datetime.datetime:
    """Return a moment in UTC without its time zone, and without the nanoseconds of pandas."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.timezone.utc)
    return datetime.datetime(
        moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second, moment.microsecond
    )
