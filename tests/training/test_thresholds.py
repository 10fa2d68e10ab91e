"""Soft thresholds of single edges and of groups of inputs: exact zeros, fixed zeros, whole columns."""

from __future__ import annotations

import pytest
import torch

from tabgnm.nn import GNMShape
from tabgnm.nn.losses import SquaredError
from tabgnm.training import Fleet, FleetSettings, Member, Table

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(200, 4, generator=GENERATOR)
Y = (X[:, :1] - 2 * X[:, 1:2]).tanh()
TABLE = Table(X, Y)
SHAPE = GNMShape(4, 1, n_nodes=12, n_layers=2, init="kaiming", clamp_inputs=True)
SETTINGS = FleetSettings(
    loss=SquaredError(), max_epochs=20, batch_size=50, optimizer="proximal_adam", input_groups=(0, 0, 1, 1)
)


def _train(*members: Member, settings: FleetSettings = SETTINGS) -> list[dict[str, torch.Tensor]]:
    return [model.parameters for model in Fleet(SHAPE, members, settings).fit(TABLE).models]


def _inputs_used(parameters: dict[str, torch.Tensor]) -> list[bool]:
    norms = parameters["weight_1"].abs().sum(dim=1) + parameters["weight_2"][:4].abs().sum(dim=1)
    return [bool(norm > 0) for norm in norms]


def test_an_infinite_factor_keeps_an_edge_at_0_while_others_learn() -> None:
    factors = {"weight_1": torch.zeros(SHAPE.parameter_shapes()["weight_1"])}
    factors["weight_1"][2:] = torch.inf
    start = _train(Member(learning_rate=0.0))[0]
    start["weight_1"][2:] = 0
    (trained,) = _train(Member(learning_rate=0.01, l1_factors=factors, start=start))
    assert (trained["weight_1"][2:] == 0).all()
    assert (trained["weight_1"][:2] != start["weight_1"][:2]).any()


def test_a_factor_of_0_frees_edges_of_the_penalty() -> None:
    free = {"bias_2": torch.zeros(1)}
    with_bias, without = _train(
        Member(learning_rate=0.01, l1=50.0, l1_factors=free), Member(learning_rate=0.01, l1=50.0)
    )
    assert all((without[name] == 0).all() for name in without)
    assert (with_bias["bias_2"] != 0).all()
    assert all((with_bias[name] == 0).all() for name in with_bias if name != "bias_2")


def test_factors_of_1_are_the_penalty_itself() -> None:
    ones = {name: torch.ones(size) for name, size in SHAPE.parameter_shapes().items()}
    plain, with_factors = _train(
        Member(learning_rate=0.01, l1=0.3), Member(learning_rate=0.01, l1=0.3, l1_factors=ones)
    )
    for name in plain:
        torch.testing.assert_close(plain[name], with_factors[name])


def test_the_inputs_of_a_group_vanish_together() -> None:
    strengths = [0.0, 0.5, 1.0, 2.0, 30.0]
    seen = []
    for parameters in _train(*(Member(learning_rate=0.01, group_l1=strength) for strength in strengths)):
        used = _inputs_used(parameters)
        assert used[0] == used[1]
        assert used[2] == used[3]
        seen.append((used[0], used[2]))
    assert seen[0] == (True, True)
    assert (True, False) in seen, "the columns that matter not should go first"
    assert seen[-1] == (False, False)


@pytest.mark.parametrize(
    ("member", "settings", "message"),
    [
        (Member(l1_factors={"weight_9": torch.ones(1)}), SETTINGS, "some of weight_1, bias_1"),
        (Member(l1_factors={"bias_2": torch.ones(3)}), SETTINGS, r"bias_2 of shape \(1,\)"),
        (Member(l1_factors={"bias_2": torch.ones(1)}), FleetSettings(loss=SquaredError()), "proximal_adam"),
        (
            Member(group_l1=0.1),
            FleetSettings(loss=SquaredError(), optimizer="proximal_adam"),
            "requires the group of each of the 4 inputs",
        ),
        (
            Member(group_l1=0.1),
            FleetSettings(loss=SquaredError(), optimizer="proximal_adam", input_groups=(0, 1)),
            "input_groups has 2",
        ),
    ],
)
def test_what_does_not_fit_is_refused(member: Member, settings: FleetSettings, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Fleet(SHAPE, [member], settings)


@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_factors_are_no_negative_numbers(value: float) -> None:
    with pytest.raises(ValueError, match="negative or NaN"):
        Member(l1_factors={"bias_2": torch.tensor([value])})
