"""Ctrl-C ends every command, whatever fit it meets, and what is then said is true of that command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# The signal comes in the middle of the n-th fit of the command, from a callback of every fit.
INTERRUPTED = """
import os, signal, sys
from tabgnm.training import Callback, Fleet
from tabgnm.paper import data as paper_data

n_fits, fit, at = 0, Fleet.fit, int(sys.argv[1])

class CtrlC(Callback):
    every_epoch = True

    def on_epoch_end(self, report):
        if n_fits == at:
            os.kill(os.getpid(), signal.SIGINT)

def counted(self, *arguments, **options):
    global n_fits
    n_fits += 1
    return fit(self, *arguments, **options, callbacks=[CtrlC()])

Fleet.fit = counted
moons = paper_data.load("noisy_moons", "paper", None)
paper_data.load = lambda *_: moons
sys.argv[1:] = sys.argv[2:]
import tabgnm.cli
try:
    tabgnm.cli.main()
finally:
    print(f"{n_fits} fits")
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of Windows are others")
@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize(
    ("command", "message"),
    [
        pytest.param("runtime --only car --epochs 2", "no results are stored", id="runtime"),
        pytest.param("tables --only noisy_moons --folds 0 --dry-run", "a dry run stores nothing", id="dry"),
    ],
)
def test_ctrl_c_in_any_fit_ends_the_command(tmp_path: Path, command: str, message: str, at: int) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    arguments = [sys.executable, "-c", INTERRUPTED, str(at), "paper", *command.split(), "--device", "cpu"]
    done = subprocess.run(arguments, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 130, done.stderr
    assert f"{at} fits" in done.stdout, "it went on"
    assert "stopped; " in done.stderr and message in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.glob("**/*.md"))
