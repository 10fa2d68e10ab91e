"""Cross-entropy with probabilities as targets."""

from __future__ import annotations

import pytest
import torch

from tabgnm.nn.losses import CrossEntropy
from tabgnm.nn.soft_cross_entropy import SoftCrossEntropy

GENERATOR = torch.Generator().manual_seed(0)
OUTPUTS = torch.randn(7, 5, generator=GENERATOR, dtype=torch.float64)


def test_certain_probabilities_are_labels() -> None:
    labels = torch.tensor([0, 4, 2, 1, 3, 3, 0])
    certain = torch.nn.functional.one_hot(labels, 5).double()
    loss = SoftCrossEntropy((5,))
    torch.testing.assert_close(loss.per_row(OUTPUTS, certain), CrossEntropy().per_row(OUTPUTS, labels))
    torch.testing.assert_close(loss.gradient(OUTPUTS, certain), CrossEntropy().gradient(OUTPUTS, labels))


@pytest.mark.parametrize("sizes", [(5,), (2, 3)])
def test_the_gradient_is_that_of_autograd(sizes: tuple[int, ...]) -> None:
    parts = [torch.softmax(torch.randn(7, size, generator=GENERATOR, dtype=torch.float64), -1) for size in sizes]
    targets = torch.cat(parts, dim=1)
    outputs = OUTPUTS.clone().requires_grad_()
    loss = SoftCrossEntropy(sizes)
    (expected,) = torch.autograd.grad(loss.per_row(outputs, targets).sum(), outputs)
    torch.testing.assert_close(loss.gradient(OUTPUTS, targets), expected)


@pytest.mark.parametrize(
    ("n_outputs", "targets", "message"),
    [
        (4, torch.full((3, 4), 0.25), "expected 5 columns"),
        (5, torch.full((3, 4), 0.25), "expected 5 columns"),
        (5, torch.full((3, 5), 2.0), "not probabilities"),
        (5, torch.ones(3, 5, dtype=torch.int64), "not probabilities"),
    ],
)
def test_what_is_no_probability_is_refused(n_outputs: int, targets: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SoftCrossEntropy((5,)).check(n_outputs, targets)
