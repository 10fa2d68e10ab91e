"""Learning-rate schedules: factors for every step, computed on the host once per epoch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def schedule_factors(name: str, warmup: float, progress: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factor of the learning rate at `progress`, the fraction of all steps already done, in [0, 1).

    "log_cosine" is RealMLP's coslog4 (Holzmueller, Grinsztajn, Steinwart, 2024): 0.5 (1 - cos(2 pi log2(1 + 15 t))),
    four waves of increasing length.
    """
    if name == "cosine":
        factors = 0.5 * (1 + np.cos(np.pi * progress))
    elif name == "log_cosine":
        factors = 0.5 * (1 - np.cos(2 * np.pi * np.log2(1 + 15 * progress)))
    else:
        factors = np.ones_like(progress)
    if warmup > 0:
        # Positive in the first step, too, so that a rate that is far too large is noticed in the first epoch.
        factors = factors * np.minimum(1.0, (progress + 1e-12) / warmup)
    return factors
