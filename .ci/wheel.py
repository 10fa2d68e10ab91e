"""Build the wheel, install it into an empty folder, and use the package from there: ``make test-wheel``.

Dependencies come from the environment that runs this script, but tabgnm itself only from the wheel. So this test
detects files that are missing in the wheel, which tests on a checkout cannot.

    python .ci/wheel.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IGNORED = ("__pycache__", ".pyc")

# Typical first steps of a user; some of them need files of the package that are not modules.
USE = """
import pathlib, sys
import tabgnm

assert pathlib.Path(tabgnm.__file__).is_relative_to(sys.argv[1]), tabgnm.__file__

from sklearn.datasets import load_iris
from tabgnm.paper import published

X, y = load_iris(return_X_y=True)
model = tabgnm.GNMClassifier(n_candidates=1, n_folds=2, max_epochs=5, patience=None, random_state=0).fit(X, y)
model.save("iris.tabgnm")
assert (tabgnm.load("iris.tabgnm").predict(X) == model.predict(X)).all()
assert published()

# Templates of HTML pages, if the package has any.
for template in pathlib.Path(tabgnm.__file__).parent.rglob("*.jinja"):
    import jinja2

    jinja2.Environment(autoescape=True).parse(template.read_text())
"""


def package_files() -> set[str]:
    """Return all files of the package in this checkout, code and data."""
    paths = (path for path in (ROOT / "tabgnm").rglob("*") if path.is_file())
    return {path.relative_to(ROOT).as_posix() for path in paths if not any(part in path.as_posix() for part in IGNORED)}


def run(*command: str | Path, folder: Path, **more: str) -> str:
    """Run a command in a folder, and return its output."""
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env={**os.environ, **more}, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def main() -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        installed = folder / "installed"
        run(*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT, folder=folder)
        [wheel] = folder.glob("*.whl")

        with zipfile.ZipFile(wheel) as archive:
            members = {member for member in archive.namelist() if ".dist-info/" not in member}
        if members != package_files():
            raise SystemExit(
                f"the files of the wheel and of tabgnm/ differ: {sorted(members ^ package_files())}; see pyproject.toml"
            )

        run(*pip, "install", "--no-deps", "--no-index", "--target", installed, wheel, folder=folder)
        # -P: the current folder is not searched. The wheel comes before the checkout that the environment may contain.
        run(sys.executable, "-P", "-c", USE, installed, folder=folder, PYTHONPATH=str(installed))
        version = run(installed / "bin" / "tabgnm", "--version", folder=folder, PYTHONPATH=str(installed)).strip()
        print(f"{wheel.name}: {len(members)} files, {version}")


if __name__ == "__main__":
    main()
