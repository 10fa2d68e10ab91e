"""A machine with several devices: plans are spread over those that a test names, however little there is to do."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest
import torch

from tabgnm.training import Fleet, FleetResult, devices


class Trained:
    """Fleets that were trained: (device, number of models) of each, in the order of their beginnings.

    Soon after the beginning of fleet number `ctrl_c_at`, from 1, this process gets a SIGINT.
    """

    def __init__(self, ctrl_c_at: int = 0) -> None:
        self.fleets: list[tuple[str, int]] = []
        self.threads: set[threading.Thread] = set()
        self._ctrl_c_at, self._lock = ctrl_c_at, threading.Lock()

    def note(self, fleet: Fleet) -> None:
        with self._lock:
            self.fleets.append((fleet.settings.device, len(fleet.members)))
            self.threads.add(threading.current_thread())
            if len(self.fleets) == self._ctrl_c_at:
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

    @property
    def devices(self) -> set[str]:
        return {device for device, _ in self.fleets}


def spread_over(monkeypatch: pytest.MonkeyPatch, *names: str, ctrl_c_at: int = 0) -> Trained:
    """Let plans find these devices, and note what is trained on each."""
    monkeypatch.setattr(devices, "equal_devices", lambda _: [torch.device(name) for name in names])
    monkeypatch.setattr(devices, "MIN_WORK", 1.0)
    trained, fit = Trained(ctrl_c_at), Fleet.fit

    def noted(self: Fleet, *tables: Any, **how: Any) -> FleetResult:
        trained.note(self)
        return fit(self, *tables, **how)

    monkeypatch.setattr(Fleet, "fit", noted)
    return trained
