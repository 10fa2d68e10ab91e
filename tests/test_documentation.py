"""Code, links and defaults in the documentation."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import tabgnm
from tabgnm.estimators import effort

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
MODULES = ["tabgnm", *(module.name for module in pkgutil.walk_packages(tabgnm.__path__, "tabgnm."))]


def _run(page: Path) -> None:
    """Run the Python code of a page."""
    text = page.read_text()
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in PYTHON_BLOCK.finditer(text):
        # Blank lines in front, so that a traceback shows the line of the page.
        lines_before = text.count("\n", 0, block.start(1))
        exec(compile("\n" * lines_before + block[1], str(page), "exec"), namespace)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:the machine is a constant")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_every_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With less training, because pages fit models as a user would."""
    monkeypatch.chdir(tmp_path)
    for key, own in effort._EFFORTS.items():
        monkeypatch.setitem(effort._EFFORTS, key, own.with_epochs(effort.MIN_EPOCHS))
    monkeypatch.setattr("tabgnm.sparsity.path.N_STEPS", 500)
    _run(page)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_every_page_runs_as_it_is(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _run(page)


def test_the_readme_has_code_to_run() -> None:
    assert PYTHON_BLOCK.search((ROOT / "README.md").read_text())


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_every_docstring_are_right(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if ".training.kernels." in name:
        pytest.importorskip("triton", reason="Triton comes with builds of torch for GPUs only")
    if name == "tabgnm.autogluon":
        pytest.importorskip("autogluon.core", reason="make test-autogluon has an environment with AutoGluon")
    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert outcome.failed == 0


def test_the_default_is_the_first_of_its_choices() -> None:
    """The reference shows the first one as the default, as in numpydoc, whatever the text after it says."""
    choices = re.compile(r"^ +(\w+) : \{([^,}]+)[^}]*\}, default=(\S+)$", re.MULTILINE)
    found = [
        (path.name, *match.groups())
        for path in (ROOT / "tabgnm").rglob("*.py")
        for match in choices.finditer(path.read_text())
    ]
    assert len(found) > 20
    assert [own for own in found if own[2] != own[3]] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_of_a_page_leads_to_a_file(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target
