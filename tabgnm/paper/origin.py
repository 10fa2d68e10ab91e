"""Where and when a training was run, as a line that is stored with its result."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone

import torch

from tabgnm import __version__


def origin(device: torch.device) -> str:
    """Return processor, versions and date, which may explain why two trainings with the same key differ."""
    if device.type == "cuda":
        where = torch.cuda.get_device_name(device)
    else:
        where = f"{platform.machine()} CPU with {os.cpu_count()} cores"
    day = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    return f"{where}, torch {torch.__version__}, tabgnm {__version__}, {day}"
