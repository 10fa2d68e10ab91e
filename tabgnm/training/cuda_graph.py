"""Run the epochs of a lockstep, on a GPU as captured CUDA graphs: a launch per epoch instead of one per kernel."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from tabgnm.training.gpu_turns import whole_device
from tabgnm.training.lockstep import BlockData, Lockstep
from tabgnm.training.rows import Block

_log = logging.getLogger("tabgnm.training")

_WHOLE_EPOCH_STEPS = 64  # longer epochs are captured block by block: capturing costs as much as running once


class EpochRunner:
    """Runs epochs of a lockstep; made anew when the lockstep loses models."""

    def __init__(self, lockstep: Lockstep, when_captured: Callable[[], None] = lambda: None) -> None:
        self.lockstep = lockstep
        self.on_gpu = lockstep.flat.device.type == "cuda"
        self.whole = lockstep.epochs.n_steps[0] <= _WHOLE_EPOCH_STEPS
        self._graphs: dict[Any, torch.cuda.CUDAGraph | None] = {}
        self._buffers: dict[Any, BlockData] = {}
        self._warm = False
        self._when_captured: Callable[[], None] | None = when_captured

    def run(self, epoch: int) -> None:
        """Run one epoch (from 0 on)."""
        lockstep = self.lockstep
        lockstep.load_epoch(epoch)
        if not self.on_gpu:
            lockstep.run_epoch()
        elif not self.whole:
            lockstep.begin_epoch()
            for block in lockstep.epochs.blocks:
                self._run_block(block)
            lockstep.end_epoch()
        elif not self._warm:
            self._warm_up(lockstep.run_epoch)
        else:
            self._replay("epoch", lockstep.run_epoch)
        if self._when_captured is not None and (self._graphs or not self.on_gpu):
            self._when_captured()
            self._when_captured = None

    def _warm_up(self, work: Callable[[], None]) -> None:
        """Do the work once by itself: libraries allocate their workspaces before anything is captured."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call] # torch's, without types
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            work()
        torch.cuda.current_stream().wait_stream(stream)
        self._warm = True

    def _run_block(self, block: Block) -> None:
        """Gather into buffers that stay where they are, then replay the steps; equal blocks share a graph."""
        loaded = self.lockstep.load_block(block)
        if not self._warm:
            self._warm_up(lambda: self.lockstep.take_steps(block, loaded))
            return
        key = block.pattern
        if key not in self._buffers:
            self._buffers[key] = BlockData(*(part.clone() for part in loaded))
        own = self._buffers[key]
        for buffer, part in zip(own, loaded, strict=True):
            buffer.copy_(part)
        self._replay(key, lambda: self.lockstep.take_steps(block, own))

    def _replay(self, key: Any, work: Callable[[], None]) -> None:
        """Replay the graph of `work`, captured first if need be; where it cannot be captured, just do the work."""
        if key not in self._graphs:
            self._graphs[key] = self._capture(work)
        graph = self._graphs[key]
        if graph is None:
            work()
        else:
            graph.replay()

    def _capture(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
        """Capture `work`; fleets in other threads go on with theirs meanwhile."""
        graph = torch.cuda.CUDAGraph()
        try:
            with whole_device, torch.cuda.stream(_capturing_stream(self.lockstep.flat.device)):
                # thread_local: what other threads of the program do on the GPU is none of this graph's business
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    work()
                except BaseException:
                    with suppress(RuntimeError):  # it says that the capture failed, not why
                        graph.capture_end()
                    raise
                graph.capture_end()
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:
            _log.warning("could not capture a CUDA graph (%s); launching kernels one by one", error)
            return None
        return graph


@functools.cache
def _capturing_stream(device: torch.device) -> torch.cuda.Stream:
    """One for all captures. With a priority, as those without come round again and may be another thread's."""
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call] # torch's, without types
