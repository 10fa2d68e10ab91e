"""Thread counts: what `n_jobs` means, and that a fit leaves the program's counts as they were, whoever else fits."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from tabgnm.training import Callback, EpochReport
from tabgnm.training.threads import flushes_denormals, single_threaded_math, thread_count, torch_threads
from tests.training.examples import BASE, EVERYTHING, different_members, settings_for, train

_T = TypeVar("_T")


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_none_is_torchs_number_and_minus_one_all_cores() -> None:
    assert thread_count(None) == torch.get_num_threads()
    assert thread_count(-1) == len(os.sched_getaffinity(0))
    assert thread_count(-2) == max(1, thread_count(-1) - 1)
    assert thread_count(-1000) == 1
    assert thread_count(3) == thread_count(np.int64(3)) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [0, 10**6, 1.5, "2", True])
def test_other_values_are_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"n_jobs must be None, an integer from 1 to 1024, .*; got "):
        thread_count(wrong)  # type: ignore[arg-type]


def test_none_means_the_programs_number_also_within_a_fit() -> None:
    before = torch.get_num_threads()
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
        assert thread_count(None) == before
    assert torch.get_num_threads() == before


def test_math_has_one_thread_within_and_as_many_as_before_afterwards() -> None:
    before = torch.get_num_threads(), blas_threads()
    with single_threaded_math(), single_threaded_math():
        assert torch.get_num_threads() == 1 and set(blas_threads()) <= {1}
    assert (torch.get_num_threads(), blas_threads()) == before


def _in_a_thread(call: Callable[[], _T]) -> _T:
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(call).result()


def test_math_has_one_thread_also_in_other_threads_than_the_first() -> None:
    def blas_threads_within() -> list[int]:
        with single_threaded_math():
            return blas_threads()

    before = blas_threads()
    with single_threaded_math():
        pass
    assert set(_in_a_thread(blas_threads_within)) <= {1}
    assert blas_threads() == before


def test_a_thread_that_is_done_last_puts_the_counts_back() -> None:
    before = blas_threads()
    with ExitStack() as first:
        first.enter_context(single_threaded_math())
        second = single_threaded_math()
        _in_a_thread(second.__enter__)
    assert set(blas_threads()) <= {1}
    _in_a_thread(lambda: second.__exit__(None, None, None))
    assert blas_threads() == before


def test_afterwards_every_thread_may_set_the_counts() -> None:
    def limited() -> list[int]:
        with threadpool_limits(1, "blas"):
            return blas_threads()

    with single_threaded_math():
        pass
    assert set(_in_a_thread(limited)) <= {1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # if another test has loaded JAX
def test_a_process_forked_within_has_as_many_threads_for_math_as_its_parent_had_before() -> None:
    before = blas_threads()
    with single_threaded_math():
        child = os.fork()
        if child == 0:
            os._exit(17 if blas_threads() == before else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
        assert set(blas_threads()) <= {1}


@pytest.mark.parametrize("shape", [BASE, EVERYTHING], ids=["numpy", "torch"])
def test_fits_in_several_threads_leave_the_counts_as_they_were(shape: object) -> None:
    before, blas_before = torch.get_num_threads(), blas_threads()
    torch.set_num_threads(2)
    failures: list[BaseException] = []

    def fit(n_epochs: int) -> None:
        try:
            train(shape, different_members(3), settings_for(max_epochs=n_epochs))  # type: ignore[arg-type]
            assert torch.get_num_threads() == 2
        except BaseException as error:  # reported below: an assertion in a thread is lost otherwise
            failures.append(error)

    threads = [threading.Thread(target=fit, args=(n_epochs,)) for n_epochs in (1, 5, 12, 3)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert torch.get_num_threads() == 2 and blas_threads() == blas_before
    finally:
        torch.set_num_threads(before)
    assert not failures


def test_a_callback_that_fails_leaves_the_counts_as_they_were() -> None:
    class Fail(Callback):
        def on_epoch_end(self, report: EpochReport) -> None:  # noqa: ARG002 - the hook's signature
            raise RuntimeError("stop")

    before = torch.get_num_threads(), blas_threads()
    with pytest.raises(RuntimeError, match="stop"):
        train(BASE, different_members(3), settings_for(), callbacks=[Fail()])
    assert (torch.get_num_threads(), blas_threads()) == before
    assert not any(thread.name.startswith("tabgnm") for thread in threading.enumerate())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_torch_has_one_thread_in_a_forked_process_whatever_is_asked_for() -> None:
    child = os.fork()
    if child == 0:
        with torch_threads(3):
            os._exit(torch.get_num_threads())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_operations_after_a_fit_do_not_flush_denormal_numbers() -> None:
    """In a new process, because threads of torch that already run keep their mode."""
    program = """
import torch
from tabgnm.nn import GNMShape
from tabgnm.training import Fleet, FleetSettings, Member, Table
torch.set_num_threads(2)
x = torch.randn(128, 4)
shape = GNMShape(4, 1, n_nodes=256, n_layers=3, combine="residual")
settings = FleetSettings(loss="squared_error", max_epochs=1, batch_size=128, n_threads=2)
Fleet(shape, [Member(seed=seed) for seed in range(2)], settings).fit(Table(x, x[:, :1]))
print(int((torch.full((4_000_000,), 1e-40) * 1.0 == 0).sum()))
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "0\n"


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_the_mode_of_denormal_numbers_is_restored_whatever_the_default_type(dtype: torch.dtype) -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        for flushes in (True, False):
            torch.set_flush_denormal(flushes)
            train(BASE, different_members(2), settings_for(max_epochs=1))
            assert flushes_denormals() == flushes
    finally:
        torch.set_default_dtype(before)
        torch.set_flush_denormal(False)
