import itertools
from dataclasses import replace

import numpy as np
import pytest

from tabgnm.paper import Setting, plan
from tabgnm.paper.protocol import Body, Source, bodies, folds, trainings, units

CAR = Source("car", "paper", "digest", "classification", 1728, 21, 4)


def test_the_grid_is_that_of_section_6() -> None:
    gnms, skipped = bodies(CAR, "gnm")
    assert {(body.width, body.n_layers) for body in gnms} == set(itertools.product((50, 100, 200, 300), (2, 3, 4)))
    mlps, _ = bodies(CAR, "mlp")
    assert {(body.width, body.n_layers) for body in mlps} == set(itertools.product((32, 64, 128, 256), (2, 3, 4)))
    assert {(own.dropout, own.learning_rate) for own in trainings()} == set(itertools.product((0, 0.2), (0.01, 0.001)))
    assert skipped == []
    assert sum(unit.n_models for unit in units(CAR, Setting(), ("gnm", "mlp"), tuple(range(10)))) == 960


def test_isolet_has_larger_networks_and_they_keep_to_its_budget() -> None:
    isolet = Source("isolet", "paper", "digest", "classification", 7797, 617, 26)
    gnms, skipped = bodies(isolet, "gnm")
    assert {body.width for body in gnms} == {800, 1000} and skipped == []
    assert {body.width for body in bodies(isolet, "mlp")[0]} == {512, 1024}
    assert max(body.shape(617, 26).n_parameters() for body in gnms) <= 5_000_000


def test_networks_with_fewer_nodes_than_inputs_are_left_out_with_the_reason() -> None:
    kept, skipped = bodies(replace(CAR, n_inputs=126, n_outputs=3), "gnm")
    assert {body.width for body in kept} == {200, 300}
    assert {own.body.width for own in skipped} == {50, 100}
    assert "50 nodes are fewer than inputs + outputs + bias = 130" in skipped[0].reason


def test_networks_above_the_budget_are_left_out_with_the_reason() -> None:
    _, skipped = bodies(replace(CAR, n_inputs=5000), "mlp")
    assert any("more than the budget of 500,000" in own.reason for own in skipped)


def test_layers_are_counted_alike_for_both_models() -> None:
    assert Body("gnm", 50, 3).shape(2, 1).n_layers == Body("mlp", 32, 3).shape(2, 1).n_layers == 3


def test_folds_hold_every_row_once_for_testing_and_a_tenth_of_the_rest_for_validation() -> None:
    every = list(folds(1000, Setting()))
    assert len(every) == 10
    assert sorted(np.concatenate([fold.test for fold in every])) == list(range(1000))
    for fold in every:
        assert len(fold.val) == 90 and len(fold.train) == 810
        assert len(set(fold.train) | set(fold.val) | set(fold.test)) == 1000


def test_a_key_names_everything_that_determines_a_result_and_nothing_else() -> None:
    [unit] = units(CAR, Setting(), ("gnm",), (0, 1))[:1]
    training = trainings()[0]
    key = unit.key(training, 0)
    assert replace(unit, folds=(0,)).key(training, 0) == key  # who shares the fleet does not matter
    others = [
        replace(unit, setting=Setting(scaling="standard")),
        replace(unit, setting=Setting(max_epochs=5)),
        replace(unit, setting=Setting(seed=1)),
        replace(unit, body=Body("mlp", 50, 2)),
        replace(unit, body=Body("gnm", 50, 3)),
        replace(unit, source=replace(CAR, digest="another")),
        replace(unit, source=replace(CAR, variant="clean")),
    ]
    keys = {other.key(training, 0) for other in others}
    assert len(keys | {key, unit.key(training, 1), unit.key(trainings()[1], 0)}) == len(others) + 3


def test_a_unit_without_what_is_done_has_the_other_folds() -> None:
    [unit] = units(CAR, Setting(), ("gnm",), (0, 1, 2))[:1]
    done = [unit.key(training, 1) for training in trainings()]
    left = unit.without(done)
    assert left is not None and left.folds == (0, 2)
    assert unit.without(unit.result_keys()) is None
    assert unit.without(done[:2]) == unit  # half a fold is not done


def test_shards_have_every_fleet_once_and_about_the_same_cost() -> None:
    whole = plan([("noisy_moons", "paper"), ("diabetes", "paper")], Setting())
    parts = [whole.shard(number, 3) for number in (1, 2, 3)]
    assert sorted(key for part in parts for key in part.result_keys()) == sorted(whole.result_keys())
    costs = [sum(unit.cost for unit in part.units) for part in parts]
    assert max(costs) < 1.1 * min(costs)
    many = [whole.shard(number, 60) for number in range(1, 61)]  # more than the largest fleets allow, unless split
    assert sorted(key for part in many for key in part.result_keys()) == sorted(whole.result_keys())
    costs = [sum(unit.cost for unit in part.units) for part in many]
    assert max(costs) < 1.3 * min(costs)
    with pytest.raises(ValueError, match="shard 4/3 does not exist; expected 1/3 to 3/3"):
        whole.shard(4, 3)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"scaling": "robust"}, "scaling='robust' is not known; use 'none' .as published. or 'standard'"),
        ({"max_epochs": 0}, "max_epochs=0 is out of range; expected an integer >= 1"),
        ({"n_folds": 1}, "n_folds=1 is out of range; expected an integer >= 2"),
    ],
)
def test_settings_that_cannot_be_are_refused(bad: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Setting(**bad)  # type: ignore[arg-type]


def test_folds_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match=r"folds \[10\] do not exist; expected some of 0 to 9"):
        plan([("noisy_moons", "paper")], Setting(), folds=[0, 10])
