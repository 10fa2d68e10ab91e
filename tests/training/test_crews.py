"""Crews share models out among threads, and whatever happens in one is heard of."""

from __future__ import annotations

import threading

import pytest
import torch

from tabgnm.training.crews import Crews


@pytest.mark.parametrize(("n_models", "n_crews"), [(1, 4), (7, 3), (8, 2), (5, 5), (3, 1)])
def test_every_model_is_in_one_crew_and_crews_are_as_equal_as_can_be(n_models: int, n_crews: int) -> None:
    slices = Crews(n_models, n_crews).slices
    assert [i for own in slices for i in range(own.start, own.stop)] == list(range(n_models))
    sizes = [own.stop - own.start for own in slices]
    assert len(sizes) == min(n_models, n_crews) and max(sizes) - min(sizes) <= 1


def test_crews_work_at_the_same_time_without_autograd_and_leave_no_thread() -> None:
    crews, together, seen = Crews(6, 3), threading.Barrier(3, timeout=10), {}

    def work(number: int, models: slice) -> None:
        together.wait()  # nobody gets past this alone
        seen[number] = models, threading.get_ident(), torch.is_inference_mode_enabled()

    with torch.inference_mode():
        crews.each(work)
    crews.close()
    assert [seen[i][0] for i in range(3)] == crews.slices
    assert len({ident for _, ident, _ in seen.values()}) == 3 and all(inference for *_, inference in seen.values())
    assert not any("tabgnm-crew" in thread.name for thread in threading.enumerate())


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_exception_in_any_crew_is_raised_after_all_are_done(failing: int) -> None:
    crews, done = Crews(3, 3), []

    def work(number: int, models: slice) -> None:  # noqa: ARG001 - what a crew's work takes
        if number == failing:
            raise ZeroDivisionError(number)
        done.append(number)

    with pytest.raises(ZeroDivisionError):
        crews.each(work)
    crews.close()
    assert sorted(done) == sorted({0, 1, 2} - {failing})
