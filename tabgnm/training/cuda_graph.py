"""Run the epochs of a lockstep, on a GPU as captured CUDA graphs: a launch per epoch instead of one per kernel."""

from __future__ import annotations

import logging
from typing import Any

import torch

from tabgnm.training.lockstep import BlockData, Lockstep
from tabgnm.training.rows import Block

_log = logging.getLogger("tabgnm.training")

_WHOLE_EPOCH_STEPS = 64  # longer epochs are captured block by block: capturing costs as much as running once


class EpochRunner:
    """Runs epochs of a lockstep; made anew when the lockstep loses models."""

    def __init__(self, lockstep: Lockstep) -> None:
        self.lockstep = lockstep
        self.on_gpu = lockstep.flat.device.type == "cuda"
        self.whole = lockstep.epochs.n_steps[0] <= _WHOLE_EPOCH_STEPS
        self._graphs: dict[Any, torch.cuda.CUDAGraph] = {}
        self._buffers: dict[Any, BlockData] = {}
        self._warm = False

    def run(self, epoch: int) -> None:
        """Run one epoch (from 0 on)."""
        lockstep = self.lockstep
        lockstep.load_epoch(epoch)
        if not self.on_gpu:
            lockstep.run_epoch()
        elif not self._warm:
            self._warm = True
            self._on_side_stream()  # libraries allocate their workspaces before anything is captured
        elif self.whole:
            if "epoch" not in self._graphs:
                self._graphs["epoch"] = self._capture(lockstep.run_epoch)
            self._graphs["epoch"].replay()
        else:
            lockstep.begin_epoch()
            for block in lockstep.epochs.blocks:
                self._run_block(block)
            lockstep.end_epoch()

    def _on_side_stream(self) -> None:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.lockstep.run_epoch()
        torch.cuda.current_stream().wait_stream(stream)

    def _run_block(self, block: Block) -> None:
        """Gather into buffers that stay where they are, then replay the steps; equal blocks share a graph."""
        loaded = self.lockstep.load_block(block)
        key = block.pattern
        if key not in self._graphs:
            self._buffers[key] = BlockData(*(part.clone() for part in loaded))
            own = self._buffers[key]
            self._graphs[key] = self._capture(lambda: self.lockstep.take_steps(block, own))
        for buffer, part in zip(self._buffers[key], loaded, strict=True):
            buffer.copy_(part)
        self._graphs[key].replay()

    def _capture(self, work: Any) -> torch.cuda.CUDAGraph:
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        _log.debug("captured a CUDA graph for %d models", len(self.lockstep.members))
        return graph
