"""A pytest plugin that runs GPU kernels on a CPU, in Triton's interpreter: `make test-kernels`.

It shows that the kernels compute what they should; whether they compile and are fast, only a GPU shows.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter

from tabgnm.training import kernels
from tabgnm.training.kernels import elementwise, layers

_dot = interpreter.InterpreterBuilder.create_dot


def _create_dot(builder: Any, left: Any, right: Any, *others: Any) -> Any:
    """The interpreter stores bfloat16 as 16-bit integers, and multiplies these integers."""
    if left.dtype.scalar == tl.bfloat16:
        left, right = (
            interpreter.TensorHandle((side.data.astype(np.uint32) << 16).view(np.float32), tl.float32)
            for side in (left, right)
        )
    return _dot(builder, left, right, *others)


@triton.jit
def _tanh(z):  # type: ignore[no-untyped-def]
    return 2 * tl.sigmoid(2 * z) - 1


class _Functions:
    tanh = _tanh  # the interpreter has no functions of CUDA's library


@triton.jit
def _do_nothing(places):  # type: ignore[no-untyped-def]
    pass


@functools.cache
def _kernels_for(_: torch.device, name: str) -> ModuleType:
    module = importlib.import_module(f"tabgnm.training.kernels.{name}")
    module.self_check(torch.zeros(()))
    return module


interpreter.InterpreterBuilder.create_dot = _create_dot
elementwise.libdevice = _Functions
layers._fetch_to_cache = _do_nothing  # assembler
kernels.kernels_for = _kernels_for  # type: ignore[assignment]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of many models, which the interpreter computes one after the other."""

    def n_models(item: pytest.Item) -> int:
        parameters = getattr(item, "callspec", None)
        given = {} if parameters is None else parameters.params
        return int(given.get("n_models", given.get("size", [0])[0]))

    many = [item for item in items if n_models(item) >= 40]
    config.hook.pytest_deselected(items=many)
    items[:] = [item for item in items if item not in many]
