"""Predictions of a fleet are those of its models as torch modules."""

from __future__ import annotations

import pytest
import torch

from tabgnm.nn import GNM, MLP
from tabgnm.nn.shapes import Shape
from tabgnm.training import Fleet, FleetResult
from tests.training.examples import BASE, SHAPES, different_members, settings_for, table_for

every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def trained(shape: Shape, l0: float = 0.0, precision: str = "float64") -> FleetResult:
    settings = settings_for(max_epochs=3, precision=precision)
    return Fleet(shape, different_members(4, l0=l0), settings).fit(table_for(settings.loss))


def rows(n: int) -> torch.Tensor:
    return torch.randn(n, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(n))


@every_shape
@pytest.mark.parametrize("l0", [0.0, 0.05])
def test_predictions_are_those_of_the_networks(shape: Shape, l0: float) -> None:
    result, x = trained(shape, l0), rows(50)
    outputs = result.predict(x)
    assert outputs.shape == (4, 50, 3)
    with torch.no_grad():
        expected = torch.stack([model.network()(x) for model in result.models])
    torch.testing.assert_close(outputs, expected, rtol=1e-12, atol=1e-12)


@every_shape
def test_a_network_is_a_module_of_the_same_shape(shape: Shape) -> None:
    model = trained(shape, precision="float32").models[3]
    net = model.network()
    assert isinstance(net, MLP if shape is SHAPES["mlp"] else GNM)
    assert net.shape == shape and not net.training and net.dropout == different_members(4)[3].dropout
    for name, value in net.state_dict().items():
        assert torch.equal(value, model.parameters[name]) and value.dtype == torch.float32
    with torch.no_grad():
        getattr(net, next(iter(model.parameters))).add_(1.0)
    name, value = next(iter(model.parameters.items()))
    assert torch.equal(getattr(model.network(), name), value)


@every_shape
def test_predicting_in_pieces_changes_nothing(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    result, x = trained(shape), rows(101)
    whole = result.predict(x)
    for elements in (1, 1000, 5000):
        monkeypatch.setattr("tabgnm.training.result._PREDICTION_ELEMENTS", elements)
        torch.testing.assert_close(result.predict(x), whole, rtol=1e-12, atol=1e-12)


def test_every_model_may_have_rows_of_its_own() -> None:
    result = trained(BASE)
    x = rows(4 * 30).view(4, 30, 6)
    expected = torch.stack([result.predict(own)[i] for i, own in enumerate(x)])
    torch.testing.assert_close(result.predict(x), expected, rtol=1e-12, atol=1e-12)


def test_some_models_can_be_asked() -> None:
    result, x = trained(BASE), rows(10)
    whole = result.predict(x)
    torch.testing.assert_close(result.predict(x, models=[3, 1]), whole[[3, 1]], rtol=1e-12, atol=1e-12)
    own = result.predict(torch.stack([x, x + 1]), models=[3, 1])
    torch.testing.assert_close(own[0], whole[3], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(own[1], result.predict(x + 1)[1], rtol=1e-12, atol=1e-12)


def test_no_rows_give_no_predictions() -> None:
    assert trained(BASE).predict(rows(10)[:0]).shape == (4, 0, 3)


def test_rows_of_another_precision_are_converted() -> None:
    result = trained(BASE, precision="float32")
    assert result.predict(rows(5)).dtype == torch.float32
    assert torch.equal(result.predict(rows(5)), result.predict(rows(5).float()))
