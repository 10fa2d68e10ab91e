"""Export of small machines to a query that computes predictions inside a database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tabgnm
from tabgnm._printable import brief, printable
from tabgnm.export.labels import plain_labels
from tabgnm.export.levels import level_values
from tabgnm.export.program import ExportError, Program, code_names, columns_read
from tabgnm.export.sql_dialects import DIALECTS, Dialect, double, literal
from tabgnm.export.sql_functions import SIMPLE, activated, exponential, prepared, sigmoid
from tabgnm.export.sql_stages import Stages
from tabgnm.table.numbers import NumberMap
from tabgnm.table.recipes import Recipe

_DAY = 86400  # seconds
_TERMS = 100  # of a sum in parentheses; SQLite allows expressions up to 1,000 levels deep
# Predictions in Python clip encoded numbers to the range of float32; here this also prevents overflows in PostgreSQL.
_LARGEST_INPUT = 3.4028234663852886e38
# x * c - (x * c - x) is x rounded to the precision of float32 (Dekker, 1971), which `predict` uses for encoded numbers.
_SPLIT = literal(2.0**29 + 1)
_SMALL = 1e-7  # the square of smaller numbers is less than the precision of 1


def to_sql(program: Program, table: str | Sequence[str], dialect: str, *, keep: Sequence[str] = ()) -> str:
    """Return a SELECT with the same predictions as `predict` and `predict_proba` for all rows of a table.

    It does not end with a semicolon, so it can also be used as a subquery. docs/export-sql.md describes the required
    columns of the table and the columns of the result.

    Parameters
    ----------
    program : Program
    table : str or sequence of str
        The name of the table, or schema and name: `("sales", "customers")`.
    dialect : {"sqlite", "duckdb", "postgresql"}
    keep : sequence of str, default=()
        The columns of the table to return with the predictions, such as a key.

    Returns
    -------
    str

    Raises
    ------
    ExportError
        If the database does not support the names of columns or the texts of levels.
    """
    if dialect not in DIALECTS:
        raise ExportError(f"dialect={dialect!r} is not known; use one of {', '.join(map(repr, DIALECTS))}")
    names = [table] if isinstance(table, str) else list(table)
    kept = [keep] if isinstance(keep, str) else list(keep)
    if not names or not all(isinstance(name, str) for name in [*names, *kept]):
        raise ExportError(
            f"table={table!r:.60} or keep={keep!r:.60} is invalid; expected names as str, or lists of names"
        )
    return _Query(program, DIALECTS[dialect], names, kept).text()


class _Query:
    def __init__(self, program: Program, dialect: Dialect, table: list[str], keep: list[str]) -> None:
        self.program = program
        self.dialect = dialect
        self.columns = columns_read(program)
        dialect.check_names([column.name for column in self.columns])
        self.stages = Stages(f"{'.'.join(map(dialect.quoted, table))} AS t", table[-1])
        self.keep = keep
        self.results: list[tuple[str, str, tuple[str, ...]]] = []  # name in the result, expression, columns read

    def text(self) -> str:
        """Return the query."""
        if self.program.link == "constant":
            self._add_label(0, [])
            self._add_result(f"probability_{plain_labels(self.program.classes[0])[1][0]}", double("1"))
        else:
            self._read_columns()
            self._add_predictions(self._add_units(self._add_inputs()))
        quoted = self.dialect.quoted
        names = self.dialect.distinct([name for name, _, _ in self.results])
        twice = set(map(self.dialect.same, names)) & set(map(self.dialect.same, self.keep))
        if twice or len(set(self.keep)) < len(self.keep):
            raise ExportError(
                f"keep={self.keep!r:.200} has a duplicate name, or the name of a column with predictions; remove it "
                "from keep, or rename the column"
            )
        kept = [self.stages.add(0, f"k{place}", f"t.{quoted(name)}") for place, name in enumerate(self.keep)]
        selected = [f"{own} AS {quoted(name)}" for own, name in zip(kept, self.keep, strict=True)]
        selected += [f"{own[1]} AS {quoted(name)}" for own, name in zip(self.results, names, strict=True)]
        needed = {name for _, _, reads in self.results for name in reads}.union(kept)
        n_edges = self.program.machine.n_edges
        heading = f"-- A machine of {n_edges} edges, exported by tabgnm {tabgnm.__version__} for {self.dialect.name}."
        for place, name in enumerate(self.program.names_of_several):
            heading += f"\n-- prediction_{place}: {brief(printable(name))}"
        if any(column.kind == "datetime" for column in self.columns):
            heading += "\n-- Dates with a time zone are converted to UTC; their parts are those in UTC."
        return f"{heading}\n{self.stages.text(selected, needed)}"

    # From columns to inputs

    def _read_columns(self) -> None:
        for column in self.columns:
            x = f"t.{self.dialect.quoted(column.name)}"
            if column.kind == "category":
                levels = {
                    level for own in self.program.recipes if own.column == column.position for level in own.levels
                }
                value = self.dialect.level(x, levels)
            elif column.kind == "number":
                value = self.dialect.number(x)
            elif column.kind == "boolean":
                value = self.dialect.boolean(x)
            else:
                value = self.dialect.seconds(x, column.kind)
            self.stages.add(0, f"r{column.position}", value)

    def _add_inputs(self) -> list[str]:
        """Add the encoded columns, computed from raw columns or parts of dates; return their names."""
        for recipe in self.program.recipes:
            if recipe.part and recipe.kind == "datetime":
                raw = f"r{recipe.column}"
                self.stages.add(1, f"{raw}_{recipe.part}", self._part(raw, recipe.part), [raw])
        inputs = []
        for place, recipe in enumerate(self.program.recipes):
            if recipe.what == "nothing":
                inputs.append(self.stages.add(2, f"x{place}", double("0")))
                continue
            of_date = recipe.part and recipe.kind == "datetime"
            source = f"r{recipe.column}_{recipe.part}" if of_date else f"r{recipe.column}"
            encoded = self.stages.add(2, f"x{place}", double(self._input(recipe, source)), [source])
            if self.program.single and recipe.what == "number" and recipe.kind != "category":
                wide = f"{encoded} * {_SPLIT}"
                encoded = self.stages.add(3, f"f{place}", f"{wide} - ({wide} - {encoded})", [encoded])
            inputs.append(encoded)
        return inputs

    def _part(self, seconds: str, part: str) -> str:
        day = f"FLOOR({seconds} / {_DAY})"
        if part == "days":
            return f"{seconds} / {_DAY}"
        if part == "hour":
            return f"({seconds} - {day} * {_DAY}) / 3600"
        if part == "weekday":  # 1970-01-01 was a Thursday
            return f"{day} + 3 - 7 * FLOOR(({day} + 3) / 7)"
        return self.dialect.calendar(part, day)

    def _input(self, recipe: Recipe, x: str) -> str:
        if recipe.kind == "category":
            values = level_values(recipe, single=self.program.single)
            whens = [f"WHEN {x} IS NULL THEN {literal(values.missing)}"]
            for value in sorted(set(values.levels.values()) - {values.other}):
                texts = ", ".join(self.dialect.string(level) for level, own in values.levels.items() if own == value)
                whens.append(f"WHEN {x} IN ({texts}) THEN {literal(value)}")
            return f"CASE {' '.join(whens)} ELSE {literal(values.other)} END"
        if recipe.what == "missing":
            return f"CASE WHEN {x} IS NULL THEN 1 ELSE 0 END"
        assert recipe.map is not None  # a number has one
        return f"CASE WHEN {x} IS NULL THEN {literal(recipe.map.fill)} {self._mapped(recipe.map, x)} END"

    def _mapped(self, own: NumberMap, x: str) -> str:
        """Return the branches of a CASE for numbers that are not missing."""
        if own.method == "identity":
            return f"ELSE {self.dialect.clamped(x, -_LARGEST_INPUT, _LARGEST_INPUT)}"
        z = f"({x} - {literal(own.centre)}) / {literal(own.scale)}"
        if own.method == "linear":
            return f"ELSE {self.dialect.clamped(z, -_LARGEST_INPUT, _LARGEST_INPUT)}"
        if own.method == "smooth":
            z = self.dialect.clamped(z, -1e9, 1e9)
            return f"WHEN ABS({z}) < {literal(_SMALL)} THEN {z} ELSE {z} / SQRT(1 + {z} * {z} / 9)"
        knots, targets = own.knots.tolist(), own.targets.tolist()
        lines = [f"WHEN {x} <= {literal(knots[0])} THEN {literal(targets[0])}"]
        for low, high, start, end in zip(knots, knots[1:], targets, targets[1:], strict=False):
            share = f"({x} - {literal(low)}) / {literal(high - low)}"
            lines.append(f"WHEN {x} < {literal(high)} THEN {literal(start)} + {share} * {literal(end - start)}")
        return f"{' '.join(lines)} ELSE {literal(targets[-1])}"

    # From inputs to outputs

    def _add_units(self, inputs: list[str]) -> list[str]:
        """Add the units, in different stages if they depend on each other; return the names of the outputs."""
        machine = self.program.machine
        names = inputs + code_names(machine)[len(inputs) :]
        depth = [0] * len(inputs)
        for value, unit in enumerate(machine.units, start=machine.n_inputs):
            own = 1 + max((depth[source] for source in unit.sources), default=0)
            depth.append(own)
            stage = 1 + 3 * own  # after the inputs: sums, intermediate results of functions, and functions
            total = _sum(unit.bias, [(weight, names[s]) for s, weight in zip(unit.sources, unit.weights, strict=True)])
            read = [names[source] for source in unit.sources]
            if unit.function not in SIMPLE:
                total = self.stages.add(stage, f"z{value}", total, read)
                read = [total]
            helper = prepared(unit.function, total, self.dialect)
            if helper is not None:
                read.append(self.stages.add(stage + 1, f"t{value}", helper, [total]))
            formula = activated(unit.function, total, self.dialect, f"t{value}")
            self.stages.add(stage + 2, names[value], formula, read)
        return [names[value] for value in machine.outputs]

    # From outputs to the result

    def _add_result(self, name: str, expression: str, *reads: str) -> None:
        self.results.append((name, expression, reads))

    def _add_predictions(self, outputs: list[str]) -> None:
        program = self.program
        if not program.classes:
            if program.link == "sorted":
                outputs = self._sorted(outputs)
            for place, output in enumerate(outputs):
                value = output
                if program.link == "exp":
                    limited = self.dialect.clamped(output, -program.most, program.most)
                    value = f"{literal(program.center[place])} * EXP({limited})"
                self._add_result("prediction" if program.one_dimensional else f"prediction_{place}", value, output)
            return
        several = not program.one_dimensional
        probabilities = self._add_softmax(outputs) if program.link == "softmax" else self._add_sigmoids(outputs)
        for target, own in enumerate(probabilities):
            for place, (expression, *reads) in enumerate(own):
                name = f"probability_{target}" if several else "probability"
                if not program.multilabel:
                    name += f"_{plain_labels(program.classes[target])[1][place]}"
                if place or not program.multilabel:
                    self._add_result(name, expression, *reads)

    def _add_sigmoids(self, outputs: list[str]) -> Iterator[list[tuple[str, ...]]]:
        """Add the labels of targets with two classes; yield the probabilities of each target and what they read."""
        for target, output in enumerate(outputs):
            self._add_label(target, [f"{output} <= 0"], output)
        for output in outputs:
            yield [(sigmoid(sign + output, self.dialect), output) for sign in ("-", "")]

    def _add_softmax(self, outputs: list[str]) -> Iterator[list[tuple[str, ...]]]:
        """Add the labels of targets with any number of classes; yield the probabilities of each target, as above."""
        groups, start = [], 0
        for size in self.program.sizes:
            groups.append(outputs[start : start + size])
            start += size
        largest = self.stages.add_after(
            [(f"m{target}", self.dialect.largest(own), own) for target, own in enumerate(groups)]
        )
        for target, own in enumerate(groups):
            self._add_label(target, [f"{output} >= m{target}" for output in own[:-1]], *own, largest[target])
        powers = [
            (f"e{target}_{place}", exponential(f"{output} - m{target}", self.dialect), (output, f"m{target}"))
            for target, own in enumerate(groups)
            for place, output in enumerate(own)
        ]
        self.stages.add_after(powers)
        names = [[f"e{target}_{place}" for place in range(len(own))] for target, own in enumerate(groups)]
        self.stages.add_after([(f"s{target}", _added(own), own) for target, own in enumerate(names)])
        for target, own in enumerate(names):
            yield [(f"{power} / s{target}", power, f"s{target}") for power in own]

    def _add_label(self, target: int, conditions: list[str], *reads: str) -> None:
        """Add a label: that of the first condition that holds, or otherwise the last one."""
        labels = [self._label(label) for label in plain_labels(self.program.classes[target])[1]]
        whens = "".join(f"WHEN {when} THEN {own} " for when, own in zip(conditions, labels, strict=False))
        name = "prediction" if self.program.one_dimensional else f"prediction_{target}"
        self._add_result(name, f"CASE {whens}ELSE {labels[-1]} END" if whens else labels[-1], *reads)

    def _label(self, label: bool | int | float | str) -> str:
        if isinstance(label, bool):
            return str(label).upper()
        if isinstance(label, str):
            return self.dialect.string(label)
        return str(label) if isinstance(label, int) else double(literal(label))

    def _sorted(self, outputs: list[str]) -> list[str]:
        """Add stages that sort numbers, by Batcher's odd-even merge network."""
        names = list(outputs)
        for number, pairs in enumerate(sorting_network(len(names))):
            columns = []
            for low, high in pairs:
                own = (names[low], names[high])
                columns.append((f"q{number}_{low}", f"{self.dialect.least}({', '.join(own)})", own))
                columns.append((f"q{number}_{high}", f"{self.dialect.greatest}({', '.join(own)})", own))
                names[low], names[high] = columns[-2][0], columns[-1][0]
            self.stages.add_after(columns)
        return names


def sorting_network(n: int) -> Iterator[list[tuple[int, int]]]:
    """Yield steps of pairs of positions; swapping each pair that is out of order, step by step, sorts n numbers.

    Examples
    --------
    >>> list(sorting_network(3))
    [[(0, 1)], [(0, 2)], [(1, 2)]]
    """
    size = 1
    while size < n:
        step = size
        while step:
            pairs = [
                (low, low + step)
                for start in range(step % size, n - step, 2 * step)
                for low in range(start, min(start + step, n - step))
                if low // (2 * size) == (low + step) // (2 * size)
            ]
            if pairs:
                yield pairs
            step //= 2
        size *= 2


def _added(terms: Sequence[str]) -> str:
    """Return a sum whose expression is not nested too deeply."""
    while len(terms) > _TERMS:
        terms = [f"({' + '.join(terms[i : i + _TERMS])})" for i in range(0, len(terms), _TERMS)]
    return " + ".join(terms)


def _sum(bias: float, weighted: Sequence[tuple[float, str]]) -> str:
    terms = [f"{literal(weight)} * {name}" for weight, name in weighted]
    if not terms:
        return double(literal(bias))
    return _added([literal(bias), *terms] if bias else terms)
