"""Computes the equations of a small machine as a reader would, from nothing but their text and a table."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import erf

LEVEL = r'"(?:[^"\\]|\\.)*"|[\w.+-]+'
CONDITION = re.compile(rf"\[(\w+) (?:= ({LEVEL})|is (missing|unknown))\]")


def smallest(place: int, *numbers: Any) -> Any:
    return np.sort(np.stack(numbers), axis=0)[place - 1]


def sigmoid(z: Any) -> Any:
    return 1 / (1 + np.exp(-z))


def softplus(z: Any) -> Any:
    return np.logaddexp(z, 0)


FUNCTIONS = {
    "relu": lambda z: np.maximum(z, 0),
    "leaky_relu": lambda z: np.where(z > 0, z, 0.01 * z),
    "elu": lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0))),
    "gelu": lambda z: z * (1 + erf(z / np.sqrt(2))) / 2,
    "silu": lambda z: z * sigmoid(z),
    "mish": lambda z: z * np.tanh(softplus(z)),
    "softplus": softplus,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "exp": np.exp,
    "clip": np.clip,
    "smooth": lambda z: z / np.sqrt(1 + (z / 3) ** 2),
    "interpolate": np.interp,
    "kth_smallest": smallest,
}


class Reader:
    """Understands the comments below equations, and computes names of the table."""

    def __init__(self, text: str, X: pd.DataFrame) -> None:
        equations, _, notes = text.partition("\n\n")
        self.lines = re.sub(r"\n +", " ", equations).splitlines()
        self.notes = [note.removeprefix("# ") for note in re.sub(r"\n#   ", " ", notes).splitlines()]
        self.X = X
        self.columns = {name: name for name in X.columns}
        self.fills: dict[str, float] = {}
        self.parts: dict[str, tuple[str, str]] = {}
        self.known_levels: dict[str, list[str]] = {}
        for note in self.notes:
            if named := re.fullmatch(r"(\w+): column (\".*\")", note):
                self.columns[named[1]] = json.loads(named[2])
            elif note.startswith("Where a value is missing, use "):
                for name, number in re.findall(r"(\w+) = ([^\s,]+)", note):
                    self.fills[name] = float(number)
            elif part := re.fullmatch(r"(\w+)_(days|year|month|day|weekday|hour): of (\w+), .*", note):
                self.parts[part[0].partition(":")[0]] = (part[3], part[2])
            elif rank := re.fullmatch(r"(\w+_rank): rank of (\w+) in the order of its levels: (.*)", note):
                self.parts[rank[1]] = (rank[2], rank[3])
            elif unknown := re.fullmatch(r"\[(\w+) is unknown\]: missing, or none of (.*)", note):
                self.known_levels[unknown[1]] = [self.level(own) for own in re.findall(LEVEL, unknown[2])]
        [self.tolerance] = [float(own) for own in re.findall(r"by less than ([-+.e\d]+?)\.?(?: |$)", self.notes[-1])]

    @staticmethod
    def level(text: str) -> str:
        return json.loads(text) if text.startswith('"') else text

    def cells(self, name: str) -> pd.Series:
        return self.X[self.columns[name]]

    def quantity(self, name: str) -> Any:
        """A number of each row: of a column, or of a part of it."""
        column, part = self.parts.get(name, (name, ""))
        cells = self.cells(column)
        if part in ("year", "month", "day"):
            numbers = getattr(cells.dt, part).to_numpy(float)
        elif part == "weekday":
            numbers = cells.dt.day_of_week.to_numpy(float)
        elif part == "days":
            numbers = (cells - pd.Timestamp("1970-01-01")).dt.total_seconds().to_numpy(float) / 86400
        elif part == "hour":
            numbers = (cells - cells.dt.normalize()).dt.total_seconds().to_numpy(float) / 3600
        elif part:
            ranks = {self.level(level): float(rank) for rank, level in re.findall(rf"(\d+) for ({LEVEL})", part)}
            numbers = cells.astype(object).map(ranks).to_numpy(float)
        else:
            numbers = cells.to_numpy(float, na_value=np.nan)
        return np.where(np.isnan(numbers), self.fills[name], numbers)

    def condition(self, name: str, level: str | None, what: str | None) -> Any:
        cells = self.cells(name)
        if what == "missing":
            return cells.isna().to_numpy(float)
        if what == "unknown":
            return (~cells.astype(object).isin(self.known_levels[name])).to_numpy(float)
        assert level is not None
        return (cells.astype(object) == self.level(level)).to_numpy(float)

    def compute(self) -> dict[str, Any]:
        """The values of all lines."""
        values: dict[str, Any] = {}
        for line in self.lines:
            name, _, formula = line.partition(" = ")
            conditions: list[Any] = []

            def placed(found: re.Match[str], conditions: list[Any] = conditions) -> str:
                conditions.append(self.condition(found[1], found[2], found[3]))
                return f"conditions[{len(conditions) - 1}]"

            code = compile(CONDITION.sub(placed, formula), name, "eval")
            unknown = [own for own in code.co_names if own not in FUNCTIONS and own not in values]
            scope = {own: self.quantity(own) for own in unknown if own != "conditions"}
            with np.errstate(over="ignore"):
                values[name] = eval(code, {"__builtins__": {}}, FUNCTIONS | values | scope | {"conditions": conditions})
        return {name: np.broadcast_to(value, len(self.X)) for name, value in values.items()}
