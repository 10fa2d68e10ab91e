import ast
import contextlib
import inspect
import pkgutil
import re
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
before = set(sys.modules)
import tabgnm
loaded = {name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
assert loaded == {"tabgnm"}, loaded
"""


def test_the_version_is_one_that_pip_understands() -> None:
    assert str(Version(tabgnm.__version__)) == tabgnm.__version__


def test_importing_the_package_loads_only_the_standard_library_and_is_silent_and_offline() -> None:
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


SUBPACKAGES = sorted(
    module.name for module in pkgutil.iter_modules(tabgnm.__path__) if module.ispkg and module.name[0] != "_"
)
ACCESS = """
import sys
import tabgnm

name = sys.argv[1]
assert name in dir(tabgnm) and f"tabgnm.{name}" not in sys.modules
assert getattr(tabgnm, name) is sys.modules[f"tabgnm.{name}"]
assert getattr(tabgnm, name).__all__
"""


@pytest.mark.parametrize("name", SUBPACKAGES)
def test_every_subpackage_is_an_attribute_and_is_loaded_when_it_is_used(name: str) -> None:
    assert name in tabgnm._LAZY, f"list {name!r} in tabgnm/__init__.py"
    done = subprocess.run([sys.executable, "-c", ACCESS, name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_networkx_is_loaded_only_when_a_graph_is_made() -> None:
    code = "import sys, tabgnm; tabgnm.GNMClassifier, tabgnm.nn, tabgnm.training; assert 'networkx' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


BRITISH = re.compile(
    r"(colour|behaviour|favour|neighbour|centre|licence|grey|labelled|cancelled|modelling)|.{3}is(e|ed|er|ing|ation)s?$"
)
SAME_EVERYWHERE = {"noise", "piecewise", "pairwise", "precise", "raise", "otherwise"}


def public_names() -> set[str]:
    """Public names of all subpackages, their members, and the parameters of all of them."""
    names: set[str] = set()
    for home in (getattr(tabgnm, name) for name in SUBPACKAGES):
        for name in home.__all__:
            value = getattr(home, name)
            names.add(name)
            if inspect.isclass(value):
                homes = [base for base in value.__mro__ if base.__module__.startswith("tabgnm")]
                members = {own: member for base in homes for own, member in vars(base).items() if own[0] != "_"}
                names |= set(members) | set(getattr(value, "__dataclass_fields__", ()))
                callables = [value, *members.values()]
            else:
                callables = [value]
            for each in callables:
                if callable(each):
                    with contextlib.suppress(TypeError, ValueError):
                        names |= set(inspect.signature(each).parameters)
    return names


def test_public_names_have_american_spelling() -> None:
    names = public_names()
    assert {"optimizer", "summarize", "in_neighbors", "license", "n_jobs", "permutation_importance"} <= names
    words = {word for name in names for word in re.findall(r"[a-z]+", name.lower())} - SAME_EVERYWHERE
    assert not {word for word in words if BRITISH.match(word)}


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
