"""The one session that all open pages share: a thread that trains, and the pages that listen to it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator

from tabgnm.play.frames import Array, History, frame_event, grid_rows, points_event, welcome
from tabgnm.play.learner import Diverged, Learner
from tabgnm.play.points import Points, points_of
from tabgnm.play.settings import Settings
from tabgnm.training.threads import single_threaded_math

MAX_LISTENERS = 4
EPOCHS_PER_SECOND = 30.0
FRAMES_PER_SECOND = 15.0
UNWATCHED_SECONDS = 3.0  # so that loading the page again does not interrupt the training
HEARTBEAT_SECONDS = 10.0  # a connection that is gone is noticed when something is written to it
_MAX_STEPS = 10  # that wait to be done

_CHANGES_POINTS = ("dataset", "noise")
_CHANGES_NETWORK = (*_CHANGES_POINTS, "n_nodes", "n_layers")
_DIVERGED = "Training diverged, so the machine was restarted. Lower the learning rate."


class TooManyPages(RuntimeError):
    """More pages are open than one session serves."""


class Listener:
    """A page that is open; `changed` is set whenever there is something new to send."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.changed = asyncio.Event()
        self.changed.set()

    def wake(self) -> None:
        """Set `changed`, from any thread."""
        self._loop.call_soon_threadsafe(self.changed.set)


class Session:
    """Trains a machine in a thread as long as it is asked to and somebody watches.

    Parameters
    ----------
    own : Points or None
        The user's data.
    settings : Settings
        What the page shows first.
    """

    def __init__(self, own: Points | None, settings: Settings) -> None:
        self.own = own
        # Guards all attributes below, which are shared between threads.
        self._changed = threading.Condition()
        self._settings = settings
        self._running = False
        self._n_steps = 0
        self._seed = 0
        self._notice = ""
        self._new_points = self._new_network = self._new_frame = True
        self._closing = False
        self._listeners: set[Listener] = set()
        self._last_watched = time.monotonic()
        self._points_event = self._frame_event = b""
        self._thread = threading.Thread(target=self._run, name="tabgnm-play", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End all streams, and the thread after its current epoch."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            for listener in self._listeners:
                listener.wake()
        self._thread.join()

    # What pages ask for.

    def change(self, message: object) -> None:
        """Take over settings from a message; raise `BadMessage` if one is not valid."""
        with self._changed:
            before, after = self._settings, self._settings.changed(message, self.own is not None)
            self._settings = after
            self._new_points |= _differ(before, after, _CHANGES_POINTS)
            self._new_network |= _differ(before, after, _CHANGES_NETWORK)
            self._order()

    def act(self, action: str) -> None:
        """Do what a button of the page says."""
        with self._changed:
            if action == "step":
                self._n_steps = min(self._n_steps + 1, _MAX_STEPS)
            if action == "reset":
                self._seed += 1
                self._new_network = True
            else:
                self._running = action == "play"
            self._order()

    def _order(self) -> None:
        """Wake the thread; whatever it was that the user was told, it has been read."""
        self._notice = ""
        self._new_frame = True
        self._changed.notify_all()

    @property
    def settings(self) -> Settings:
        """What is chosen now."""
        with self._changed:
            return self._settings

    @property
    def n_listeners(self) -> int:
        """Pages that are open."""
        with self._changed:
            return len(self._listeners)

    def listen(self) -> Listener:
        """Return a listener for a new page; raise `TooManyPages` if there are enough of them."""
        with self._changed:
            if len(self._listeners) >= MAX_LISTENERS:
                raise TooManyPages
            listener = Listener()
            self._listeners.add(listener)
            self._changed.notify_all()
            return listener

    def leave(self, listener: Listener) -> None:
        """Forget a page that was closed."""
        with self._changed:
            self._listeners.discard(listener)
            self._last_watched = time.monotonic()

    async def events(self, listener: Listener) -> AsyncIterator[bytes]:
        """Yield events for a page: always the latest ones; those that a slow page has missed are left out."""
        yield welcome(self.own is not None)
        sent_points = sent_frame = b""
        while True:
            try:
                await asyncio.wait_for(listener.changed.wait(), HEARTBEAT_SECONDS)
            except (TimeoutError, asyncio.TimeoutError):  # two classes in Python 3.10
                yield b": still here\n\n"
            listener.changed.clear()
            with self._changed:
                closing, points, frame = self._closing, self._points_event, self._frame_event
            if closing:
                return
            if points is not sent_points:
                yield (sent_points := points)
            if frame is not sent_frame:
                yield (sent_frame := frame)

    # The thread.

    def _is_training(self) -> bool:
        is_watched = self._listeners or time.monotonic() - self._last_watched < UNWATCHED_SECONDS
        return self._running and bool(is_watched)

    def _has_orders(self) -> bool:
        return self._closing or self._new_frame or self._n_steps > 0

    def _run(self) -> None:
        # Products this small are ten times slower with several threads, which wait for each other.
        with single_threaded_math():
            self._work()

    def _work(self) -> None:
        next_frame = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._has_orders() or self._is_training())
                if self._closing:
                    return
                settings, seed = self._settings, self._seed
                new_points, new_network, show = self._new_points, self._new_network, self._has_orders()
                trains = self._n_steps > 0 or self._is_training()
                self._n_steps = max(0, self._n_steps - 1)
                self._new_points = self._new_network = self._new_frame = False
            began = time.monotonic()
            if new_points:
                points = points_of(settings.dataset, settings.noise, self.own)
                grid = grid_rows(points)
            if new_network:
                learner, history = Learner(points, settings.n_nodes, settings.n_layers, seed), History()
                history.add(0, learner.scores())
            if trains:
                try:
                    learner.train_epoch(settings.learning_rate, settings.penalty)
                except Diverged:
                    self._start_again()
                    continue
                history.add(learner.epoch, learner.scores())
            if show or began >= next_frame:
                self._publish(learner, grid, history, settings, points_event(points) if new_points else None)
                next_frame = began + 1 / FRAMES_PER_SECOND
            with self._changed:
                self._changed.wait_for(self._has_orders, began + 1 / EPOCHS_PER_SECOND - time.monotonic())

    def _start_again(self) -> None:
        with self._changed:
            self._running = False
            self._seed += 1
            self._notice = _DIVERGED
            self._new_network = self._new_frame = True

    def _publish(
        self, learner: Learner, grid: Array, history: History, settings: Settings, points: bytes | None
    ) -> None:
        with self._changed:
            running, notice = self._running, self._notice
        frame = frame_event(learner, grid, history, settings, running, notice)
        with self._changed:
            self._points_event = points or self._points_event
            self._frame_event = frame
            for listener in self._listeners:
                listener.wake()


def _differ(before: Settings, after: Settings, names: tuple[str, ...]) -> bool:
    return any(getattr(before, name) != getattr(after, name) for name in names)
