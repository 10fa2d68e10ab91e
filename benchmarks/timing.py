"""Functions that all benchmarks share: medians, epochs without set-up, text tables, a description of the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import torch
from threadpoolctl import ThreadpoolController

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Options:
    """The options of the command line; `quick` reduces every benchmark to a check that it runs."""

    device: str
    quick: bool
    output: Path
    repeats: int = 5
    seconds_per_sample: float = 0.5  # long enough that the clock and the scheduler do not matter
    before: Path | None = None  # another checkout of this repository, to compare with


def synchronise(device: str) -> None:
    """Wait until the device has finished its work; GPU calls return before their work is done."""
    if device == "cuda":
        torch.cuda.synchronize()


def seconds(work: Callable[[], object], device: str) -> float:
    """Time one call."""
    synchronise(device)
    start = time.perf_counter()
    work()
    synchronise(device)
    return time.perf_counter() - start


def median_seconds(works: Mapping[str, Callable[[], object]], options: Options) -> dict[str, float]:
    """Return the median time per call of each piece of work.

    The pieces are timed alternately, so that changes in the speed of the machine affect all of them.
    """
    calls = {}
    for name, work in works.items():
        work()  # warm-up
        once = min(seconds(work, options.device) for _ in range(3))
        calls[name] = max(1, round(options.seconds_per_sample / max(once, 1e-7)))
    samples: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(options.repeats):
        for name, work in works.items():
            samples[name].append(seconds(lambda w=work, n=calls[name]: _repeat(w, n), options.device) / calls[name])
    return {name: statistics.median(values) for name, values in samples.items()}


def _repeat(work: Callable[[], object], n_calls: int) -> None:
    for _ in range(n_calls):
        work()


class EpochTime(NamedTuple):
    """Seconds of one epoch, and of the set-up before the first one (None if not measured)."""

    epoch: float
    set_up: float | None = None


_FIRST_EPOCHS = 2  # one-time work is done by then: on a GPU, our second epoch captures the graph that later ones replay


def epoch_sampler(train: Callable[[int], object], options: Options) -> Callable[[], EpochTime]:
    """Prepare timing `train(n_epochs)` by difference, so that set-up is not counted as part of an epoch.

    `train` is already called here, as warm-up, and to find out how many epochs are long enough to be timed.
    """

    def taken(epochs: int) -> float:
        return seconds(lambda: train(epochs), options.device)

    train(_FIRST_EPOCHS)
    short, more = taken(_FIRST_EPOCHS), 1
    # In several steps, because the difference of two short measurements may be far off, and even negative.
    while taken(_FIRST_EPOCHS + more) - short < options.seconds_per_sample and more < 2000:
        more *= 3

    def sample() -> EpochTime:
        short, long = taken(_FIRST_EPOCHS), taken(_FIRST_EPOCHS + more)
        epoch = (long - short) / more
        return EpochTime(epoch, max(0.0, short - _FIRST_EPOCHS * epoch))

    return sample


def median_epoch_times(samplers: Mapping[str, Callable[[], EpochTime]], repeats: int) -> dict[str, EpochTime]:
    """Return medians over `repeats` rounds, in which the samplers are called alternately."""
    samples: dict[str, list[EpochTime]] = {name: [] for name in samplers}
    for _ in range(repeats):
        for name, sample in samplers.items():
            samples[name].append(sample())
    medians = {}
    for name, times in samples.items():
        set_ups = [each.set_up for each in times if each.set_up is not None]
        set_up = statistics.median(set_ups) if set_ups else None
        medians[name] = EpochTime(statistics.median(each.epoch for each in times), set_up)
    return medians


def duration(value: float | None) -> str:
    """Format seconds with three digits and a suitable unit."""
    if value is None:
        return "-"
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if abs(value) * factor >= 1:
            return f"{value * factor:.3g} {unit}" if value * factor < 100 else f"{value * factor:.0f} {unit}"
    return f"{value * 1e6:.2g} µs"


def ratio(value: float | None) -> str:
    """Format a ratio of two times."""
    if value is None:
        return "-"
    return f"{value:,.0f}×" if value >= 100 else f"{value:.3g}×"


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table as plain text; the first column is aligned to the left, the others to the right."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    print(f"\n{title}")
    for i, row in enumerate(cells):
        first, *others = (f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        print("  " + "  ".join([first.strip().ljust(widths[0]), *others]))
        if i == 0:
            print("  " + "  ".join("-" * width for width in widths))


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine(device: str) -> dict[str, Any]:
    """Return a description of the machine and the software of a benchmark."""
    description: dict[str, Any] = {
        "date": datetime.now(timezone.utc).isoformat(timespec="minutes"),
        "commit": commit_of(ROOT),
        "device": device,
        "cpu": _cpu_model(),
        "blas": _blas_kernels(),
        "cores": n_cores(),
        "torch_threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": platform.system(),
        "python": platform.python_version(),
    }
    return description | {package: _version(package) for package in ("torch", "jax", "scikit-learn")}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _blas_kernels() -> str:
    """Return the libraries of matrix products, with the processor that each has chosen its kernels for.

    Environment variables such as OPENBLAS_CORETYPE override this choice, and with it the speed.
    """
    libraries = ThreadpoolController().select(user_api="blas").info()
    return ", ".join(
        dict.fromkeys(f"{own['internal_api']} {own['version']} ({own.get('architecture')})" for own in libraries)
    )


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def commit_of(checkout: Path) -> str | None:
    """Return the measured commit, with "+" if the files differ from it; None outside a checkout."""
    try:
        commit = _git(checkout, "rev-parse", "--short", "HEAD")
        return commit + ("+" if _git(checkout, "status", "--porcelain", "--", "tabgnm", "benchmarks") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(checkout: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=checkout, capture_output=True, text=True, check=True)
    return done.stdout.strip()
