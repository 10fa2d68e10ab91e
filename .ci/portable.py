"""Run the numerically sensitive tests with the instruction sets, BLAS kernels and thread counts of other processors.

A test that passes with every setting does not depend on how a library rounds on one machine. Settings that this machine
does not support are skipped, and their names are printed.

    python .ci/portable.py [--short] [pytest arguments]
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def numpy_features() -> list[str]:
    """Return the instruction sets that NumPy uses on this machine and that can be disabled."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]


def cpu_flags() -> set[str]:
    """Return the flags of the processor; empty if they cannot be read."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return set(next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), []))


def settings() -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return environment variables by the name of the setting, and the names of unsupported settings."""
    avx2, avx512 = (flag in cpu_flags() for flag in ("avx2", "avx512f"))
    wanted = {
        "torch without vector instructions": (True, {"ATEN_CPU_CAPABILITY": "default"}),
        "torch with AVX2": (avx2, {"ATEN_CPU_CAPABILITY": "avx2"}),
        "torch with AVX-512": (avx512, {"ATEN_CPU_CAPABILITY": "avx512"}),
        "MKL with SSE4.2": (True, {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}),
        "MKL with AVX2": (avx2, {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}),
        "OpenBLAS for Haswell": (avx2, {"OPENBLAS_CORETYPE": "Haswell"}),
        "OpenBLAS for Zen": (avx2, {"OPENBLAS_CORETYPE": "Zen"}),
        "OpenBLAS for SkylakeX": (avx512, {"OPENBLAS_CORETYPE": "SkylakeX"}),
        "NumPy's baseline": (bool(numpy_features()), {"NPY_DISABLE_CPU_FEATURES": " ".join(numpy_features())}),
        **{f"{n} threads": (True, {"OMP_NUM_THREADS": str(n), "MKL_NUM_THREADS": str(n)}) for n in (1, 2, 4)},
    }
    possible = {name: variables for name, (can_run, variables) in wanted.items() if can_run}
    return possible, [name for name in wanted if name not in possible]


def short() -> dict[str, dict[str, str]]:
    """Return two settings that differ in everything from each other and from most machines."""
    every, _ = settings()
    old = ["torch without vector instructions", "MKL with SSE4.2", "OpenBLAS for Haswell", "1 threads"]
    new = ["torch with AVX2", "OpenBLAS for Zen", "NumPy's baseline", "4 threads"]
    combined = {}
    for names in (old, new):
        known = [name for name in names if name in every]
        combined[", ".join(known)] = {key: value for name in known for key, value in every[name].items()}
    return combined


def main() -> int:
    arguments = sys.argv[1:]
    is_short = "--short" in arguments
    arguments = [argument for argument in arguments if argument != "--short"]
    chosen, impossible = (short(), []) if is_short else settings()
    failed = []
    for name, variables in chosen.items():
        start = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-m", "portable", *arguments]
        print(f"== {name}: {' '.join(f'{key}={value!r}' for key, value in variables.items())}", flush=True)
        done = subprocess.run(command, cwd=ROOT, env=os.environ | variables, check=False)
        print(f"   {'passed' if done.returncode == 0 else 'FAILED'} after {time.monotonic() - start:.0f} s", flush=True)
        if done.returncode:
            failed.append(name)
    for name in impossible:
        print(f"== {name}: not possible on this processor")
    print(f"{len(chosen) - len(failed)} of {len(chosen)} settings passed" + (f"; failed: {failed}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
