"""Too little memory splits a fleet into chunks, and changes nothing else."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

from tabgnm.nn import GNMShape
from tabgnm.training import Fleet, chunks
from tabgnm.training.chunk_trainer import ChunkTrainer
from tests.training.examples import (
    BASE,
    CPU,
    EVERYTHING,
    assert_all_same,
    different_members,
    settings_for,
    table_for,
    train,
)


@pytest.fixture
def chunk_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the chunks that are trained, in their order."""
    sizes: list[int] = []
    run = ChunkTrainer.run

    def counted(self: ChunkTrainer, *how: Any) -> bool:
        sizes.append(len(self.alive))
        return run(self, *how)

    monkeypatch.setattr(ChunkTrainer, "run", counted)
    return sizes


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 5, 8, 100])
def test_chunks_have_the_size_that_was_asked_for(chunk_sizes: list[int], chunk_size: int) -> None:
    train(BASE, different_members(8), settings_for(max_epochs=1), chunk_size=chunk_size)
    assert sum(chunk_sizes) == 8 and set(chunk_sizes[:-1]) <= {chunk_size} and max(chunk_sizes) <= chunk_size


@pytest.mark.parametrize("memory", [0, 1, 200_000])
def test_little_memory_means_small_chunks_and_the_same_models(
    chunk_sizes: list[int], monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    members = different_members(8)
    whole = train(BASE, members, settings_for(), chunk_size=8)
    monkeypatch.setattr("tabgnm.training.chunks.available_memory", lambda: memory)
    assert_all_same(train(BASE, members, settings_for()), whole, 1e-8)
    assert max(chunk_sizes[1:]) < 8


def test_the_machine_has_memory() -> None:
    assert 2**20 < chunks.available_memory() < 2**50


@pytest.mark.parametrize("n_models", [1, 3, 1000])
def test_a_chunk_holds_at_least_one_model_and_no_more_than_there_are(n_models: int) -> None:
    for shape in (BASE, EVERYTHING, GNMShape(500, 10, 4000, 5)):
        chosen = chunks.models_per_chunk(shape, settings_for(), CPU, n_models, 10**6, 10**5)
        assert 1 <= chosen <= n_models


class OutOfMemory:
    """Stands in for `ChunkTrainer.run`: the first calls find too little memory."""

    def __init__(self, times: int) -> None:
        self.left, self.run = times, ChunkTrainer.run

    def __get__(self, trainer: ChunkTrainer, _: type) -> Any:
        def run(*how: Any) -> bool:
            if self.left:
                self.left -= 1
                raise torch.cuda.OutOfMemoryError("CUDA out of memory")
            return self.run(trainer, *how)

        return run


@pytest.mark.parametrize(("times", "told"), [(1, [(8, 4)]), (3, [(8, 4), (4, 2), (2, 1)])], ids=["once", "three times"])
def test_a_fleet_that_runs_out_of_gpu_memory_goes_on_with_half_the_models(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, times: int, told: list[tuple[int, int]]
) -> None:
    members = different_members(8)
    whole = train(BASE, members, settings_for(), chunk_size=8)
    monkeypatch.setattr(ChunkTrainer, "run", OutOfMemory(times))
    with caplog.at_level(logging.WARNING, "tabgnm.training"):
        models = train(BASE, members, settings_for(), chunk_size=8)
    assert [record.getMessage() for record in caplog.records] == [
        f"out of GPU memory with {before} models at once; continuing with {after}" for before, after in told
    ]
    assert_all_same(models, whole, 1e-8)


def test_running_out_of_memory_with_one_model_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChunkTrainer, "run", OutOfMemory(100))
    with pytest.raises(torch.cuda.OutOfMemoryError):
        Fleet(BASE, different_members(4), settings_for()).fit(table_for(settings_for().loss))
