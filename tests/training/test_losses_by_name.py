"""Settings of a fleet take a loss by its name, which means the same as the object."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest

from tabgnm.nn import Huber, Poisson, loss_by_name, loss_names
from tabgnm.training import FleetPlan, FleetSettings, Job
from tests.training.examples import BASE, assert_all_same, different_members, settings_for, table_for, train


@pytest.mark.parametrize("name", loss_names())
def test_a_name_is_as_good_as_the_object(name: str) -> None:
    by_name, by_object = (
        settings_for(max_epochs=2, metric=True),
        settings_for(loss_by_name(name), max_epochs=2, metric=True),
    )
    by_name = replace(by_name, loss=name)
    assert by_name == by_object and hash(by_name) == hash(by_object) and by_name.loss.name == name
    members = different_members(2)
    assert_all_same(*(train(BASE, members, how, table_for(how.loss)) for how in (by_name, by_object)))


def test_settings_hold_the_loss_however_they_are_copied() -> None:
    settings = FleetSettings(loss="huber")
    for copied in (
        copy.copy(settings),
        copy.deepcopy(settings),
        pickle.loads(pickle.dumps(settings)),
        replace(settings),
    ):
        assert copied == settings and copied.loss == Huber() and vars(copied)["loss"] == Huber()
    assert "loss=Huber(delta=1.0)" in repr(settings)


def test_jobs_with_equal_losses_are_one_fleet() -> None:
    jobs = [Job(BASE, FleetSettings(loss=loss), different_members(1)[0]) for loss in ("poisson", Poisson(), "gamma")]
    plan = FleetPlan(jobs, [table_for(Poisson())])
    assert sorted(len(fleet.jobs) for fleet in plan.fleets) == [1, 2]


def test_there_is_no_default_and_no_other_name() -> None:
    with pytest.raises(TypeError, match="loss"):
        FleetSettings()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="loss='hinge' is not known; use one of 'squared_error'"):
        FleetSettings(loss="hinge")
