"""Update requirements.lock, requirements-bench.lock and requirements-autogluon.lock: ``make lock``.

pip resolves the package with its extras (without installing anything), and this script records the versions
that it chose, with two changes, so that the files work on machines with and without a GPU:

- torch stays at the version below, without the suffix of a build (``+cpu``, ``+cu130``), which would tie
  the file to one index. An installed build of that version satisfies the pin, so pip never replaces it;
- the GPU packages of torch are left out: torch pins them exactly, and the CPU build does not need them.

The benchmarks do not need the GPU package of XGBoost and the plotting packages of CatBoost, so these are left
out too. AutoGluon has its own environment and file, because it needs an older pandas.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"
GPU_PACKAGES = re.compile(r"(nvidia|cuda)-.*|triton")
CATBOOST_PICTURES = ("graphviz", "plotly")

HEADER = """\
# {title}
# Made by `make lock` (.ci/lock.py) from the ranges in pyproject.toml with Python {python}; do not edit.
# To renew: change pyproject.toml if needed, run `make lock`, then `make test`.
# torch has neither the suffix of a build nor hashes: an installed build of this version is kept.
"""


def resolved(*requirements: str) -> dict[str, str]:
    """Return the version of every distribution that pip would install into an empty environment."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    command += ["--disable-pip-version-check", "--report", "-", TORCH, *requirements]
    report = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    found = {item["metadata"]["name"]: item["metadata"]["version"] for item in report["install"]}
    pins = {re.sub(r"[-_.]+", "-", name).lower(): version.partition("+")[0] for name, version in found.items()}
    return {name: pin for name, pin in sorted(pins.items()) if name != "tabgnm" and not GPU_PACKAGES.fullmatch(name)}


def write(path: Path, title: str, pins: dict[str, str]) -> None:
    header = HEADER.format(title=title, python=f"{sys.version_info.major}.{sys.version_info.minor}")
    path.write_text(header + "".join(f"{name}=={version}\n" for name, version in pins.items()))


def main() -> None:
    lock = ROOT / "requirements.lock"
    base = resolved(".[plot,dev]")
    write(lock, "Everything that `make test` and `make demo` install.", base)
    # The first file constrains the second, so that both can be installed in one environment.
    both = resolved(".[plot,dev,bench]", "--constraint", str(lock))
    extra = {name: version for name, version in both.items() if name not in (*base, *CATBOOST_PICTURES)}
    write(ROOT / "requirements-bench.lock", "What `make bench` installs on top of requirements.lock.", extra)
    autogluon = resolved(".[autogluon]", "hypothesis", "pytest")  # imported by the tests
    write(ROOT / "requirements-autogluon.lock", "Everything that `make test-autogluon` installs.", autogluon)


if __name__ == "__main__":
    main()
