"""Losses as objects that return the loss of each row and its gradient with respect to the outputs.

The trainer weights and averages rows itself. It does not use autograd: its backward pass starts from `gradient`.
`functions` contains loss functions for ordinary PyTorch code.
"""

from tabgnm.nn.losses.classes import BinaryCrossEntropy, CrossEntropy, JointCrossEntropy
from tabgnm.nn.losses.deviances import Gamma, LogLinkLoss, Poisson, Tweedie
from tabgnm.nn.losses.functions import binary_cross_entropy, cross_entropy, mean_squared_error
from tabgnm.nn.losses.numbers import AbsoluteError, Huber, Pinball, Quantiles, SquaredError
from tabgnm.nn.losses.protocol import Loss, LossWithMetric
from tabgnm.nn.losses.registry import loss_by_name, loss_names, loss_settings, number_loss_names

__all__ = [
    "AbsoluteError",
    "BinaryCrossEntropy",
    "CrossEntropy",
    "Gamma",
    "Huber",
    "JointCrossEntropy",
    "LogLinkLoss",
    "Loss",
    "LossWithMetric",
    "Pinball",
    "Poisson",
    "Quantiles",
    "SquaredError",
    "Tweedie",
    "binary_cross_entropy",
    "cross_entropy",
    "loss_by_name",
    "loss_names",
    "loss_settings",
    "mean_squared_error",
    "number_loss_names",
]
