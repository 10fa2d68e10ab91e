"""A run that is killed goes on where it was, and two runs on one store share the work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

# One process imports torch, once; it forks a child per attempt, kills it, and lets the last one come to its end.
KILLED = """
import json, os, random, signal, sys, time
from tabgnm.paper import ResultStore, run
from tests.paper.examples import small_plan, table

path, n_kills, n_units = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
work = small_plan(n_units)
moments = random.Random(n_kills)

def attempt(path, log):
    child = os.fork()
    if child == 0:
        def report(progress):
            with open(log, "w") as file:
                file.write(str(progress.done))
        with ResultStore(path) as store:
            run(work, store, progress=report)
        os._exit(0)
    return child

def stored(path):
    with ResultStore(path) as store:
        return len(store.results())

began = time.monotonic()
log = path + ".log"
os.waitpid(attempt(path + ".whole", log), 0)
whole_seconds = time.monotonic() - began
lost = []
for _ in range(n_kills):
    before = stored(path)
    with open(log, "w") as file:
        file.write("0")
    child = attempt(path, log)
    time.sleep(moments.random() * whole_seconds / n_kills * 1.5)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with open(log) as file:
        reported = int(file.read() or 0)
    after = stored(path)
    if after % 4 or after < before + reported:
        lost.append((before, reported, after))
_, status = os.waitpid(attempt(path, log), 0)
tables = []
for name in (path + ".whole", path):
    with ResultStore(name) as store:
        tables.append(table(store))
print(json.dumps({"status": status, "n": len(tables[0]), "same": tables[0] == tables[1], "lost": lost}))
"""

SHARED = """
import json, os, sys
import tabgnm.paper.engines as engines
from tabgnm.paper import ResultStore, run
from tests.paper.examples import small_plan, table

path, log = sys.argv[1:]
work = small_plan(8)
real = engines.run_unit

def logged(unit, **options):
    with open(log, "a") as file:
        file.write("".join(f"{os.getpid()} {key}\\n" for key in unit.result_keys()))
    return real(unit, **options)

engines.run_unit = logged
children = []
for _ in range(2):
    child = os.fork()
    if child == 0:
        with ResultStore(path) as store:
            run(work, store)
        os._exit(0)
    children.append(child)
statuses = [os.waitpid(child, 0)[1] for child in children]
with ResultStore(path) as store:
    print(json.dumps({"statuses": statuses, "n": len(store.results()), "wanted": work.n_models}))
"""

CURVES = """
import json, os, sys
import tabgnm.paper.curves as curves
from tabgnm.paper import ResultStore, Setting
from tabgnm.paper import data as paper_data
from tabgnm.paper.protocol import MODELS, Body

path, log = sys.argv[1:]
source = paper_data.load("noisy_moons", "paper", None).source
tasks = [
    curves.CurveTask(source, Setting(max_epochs=3), Body(model, width, 2), "tiny")
    for width in (40, 50, 60, 70) for model in MODELS
]
real = curves._train

def logged(task, *options):
    with open(log, "a") as file:
        file.write(f"{os.getpid()} {task.key}\\n")
    return real(task, *options)

curves._train = logged
children = []
for _ in range(2):
    child = os.fork()
    if child == 0:
        with ResultStore(path) as store:
            found = curves.run_curves(tasks, store, device="cpu")
        os._exit(0 if all(len(curve.history.val_loss) == 3 for curve in found) else 1)
    children.append(child)
statuses = [os.waitpid(child, 0)[1] for child in children]
with ResultStore(path) as store:
    print(json.dumps({"statuses": statuses, "n": sum(store.record(task.key) is not None for task in tasks)}))
"""


def outcome(program: str, *arguments: object) -> Any:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="these tests fork, which this system cannot")


@needs_fork
@pytest.mark.parametrize(("n_kills", "n_units"), [(3, 6), pytest.param(20, 24, marks=pytest.mark.slow)])
def test_killed_at_random_moments_it_ends_with_the_identical_table(tmp_path: Path, n_kills: int, n_units: int) -> None:
    found = outcome(KILLED, tmp_path / "results.sqlite", n_kills, n_units)
    assert found == {"status": 0, "n": 4 * n_units, "same": True, "lost": []}


@needs_fork
def test_two_processes_on_one_store_do_no_work_twice(tmp_path: Path) -> None:
    log = tmp_path / "log"
    found = outcome(SHARED, tmp_path / "results.sqlite", log)
    assert found == {"statuses": [0, 0], "n": 32, "wanted": 32}
    lines = log.read_text().split()
    assert len(set(lines[::2])) == 2, "one of the two did everything"
    assert len(lines[1::2]) == len(set(lines[1::2])) == 32


@needs_fork
def test_two_processes_on_one_store_train_no_curve_twice(tmp_path: Path) -> None:
    log = tmp_path / "log"
    found = outcome(CURVES, tmp_path / "results.sqlite", log)
    assert found == {"statuses": [0, 0], "n": 8}
    lines = log.read_text().split()
    assert len(set(lines[::2])) == 2, "one of the two did everything"
    assert len(lines[1::2]) == len(set(lines[1::2])) == 8
