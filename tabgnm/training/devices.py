"""The devices that the fleets of a plan are spread over: all GPUs of one model, or a single device."""

from __future__ import annotations

import torch

from tabgnm.training.interruption import is_within_fit

# Multiply-adds of each device. For less, starting another GPU (its context, libraries and kernels) is not worth it: a
# large one does as many in half a second.
MIN_WORK = 1e12


def equal_devices(device: torch.device) -> list[torch.device]:
    """Return a device and those equivalent to it: for "cuda" without an index, the current GPU and others like it.

    Those are of the same model, as others may be much slower or not be supported by torch, and have at least half as
    much free memory, as others are in use.
    """
    if device.type != "cuda" or device.index is not None or torch.cuda.device_count() == 1:
        return [device]
    current, name = torch.cuda.current_device(), torch.cuda.get_device_name()
    others = [i for i in range(torch.cuda.device_count()) if i != current and torch.cuda.get_device_name(i) == name]
    free = {i: torch.cuda.mem_get_info(i)[0] for i in (current, *others)} if others else {}
    found = [torch.device("cuda", i) for i, own in free.items() if 2 * own >= free[current]]
    return found if len(found) > 1 else [device]


def devices_for(device: torch.device, work: float) -> list[torch.device]:
    """Return the devices to spread some work over, in multiply-adds; one within another fit, which uses the others."""
    n_worthwhile = int(work / MIN_WORK)
    if n_worthwhile < 2 or is_within_fit():
        return [device]
    return equal_devices(device)[:n_worthwhile]
