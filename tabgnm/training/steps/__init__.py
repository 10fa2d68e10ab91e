"""A training step: what takes M models from one batch to the next, and computes their outputs for validation.

There are three implementations of one small protocol, and `choose_step` is the one place that chooses:

- `NumpyStep` on a CPU, for networks without message-passing variants but `clamp_inputs`, with or without embeddings;
- `CudaStep` on a GPU with Triton, for networks without message-passing variants, with or without embeddings;
- `TorchStep` for everything else.

All compute what `tabgnm.nn.message_passing.forward` and `backward` define; the tests compare them.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from tabgnm.training.model_state import ModelState
from tabgnm.training.row_batches import Block, BlockRows
from tabgnm.training.steps.cuda_step import CudaStep
from tabgnm.training.steps.numpy_step import NumpyStep
from tabgnm.training.steps.torch_step import TorchStep
from tabgnm.training.validation import Validation


class TrainingStep(Protocol):
    """Forward pass, backward pass and update of all models of a `ModelState`.

    Attributes
    ----------
    n_math_threads : int
        Threads that operations of torch use on a CPU; with 1, also those of NumPy.
    """

    n_math_threads: int

    def train_block(self, block: Block, rows: BlockRows, train_loss: Tensor) -> None:
        """Take the steps of a block, and add the losses of its rows times their shares to `train_loss` (M,)."""
        ...

    def validate(self, validation: Validation) -> None:
        """Add the outputs for all pieces of the validation rows to `validation`."""
        ...

    def close(self) -> None:
        """Give back threads; the step is not used afterwards."""
        ...


def choose_step(state: ModelState) -> TrainingStep:
    """Return the fastest implementation for these models."""
    for step in (NumpyStep, CudaStep):
        if step.supports(state):
            return step(state)
    return TorchStep(state)
