"""Running epochs on a GPU as captured CUDA graphs: one launch per epoch or block instead of one per kernel."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from tabgnm.training.epoch_loop import EpochLoop
from tabgnm.training.gpu_sharing import whole_device
from tabgnm.training.row_batches import Block, BlockRows

_log = logging.getLogger("tabgnm.training")

_WHOLE_EPOCH_STEPS = 64  # longer epochs are captured block by block, as capturing takes as long as running once


class CapturedEpochs:
    """Runs the epochs of an `EpochLoop`; a new object is required when models are dropped from the loop."""

    def __init__(self, loop: EpochLoop) -> None:
        self._loop = loop
        self._whole = loop.batches.n_steps[0] <= _WHOLE_EPOCH_STEPS
        self._graphs: dict[Any, torch.cuda.CUDAGraph | None] = {}
        self._buffers: dict[Any, BlockRows] = {}
        self._warm = False

    @property
    def captured(self) -> bool:
        """Whether the device can run epochs or blocks without the host."""
        return bool(self._graphs)

    def run_epoch(self) -> None:
        """Run all parts of an epoch after `EpochLoop.load_epoch`."""
        loop = self._loop
        if not self._whole:
            loop.begin_epoch()
            for block in loop.batches.blocks:
                self._run_block(block)
            loop.end_epoch()
        elif not self._warm:
            self._warm_up(loop.run_epoch)
        else:
            self._replay("epoch", loop.run_epoch)

    def _warm_up(self, work: Callable[[], None]) -> None:
        """Do the work once without capturing, so that libraries can allocate their workspaces."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call] # torch's stream is untyped
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            work()
        torch.cuda.current_stream().wait_stream(stream)
        self._warm = True

    def _run_block(self, block: Block) -> None:
        """Gather into buffers with fixed addresses, then replay the steps; equal blocks share a graph."""
        loop = self._loop
        loaded = loop.load_block(block)
        if not self._warm:
            self._warm_up(lambda: loop.step.train_block(block, loaded, loop.train_loss))
            return
        key = block.pattern
        if key not in self._buffers:
            self._buffers[key] = BlockRows(*(part.clone() for part in loaded))
        own = self._buffers[key]
        for buffer, part in zip(own, loaded, strict=True):
            buffer.copy_(part)
        self._replay(key, lambda: loop.step.train_block(block, own, loop.train_loss))

    def _replay(self, key: Any, work: Callable[[], None]) -> None:
        """Replay the graph of `work`, which is captured first if necessary; if this fails, do the work directly."""
        if key not in self._graphs:
            self._graphs[key] = self._capture(work)
        graph = self._graphs[key]
        if graph is None:
            work()
        else:
            graph.replay()

    def _capture(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
        """Capture `work`, while fleets in other threads continue."""
        graph = torch.cuda.CUDAGraph()
        try:
            with whole_device, torch.cuda.stream(_capturing_stream(self._loop.flat.device)):
                # thread_local: GPU work of other threads does not affect this graph.
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    work()
                except BaseException:
                    with suppress(RuntimeError):  # its message does not name the cause
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
    """Return one stream for all captures. It has a priority, because others are reused and may be another thread's."""
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call] # torch's stream is untyped
