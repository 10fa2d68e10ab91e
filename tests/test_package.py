import ast
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.version import Version

import tabgnm
from tabgnm._extras import MissingExtraError, import_extra

IMPORT_UNDER_WATCH = """
import socket, sys

def refuse(*args, **kwargs):
    raise AssertionError("import tabgnm opened a socket")

socket.socket.__init__ = socket.getaddrinfo = refuse
import tabgnm
loaded = {"torch", "sklearn"} & set(sys.modules)
assert not loaded, loaded
"""


def test_the_version_is_one_that_pip_understands() -> None:
    assert str(Version(tabgnm.__version__)) == tabgnm.__version__


def test_importing_the_package_loads_neither_torch_nor_scikit_learn_and_is_silent_and_offline() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_UNDER_WATCH], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


LIBRARY_AND_COMMAND = """
import logging, sys
from tabgnm import MLPRegressor
from tabgnm.cli import main

try:
    MLPRegressor(hidden=(4,), n_candidates=1, n_folds=1, max_epochs=2, learning_rate=1e30).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
except ValueError as error:
    assert "diverged" in str(error)
sys.argv = ["tabgnm", "--version"]
try:
    main()
finally:
    logging.getLogger("tabgnm.paper").warning("a worker was lost")
"""


def test_the_library_prints_no_warnings_by_itself_but_the_command_does() -> None:
    done = subprocess.run([sys.executable, "-c", LIBRARY_AND_COMMAND], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "a worker was lost\n")


def test_every_public_name_resolves_and_is_listed() -> None:
    for name in tabgnm.__all__:
        assert getattr(tabgnm, name) is not None
    assert dir(tabgnm) == sorted(tabgnm.__all__)


def test_type_checkers_see_the_same_names_as_the_interpreter() -> None:
    tree = ast.parse(Path(tabgnm.__file__).read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    declared = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert declared == set(tabgnm._LAZY)


def test_an_unknown_name_is_an_attribute_error_that_lists_the_public_ones() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'GNN'; public names are .*'nn'"):
        tabgnm.GNN  # noqa: B018 - the access itself is what is tested


def test_a_missing_extra_names_the_purpose_the_module_and_the_command() -> None:
    expected = (
        "drawing needs not_installed, which is not installed; "
        r'get it with: pip install "tabgnm\[plot\]"'
    )
    with pytest.raises(MissingExtraError, match=expected) as caught:
        import_extra("not_installed.figure", "plot", "drawing")
    assert caught.value.extra == "plot"
    assert isinstance(caught.value, ImportError)


def test_a_broken_package_is_not_reported_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_package.py").write_text("import something_it_needs\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="something_it_needs") as caught:
        import_extra("broken_package", "plot", "drawing")
    assert not isinstance(caught.value, MissingExtraError)
