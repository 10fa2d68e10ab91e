"""Memory: an estimate before anything large is allocated, and an error where it does not suffice."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tabgnm import GNMClassifier, MLPClassifier
from tabgnm.estimators.memory import shown
from tests.estimators.examples import gnm, mlp, mlpr, numbers

X, Y, T = numbers()
GIB = 2**30


@pytest.mark.parametrize(
    ("make", "changed", "message"),
    [
        (gnm, {"n_nodes": 10**6, "n_layers": 3}, r"1,000,000 nodes and 3 layers.*use a smaller n_nodes or n_layers"),
        (gnm, {"n_nodes": 10**5, "n_layers": 1000}, r"100,000 nodes and 1000 layers"),
        (
            mlp,
            {"hidden": (10**6, 10**6)},
            r"hidden=\(1000000, 1000000\) have 1,\d+,\d+,\d+,\d+ weights.*use a smaller hidden",
        ),
        (mlp, {"hidden": (10**6, 10**6), "precision": "float64"}, r"fit needs about \d+ TB of memory"),
    ],
)
def test_networks_that_do_not_fit_into_memory_are_an_error_with_the_cause(
    make: Any, changed: Any, message: str
) -> None:
    with pytest.raises(MemoryError, match=message):
        make(**changed).fit(X, Y)


def test_the_error_names_what_is_needed_and_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabgnm.estimators.memory.total_memory", lambda: 3 * 10**6)
    with pytest.raises(MemoryError, match=r"fit needs about \d+ MB of memory, but this process may use 3.0 MB: "):
        mlp().fit(X, Y)


def test_many_classes_are_an_error_with_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    y = np.arange(40_000) % 20_000
    table = np.random.default_rng(0).normal(size=(40_000, 1))
    monkeypatch.setattr("tabgnm.estimators.memory.total_memory", lambda: 16 * GIB)
    with pytest.raises(
        MemoryError, match=r"each candidate predicts 20,000 numbers for each of 40,000 rows.*use .*fewer classes"
    ):
        MLPClassifier(numeric_embedding=None).fit(table, y)
    with pytest.raises(ValueError, match=r"20034 nodes for 20000 outputs \(classes or targets\).*merge rare classes"):
        GNMClassifier(numeric_embedding=None).fit(table, y)


def test_a_table_that_is_too_wide_once_encoded_is_an_error_with_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = np.arange(20_000) % 500
    monkeypatch.setattr("tabgnm.estimators.memory.total_memory", lambda: 50 * 10**6)
    with pytest.raises(
        MemoryError, match=r"20,000 rows have 50\d encoded columns; use fewer rows or columns, or a smaller max"
    ):
        mlp(max_one_hot=1000, column_kinds={0: "category"}).fit(levels[:, None], levels % 2)


def test_the_estimate_has_its_parts_and_grows_with_what_it_is_made_of() -> None:
    small = mlp().estimate_memory(X, Y)
    assert small.training.bytes == sum(small.training.parts.values()) and small.training.gpu_bytes == 0
    text = str(small)
    assert text.startswith("training: ") and "\nprediction: " in text and "trained networks" in text
    for larger in (mlp(hidden=(500, 500)), mlp(n_folds=8), mlp(n_candidates=4), mlp(precision="float64")):
        found = larger.estimate_memory(X, Y)
        assert found.training.parts["trained networks"] > small.training.parts["trained networks"], larger
    longer = mlp().estimate_memory(np.tile(X, (50, 1)), np.tile(Y, 50))
    for part in ("encoded table", "out-of-fold predictions", "rows and folds"):
        assert longer.training.parts[part] > 10 * small.training.parts[part]


def test_an_estimate_neither_fits_nor_draws() -> None:
    random = np.random.RandomState(0)
    model = mlpr(random_state=random)
    model.estimate_memory(X, T)
    assert not hasattr(model, "fitted_") and random.randint(10**6) == np.random.RandomState(0).randint(10**6)


def test_an_estimate_of_what_does_not_fit_is_not_an_error() -> None:
    assert gnm(n_nodes=10**6, n_layers=3).estimate_memory(X, Y).training.bytes > 10**12


@pytest.mark.parametrize(
    ("n", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (25e9, "25 GB"), (5e18, "5,000,000 TB")]
)
def test_bytes_are_shown_as_people_write_them(n: float, text: str) -> None:
    assert shown(n) == text


MEASURED = """
import re
import numpy as np
from tabgnm import GNMClassifier, GNMRegressor, MLPClassifier, MLPRegressor

def memory(name):
    return 1024 * int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1])

random = np.random.default_rng(0)
{setting}
estimated = model.estimate_memory(X, y).training.bytes
open("/proc/self/clear_refs", "w").write("5")
before = memory("VmRSS")
model.fit(X, y)
print(estimated / (memory("VmHWM") - before))
"""
SETTINGS = {
    "many classes": "X = random.normal(size=(60_000, 10)); y = np.arange(60_000) % 300; model = MLPClassifier(max_epochs=1, patience=None, n_candidates=4, n_folds=3, random_state=0)",
    "large networks": "X = random.normal(size=(3000, 10)); y = X[:, 0]; model = GNMRegressor(max_epochs=1, patience=None, n_nodes=2500, n_layers=3, n_candidates=3, n_folds=2, random_state=0)",
    "many rows": "X = random.normal(size=(100_000, 20)); y = X[:, 0] > 0; model = GNMClassifier(max_epochs=1, patience=None, random_state=0)",
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("setting", SETTINGS.values(), ids=list(SETTINGS))
def test_the_estimate_is_within_a_factor_of_two_of_the_measured_peak(setting: str) -> None:
    code = MEASURED.replace("{setting}", setting)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0.5 < float(done.stdout) < 2.0


def test_an_estimate_is_shown_in_units_people_read() -> None:
    found = mlp().estimate_memory(X, Y)
    assert repr(found) == str(found) and re.match(r"training: \d+ MB \(.*\)\nprediction: ", repr(found))
