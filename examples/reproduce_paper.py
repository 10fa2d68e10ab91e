"""Repeat two experiments of the paper on a small scale: one row of table 1, and the sparse machine for XOR.

Run it with ``python examples/reproduce_paper.py``.
"""

import tempfile
from pathlib import Path

from tabgnm import GNMClassifier
from tabgnm.datasets import make_xor, xor_bayes_accuracy
from tabgnm.paper import ResultStore, Setting, plan, run, summarize

# Table 1 compares GNMs and MLPs by ten-fold cross-validation over a grid of sizes, depths,
# dropout and learning rates. This example runs the full grid, but with one fold and 5 epochs
# instead of ten folds and 300 epochs.
setting = Setting(max_epochs=5)
work = plan([("noisy_moons", "paper")], setting, folds=[0])
print(f"{work.n_models} trainings in {len(work.units)} fleets")

# Results are stored fleet by fleet, so an interrupted run continues where it stopped.
with tempfile.TemporaryDirectory() as folder, ResultStore(Path(folder) / "results.sqlite") as store:
    run(work, store)
    cells = summarize(work.sources, store.results(work.result_keys()))
for cell in cells:
    print(f"{cell.model}: accuracy {cell.mean1:.1f} % on the test rows of this fold")

# Section 6.5: a GNM learns a variant of XOR under a penalty that removes edges. The paper
# starts with 4,900 weights and ends with 14 edges, which form an MLP.
points, label = make_xor()
xor = GNMClassifier().fit_sparse(points, label, n_layers=2, n_edges=20, n_folds=2, random_state=0)
print(xor.describe())
print(xor.equations(digits=3))

# The four Gaussians overlap, so no classifier can be right on all points. New points show how
# close this one is to the best possible accuracy.
new_points, truth = make_xor(5000, random_state=1)
print(f"accuracy on new points: {xor.score(new_points, truth):.3f}; the best possible is {xor_bayes_accuracy():.3f}")
