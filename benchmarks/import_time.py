"""Import times, each in a fresh interpreter."""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Any

from benchmarks.timing import ROOT, Options, duration, print_table, ratio

STATEMENTS = ("import tabgnm", "from tabgnm.nn import GNM", "import torch, sklearn")


def run(options: Options) -> dict[str, Any]:
    samples: dict[str, list[float]] = {statement: [] for statement in STATEMENTS}
    # The first round also reads the files from disk, so it is only used in a quick run, which has no other.
    for _ in range(1 if options.quick else 1 + options.repeats):
        for statement in STATEMENTS:
            samples[statement].append(_import_seconds(statement))
    medians = {statement: statistics.median(values[1:] or values) for statement, values in samples.items()}
    ours = medians["import tabgnm"]
    rows = [[statement, duration(value), ratio(value / ours)] for statement, value in medians.items()]
    print_table("Time of an import in a fresh interpreter", ["", "time", "/ import tabgnm"], rows)
    return {"seconds": medians}


def _import_seconds(statement: str) -> float:
    program = f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return float(done.stdout)
