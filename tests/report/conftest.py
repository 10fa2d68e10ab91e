from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tabgnm import GNMClassifier
from tabgnm.report import write_report
from tests.estimators.examples import LEARNS, gnm
from tests.report.examples import HOSTILE, HOSTILE_COMMENT, LINEAR, mixed


@pytest.fixture(scope="session")
def classifier() -> GNMClassifier:
    X, labels, _ = mixed()
    return gnm(n_nodes=80, **(LEARNS | {"n_candidates": 2})).fit(X, labels)


@pytest.fixture(scope="session")
def small_machine() -> GNMClassifier:
    X, labels, _ = mixed()
    return gnm(**LINEAR).fit(X, labels)


@pytest.fixture(scope="session")
def written(classifier: GNMClassifier, small_machine: GNMClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a classifier with columns of all kinds."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    X, labels, _ = mixed()
    classifier.report(X, labels, path, machine=small_machine)
    return path


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report in which names and labels are HTML."""
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    X, labels, _ = mixed()
    X = X.rename(columns={"size": HOSTILE, "count": HOSTILE_COMMENT, "colour": "a long name " * 30})
    X["town"] = X["town"].map(lambda town: f"{HOSTILE}{town}")
    y = np.where(labels == "yes", HOSTILE, HOSTILE_COMMENT)
    write_report(gnm(**LINEAR).fit(X, y), X, y, path, target_name=HOSTILE, title=HOSTILE)
    return path
