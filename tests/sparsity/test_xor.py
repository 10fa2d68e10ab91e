"""The XOR of section 6.5 of the paper, from points to equations."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import torch

from tabgnm import GNMClassifier
from tabgnm.datasets import make_xor, xor_bayes_accuracy
from tabgnm.sparsity import recognized, to_mlp
from tests.export.reading_equations import Reader


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_machine_learns_xor_is_recognized_as_an_mlp_and_is_written_as_equations(seed: int) -> None:
    points, y = make_xor(random_state=seed)
    X = pd.DataFrame(points, columns=["a", "b"])
    small = GNMClassifier().fit_sparse(X, y, n_layers=2, n_edges=20, n_folds=2, random_state=0)
    fresh, labels = make_xor(5000, random_state=1000)
    fresh = pd.DataFrame(fresh, columns=["a", "b"])
    assert small.score(fresh, labels) > xor_bayes_accuracy() - 0.02

    machine = small.machine_
    assert machine.n_edges <= 20
    assert recognized(machine).is_mlp
    assert re.match(r"An MLP with 2 inputs, \d hidden units \(relu\) and 1 output\.", small.describe())
    encoded = small.encode(fresh).astype(float)
    with torch.no_grad():
        odds = to_mlp(machine)(torch.as_tensor(encoded))[:, 0].numpy()
    np.testing.assert_allclose(odds, small.decision_function(fresh), rtol=1e-4, atol=1e-4)

    reader = Reader(small.equations(), X)
    assert reader.tolerance < 1e-4
    assert np.abs(reader.compute()["p_1"] - small.predict_proba(X)[:, 1]).max() <= reader.tolerance
    assert len(small.edges()) == machine.n_edges
