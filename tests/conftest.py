"""Settings that all tests share."""

from __future__ import annotations

import os
import signal

# Shells start background jobs with Ctrl-C ignored; tests that send it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Some virtual machines announce AMX but stop at its first instruction; bf16 products do not need it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

from hypothesis import settings

from tests.browser import browser, page  # noqa: F401 - fixtures

# No deadline: the first call of a torch kernel is slow on any machine. On CI the same examples every time.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
