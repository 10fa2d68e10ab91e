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

_log = logging.getLogger("tabgnm.training")


class CapturedEpochs:
    """Runs the epochs of an `EpochLoop`; a new object is required when models are dropped from the loop.

    An epoch of one block is one graph. Others have a graph for their beginning, one for their blocks, or several if
    blocks differ in their sizes, and one for their end.
    """

    def __init__(self, loop: EpochLoop) -> None:
        self._loop = loop
        self._graphs: dict[Any, torch.cuda.CUDAGraph | None] = {}
        self._done_once: set[str] = set()
        # The graphs run one after the other and leave nothing in memory of their own, so they can share it.
        self._pool = torch.cuda.graph_pool_handle()

    @property
    def captured(self) -> bool:
        """Whether the device can run epochs or blocks without the host."""
        return bool(self._graphs)

    def run_epoch(self) -> None:
        """Run all parts of an epoch after `EpochLoop.load_epoch`."""
        loop = self._loop
        if len(loop.batches.blocks) == 1:
            self._run("epoch", None, loop.run_epoch)
            return
        self._run("begin", None, loop.begin_epoch)
        for block in loop.batches.blocks:
            self._run("block", block.pattern, functools.partial(loop.train_block, block))
        self._run("end", None, loop.end_epoch)

    def _run(self, part: str, which: Any, work: Callable[[], None]) -> None:
        """Replay the graph of `work`, which is captured first if necessary; if this fails, do the work directly.

        Each part of an epoch is done once without capturing, so that libraries can allocate their workspaces.
        """
        if part not in self._done_once:
            self._done_once.add(part)
            self._do_on_other_stream(work)
            return
        if (part, which) not in self._graphs:
            self._graphs[part, which] = self._capture(work)
        graph = self._graphs[part, which]
        if graph is None:
            work()
        else:
            graph.replay()

    def _do_on_other_stream(self, work: Callable[[], None]) -> None:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call] # torch's stream is untyped
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            work()
        torch.cuda.current_stream().wait_stream(stream)

    def _capture(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
        """Capture `work`, while fleets in other threads continue."""
        graph = torch.cuda.CUDAGraph()
        try:
            with whole_device, torch.cuda.stream(_capturing_stream(self._loop.flat.device)):
                # thread_local: GPU work of other threads does not affect this graph.
                graph.capture_begin(self._pool, capture_error_mode="thread_local")
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
