"""Commands as processes of their own: pipes, Ctrl-C, what is imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import tabgnm
from tests.cli.running import QUICK, diabetes, environment, iris, run, run_program


def test_help_loads_neither_torch_nor_pandas() -> None:
    code = (
        "import sys; from tabgnm.cli import app\n"
        "for arguments in (['--help'], ['fit', '--help'], ['predict', '--help'], ['demo', '--help']):\n"
        "    app(arguments, standalone_mode=False)\n"
        "heavy = {'torch', 'sklearn', 'pandas', 'numpy', 'matplotlib', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_completion_can_be_installed(tmp_path: Path) -> None:
    done = run_program("--show-completion", "bash", folder=tmp_path, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_TABGNM_COMPLETE" in done.stdout or "COMPLETE" in done.stdout


def test_a_reader_that_goes_away_ends_the_command_silently(flowers: SimpleNamespace) -> None:
    rows = pd.concat([iris()] * 150)  # more than a pipe holds
    rows.to_csv("many.csv", index=False)
    command = [sys.executable, "-m", "tabgnm", "predict", str(flowers.model), "many.csv", "--proba"]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        assert program.stdout.readline().startswith(b"prediction")
        program.stdout.close()
        said = program.stderr.read()
        assert program.wait(60) == 141
    assert said == b""


@contextmanager
def interrupted_within(function: str) -> Iterator[None]:
    """Press Ctrl-C as soon as the main thread is in a function of this name."""
    main = threading.main_thread().ident
    done = threading.Event()

    def press() -> None:
        while not done.wait(0.005):
            frame = sys._current_frames().get(main or 0)
            while frame is not None and frame.f_code.co_name != function:
                frame = frame.f_back
            if frame is not None:
                os.kill(os.getpid(), signal.SIGINT)
                return

    watcher = threading.Thread(target=press)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_ends_a_command_with_130_and_leaves_no_output(flowers: SimpleNamespace) -> None:
    pd.concat([iris()] * 400).to_csv("many.csv", index=False)
    with interrupted_within("run_predict"):
        result = run("predict", flowers.model, "many.csv", "-o", "out.csv", code=130)
    assert result.stderr == "Error: interrupted\n"
    assert not Path("out.csv").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_keeps_the_best_fit_so_far() -> None:
    diabetes().to_csv("table.csv", index=False)
    with interrupted_within("run_epoch"):
        result = run("fit", "table.csv", "-t", "target", *QUICK, "--set", "max_epochs=100000", "--set", "patience=none")
    assert "Training was interrupted; this is the best model so far." in result.stdout
    assert tabgnm.load("model.tabgnm").history_[0]["status"] == "interrupted"
