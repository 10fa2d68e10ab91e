"""Each loss equals torch's own or the paper's formula, and its gradient equals autograd's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from tabgnm.nn import binary_cross_entropy, cross_entropy, mean_squared_error
from tabgnm.nn.losses import BinaryCrossEntropy, CrossEntropy, Huber, Loss, Pinball, SquaredError
from tests.nn.strategies import seeds

LOSSES: list[Loss] = [
    SquaredError(),
    Huber(),
    Huber(0.3),
    Pinball(),
    Pinball(0.9),
    CrossEntropy(),
    CrossEntropy(0.1),
    BinaryCrossEntropy(),
]


def random_targets(loss: Loss, outputs: torch.Tensor) -> torch.Tensor:
    if isinstance(loss, CrossEntropy):
        return torch.randint(outputs.shape[-1], outputs.shape[:-1])
    if isinstance(loss, BinaryCrossEntropy):
        return torch.randint(2, outputs.shape).to(outputs)
    return torch.randn_like(outputs)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@given(seed=seeds, c=st.integers(1, 5), stacked=st.booleans())
def test_the_gradient_is_autograds(loss: Loss, seed: int, c: int, stacked: bool) -> None:
    torch.manual_seed(seed)
    size = (3, 6, c) if stacked else (6, c)
    outputs = (2 * torch.randn(size, dtype=torch.float64)).requires_grad_()
    targets = random_targets(loss, outputs.detach())
    per_row = loss.per_row(outputs, targets)
    assert per_row.shape == size[:-1]
    per_row.sum().backward()
    torch.testing.assert_close(loss.gradient(outputs.detach(), targets), outputs.grad, rtol=1e-12, atol=1e-12)
    loss.check(c, targets)


def test_values_are_torchs() -> None:
    torch.manual_seed(0)
    outputs = torch.randn(50, 4, dtype=torch.float64)
    labels = torch.randint(4, (50,))
    bits = torch.randint(2, (50, 4)).double()
    targets = torch.randn(50, 4, dtype=torch.float64)
    close = torch.testing.assert_close
    close(cross_entropy(outputs, labels), F.cross_entropy(outputs, labels))
    close(
        CrossEntropy(0.1).per_row(outputs, labels),
        F.cross_entropy(outputs, labels, reduction="none", label_smoothing=0.1),
    )
    close(binary_cross_entropy(outputs, bits) / 4, F.binary_cross_entropy_with_logits(outputs, bits))
    close(mean_squared_error(outputs, targets) / 4, F.mse_loss(outputs, targets))
    close(Huber(0.3).per_row(outputs, targets), F.huber_loss(outputs, targets, reduction="none", delta=0.3).sum(-1))
    quantile = 0.8
    under = targets - outputs
    close(
        Pinball(quantile).per_row(outputs, targets),
        torch.where(under > 0, quantile * under, (quantile - 1) * under).sum(-1),
    )


def test_weight_one_is_no_weight_and_weight_two_is_the_row_twice() -> None:
    torch.manual_seed(0)
    outputs, labels = torch.randn(6, 3, dtype=torch.float64), torch.randint(3, (6,))
    assert torch.equal(cross_entropy(outputs, labels, torch.ones(6)), cross_entropy(outputs, labels))
    weight = torch.tensor([2.0, 1, 1, 1, 1, 1], dtype=torch.float64)
    twice = cross_entropy(torch.cat([outputs, outputs[:1]]), torch.cat([labels, labels[:1]]))
    torch.testing.assert_close(cross_entropy(outputs, labels, weight), twice)


def test_extreme_logits_stay_finite() -> None:
    outputs = torch.tensor([[1e4, -1e4]])
    assert cross_entropy(outputs, torch.tensor([1])) == 2e4
    assert binary_cross_entropy(outputs, torch.tensor([[0.0, 1.0]])) == 2e4


@pytest.mark.parametrize(
    ("loss", "targets", "message"),
    [
        (CrossEntropy(), torch.tensor([0, 3]), "class numbers from 0 to 2"),
        (CrossEntropy(), torch.tensor([0.0, 1.0]), "expected int64"),
        (SquaredError(), torch.tensor([[0.0, 1.0]]), r"shape \(rows, 3\)"),
        (SquaredError(), torch.full((2, 3), torch.nan), "NaN or infinity"),
        (BinaryCrossEntropy(), torch.full((2, 3), 2.0), r"outside \[0, 1\]"),
        (Huber(), torch.zeros(2, 3, dtype=torch.int64), "floating point"),
    ],
)
def test_targets_a_loss_cannot_use_are_refused(loss: Loss, targets: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loss.check(3, targets)


def test_settings_a_loss_cannot_have_are_refused() -> None:
    for make, message in [
        (lambda: Huber(0.0), "delta=0.0 is not positive"),
        (lambda: Pinball(1.0), "quantile=1.0 is outside"),
        (lambda: CrossEntropy(1.0), "label_smoothing=1.0 is outside"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
