"""Public methods reach the computation in few calls, which keeps tracebacks short and the code easy to follow."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from torch.utils._python_dispatch import TorchDispatchMode

import tabgnm
from tabgnm import GNMClassifier, GNMRegressor
from tabgnm.estimators.prediction import EXACT_ROWS
from tabgnm.training.steps import NumpyStep, TorchStep
from tabgnm.training.steps.numpy_network import NetworkPass
from tests.estimators.examples import frame, numbers

PACKAGE = Path(tabgnm.__file__).parent
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "matmul"}
_, Y, T = numbers()
F = frame()


def package_frames() -> list[str]:
    """Functions of tabgnm on the stack as "file:name", outermost first; generators and comprehensions count."""
    names = []
    here: FrameType | None = sys._getframe()
    while here is not None:
        path = Path(here.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            names.append(f"{path.relative_to(PACKAGE).as_posix()}:{here.f_code.co_name}")
        here = here.f_back
    return names[::-1]


class FirstProduct(TorchDispatchMode):
    """Records the stack of the first matrix product of torch."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.frames and func.overloadpacket.__name__ in PRODUCTS:
            self.frames = package_frames()
        return func(*args, **(kwargs or {}))


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    """Estimators with default networks, which embed their inputs, of several candidates."""
    quick: dict[str, Any] = {"n_candidates": 2, "n_folds": 2, "max_epochs": 1, "device": "cpu", "random_state": 0}
    return {"classifier": GNMClassifier(**quick).fit(F, Y), "regressor": GNMRegressor(**quick).fit(F, T)}


METHODS = [("classifier", "predict_proba"), ("classifier", "predict"), ("regressor", "predict")]


@pytest.mark.parametrize(("model", "method"), METHODS)
def test_a_prediction_reaches_its_first_matrix_product_in_six_calls(
    model: str, method: str, models: dict[str, Any]
) -> None:
    with FirstProduct() as first:
        getattr(models[model], method)(F)
    assert first.frames[0] == f"estimators/{model}.py:{method}"
    assert len(first.frames) <= 6, first.frames


@pytest.mark.parametrize(("model", "method"), METHODS)
def test_many_rows_take_two_calls_more_for_threads(
    model: str, method: str, models: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[str]] = []

    def watched(self: NetworkPass, parameters: Any, x: Any) -> Any:
        found.append([*package_frames(), "outputs"])
        return outputs(self, parameters, x)

    outputs = NetworkPass.outputs  # makes the products itself
    monkeypatch.setattr(NetworkPass, "outputs", watched)
    many = F.sample(EXACT_ROWS + 1, replace=True, random_state=0)
    getattr(models[model].set_params(n_jobs=1), method)(many)
    assert found and len(found[0]) <= 8, found[0]


@pytest.mark.parametrize(("step", "network"), [(NumpyStep, {}), (TorchStep, {"combine": "residual"})])
@pytest.mark.parametrize("pack", [{"n_candidates": 1, "n_folds": 1, "max_epochs": 1}, {"n_candidates": 4}])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_fitting_reaches_the_training_step_in_twelve_calls(
    method: str, pack: dict[str, Any], step: Any, network: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[str]] = []

    def watched(*_: Any) -> None:
        found.append([*package_frames(), "train_block"])
        raise _Reached

    monkeypatch.setattr(step, "train_block", watched)
    with pytest.raises(_Reached):
        getattr(GNMRegressor(device="cpu", n_jobs=1, **pack, **network), method)(F, T)
    assert len(found[0]) <= 12 + (method == "partial_fit"), found[0]


class _Reached(Exception):
    pass
