import ast
import os
import re
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no TOML parser")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read(name: str) -> str:
    return (ROOT / name).read_text()


def pins(name: str) -> dict[str, str]:
    lines = [line for line in read(name).splitlines() if line and not line.startswith("#")]
    return dict(line.split("==") for line in lines)


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_readme_names_the_two_commands_and_the_makefile_has_them(target: str) -> None:
    assert f"make {target}" in read("README.md")
    assert re.search(rf"^{target}:", read("Makefile"), re.MULTILINE)


def test_every_make_target_that_a_page_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    for page in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"`make ([a-z-]+)", read(page)))
        assert named <= targets, page


def test_ci_runs_make_test() -> None:
    assert "make test" in read(".ci/run").splitlines()
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-autogluon.lock"])
def test_the_lock_pins_torch_to_a_version_but_not_to_a_build(name: str) -> None:
    assert pins(name)["torch"] == "2.13.0"


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-bench.lock", "requirements-autogluon.lock"])
def test_a_lock_holds_plain_pins_only(name: str) -> None:
    for distribution, version in pins(name).items():
        assert re.fullmatch(r"[a-z0-9-]+", distribution), distribution
        assert re.fullmatch(r"[0-9a-z.]+", version), distribution


def test_the_bench_lock_repeats_nothing() -> None:
    assert not set(pins("requirements.lock")) & set(pins("requirements-bench.lock"))


@pytest.mark.parametrize(
    ("name", "extras"), [("requirements.lock", ["plot", "dev"]), ("requirements-autogluon.lock", ["autogluon"])]
)
def test_the_lock_satisfies_the_ranges_of_the_package(name: str, extras: list[str], project: dict[str, Any]) -> None:
    locked = pins(name)
    wanted = [text for extra in extras for text in project["optional-dependencies"][extra]]
    for text in (*project["dependencies"], *wanted):
        requirement = Requirement(text)
        if requirement.name != "tabgnm":
            assert locked[normalised(requirement.name)] in requirement.specifier, text


def extras_named_in(path: Path) -> set[str]:
    """Return the extras that a file of the package imports from."""
    named = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "import_extra":
            extra = node.args[1]
            assert isinstance(extra, ast.Constant), f"{path}:{node.lineno}: name the extra as a literal"
            named.add(extra.value)
    return named


def test_every_extra_named_in_the_code_exists(project: dict[str, Any]) -> None:
    named = {extra for path in sorted((ROOT / "tabgnm").rglob("*.py")) for extra in extras_named_in(path)}
    assert named
    assert named <= set(project["optional-dependencies"])


def test_contributing_gives_a_reason_for_every_core_dependency(project: dict[str, Any]) -> None:
    section = read("CONTRIBUTING.md").partition("## Dependencies")[2].partition("\n## ")[0]
    explained = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert explained == [Requirement(text).name for text in project["dependencies"]]


def test_ci_builds_and_tests_the_wheel() -> None:
    assert "make test-wheel" in read(".ci/run").splitlines()


def test_every_extra_is_imported_by_the_code_or_is_one_for_development(project: dict[str, Any]) -> None:
    named = {extra for path in sorted((ROOT / "tabgnm").rglob("*.py")) for extra in extras_named_in(path)}
    assert set(project["optional-dependencies"]) - named == {"bench", "dev", "docs"}
