"""Randomly generated data sets: noisy moons, and the XOR problem of the paper's sparse experiment."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOONS_SAMPLES = 1000
MOONS_NOISE = 0.1  # as in the authors' code; the paper does not state it
XOR_SAMPLES = 200
XOR_VARIANCE = 0.3
XOR_CENTRES = np.array([[1.0, 1.0], [-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])
XOR_LABELS = np.array([0, 0, 1, 1])


def make_noisy_moons(
    n_samples: int = MOONS_SAMPLES, noise: float = MOONS_NOISE, random_state: int | None = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw two interleaved half circles with Gaussian noise, by scikit-learn's `make_moons`.

    Parameters
    ----------
    n_samples : int, default=1000
        The number of points.
    noise : float, default=0.1
        The standard deviation of the noise.
    random_state : int or None, default=0
        The seed. If None, each call returns different points.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The points.
    y : ndarray of shape (n_samples,)
        The half circle of each point, 0 or 1.

    Examples
    --------
    >>> X, y = make_noisy_moons()
    >>> X.shape, int(y.sum())
    ((1000, 2), 500)
    """
    from sklearn.datasets import make_moons

    X, y = make_moons(n_samples=n_samples, noise=noise, random_state=random_state)
    return X, y.astype(np.int64)


def make_xor(
    n_samples: int = XOR_SAMPLES, variance: float = XOR_VARIANCE, random_state: int | None = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw the XOR problem of section 6.5 of the paper.

    Class 0 consists of Gaussians around (1, 1) and (-1, -1), class 1 of Gaussians around (-1, 1) and (1, -1). Each has
    a covariance of ``variance`` times the identity, and equally many points. The Gaussians overlap, so no classifier
    can be more accurate than `xor_bayes_accuracy`.

    Parameters
    ----------
    n_samples : int, default=200
        The number of points, at least 4.
    variance : float, default=0.3
        The variance of both coordinates around their centre.
    random_state : int or None, default=0
        The seed. If None, each call returns different points.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The points, in random order.
    y : ndarray of shape (n_samples,)
        The class of each point, 0 or 1.

    Examples
    --------
    >>> X, y = make_xor(n_samples=8)
    >>> X.shape, sorted(y.tolist())
    ((8, 2), [0, 0, 0, 0, 1, 1, 1, 1])
    """
    if not isinstance(n_samples, Integral) or isinstance(n_samples, bool) or n_samples < 4:
        raise ValueError(f"n_samples must be an integer >= 4, one point per Gaussian; got {n_samples!r}")
    deviation = math.sqrt(_positive_variance(variance))
    generator = np.random.default_rng(random_state)
    gaussian: NDArray[Any] = generator.permutation(np.arange(n_samples) % len(XOR_CENTRES))
    X = XOR_CENTRES[gaussian] + deviation * generator.standard_normal((n_samples, 2))
    return X, XOR_LABELS[gaussian].astype(np.int64)


def xor_bayes_accuracy(variance: float = XOR_VARIANCE) -> float:
    """Return the accuracy of the best possible classifier of `make_xor`: the sign of the product of the coordinates.

    Each coordinate has the sign of its centre with probability p = Φ(1/σ). The product has the right sign if both or
    neither of them do: p² + (1 − p)².

    Parameters
    ----------
    variance : float, default=0.3
        The variance of both coordinates around their centre.

    Returns
    -------
    float
        A probability.

    Examples
    --------
    >>> round(xor_bayes_accuracy(), 3)
    0.934
    """
    keeps_sign = (1 + math.erf(1 / math.sqrt(2 * _positive_variance(variance)))) / 2
    return keeps_sign**2 + (1 - keeps_sign) ** 2


def _positive_variance(variance: float) -> float:
    if not isinstance(variance, Real) or isinstance(variance, bool) or not 0 < variance < math.inf:
        raise ValueError(f"variance must be a positive number; got {variance!r}")
    return float(variance)
