"""Learning-rate schedules at points where their value is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabgnm.training.schedules import schedule_factors
from tabgnm.training.settings import SCHEDULES


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("constant", {0.0: 1.0, 0.5: 1.0, 0.999: 1.0}),
        ("cosine", {0.0: 1.0, 1 / 3: 0.75, 0.5: 0.5, 2 / 3: 0.25, 1.0: 0.0}),
        # A wave ends where 1 + 15 t is a power of 2, and is highest where it is sqrt(2) times one.
        ("log_cosine", {0.0: 0.0, 1 / 15: 0.0, 3 / 15: 0.0, 7 / 15: 0.0, 1.0: 0.0}
            | {(2 ** (k + 0.5) - 1) / 15: 1.0 for k in range(4)}),
    ],
)  # fmt: skip
def test_known_values(name: str, points: dict[float, float]) -> None:
    factors = schedule_factors(name, 0.0, np.array(list(points)))
    np.testing.assert_allclose(factors, list(points.values()), atol=1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
@given(warmup=st.floats(0.01, 0.9), progress=st.floats(0, 1, exclude_max=True))
def test_warm_up_rises_linearly_to_the_schedule(name: str, warmup: float, progress: float) -> None:
    at = np.array([progress])
    without = schedule_factors(name, 0.0, at)
    np.testing.assert_allclose(schedule_factors(name, warmup, at), without * min(1.0, progress / warmup), atol=1e-9)


@given(st.sampled_from(SCHEDULES), st.sampled_from([0.0, 0.1, 0.9]), st.floats(0, 1, exclude_max=True))
def test_factors_lie_between_0_and_1(name: str, warmup: float, progress: float) -> None:
    assert 0 <= schedule_factors(name, warmup, np.array([progress]))[0] <= 1


def test_every_model_follows_the_schedule_at_its_own_pace() -> None:
    progress = np.array([[0.0, 0.5], [0.5, 0.75]])
    expected = [[1.0, 0.5], [0.5, 0.5 * (1 + np.cos(0.75 * np.pi))]]
    np.testing.assert_allclose(schedule_factors("cosine", 0.0, progress), expected, atol=1e-12)
