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
from tabgnm.training.steps import NumpyStep, TorchStep
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


@pytest.mark.parametrize(
    ("model", "method"),
    [("classifier", "predict_proba"), ("classifier", "predict"), ("regressor", "predict")],
)
def test_a_prediction_reaches_its_first_matrix_product_in_seven_calls(
    model: str, method: str, models: dict[str, Any]
) -> None:
    with FirstProduct() as first:
        getattr(models[model], method)(F)
    assert first.frames[0] == f"estimators/{model}.py:{method}"
    assert len(first.frames) <= 7, first.frames
    assert first.frames.index("nn/message_passing.py:forward") <= 3, first.frames


@pytest.mark.parametrize(("step", "network"), [(NumpyStep, {}), (TorchStep, {"combine": "residual"})])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_fitting_reaches_the_fleet_in_eleven_calls_and_the_training_step_in_sixteen(
    method: str, step: Any, network: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[str]] = []
    train_block = step.train_block

    def watched(*arguments: Any) -> None:
        found.append([*package_frames(), "train_block"])
        train_block(*arguments)

    monkeypatch.setattr(step, "train_block", watched)
    getattr(GNMRegressor(n_candidates=1, n_folds=1, max_epochs=1, device="cpu", **network), method)(F, T)
    assert found[0].index("training/fleet.py:fit") <= 10, found[0]
    assert len(found[0]) <= 16, found[0]
