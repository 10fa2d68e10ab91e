"""Memory and cores: what a process may use, within the limits of its container."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tabgnm.training.hardware import available_memory, core_count, total_memory
from tabgnm.training.threads import thread_count

GIB = 2**30


def machine(root: Path, files: dict[str, str]) -> Path:
    """Return the root of a file system with these files, and 64 GiB of memory of which 48 are free."""
    given = {"proc/meminfo": f"MemTotal: {64 * 2**20} kB\nMemFree: 5 kB\nMemAvailable: {48 * 2**20} kB\n"}
    for name, text in (given | files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_without_a_container_all_memory_counts(tmp_path: Path) -> None:
    root = machine(tmp_path, {})
    assert total_memory(root) == 64 * GIB and available_memory(root) == 48 * GIB


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            {
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/memory.max": f"{8 * GIB}\n",
                "sys/fs/cgroup/memory.current": f"{5 * GIB}\n",
                "sys/fs/cgroup/memory.stat": f"anon {4 * GIB}\ninactive_file {GIB}\n",
            },
            id="version 2",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/jobs/one\n",
                "sys/fs/cgroup/memory.max": "max\n",
                "sys/fs/cgroup/jobs/memory.max": f"{8 * GIB}\n",
                "sys/fs/cgroup/jobs/memory.current": f"{4 * GIB}\n",
                "sys/fs/cgroup/jobs/one/memory.max": f"{30 * GIB}\n",
            },
            id="version 2, the limit of an outer group",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/docker/abc\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{8 * GIB}\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{5 * GIB}\n",
                "sys/fs/cgroup/memory/memory.stat": f"cache 7\ntotal_inactive_file {GIB}\n",
            },
            id="version 1, within a container",
        ),
    ],
)
def test_the_memory_limit_of_a_container_counts(tmp_path: Path, files: dict[str, str]) -> None:
    root = machine(tmp_path, files)
    assert total_memory(root) == 8 * GIB and available_memory(root) == 4 * GIB


def test_a_limit_above_the_memory_of_the_machine_is_none(tmp_path: Path) -> None:
    limit = {"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}
    assert total_memory(machine(tmp_path, limit)) == 64 * GIB


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"sys/fs/cgroup/cpu.max": "100000 100000\n"}, 1),
        ({"sys/fs/cgroup/cpu.max": "20000 100000\n"}, 1),
        ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"sys/fs/cgroup/cpu.max": "99900000 100000\n"}, None),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, 1),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_the_core_limit_of_a_container_counts(tmp_path: Path, files: dict[str, str], expected: int | None) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert core_count(machine(tmp_path, files)) == (expected or cores)


def test_n_jobs_minus_one_is_all_cores_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    assert thread_count(-1) == core_count()
    monkeypatch.setattr("tabgnm.training.threads.core_count", lambda: 3)
    assert thread_count(-1) == 3


def test_this_machine_has_memory_and_cores() -> None:
    assert 2**20 < available_memory() <= total_memory() < 2**50 and core_count() >= 1
