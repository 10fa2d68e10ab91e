"""Memory and cores that this process may use, within the limits of a container (Linux cgroups)."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
_UNKNOWN_MEMORY = 8 * 2**30  # assumed if the operating system does not report it


def total_memory(root: Path = _ROOT) -> int:
    """Return the maximum main memory of this process in bytes."""
    limits = [limit for limit, _ in _memory_limits(root)]
    return min([_meminfo("MemTotal", root) or _physical_memory(), *limits])


def available_memory(root: Path = _ROOT) -> int:
    """Return the main memory in bytes that can be used now without swapping."""
    left = [max(0, limit - used) for limit, used in _memory_limits(root)]
    return min([_meminfo("MemAvailable", root) or _physical_memory() // 2, *left])


def core_count(root: Path = _ROOT) -> int:
    """Return the number of cores that this process may use; a fraction of a core counts as one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *map(math.ceil, _core_limits(root))]))


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return _UNKNOWN_MEMORY


def _meminfo(name: str, root: Path) -> int | None:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return None


def _memory_limits(root: Path) -> Iterator[tuple[int, int]]:
    """Yield (limit, bytes in use that cannot be reclaimed) of each enclosing cgroup that has a limit."""
    for names, folder in (
        (("memory.max", "memory.current", "inactive_file"), ""),
        (("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"), "memory"),
    ):
        limit_name, usage_name, droppable_name = names
        for group in _cgroups(root, folder):
            limit = _text(group / limit_name).strip()
            if limit.isdecimal():  # otherwise "max"
                statistics = dict(line.split() for line in _text(group / "memory.stat").splitlines())
                used = int(_text(group / usage_name) or 0) - int(statistics.get(droppable_name, 0))
                yield int(limit), max(0, used)


def _core_limits(root: Path) -> Iterator[float]:
    """Yield the number of cores that each enclosing cgroup allows, if it has a limit."""
    for group in _cgroups(root, ""):
        quota, _, period = _text(group / "cpu.max").strip().partition(" ")
        if quota.isdecimal() and period.isdecimal():  # otherwise "max"
            yield int(quota) / int(period)
    for group in _cgroups(root, "cpu"):
        quota, period = (_text(group / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
        if quota.isdecimal() and period.isdecimal():  # otherwise -1
            yield int(quota) / int(period)


def _cgroups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of the cgroups that contain this process: version 2 for "", or a controller of version 1.

    The limits of all of them apply. In a container, the path of its own group may not exist; the top folder is that
    group then.
    """
    top = root / "sys/fs/cgroup" / controller
    path = ""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, own = (*line.split(":", 2), "", "")[:3]
        if controller in controllers.split(","):
            path = own
    group = top / path.lstrip("/")
    while group != top and top in group.parents:
        yield group
        group = group.parent
    yield top


def _text(path: Path) -> str:
    """Return the text of a file, or "" if it cannot be read."""
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
