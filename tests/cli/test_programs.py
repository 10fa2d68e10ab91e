"""Commands as processes of their own: pipes, Ctrl-C, what is imported."""

from __future__ import annotations

import gc
import json
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
from tabgnm import MLPClassifier
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


def run_in_shell(redirection: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command with its streams redirected as a shell does."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "tabgnm", *map(str, arguments)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("arguments", [["info", "MODEL"], ["info", "MODEL", "--json"], ["--help"]])
def test_a_full_disk_behind_stdout_is_one_line(arguments: list[str], flowers: SimpleNamespace) -> None:
    done = run_in_shell("> /dev/full", *(str(flowers.model) if own == "MODEL" else own for own in arguments))
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert done.stderr.endswith("No space left on device\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_an_error_keeps_its_exit_code_if_its_json_cannot_be_written() -> None:
    done = run_in_shell("> /dev/full", "info", "not-there.tabgnm", "--json")
    assert (done.returncode, done.stderr.count("\n")) == (4, 1)
    assert "not-there.tabgnm" in done.stderr
    done = run_in_shell("> /dev/full", "fit", "table.csv", "--json")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="streams are closed by a POSIX shell")
def test_a_closed_stdout_is_refused_before_the_work(flowers: SimpleNamespace) -> None:
    done = run_in_shell(">&-", "fit", flowers.data, "--target", "species", "-o", "model.tabgnm")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: standard output is closed; redirect it to a file, or to /dev/null\n"
    assert not Path("model.tabgnm").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="streams are closed by a POSIX shell")
def test_errors_do_not_go_to_stdout_if_stderr_is_closed() -> None:
    done = run_in_shell("2>&-", "info", "not-there.tabgnm", "--json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["exit_code"] == 4


def test_names_that_stdout_cannot_encode_are_escaped(tmp_path: Path) -> None:
    frame = iris().rename(columns={"sepal_length": "città 😀"}).drop(columns="id")
    MLPClassifier(n_candidates=1, n_folds=0, max_epochs=1).fit(frame.drop(columns="species"), frame["species"]).save(
        tmp_path / "model.tabgnm"
    )
    done = run_program("info", "model.tabgnm", folder=tmp_path, PYTHONIOENCODING="ascii")
    assert "citt\\xe0 \\U0001f600" in done.stdout
    done = run_program("info", "model.tabgnm", "--json", folder=tmp_path, PYTHONIOENCODING="ascii")
    assert done.stdout.isascii()
    assert json.loads(done.stdout)["columns"][0]["name"] == "città 😀"
    done = run_program("info", "model.tabgnm", "--json", folder=tmp_path, PYTHONIOENCODING="utf-8")
    assert "città 😀" in done.stdout


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
    gc.disable()  # Python ignores a KeyboardInterrupt within the callback that hypothesis has registered for collections
    watcher.start()
    try:
        yield
    finally:
        gc.enable()
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
