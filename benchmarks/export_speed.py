"""Time per row of exported C code: machines of about 200 edges, by activation."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import Options, duration, print_table
from tabgnm.export import Program, RawColumn, to_c
from tabgnm.sparsity import Machine, Unit
from tabgnm.table.numbers import NumberMap
from tabgnm.table.recipes import Recipe

FLAGS = ("-std=c99", "-O2")
N_EDGES = 200
_ROWS = 1000

_MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv)
{
    static model_row rows[%(n_rows)d];
    const long n_passes = argc > 1 ? atol(argv[1]) : 1;
    double sum = 0.0;
    long pass, place;
    clock_t start;
    for (place = 0; place < %(n_rows)d; place++) {
%(fill)s
    }
    start = clock();
    for (pass = 0; pass < n_passes; pass++) {
        for (place = 0; place < %(n_rows)d; place++) {
            sum += model_predict(&rows[place]);
        }
    }
    printf("%%.9g %%.9g\\n", (double)(clock() - start) / CLOCKS_PER_SEC / (double)n_passes / %(n_rows)d, sum);
    return 0;
}
"""


def run(options: Options) -> dict[str, Any]:
    compilers = [name for name in ("gcc", "clang") if shutil.which(name)]
    if not compilers:
        raise SystemExit("export-speed requires gcc or clang; install one of them")
    results: dict[str, float] = {}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for activation in ("relu", "silu", "tanh", "gelu"):
            program = random_program(activation)
            for compiler in compilers:
                name = f"{activation}, {compiler}"
                results[name] = _seconds_per_row(program, compiler, Path(folder), options)
                rows.append([name, program.machine.n_edges, duration(results[name])])
    title = f"Exported C, {' '.join(FLAGS)}: time of a row with 20 columns of numbers, one thread"
    print_table(title, ["activation, compiler", "edges", "time"], rows)
    return {"flags": FLAGS, "edges": N_EDGES, "seconds_per_row": results}


def random_program(activation: str, seed: int = 0) -> Program:
    """Return a machine of 20 scaled columns and two hidden layers of 15 units each."""
    rng = np.random.default_rng(seed)
    names = [f"column_{place}" for place in range(20)]
    scaled = [NumberMap("linear", float(rng.normal()), float(rng.uniform(0.5, 2))) for _ in names]
    recipes = [
        Recipe(n, i, n, "number", "number", map=own) for i, (n, own) in enumerate(zip(names, scaled, strict=True))
    ]
    units = [_unit(rng, f"h{place}", 1, range(20), 5, activation) for place in range(15)]
    units += [_unit(rng, f"h{place}", 2, range(35), 5, activation) for place in range(15, 30)]
    n_left = N_EDGES - sum(unit.n_edges for unit in units) - 1
    units.append(_unit(rng, "y", 3, range(50), n_left, "identity"))
    machine = Machine(tuple(names), tuple(units), (50,), ("y",))
    columns = tuple(RawColumn(place, name, "number") for place, name in enumerate(names))
    return Program(columns, tuple(recipes), machine, "identity", single=True)


def _unit(rng: np.random.Generator, name: str, layer: int, known: range, n_sources: int, function: str) -> Unit:
    sources = tuple(sorted(rng.choice(len(known), n_sources, replace=False).tolist()))
    return Unit(name, layer, sources, tuple(rng.normal(size=n_sources).tolist()), float(rng.normal()), function)


def _seconds_per_row(program: Program, compiler: str, folder: Path, options: Options) -> float:
    fill = "\n".join(
        f"        rows[place].{column.name} = (double)((place * {7 + 2 * column.position}) % 101) / 50.0 - 1.0;"
        for column in program.columns
    )
    source, binary = folder / "model.c", folder / "model"
    source.write_text(to_c(program) + _MAIN % {"n_rows": _ROWS, "fill": fill})
    subprocess.run([compiler, *FLAGS, source, "-o", binary, "-lm"], check=True)

    def seconds(n_passes: int) -> float:
        done = subprocess.run(["nice", binary, str(n_passes)], check=True, capture_output=True, text=True)
        return float(done.stdout.split()[0])

    n_passes = max(1, round(options.seconds_per_sample / max(seconds(10) * _ROWS, 1e-9)))
    return min(seconds(n_passes) for _ in range(options.repeats))
