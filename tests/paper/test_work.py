"""A unit of work is a pure function of its content."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from tabgnm.paper import Result, Setting, Unit, run_unit
from tabgnm.paper import data as paper_data
from tabgnm.paper.origin import origin
from tabgnm.paper.protocol import MODELS, Body, Model
from tabgnm.paper.work import macro_f1


def unit(model: Model = "gnm", name: str = "noisy_moons", folds: tuple[int, ...] = (0, 1), epochs: int = 3) -> Unit:
    source = paper_data.load(name, "paper", None).source
    return Unit(source, Setting(max_epochs=epochs), Body(model, 50, 2), folds)


def content(results: list[Result]) -> dict[str, Result]:
    return {result.key: replace(result, seconds=0.0, origin="") for result in results}


@pytest.mark.parametrize("model", MODELS)
def test_the_same_unit_gives_the_same_results(model: Model) -> None:
    assert content(run_unit(unit(model))) == content(run_unit(unit(model)))


@pytest.mark.parametrize("name", ["noisy_moons", "diabetes"])
def test_a_result_does_not_depend_on_who_shares_the_fleet(name: str) -> None:
    together = content(run_unit(unit(name=name, folds=(0, 1, 2, 5))))
    alone = content(run_unit(unit(name=name, folds=(5,))))
    for key, result in alone.items():
        for measure in ("val_loss", "metric1", "metric2"):
            assert getattr(together[key], measure) == pytest.approx(getattr(result, measure), rel=1e-4)


def test_random_numbers_of_the_caller_neither_matter_nor_change() -> None:
    torch.manual_seed(1)
    first = content(run_unit(unit()))
    torch.manual_seed(2)
    before = torch.random.get_rng_state()
    assert content(run_unit(unit())) == first
    assert torch.equal(torch.random.get_rng_state(), before)


def test_there_is_a_result_for_each_fold_dropout_and_learning_rate() -> None:
    results = run_unit(unit())
    assert [result.key for result in results] == unit().result_keys()
    assert {(r.fold, r.dropout, r.learning_rate) for r in results} == {
        (fold, dropout, rate) for fold in (0, 1) for dropout in (0.0, 0.2) for rate in (0.01, 0.001)
    }
    assert all(result.status == "completed" and 1 <= result.best_epoch <= 3 for result in results)


def test_a_result_says_where_and_when_it_was_made_and_its_key_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    results = run_unit(unit(folds=(0,), epochs=1), device="cpu")
    [made] = {result.origin for result in results}
    assert re.fullmatch(r".* CPU with \d+ cores, torch \d\S*, tabgnm \d\S*, 20\d\d-\d\d-\d\d", made)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"a GPU, the {device.index}.")
    assert origin(torch.device("cuda:1")).startswith("a GPU, the 1., torch ")


def test_the_moons_are_learned() -> None:
    results = run_unit(unit(folds=(0,), epochs=30))
    assert max(result.metric1 or 0 for result in results) > 80


def test_errors_are_in_the_units_of_the_target_whatever_the_scaling() -> None:
    of_diabetes = unit(name="diabetes", folds=(0,), epochs=30)
    scaled = replace(of_diabetes, setting=Setting(scaling="standard", max_epochs=30))
    best = min(run_unit(scaled), key=lambda result: result.val_loss or 0)
    assert 1500 < (best.metric1 or 0) < 6000 and 0 < (best.metric2 or 0) < 1


def test_data_that_differ_from_the_planned_ones_are_refused() -> None:
    with pytest.raises(ValueError, match="differs from the one that the work was planned with; use the same"):
        run_unit(replace(unit(), source=replace(unit().source, digest="another")))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=40))
def test_macro_f1_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    known, labels = np.array(pairs).T
    assert macro_f1(known, labels) == pytest.approx(f1_score(known, labels, average="macro", zero_division=0))
