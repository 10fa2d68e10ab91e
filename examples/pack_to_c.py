"""Distill a fitted model into a small one, read it as equations, and export it to C.

Run it with ``python examples/pack_to_c.py``.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from tabgnm import GNMRegressor

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# First, fit the accurate model: a pack of networks.
pack = GNMRegressor(effort="fast", random_state=0).fit(X_train, y_train)
print(f"the pack: {len(pack.members_)} networks, R² {pack.score(X_test, y_test):.2f}")

# Then distill it: a single network with at most 15 edges learns from the predictions of the pack.
# Small values of n_hidden, n_folds, n_starts and n_augmented keep this example short; omit them for your
# own data.
small = pack.distill(X_train, n_edges=15, n_hidden=8, n_folds=2, n_starts=1, n_augmented=200, random_state=0)
print(f"the small machine: R² {small.score(X_test, y_test):.2f}")
print(small.describe())

# The whole model, in the units of the table.
print(small.equations(digits=3))

# One C99 file without dependencies. Its result equals that of predict up to rounding.
MAIN = """
#include "progression.c"
#include <stdio.h>
int main(void)
{
    const progression_row row = {%s};
    printf("%%.6f\\n", progression_predict(&row));
    return 0;
}
"""
with tempfile.TemporaryDirectory() as folder:
    small.export(Path(folder) / "progression.c", prefix="progression")
    compiler = shutil.which("cc")
    if compiler is None:
        print("no C compiler found; the file has been written, but cannot be run here")
    else:
        # The struct has one member for each column that the machine uses.
        used = [name for name in X.columns if f" {name};" in (Path(folder) / "progression.c").read_text()]
        row = X_test.iloc[0]
        (Path(folder) / "main.c").write_text(MAIN % ", ".join(f".{name} = {row[name]}" for name in used))
        subprocess.run([compiler, "-std=c99", "-O2", "main.c", "-o", "main", "-lm"], cwd=folder, check=True)
        answer = float(subprocess.run([Path(folder) / "main"], check=True, capture_output=True, text=True).stdout)
        print(f"in C: {answer:.6f}, in Python: {small.predict(X_test.head(1))[0]:.6f}")
        assert abs(answer - small.predict(X_test.head(1))[0]) < 1e-4
