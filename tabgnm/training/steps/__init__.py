"""Training steps: the update of M models with one batch, and their outputs for validation.

There are three implementations of one small protocol; only `choose_step` chooses between them:

- `NumpyStep` on a CPU, and `CudaStep` on a GPU with Triton, for networks without gates and without message-passing
  variants other than `clamp_inputs`; the method `supports` of each has all conditions;
- `TorchStep` for everything else.

All of them support embeddings, and compute what `tabgnm.nn.message_passing.forward` and `backward` define; tests
compare them.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from tabgnm.training.model_state import ModelState
from tabgnm.training.row_batches import Block, BlockRows
from tabgnm.training.steps.cuda_step import CudaStep
from tabgnm.training.steps.numpy_step import NumpyStep
from tabgnm.training.steps.torch_step import TorchStep


class TrainingStep(Protocol):
    """Forward pass, backward pass and update of all models of a `ModelState`.

    Attributes
    ----------
    n_math_threads : int
        The number of threads of torch's operations on a CPU; if 1, also of NumPy's.
    """

    n_math_threads: int

    def train_block(self, block: Block, rows: BlockRows, train_loss: Tensor) -> None:
        """Take the steps of a block, and add the losses of its rows times their shares to `train_loss` (M,)."""
        ...

    def outputs(self, x: Tensor) -> Tensor:
        """Return the outputs (M, L, c) of all models, without dropout, for rows x (M, L, at least m)."""
        ...

    def close(self) -> None:
        """Release threads; the step is not used afterwards."""
        ...


def choose_step(state: ModelState) -> TrainingStep:
    """Return the fastest implementation for these models."""
    for step in (NumpyStep, CudaStep):
        if step.supports(state):
            return step(state)
    return TorchStep(state)
