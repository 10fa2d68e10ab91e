"""Intervals of scores, by formula and by resampling."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import d2_pinball_score, r2_score

from tabgnm.estimators import score_intervals
from tabgnm.estimators.number_targets import NumberTargets
from tabgnm.estimators.score_intervals import (
    Bootstrap,
    number_interval,
    r2_of_resamples,
    scores_of_resamples,
    wilson_interval,
)
from tabgnm.nn.losses import Pinball, SquaredError

RANDOM = np.random.default_rng(0)
Y = RANDOM.normal(size=(40, 2)) * [1, 1000]
PREDICTED = Y + RANDOM.normal(size=(40, 2)) * [0.5, 800]


def test_the_interval_of_a_share_lies_within_0_and_1_and_narrows_with_rows() -> None:
    for share in (0.0, 0.3, 1.0):
        widths = []
        for n in (1, 10, 1000):
            low, high = wilson_interval(share, n)
            assert 0 <= low <= share <= high <= 1
            widths.append(high - low)
        assert widths == sorted(widths, reverse=True)


def test_r2_of_resamples_is_that_of_scikit_learn() -> None:
    bootstrap = Bootstrap(40)
    found = r2_of_resamples(Y, PREDICTED, bootstrap)
    for counts, own in list(zip(bootstrap, found, strict=True))[:20]:
        rows = np.repeat(np.arange(40), counts)
        assert own == pytest.approx(r2_score(Y[rows], PREDICTED[rows]))


def test_d2_of_resamples_is_that_of_scikit_learn() -> None:
    bootstrap, targets = Bootstrap(40), NumberTargets.of(Y, None, Pinball(0.8), scaled=True)
    found = scores_of_resamples(targets, Y, PREDICTED, bootstrap)
    for counts, own in list(zip(bootstrap, found, strict=True))[:20]:
        rows = np.repeat(np.arange(40), counts)
        assert own == pytest.approx(d2_pinball_score(Y[rows], PREDICTED[rows], alpha=0.8))


def test_large_tables_have_fewer_resamples_which_are_drawn_again_instead_of_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Bootstrap(6000).n_resamples == 1000 and Bootstrap(20_000).n_resamples == 300
    kept = Bootstrap(40).means(Y)
    monkeypatch.setattr(score_intervals, "_MIN_RESAMPLES", 1000)
    monkeypatch.setattr(score_intervals, "_MAX_DRAWN", 10)
    drawn = Bootstrap(40)
    assert drawn._kept is None
    np.testing.assert_array_equal(drawn.means(Y), kept)


def test_there_is_no_interval_if_resamples_say_nothing() -> None:
    y = Y[:, 0]
    targets = NumberTargets.of(y, None, SquaredError(), scaled=True)
    assert number_interval(targets, y[:4], PREDICTED[:4, 0], seed=0) is None
    assert number_interval(targets, y, y, seed=0) is None
    assert number_interval(targets, np.ones(40), PREDICTED[:, 0], seed=0) is None
    low, high = number_interval(targets, y, PREDICTED[:, 0], seed=0) or (1.0, 0.0)
    assert low < r2_score(y, PREDICTED[:, 0]) < high
