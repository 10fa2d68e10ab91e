"""Exported C, compiled and run by real compilers."""

from __future__ import annotations

import math
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from tabgnm.export import Program
from tabgnm.export.c import to_c
from tabgnm.export.c_text import identifiers, number, string
from tabgnm.export.program import columns_read
from tabgnm.table.cells import canonical, is_missing

Array = NDArray[Any]

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wmissing-prototypes", "-Wconversion")
_SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def compiler(name: str) -> str:
    """Return the path of a compiler, or skip the test."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@cache
def sanitizers(command: str) -> tuple[str, ...]:
    """Return the options for sanitizers, or none if the compiler lacks their libraries, as Debian's clang may."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "empty.c")
        source.write_text("int main(void) { return 0; }\n")
        tried = subprocess.run([command, *_SANITIZERS, source, "-o", Path(folder, "empty")], capture_output=True)
    return _SANITIZERS if tried.returncode == 0 else ()


@dataclass
class Case:
    """A program, the rows to run it on, and a prefix of its own."""

    program: Program
    table: pd.DataFrame
    prefix: str

    @property
    def n_predictions(self) -> int:
        if self.program.classes:
            return len(self.program.classes)
        return len(self.program.machine.outputs)

    @property
    def n_probabilities(self) -> int:
        classes = self.program.classes
        return len(classes) if self.program.multilabel else sum(map(len, classes))

    def source(self) -> str:
        """Return the exported file, and a function that prints the predictions of all rows."""
        row_type, program = f"{self.prefix}_row", self.program
        rows = ",\n".join(self._row(row) for row in range(len(self.table)))
        kind = "int" if program.classes else "double"
        call = f"{self.prefix}_predict(&row, prediction);"
        if program.one_dimensional:
            call = f"prediction[0] = {self.prefix}_predict(&row);"
        probabilities = ""
        if program.classes:
            probabilities = f"""
        double probability[{self.n_probabilities}];
        {self.prefix}_probabilities(&row, probability);
        for (i = 0; i < {self.n_probabilities}; i++) printf("%.17g ", probability[i]);"""
        return f"""{to_c(program, prefix=self.prefix)}
#include <stdio.h>
static const {row_type} {self.prefix}_rows[] = {{
{rows}
}};
void {self.prefix}_print(void);
void {self.prefix}_print(void)
{{
    size_t place;
    for (place = 0; place < {len(self.table)}; place++) {{
        const {row_type} row = {self.prefix}_rows[place];
        {kind} prediction[{self.n_predictions}];
        int i;
        {call}
        for (i = 0; i < {self.n_predictions}; i++) printf("%.17g ", (double)prediction[i]);{probabilities}
        printf("\\n");
    }}
}}
"""

    def _row(self, row: int) -> str:
        columns = columns_read(self.program)
        members = identifiers(column.name for column in columns)
        cells = [
            f".{member} = {c_cell(self.table.iloc[row, column.position], column.kind)}"
            for member, column in zip(members, columns, strict=True)
        ]
        return "{" + ", ".join(cells or ["0"]) + "}"

    def read(self, lines: Sequence[str]) -> tuple[Array, Array | None]:
        """Return predictions, labels in place of their numbers, and probabilities."""
        numbers = np.array([[float(cell) for cell in line.split()] for line in lines])
        predicted, probabilities = numbers[:, : self.n_predictions], numbers[:, self.n_predictions :]
        if not self.program.classes:
            return predicted, None
        labels = [own[codes.astype(int)] for own, codes in zip(self.program.classes, predicted.T, strict=True)]
        return np.column_stack(labels), probabilities


def c_cell(value: Any, kind: str) -> str:
    """Return a cell as the initializer of a member."""
    if is_missing(value):
        return "NULL" if kind == "category" else "(0.0 / 0.0)"
    if kind == "category":
        return string(canonical(value) or "")
    if kind == "datetime":
        return number(np.datetime64(value, "us").astype(np.int64) / 1e6)
    if kind == "duration":
        return number(value.total_seconds())
    if kind == "time":
        return number(value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6)
    assert math.isfinite(float(value))
    return number(float(value))


def run(cases: Sequence[Case], folder: Path, command: str, *flags: str) -> list[tuple[Array, Array | None]]:
    """Compile all cases, each a file of its own, into one program, and return what it predicts."""
    sources = []
    for case in cases:
        path = folder / f"{case.prefix}.c"
        path.write_text(case.source())
        sources.append(path)
    main = folder / "main.c"
    declared = "".join(f"void {case.prefix}_print(void);\n" for case in cases)
    called = "".join(f"    {case.prefix}_print();\n" for case in cases)
    main.write_text(f"{declared}int main(void)\n{{\n{called}    return 0;\n}}\n")
    binary = folder / "program"
    subprocess.run([command, *flags, *map(str, [*sources, main]), "-o", str(binary), "-lm"], check=True)
    printed = subprocess.run([str(binary)], check=True, capture_output=True, text=True).stdout.splitlines()
    results, start = [], 0
    for case in cases:
        results.append(case.read(printed[start : start + len(case.table)]))
        start += len(case.table)
    assert start == len(printed)
    return results
