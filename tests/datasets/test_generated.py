from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tabgnm.datasets import load_dataset, make_noisy_moons, make_xor, xor_bayes_accuracy


@pytest.mark.parametrize("make", [make_noisy_moons, make_xor])
def test_a_seed_gives_the_same_points_and_another_one_others(make: Callable[..., Any]) -> None:
    (X, y), (X_again, y_again), (X_other, _) = make(random_state=1), make(random_state=1), make(random_state=2)
    np.testing.assert_array_equal(X, X_again)
    np.testing.assert_array_equal(y, y_again)
    assert not np.array_equal(X, X_other)
    assert not np.array_equal(make(random_state=None)[0], make(random_state=None)[0])


@pytest.mark.parametrize(("name", "make"), [("noisy_moons", make_noisy_moons), ("xor", make_xor)])
def test_the_data_set_of_that_name_is_the_default_draw(name: str, make: Callable[..., Any]) -> None:
    X, y = load_dataset(name, return_X_y=True)
    np.testing.assert_array_equal(X, make()[0])
    np.testing.assert_array_equal(y, make()[1])


def test_xor_has_four_equal_gaussians_of_the_given_variance() -> None:
    X, y = make_xor(n_samples=40_000, variance=0.3)
    corners = np.sign(X)  # where a point is, which is nearly always where it belongs
    assert np.bincount(y).tolist() == [20_000, 20_000]
    for label, product in ((0, 1), (1, -1)):
        assert np.mean(corners[y == label].prod(axis=1) == product) == pytest.approx(xor_bayes_accuracy(), abs=0.005)
    for axis in (0, 1):  # the second moment of a coordinate is the square of its centre plus the variance
        assert np.mean(X[:, axis] ** 2) == pytest.approx(1 + 0.3, abs=0.02)
        assert np.mean(X[:, axis]) == pytest.approx(0, abs=0.02)


def test_xor_rows_are_in_random_order() -> None:
    assert len(set(make_xor()[1][:20].tolist())) == 2


def test_xor_is_as_even_as_its_size_allows() -> None:
    assert np.bincount(make_xor(n_samples=7)[1]).tolist() == [4, 3]


def test_the_bayes_accuracy_is_that_of_the_sign_of_the_product() -> None:
    assert xor_bayes_accuracy() == pytest.approx(0.934, abs=5e-4)
    X, y = make_xor(n_samples=200_000, variance=0.5, random_state=3)
    right = np.mean((X.prod(axis=1) < 0) == y)
    assert right == pytest.approx(xor_bayes_accuracy(0.5), abs=0.003)


@pytest.mark.parametrize("n_samples", [3, 0, -4, 4.0, True, "8"])
def test_a_bad_number_of_points_is_told(n_samples: int) -> None:
    with pytest.raises(ValueError, match="n_samples must be an integer >= 4"):
        make_xor(n_samples=n_samples)


@pytest.mark.parametrize("variance", [0, -1.0, float("inf"), float("nan"), True, "0.3"])
def test_a_bad_variance_is_told(variance: float) -> None:
    with pytest.raises(ValueError, match="must be a positive number"):
        make_xor(variance=variance)
    with pytest.raises(ValueError, match="must be a positive number"):
        xor_bayes_accuracy(variance)
