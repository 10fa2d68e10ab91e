"""Words such as none and ?: missing among numbers, but levels and classes in text, as in pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd

import tabgnm
from tests.cli.running import QUICK, run


def test_words_for_nothing_are_levels_and_classes() -> None:
    rng = np.random.default_rng(0)
    kind = rng.choice(["none", "?", "-", "some"], 120)
    frame = pd.DataFrame({"kind": kind, "size": rng.normal(size=120), "class": np.where(kind == "none", "none", "one")})
    frame.to_csv("a.csv", index=False)
    model = tabgnm.MLPClassifier(max_epochs=8, n_candidates=1, n_folds=2, random_state=0).fit(
        frame[["kind", "size"]], frame["class"]
    )
    model.save("python.tabgnm")
    run("fit", "a.csv", "-t", "class", *QUICK, "-o", "cli.tabgnm")
    for name in ("python.tabgnm", "cli.tabgnm"):
        run("predict", name, "a.csv", "--proba", "-o", "p.csv")
        expected = tabgnm.load(name).predict_proba(pd.read_csv("a.csv")[["kind", "size"]])
        np.testing.assert_allclose(pd.read_csv("p.csv").filter(like="proba").to_numpy(), expected, atol=1e-6)
        run("evaluate", name, "a.csv", *(["-t", "class"] if name.startswith("python") else []))


def test_targets_that_are_numbers_are_missing_where_a_file_says_so() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=60), "class": rng.integers(0, 2, 60)})
    frame.to_csv("a.csv", index=False)
    run("fit", "a.csv", "-t", "class", *QUICK, "-o", "a.tabgnm")
    frame.astype(str).replace({"class": {"1": "?"}}).to_csv("b.csv", index=False)
    said = run("evaluate", "a.tabgnm", "b.csv", code=3).output
    assert "is missing in" in said
    run("evaluate", "a.tabgnm", "b.csv", "--drop-missing-target")
