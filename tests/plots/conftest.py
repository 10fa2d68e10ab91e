from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import pytest


@pytest.fixture(autouse=True)
def _no_window() -> Iterator[None]:
    from matplotlib import pyplot

    with mpl.rc_context({"backend": "agg"}):
        yield
        pyplot.close("all")
