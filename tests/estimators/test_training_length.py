"""Networks get fewer epochs if the first ones soon stopped improving."""

from typing import Any

import numpy as np
import pytest
import torch

from tabgnm import GNMClassifier, GNMRegressor
from tabgnm.estimators.effort import effort_for
from tabgnm.estimators.training_length import constant_loss, reduced
from tabgnm.nn import AbsoluteError, CrossEntropy, Gamma, Loss, Poisson, Quantiles, SquaredError
from tabgnm.training import History, TrainedModel

N_ROWS = 600
FULL = effort_for("fast", "cpu", N_ROWS).max_epochs


def noisy_table() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N_ROWS, 4))
    return x, (x[:, 0] + 2 * rng.normal(size=N_ROWS) > 0).astype(int)


def exact_table() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x = np.random.default_rng(0).normal(size=(N_ROWS, 3))
    return x, np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]


def n_epochs(model: GNMClassifier | GNMRegressor) -> list[int]:
    """Return the numbers of epochs of all networks that were kept, most first."""
    return sorted((len(own["val_loss"]) for own in model.history_), reverse=True)


def test_networks_are_trained_for_a_quarter_of_the_epochs_if_the_first_were_soon_best() -> None:
    clf = GNMClassifier(effort="fast", device="cpu", random_state=0).fit(*noisy_table())
    epochs = n_epochs(clf)
    assert max(epochs[2:]) <= FULL // 4
    assert min(clf.pack_["best_epoch"]) > 0


def test_all_networks_have_all_epochs_if_the_first_need_them() -> None:
    model = GNMRegressor(effort="fast", device="cpu", random_state=0).fit(*exact_table())
    assert n_epochs(model)[2] > FULL // 4


@pytest.mark.parametrize("given", [{"max_epochs": 60}, {"patience": 40}, {"effort": "best", "n_candidates": 2}])
def test_a_number_of_epochs_or_a_patience_that_is_given_is_kept(given: dict[str, Any]) -> None:
    clf = GNMClassifier(**({"effort": "fast", "device": "cpu", "random_state": 0} | given)).fit(*noisy_table())
    assert n_epochs(clf)[2] > FULL // 4


def test_a_time_limit_that_is_long_enough_changes_nothing() -> None:
    x, y = noisy_table()
    models = [
        GNMClassifier(effort="fast", device="cpu", random_state=0, time_limit=limit).fit(x, y) for limit in (None, 600)
    ]
    assert n_epochs(models[0]) == n_epochs(models[1])


def test_progress_counts_the_epochs_that_are_left(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="tabgnm"):
        GNMClassifier(effort="fast", device="cpu", random_state=0, verbose=1).fit(*noisy_table())
    assert "the first networks were best after" in caplog.text
    assert "trained 8 of 8 networks" in caplog.text


@pytest.mark.parametrize(
    ("best_epochs", "best_losses", "weight", "shortens"),
    [
        ([2, 5], [0.60, 0.65], 1.0, True),
        ([2, FULL // 5], [0.60, 0.65], 1.0, True),
        ([2, 5], [0.60, 0.692], 1.0, False),  # ln 2 = 0.693: the second network has learned nothing
        ([1, 5], [0.694, 0.694], 1.0, False),
        ([1, FULL // 5 + 1], [0.60, 0.65], 1.0, False),
        ([2, 5], [0.60, 0.65], 0.1, False),  # the loss of the best constant is 0.305
        ([2, 5], [0.25, 0.28], 0.1, True),
    ],
)
def test_both_networks_must_have_learned_and_be_soon_best(
    best_epochs: list[int], best_losses: list[float], weight: float, shortens: bool
) -> None:
    x, y = np.random.default_rng(0).normal(size=(N_ROWS, 4)), np.arange(N_ROWS) % 2
    weights = np.where(y == 1, weight, 1.0)
    prepared = GNMClassifier(effort="fast", device="cpu", random_state=0)._prepare(x, y, weights)
    shape = prepared.candidates[0].shape
    histories = [
        History([0.7] * epoch, [0.7] * (epoch - 1) + [loss], best_epoch=epoch)
        for epoch, loss in zip(best_epochs, best_losses, strict=True)
    ]
    found = reduced(prepared, [TrainedModel(shape, {}, history) for history in histories])
    assert (found is not prepared) == shortens
    if shortens:
        fleet = found.candidates[-1].fleet
        assert fleet.max_epochs == round(FULL / 4)
        assert fleet.patience is not None and fleet.patience >= 10


def test_the_loss_of_the_best_constant() -> None:
    random = torch.Generator().manual_seed(0)
    classes = torch.randint(3, (500,), generator=random).clamp(max=1)
    numbers = torch.randn(500, 1, generator=random).exp()
    weights = torch.rand(500, generator=random)
    shares = torch.bincount(classes, weights) / weights.sum()
    assert constant_loss(CrossEntropy(), classes, 2, weights) == pytest.approx(float(-(shares * shares.log()).sum()))
    middle, median = numbers.mean(), numbers.median()
    expected: list[tuple[Loss, int, float]] = [
        (SquaredError(), 1, float((numbers - middle).square().mean())),
        (AbsoluteError(), 1, float((numbers - median).abs().mean())),
        (Poisson(), 1, float(Poisson().per_row(middle.log().expand(500, 1), numbers).mean())),
        (Gamma(), 1, float(Gamma().per_row(middle.log().expand(500, 1), numbers).mean())),
    ]
    quantiles = Quantiles((0.1, 0.9))
    best = torch.quantile(numbers[:, 0], torch.tensor([0.1, 0.9]))
    expected.append((quantiles, 2, float(quantiles.per_row(best.expand(500, 2), numbers).mean())))
    zeros = torch.where(torch.rand(500, 1, generator=random) < 0.8, 0.0, numbers)
    own = torch.quantile(zeros[:, 0], torch.tensor([0.1, 0.5, 0.9]), interpolation="lower")
    many = Quantiles((0.1, 0.5, 0.9))
    assert constant_loss(many, zeros, 3, None) == pytest.approx(
        float(many.per_row(own.expand(500, 3), zeros).mean()), rel=0.01
    )
    for loss, n_outputs, value in expected:
        assert constant_loss(loss, numbers, n_outputs, None) == pytest.approx(value, rel=0.01), loss
