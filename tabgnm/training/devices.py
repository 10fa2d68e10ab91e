"""The devices that the fleets of a plan are spread over: all GPUs of one model, or a single device."""

from __future__ import annotations

import torch

from tabgnm.training.interruption import is_within_fit

# Multiply-adds of each device. For less, starting another GPU (its context, libraries and kernels) is not worth it: a
# large one does as many in half a second.
LEAST_WORK = 1e12


def equal_devices(device: torch.device) -> list[torch.device]:
    """Return a device and those that are as good: for "cuda" without an index, all GPUs of the current one's model.

    GPUs of other models may be much slower, such as one for the screen, or not be supported by torch at all.
    """
    if device.type != "cuda" or device.index is not None or torch.cuda.device_count() == 1:
        return [device]
    current, name = torch.cuda.current_device(), torch.cuda.get_device_name()
    others = [i for i in range(torch.cuda.device_count()) if i != current and torch.cuda.get_device_name(i) == name]
    return [torch.device("cuda", i) for i in (current, *others)] if others else [device]


def devices_for(device: torch.device, work: float) -> list[torch.device]:
    """Return the devices to spread some work over, in multiply-adds; one within another fit, which has them already."""
    if is_within_fit():
        return [device]
    devices = equal_devices(device)
    n_devices = min(len(devices), int(work / LEAST_WORK))
    return devices[:n_devices] if n_devices > 1 else [device]
