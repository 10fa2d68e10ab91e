"""Each loss equals torch's own or the paper's formula, and its gradient equals autograd's."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mean_tweedie_deviance

import tabgnm.nn
from tabgnm.nn import (
    AbsoluteError,
    BinaryCrossEntropy,
    CrossEntropy,
    Gamma,
    Huber,
    JointCrossEntropy,
    Loss,
    LossWithMetric,
    Pinball,
    Poisson,
    Quantiles,
    SquaredError,
    Tweedie,
    binary_cross_entropy,
    cross_entropy,
    loss_by_name,
    loss_names,
    mean_squared_error,
)
from tabgnm.nn.losses import LogLinkLoss, loss_settings, number_loss_names
from tabgnm.training.kernels import loss_kind
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
    AbsoluteError(),
    Poisson(),
    Gamma(),
    Tweedie(),
    Tweedie(1.9),
]
DEVIANCES: list[LogLinkLoss] = [Poisson(), Gamma(), Tweedie(1.01), Tweedie(), Tweedie(1.99)]


def random_targets(loss: Loss, outputs: torch.Tensor) -> torch.Tensor:
    if isinstance(loss, CrossEntropy):
        return torch.randint(outputs.shape[-1], outputs.shape[:-1])
    if isinstance(loss, BinaryCrossEntropy):
        return torch.randint(2, outputs.shape).to(outputs)
    if isinstance(loss, LogLinkLoss):
        return torch.randint(0 if loss.allows_zero else 1, 5, outputs.shape).to(outputs)
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
    loss.check(c, targets[0] if stacked else targets)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), seeds, st.booleans(), st.sampled_from([0.0, 0.2]))
def test_joint_cross_entropy_is_the_sum_over_its_targets(
    sizes: list[int], seed: int, stacked: bool, smoothing: float
) -> None:
    torch.manual_seed(seed)
    rows = (3, 6) if stacked else (6,)
    loss, one = JointCrossEntropy(tuple(sizes), smoothing), CrossEntropy(smoothing)
    outputs = (2 * torch.randn(*rows, sum(sizes), dtype=torch.float64)).requires_grad_()
    targets = torch.stack([torch.randint(size, rows) for size in sizes], dim=-1)
    parts = [(part, targets[..., g]) for g, part in enumerate(outputs.split(sizes, dim=-1))]
    close = torch.testing.assert_close
    per_row = loss.per_row(outputs, targets)
    close(per_row, sum(one.per_row(*part) for part in parts), rtol=1e-12, atol=1e-12)
    per_row.sum().backward()
    close(loss.gradient(outputs.detach(), targets), outputs.grad, rtol=1e-12, atol=1e-12)
    right = torch.stack([part.argmax(dim=-1) == own for part, own in parts]).all(dim=0).double()
    close(loss.metric_per_row(outputs, targets), right)
    loss.check(sum(sizes), targets[0] if stacked else targets)


def test_metrics_are_what_people_read() -> None:
    outputs = torch.tensor([[1.0, 2.0], [3.0, 0.0], [-1.0, -2.0]])
    classes, bits = torch.tensor([1, 1, 0]), torch.tensor([[1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    assert CrossEntropy(0.1).metric_per_row(outputs, classes).tolist() == [1, 0, 1]
    assert BinaryCrossEntropy().metric_per_row(outputs, bits).tolist() == [1, 0, 0]
    assert JointCrossEntropy((1, 1)).metric_per_row(outputs, torch.zeros(3, 2).long()).tolist() == [1, 1, 1]
    for loss in (SquaredError(), AbsoluteError(), Huber(0.1)):
        assert loss.metric_per_row(outputs, torch.zeros(3, 2)).tolist() == [2.5, 4.5, 2.5]
    torch.testing.assert_close(
        Pinball(0.9).metric_per_row(outputs, torch.zeros(3, 2)), torch.tensor([0.15, 0.15, 1.35])
    )


@pytest.mark.parametrize("loss", [*LOSSES, JointCrossEntropy((2, 2)), Quantiles((0.1, 0.9))], ids=repr)
def test_every_loss_has_a_metric(loss: Loss) -> None:
    assert isinstance(loss, LossWithMetric)


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
        (Poisson(), torch.tensor([[0.0, 1, 2], [3, -4, 5]]), "poisson loss have -4 in row 1; expected numbers >= 0"),
        (Tweedie(), torch.full((2, 3), -1.0), "tweedie loss have -1 in row 0"),
        (Gamma(), torch.zeros(2, 3), "gamma loss have 0 in row 0; expected numbers > 0"),
        (Gamma(), torch.full((2, 3), torch.nan), "NaN or infinity"),
        (Quantiles((0.1, 0.5)), torch.zeros(2, 1), "3 outputs cannot be trained for 2 quantiles"),
        (Quantiles((0.1, 0.5, 0.9)), torch.zeros(2, 3), r"shape \(rows, 1\)"),
        (
            JointCrossEntropy((2, 2)),
            torch.zeros(2, 2).long(),
            r"3 outputs cannot be trained with sizes=\(2, 2\); expected 4",
        ),
        (JointCrossEntropy((2, 1)), torch.zeros(2, 3).long(), r"int64 class numbers of shape \(rows, 2\)"),
        (JointCrossEntropy((2, 1)), torch.zeros(2, 2), "expected int64"),
        (JointCrossEntropy((2, 1)), torch.tensor([[1, 0], [1, 1]]), r"column 1 .* lies in \[0, 1\]; .* from 0 to 0"),
    ],
)
def test_targets_a_loss_cannot_use_are_refused(loss: Loss, targets: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loss.check(3, targets)


def test_settings_a_loss_cannot_have_are_refused() -> None:
    for make, message in [
        (lambda: Huber(0.0), "delta=0.0 is out of range; expected a number from 1e-12 to"),
        (lambda: Huber(1e300), r"delta=1e\+300 is out of range"),
        (lambda: Huber(float("nan")), "delta=nan is out of range"),
        (lambda: Pinball(1.0), "quantile=1.0 is out of range"),
        (lambda: Pinball(1e-300), "quantile=1e-300 is out of range"),
        (lambda: Tweedie(2.0), "power=2.0 is out of range.*Gamma loss for 2"),
        (lambda: Tweedie(1 + 1e-9), "power=1.000000001 is out of range.*Poisson loss for 1"),
        (lambda: Quantiles(()), r"quantiles=\(\) is not a list of quantiles; use"),
        (lambda: Quantiles((0.5, 0.1)), r"quantiles=\[0.5, 0.1\] is not in ascending order"),
        (lambda: Quantiles((0.5, 0.5)), "has duplicates"),
        (lambda: Quantiles((0.5, 1.5)), r"quantiles\[1\]=1.5 is out of range"),
        (lambda: CrossEntropy(1.0), "label_smoothing=1.0 is out of range"),
        (lambda: JointCrossEntropy((3,), 1.0), "label_smoothing=1.0 is out of range"),
        (lambda: JointCrossEntropy(()), r"sizes=\(\) is invalid"),
        (lambda: JointCrossEntropy((3, 0)), r"sizes\[1\]=0 is too small"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: cross_entropy(torch.randn(8, 3), torch.tensor([0, 1, 2])), r"targets have shape \(3,\); expected \(8,\)"),
        (lambda: cross_entropy(torch.randn(8, 3), torch.tensor([1])), r"targets have shape \(1,\); expected \(8,\)"),
        (lambda: mean_squared_error(torch.randn(8, 3), torch.randn(3, 8)), r"targets have shape \(3, 8\); expected \(8, 3\)"),
        (lambda: binary_cross_entropy(torch.randn(8, 1), torch.ones(4)), r"targets have shape \(4,\); expected \(8, 1\)"),
        (lambda: cross_entropy(torch.randn(8, 3), torch.zeros(8).long(), torch.ones(8, 1)), r"sample_weight has shape \(8, 1\)"),
    ],
)  # fmt: skip
def test_shapes_that_torch_would_broadcast_are_refused(action: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        action()


def test_a_column_of_targets_may_come_as_a_vector() -> None:
    outputs, targets = torch.randn(8, 1), torch.randn(8)
    torch.testing.assert_close(mean_squared_error(outputs, targets), F.mse_loss(outputs[:, 0], targets))


@pytest.mark.parametrize("n_rows", [10, 4000])
def test_the_trainers_way_to_cross_entropy_equals_torchs(n_rows: int) -> None:
    outputs = torch.tensor([[100.0, 85.0, 0.0]]).repeat(n_rows, 1)
    outputs[1::2] = torch.randn(n_rows // 2, 3)
    targets = torch.zeros(n_rows, dtype=torch.int64)
    expected = F.cross_entropy(outputs, targets, reduction="none")
    gradient = torch.softmax(outputs, dim=1) - F.one_hot(targets, 3)
    with torch.inference_mode():
        torch.testing.assert_close(CrossEntropy().per_row(outputs, targets), expected, rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(CrossEntropy().gradient(outputs, targets), gradient, rtol=1e-5, atol=1e-7)


def test_confident_rows_keep_a_loss() -> None:
    outputs = torch.tensor([[15.0], [16.5], [25.0]])
    expected = F.binary_cross_entropy_with_logits(outputs, torch.ones(3, 1))
    assert binary_cross_entropy(outputs, torch.ones(3, 1)) == expected > 0


@pytest.mark.parametrize("loss", DEVIANCES, ids=repr)
def test_deviances_are_those_of_scikit_learn(loss: LogLinkLoss) -> None:
    torch.manual_seed(0)
    logs = torch.randn(50, 1, dtype=torch.float64)
    y = torch.randint(0 if loss.allows_zero else 1, 6, (50, 1)).double()
    expected = mean_tweedie_deviance(y[:, 0], logs.exp()[:, 0], power=loss.power)
    assert loss.per_row(logs, y).mean().item() == pytest.approx(expected, rel=1e-9)
    assert loss.setting == loss.power
    torch.testing.assert_close(loss.metric_per_row(logs, y), (logs.exp() - y)[:, 0].square())


@pytest.mark.parametrize("loss", DEVIANCES, ids=repr)
@given(log=st.floats(-1e6, 1e6), y=st.sampled_from([0.0, 1e-30, 1.0, 1e6]))
def test_deviances_stay_finite_in_float32_and_lead_back(loss: LogLinkLoss, log: float, y: float) -> None:
    y = y if loss.allows_zero else max(y, 1e-30)
    outputs, targets = torch.tensor([[log]], dtype=torch.float32), torch.tensor([[y]], dtype=torch.float32)
    slope = loss.gradient(outputs, targets).item()
    assert torch.isfinite(loss.per_row(outputs, targets)).all() and math.isfinite(slope)
    assert loss.metric_per_row(outputs, targets).isfinite().all()
    if log > 20:
        assert slope > 0
    if log < -1 and y >= 1:
        assert slope < 0


@pytest.mark.parametrize("loss", DEVIANCES, ids=repr)
@pytest.mark.parametrize("log", [-19.9, -20.1, -50.0, 19.9, 20.1, 50.0])
def test_beyond_its_limit_a_deviance_is_a_line_with_its_slope(loss: LogLinkLoss, log: float) -> None:
    outputs, y = torch.full((1, 1), log, dtype=torch.float64, requires_grad=True), torch.ones(1, 1).double()
    loss.per_row(outputs, y).sum().backward()
    torch.testing.assert_close(outputs.grad, loss.gradient(outputs.detach(), y))
    edge = torch.tensor([[math.copysign(min(abs(log), 20.0), log)]], dtype=torch.float64)
    torch.testing.assert_close(loss.gradient(outputs.detach(), y), loss.gradient(edge, y))


def test_nan_outputs_have_a_nan_loss() -> None:
    for loss in DEVIANCES:
        assert loss.per_row(torch.full((1, 1), torch.nan), torch.ones(1, 1)).isnan().all()


@given(seeds, st.booleans())
def test_several_quantiles_are_the_sum_of_their_losses(seed: int, stacked: bool) -> None:
    torch.manual_seed(seed)
    loss = Quantiles((0.1, 0.5, 0.8))
    rows = (2, 6) if stacked else (6,)
    outputs = torch.randn(*rows, 3, dtype=torch.float64).requires_grad_()
    y = torch.randn(*rows, 1, dtype=torch.float64)
    expected = sum(Pinball(q).per_row(outputs[..., i : i + 1], y) for i, q in enumerate(loss.quantiles))
    per_row = loss.per_row(outputs, y)
    torch.testing.assert_close(per_row, expected)
    per_row.sum().backward()
    torch.testing.assert_close(loss.gradient(outputs.detach(), y), outputs.grad)
    torch.testing.assert_close(loss.metric_per_row(outputs, y), per_row / 3)
    assert (loss.per_row(outputs.sort(dim=-1).values, y) <= per_row + 1e-12).all()


# --- names


def test_every_loss_with_a_name_is_public_and_found_by_it() -> None:
    for name in loss_names():
        loss = loss_by_name(name)
        assert loss.name == name and getattr(tabgnm.nn, type(loss).__name__) is type(loss)
        assert loss_by_name(name, loss.setting) == loss
    assert loss_by_name("mse") == SquaredError()  # as earlier versions called it
    assert loss_by_name("tweedie", 1.2) == Tweedie(1.2)
    assert set(number_loss_names()) == set(loss_names()) - {"cross_entropy", "binary_cross_entropy"}


def test_names_that_are_no_loss_are_refused_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"loss='rmse' is not known; use one of 'squared_error', 'absolute_error',"):
        loss_by_name("rmse")
    with pytest.raises(ValueError, match="loss='quantiles' requires arguments; pass an instance of Quantiles"):
        loss_by_name("quantiles")


class Doubled(SquaredError):
    """A loss derived from one of ours, of the same name."""

    def per_row(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return 2 * super().per_row(outputs, targets)


def test_kernels_know_our_losses_but_none_that_is_derived_from_them() -> None:
    kinds = [loss_kind(loss_by_name(name)) for name in loss_names()]
    assert None not in kinds and len(set(kinds)) == len(kinds)
    for loss in (Doubled(), Quantiles((0.1, 0.9)), JointCrossEntropy((2, 2))):
        assert loss_kind(loss) is None


class Slotted:
    __slots__ = ("__secret", "factor")

    def __init__(self, factor: float, secret: float) -> None:
        self.factor, self.__secret = factor, secret


class SlottedAndMore(Slotted):
    __slots__ = "unset"

    def __init__(self) -> None:
        super().__init__(1.0, 2.0)


class Mixed(Slotted):
    def __init__(self) -> None:
        super().__init__(1.0, 2.0)
        self.more = 3.0


def test_settings_of_a_loss_are_found_wherever_they_are_stored() -> None:
    assert loss_settings(Huber(0.5)) == {"delta": 0.5}
    assert loss_settings(SquaredError()) == {}
    slotted = {"factor": 1.0, "_Slotted__secret": 2.0}
    assert loss_settings(Slotted(1.0, 2.0)) == slotted == loss_settings(SlottedAndMore())  # type: ignore[arg-type]
    assert loss_settings(Mixed()) == slotted | {"more": 3.0}  # type: ignore[arg-type]
