"""Scaling, normal scores and bins, compared with scikit-learn and with their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from tabgnm.table import read_table
from tests.table.examples import NUMERIC_SETTINGS, encoded, fitted

X = np.random.default_rng(0).lognormal(size=(3000, 3)) * [1, 100, 1e-3] - [0, 50, 1]


def test_none_leaves_numbers_as_they_are() -> None:
    np.testing.assert_array_equal(encoded(X, scaling="none"), X)


def test_standard_is_scikit_learns() -> None:
    np.testing.assert_allclose(encoded(X, scaling="standard"), StandardScaler().fit_transform(X), rtol=0, atol=1e-12)


def test_robust_is_that_of_realmlp() -> None:
    low, middle, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
    scaled = (X - middle) / (high - low)
    expected = scaled / np.sqrt(1 + (scaled / 3) ** 2)
    np.testing.assert_allclose(encoded(X, scaling="robust"), expected, rtol=0, atol=1e-12)
    assert np.abs(expected).max() < 3
    # More than half of the numbers are equal: the range counts, as in RealMLP.
    sparse = np.array([0.0] * 8 + [4.0, -2.0])[:, None]
    np.testing.assert_allclose(
        encoded(sparse, scaling="robust")[-2:, 0], [v / np.sqrt(1 + (v / 3) ** 2) for v in (4 / 3, -2 / 3)]
    )


def test_quantile_agrees_with_scikit_learn_between_its_outermost_knots() -> None:
    theirs = QuantileTransformer(n_quantiles=100, output_distribution="normal", subsample=None).fit_transform(X)
    ours = encoded(X, scaling="quantile")
    inner = np.abs(theirs) < 2
    # The scores are joined by straight lines here, and the probabilities there.
    np.testing.assert_allclose(ours[inner], theirs[inner], rtol=0, atol=1e-2)


def test_quantile_makes_any_distribution_nearly_normal_with_gentle_ends() -> None:
    scores = encoded(X, scaling="quantile")
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=0.01)
    np.testing.assert_allclose(scores.std(axis=0), 1, atol=0.02)
    # The smallest of n numbers stands for the first 1/n of the distribution.
    np.testing.assert_allclose(np.abs(scores).max(axis=0), -norm.ppf(0.5 / len(X)))
    far = fitted(X).encode(read_table(X * 1e9), dtype=np.float64)
    assert np.abs(far).max() == np.abs(scores).max()


def test_equal_numbers_get_the_score_of_the_middle_of_their_ranks() -> None:
    ties = np.repeat([0.0, 1.0, 2.0, 3.0], 300)[:, None]
    scores = np.unique(encoded(ties, scaling="quantile"))
    np.testing.assert_allclose(scores, norm.ppf([0.125, 0.375, 0.625, 0.875]), atol=0.05)
    theirs = QuantileTransformer(n_quantiles=40, output_distribution="normal", subsample=None).fit_transform(ties)
    np.testing.assert_allclose(encoded(ties, scaling="quantile")[300:900], theirs[300:900], atol=1e-2)


@pytest.mark.parametrize("settings", NUMERIC_SETTINGS, ids=str)
def test_every_map_keeps_the_order_of_numbers(settings: dict[str, Any]) -> None:
    numbers = np.sort(np.random.default_rng(1).standard_cauchy(500)).round(1)[:, None]
    out = encoded(numbers, **settings)
    assert (np.diff(out, axis=0) >= 0).all() and out[-1] > out[0]


def test_bins_are_quantiles_and_their_coordinate_counts_them() -> None:
    numbers = np.arange(101.0)[:, None]
    encoder = fitted(numbers, numeric_embedding="piecewise", n_basis=4)
    given = np.array([[0.0], [12.5], [25], [50], [90], [100], [-7], [1e9]])
    np.testing.assert_allclose(encoder.encode(read_table(given))[:, 0], [0, 0.5, 1, 2, 3.6, 4, 0, 4])


def test_bins_that_coincide_are_one() -> None:
    numbers = np.array([0.0] * 50 + [1.0] * 30 + [2.0] * 20)[:, None]
    encoder = fitted(numbers, numeric_embedding="piecewise", n_basis=16)
    np.testing.assert_array_equal(encoder.encode(read_table([[0.0], [1.0], [2.0], [0.5]]))[:, 0], [0, 1, 2, 0.5])


def test_a_column_that_is_mostly_0_has_its_bins_where_the_other_numbers_are() -> None:
    rng = np.random.default_rng(0)
    numbers = np.concatenate([np.zeros(900), rng.lognormal(size=100)])[:, None]
    coordinates = encoded(numbers, numeric_embedding="piecewise", n_basis=16)[900:, 0]
    assert coordinates.max() == 16
    counts = np.histogram(coordinates, bins=16, range=(0, 16))[0]
    assert counts.min() >= 1 and counts.max() <= 20


def test_numbers_of_two_values_and_booleans_are_never_embedded() -> None:
    table = [[0.0, True, 1.5, "a"], [1.0, False, 2.5, "b"], [1.0, True, 9.0, "a"]]
    for embedding in ("periodic", "piecewise"):
        encoder = fitted(table, numeric_embedding=embedding)
        assert encoder.encoded_names == ["x0", "x1", "x3: a or b", "x2"]
        numbers = encoder.embedding
        assert numbers is not None and (numbers.n_plain, numbers.n_numeric, numbers.numeric) == (3, 1, embedding)
        assert encoder.owners == [0, 1, 3, 2]


def test_encoded_columns_stand_in_the_order_plain_embedded_codes() -> None:
    rng = np.random.default_rng(0)
    rows = [
        [f"level {rng.integers(9)}", float(x), rng.choice(["u", "v", "w"]), float(x) ** 2] for x in rng.normal(size=90)
    ]
    encoder = fitted(rows, numeric_embedding="periodic")
    assert encoder.encoded_names == ["x2=u", "x2=v", "x2=w", "x1", "x3", "x0"]
    numbers = encoder.embedding
    assert numbers is not None and (numbers.n_plain, numbers.n_numeric, numbers.levels) == (3, 2, (10,))
    assert [info.encoded for info in encoder.columns] == [(5,), (3,), (0, 1, 2), (4,)]


def test_the_numbers_of_the_embedding_are_the_arguments_of_the_module() -> None:
    nn = pytest.importorskip("tabgnm.nn")
    if not hasattr(nn, "InputEmbedding"):
        pytest.skip("this version has no InputEmbedding")
    encoder = fitted(X, numeric_embedding="piecewise", n_basis=7)
    embedding = nn.InputEmbedding(**vars(encoder.embedding))
    assert embedding.n_columns == encoder.n_encoded and embedding.n_basis == 7


def test_the_result_is_contiguous_and_of_the_type_asked_for() -> None:
    encoder = fitted(X)
    for dtype in (np.float32, np.float64, "float32"):
        out = encoder.encode(read_table(X), dtype=dtype)
        assert out.dtype == dtype and out.flags.c_contiguous and out.flags.writeable
    assert encoder.encode(read_table(X)).dtype == np.float32
    with pytest.raises(TypeError, match=r"is not supported; use numpy\.float32 or numpy\.float64"):
        encoder.encode(read_table(X), dtype=int)


@pytest.mark.parametrize("settings", NUMERIC_SETTINGS, ids=str)
def test_the_order_of_the_rows_does_not_matter_not_even_by_a_rounding_error(settings: dict[str, Any]) -> None:
    turned = np.random.default_rng(2).permutation(X)
    np.testing.assert_array_equal(
        fitted(turned, **settings).encode(read_table(X), dtype=np.float64), encoded(X, **settings)
    )
