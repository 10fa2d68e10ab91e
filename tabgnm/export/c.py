"""Export of small machines to a single C99 file that only requires the math library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import tabgnm
from tabgnm.export.c_functions import functions
from tabgnm.export.c_text import check_prefix, comment, identifiers, number, string
from tabgnm.export.labels import plain_labels
from tabgnm.export.levels import level_values
from tabgnm.export.program import Program, RawColumn, code_names, columns_read
from tabgnm.table.recipes import Recipe
from tabgnm.table.values import DATE_PARTS

_MEANING = {
    "number": "number",
    "boolean": "0 or 1",
    "category": "text in UTF-8",
    "datetime": "date: seconds since 1970-01-01 00:00 UTC",
    "duration": "seconds",
    "time": "seconds since midnight",
}
_TERMS = 100  # per statement; compilers recurse over the terms of a sum
_PER_LINE = 8  # constants of an array


def to_c(program: Program, *, prefix: str = "model") -> str:
    """Return the source of a C99 file with the same predictions as `predict` and `predict_proba`.

    It allocates no memory, keeps no state and only requires the math library; docs/export-c.md shows how to call it.

    Parameters
    ----------
    program : Program
    prefix : str, default="model"
        The prefix of all names in the file.

    Returns
    -------
    str

    Raises
    ------
    ExportError
        If a level or label cannot be a C string, or the prefix is not valid in C names.
    """
    check_prefix(prefix)
    return _File(program, prefix).text()


class _File:
    """Collects the parts of a file.

    Attributes
    ----------
    p : str
        The prefix of all names that are visible outside functions.
    needed : set of str
        The functions of `c_functions` that are called.
    tables, lines : list of str
        Arrays of constants, and statements that compute the outputs.
    """

    def __init__(self, program: Program, prefix: str) -> None:
        self.program = program
        self.p = prefix
        self.columns = columns_read(program)
        members = identifiers(column.name for column in self.columns)
        self.member = {column.position: name for column, name in zip(self.columns, members, strict=True)}
        self.needed: set[str] = set()
        self.tables: list[str] = []
        self.lines: list[str] = []
        self.n_targets = len(program.classes)

    def text(self) -> str:
        """Return the whole file."""
        outputs = "" if self.program.link == "constant" else self._outputs()
        predict = "\n".join(self._predict())
        tables = "\n".join([*self.tables, ""]) if self.tables else ""
        parts = [self._heading(), self._interface(), tables, functions(self.needed, self.p), outputs, predict]
        return "\n".join(part for part in parts if part)

    def _outputs(self) -> str:
        self._write_columns()
        for place, recipe in enumerate(self.program.recipes):
            self._write_input(place, recipe)
        self._write_units()
        body = "\n".join(f"    {line}" for line in self.lines)
        return f"""\
/* The outputs of the machine, before they become predictions. */
static void {self.p}_outputs(const {self.p}_row *row, double *y)
{{
{body}
}}
"""

    # Interface

    def _heading(self) -> str:
        machine, names = self.program.machine, ", ".join(self.program.names_of_several)
        order = f"\n * Its targets, in this order: {comment(names)}." if names else ""
        return f"""\
/*
 * A machine of {machine.n_edges} edges, exported by tabgnm {tabgnm.__version__}.{order}
 *
 * Fill in a {self.p}_row, and pass it to one of the functions below. Missing numbers are NaN, missing texts NULL.
 * Compile with any C99 compiler, without -ffast-math, and link with -lm. Nothing is allocated and there is no state, so
 * all functions may be called from several threads. The part above "Implementation" can be copied to a header.
 */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
"""

    def _interface(self) -> str:
        lines = [f"typedef struct {self.p}_row {{"]
        for column in self.columns:
            declared = "const char *" if column.kind == "category" else "double "
            what = f'{_MEANING[column.kind]}; column {column.position}, "{comment(column.name)}"'
            lines.append(f"    {declared}{self.member[column.position]}; /* {what} */")
        if not self.columns:
            lines.append("    char unused; /* predictions are the same for all rows */")
        lines += [f"}} {self.p}_row;", ""]
        lines += [f"{text};" for text in self._prototypes().values()]
        definitions = []
        for target, labels in enumerate(self.program.classes):
            kind, values = _labels(plain_labels(labels)[1])
            name = f"{self.p}_labels" + (f"_{target}" if self.n_targets > 1 else "")
            lines.append(f"extern {kind} {name}[{len(values)}];")
            definitions.append(_array(f"{kind} {name}", values))
        return "\n".join([*lines, "", "/* Implementation */", "", *definitions, *([""] if definitions else [])])

    def _prototypes(self) -> dict[str, str]:
        program = self.program
        if not program.classes:
            if program.one_dimensional:
                return {"predict": f"double {self.p}_predict(const {self.p}_row *row)"}
            n_outputs = len(program.machine.outputs)
            return {"predict": f"void {self.p}_predict(const {self.p}_row *row, double prediction[{n_outputs}])"}
        n_numbers = self.n_targets if program.multilabel else sum(map(len, program.classes))
        several = f"void {self.p}_predict(const {self.p}_row *row, int prediction[{self.n_targets}])"
        return {
            # An int is a position in the labels.
            "predict": f"int {self.p}_predict(const {self.p}_row *row)" if program.one_dimensional else several,
            "probabilities": f"void {self.p}_probabilities(const {self.p}_row *row, double probability[{n_numbers}])",
        }

    # From columns to outputs

    def _call(self, name: str, *arguments: str) -> str:
        self.needed.add(name)
        return f"{self.p}_{name}({', '.join(arguments)})"

    def _write_columns(self) -> None:
        if not self.columns:
            self.lines.append("(void)row;")
        for column in self.columns:
            source = f"row->{self.member[column.position]}"
            if column.kind == "datetime":
                self.lines.append(f"double d{column.position}[{len(DATE_PARTS)}];")
                self.lines.append(f"{self._call('date', source, f'd{column.position}')};")
            elif column.kind == "category":
                self.lines.append(f"const int c{column.position} = {self._code(column, source)};")

    def _levels(self, position: int) -> list[str]:
        """Return all levels that the inputs of a column distinguish, in the order of strcmp."""
        own = {level for recipe in self.program.recipes if recipe.column == position for level in recipe.levels}
        return sorted(own, key=lambda level: level.encode("utf-8", "surrogatepass"))

    def _code(self, column: RawColumn, source: str) -> str:
        levels = self._levels(column.position)
        if not levels:
            return f"{source} != NULL"
        name = f"{self.p}_levels_of_{column.position}"
        self.tables.append(_array(f"static const char *const {name}", map(string, levels)))
        return self._call("find", source, name, str(len(levels)))

    def _write_input(self, place: int, recipe: Recipe) -> None:
        position = recipe.column
        if recipe.what == "nothing":
            value = "0.0"
        elif recipe.what == "level":
            code = self._levels(position).index(recipe.levels[0]) + 1
            value = f"c{position} == {code} ? 1.0 : 0.0"
        elif recipe.kind == "category":
            values = level_values(recipe, single=self.program.single)
            by_code = [values.missing, *(values.levels.get(own, values.other) for own in self._levels(position))]
            by_code.append(values.other)
            self._add_table(f"{self.p}_input_{place}", by_code)
            value = f"{self.p}_input_{place}[c{position}]"
        else:
            part = DATE_PARTS.index(recipe.part) if recipe.part else 0
            source = f"d{position}[{part}]" if recipe.kind == "datetime" else f"row->{self.member[position]}"
            value = f"isnan({source}) ? 1.0 : 0.0" if recipe.what == "missing" else self._number(place, recipe, source)
        self.lines.append(f"const double v{place} = {value};")

    def _number(self, place: int, recipe: Recipe, source: str) -> str:
        own = recipe.map
        assert own is not None  # a number has one
        if own.method == "knots":
            self._add_table(f"{self.p}_knots_{place}", own.knots.tolist())
            self._add_table(f"{self.p}_targets_{place}", own.targets.tolist())
            tables = f"{self.p}_knots_{place}", f"{self.p}_targets_{place}"
            mapped = self._call("joined", source, *tables, str(len(own.knots)))
        elif own.method == "identity":
            mapped = source
        else:
            mapped = self._call(own.method, source, number(own.centre), number(own.scale))
        value = f"isnan({source}) ? {number(own.fill)} : {mapped}"
        return self._call("single", value) if self.program.single else value

    def _add_table(self, name: str, values: Sequence[float]) -> None:
        self.tables.append(_array(f"static const double {name}", map(number, values)))

    def _write_units(self) -> None:
        machine = self.program.machine
        names = code_names(machine)
        for name, unit in zip(names[machine.n_inputs :], machine.units, strict=True):
            edges = zip(unit.sources, unit.weights, strict=True)
            terms = [f"{number(weight)} * {names[source]}" for source, weight in edges]
            if unit.bias or not terms:
                terms.insert(0, number(unit.bias))
            self.lines.append(f"double {name} = {' + '.join(terms[:_TERMS])};")
            for start in range(_TERMS, len(terms), _TERMS):
                self.lines.append(f"{name} += {' + '.join(terms[start : start + _TERMS])};")
            if unit.function != "identity":
                self.lines.append(f"{name} = {self._call(unit.function, name)};")
        self.lines += [f"y[{place}] = {names[value]};" for place, value in enumerate(machine.outputs)]

    # Predictions

    def _predict(self) -> Iterator[str]:
        for what, prototype in self._prototypes().items():
            yield from (prototype, "{")
            yield from (f"    {line}" for line in self._body(what))
            yield from ("}", "")

    def _body(self, what: str) -> Iterator[str]:
        program = self.program
        n_outputs = len(program.machine.outputs)
        if program.link == "constant":
            yield from ("(void)row;", "return 0;" if what == "predict" else "probability[0] = 1.0;")
            return
        if what == "probabilities" and program.link == "softmax":
            yield f"{self.p}_outputs(row, probability);"
            for _, start, size in self._groups():
                yield f"{self._call('softmax', f'probability + {start}', str(size))};"
            return
        if not program.classes and not program.one_dimensional:
            yield f"{self.p}_outputs(row, prediction);"
            yield from (f"prediction[{i}] = {self._exponential(i, f'prediction[{i}]')};" for i in self._exponentials())
            if program.link == "sorted":
                yield f"{self._call('sort', 'prediction', str(n_outputs))};"
            return
        yield f"double y[{n_outputs}];"
        yield f"{self.p}_outputs(row, y);"
        if not program.classes:
            yield f"return {self._exponential(0, 'y[0]') if program.link == 'exp' else 'y[0]'};"
        elif program.link == "softmax":
            for target, start, size in self._groups():
                found = self._call("largest", f"y + {start}", str(size))
                yield f"return {found};" if program.one_dimensional else f"prediction[{target}] = {found};"
        elif what == "predict":
            for place in range(n_outputs):
                yield "return y[0] > 0.0;" if program.one_dimensional else f"prediction[{place}] = y[{place}] > 0.0;"
        elif program.multilabel:
            yield from (f"probability[{i}] = {self._call('sigmoid', f'y[{i}]')};" for i in range(n_outputs))
        else:
            yield f"probability[0] = {self._call('sigmoid', '-y[0]')};"
            yield f"probability[1] = {self._call('sigmoid', 'y[0]')};"

    def _groups(self) -> Iterator[tuple[int, int, int]]:
        """Yield the position, the first output and the number of outputs of each target."""
        start = 0
        for target, size in enumerate(self.program.sizes):
            yield target, start, size
            start += size

    def _exponentials(self) -> range:
        return range(len(self.program.machine.outputs) if self.program.link == "exp" else 0)

    def _exponential(self, place: int, output: str) -> str:
        program = self.program
        return f"{number(program.center[place])} * exp({self._call('clamp', output, number(program.most))})"


def _array(declared: str, literals: Iterable[str]) -> str:
    own = list(literals)
    lines = [", ".join(own[start : start + _PER_LINE]) for start in range(0, len(own), _PER_LINE)]
    return f"{declared}[{len(own)}] = {{" + ",\n    ".join(lines) + "};"


def _labels(values: Sequence[bool | int | float | str]) -> tuple[str, list[str]]:
    """Return the C type of labels, and their literals."""
    if all(isinstance(value, int) and -(2**63) < value < 2**63 for value in values):
        return "const long long", [f"{int(value)}LL" for value in values]
    if all(isinstance(value, float) for value in values):
        return "const double", [number(float(value)) for value in values]
    return "const char *const", [string(str(value)) for value in values]
