"""The result of training a fleet: models with their histories, and joint predictions of all models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tabgnm.nn import GNM, MLP, EmbeddedNetwork
from tabgnm.nn.message_passing import forward
from tabgnm.nn.network import Network
from tabgnm.nn.shapes import EmbeddedShape, GNMShape, MLPShape, Shape
from tabgnm.training.history import History
from tabgnm.training.settings import torch_device

_PREDICTION_ELEMENTS = 2**25  # activations at a time
_MODULES: dict[type, type[Network]] = {GNMShape: GNM, MLPShape: MLP, EmbeddedShape: EmbeddedNetwork}


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """The weights of a model's best epoch (on the CPU, gates applied) and its history.

    `val_outputs` are outputs for its validation rows, (rows, c), from epochs that were chosen by other rows, so that
    unlike those of the best epoch they are not biased by this choice (see `FleetSettings.held_out_outputs`).
    """

    shape: Shape
    parameters: dict[str, Tensor]
    history: History
    dropout: float = 0.0
    val_outputs: Tensor | None = None

    def network(self) -> GNM | MLP | EmbeddedNetwork:
        """Return the model as a torch module, in evaluation mode."""
        settings = self.shape.settings()
        dtype = next(iter(self.parameters.values())).dtype
        make: Any = _MODULES[type(self.shape)]
        # On the device "meta" no weights are drawn, which would change the state of torch's random generator.
        net = make(**settings, dropout=self.dropout, dtype=dtype, device="meta")
        net.load_state_dict({name: value.clone() for name, value in self.parameters.items()}, assign=True)
        module: GNM | MLP | EmbeddedNetwork = net.requires_grad_().eval()
        return module


@dataclass(frozen=True, eq=False)
class FleetResult:
    """The trained models of a fleet, in the order of its members."""

    shape: Shape
    models: list[TrainedModel]

    def predict(self, x: Tensor, *, models: Sequence[int] | None = None, device: torch.device | str = "cpu") -> Tensor:
        """Return the outputs (logits or predictions) of all or some of the models, in batches that fit into memory.

        Shape
        -----
        - x: (rows, m) for all models, or (M, rows, m) with different rows for each model
        - output: (M, rows, c), on the CPU
        """
        x, device = torch.as_tensor(x), torch_device("auto") if device == "auto" else device
        chosen = [self.models[i] for i in (range(len(self.models)) if models is None else models)]
        if x.shape[-1] != self.shape.n_inputs or x.dim() not in (2, 3) or (x.dim() == 3 and len(x) != len(chosen)):
            raise ValueError(
                f"x has shape {tuple(x.shape)}; expected (rows, {self.shape.n_inputs}), or "
                f"({len(chosen)}, rows, {self.shape.n_inputs}) with rows for each model"
            )
        if not chosen:
            raise ValueError("models is empty; expected the positions of at least one model, or None for all")
        stacked = {
            name: torch.stack([model.parameters[name] for model in chosen]).to(device)
            for name in self.shape.parameter_shapes()
        }
        some = next(iter(stacked.values()))
        if self.shape.embedding is not None:
            self.shape.embedding.check_codes(x)
        piece = max(1, _PREDICTION_ELEMENTS // (len(chosen) * self.shape.activations_per_row))
        outputs = []
        with torch.inference_mode():
            for first in range(0, x.shape[-2], piece):
                rows = x[..., first : first + piece, :].to(device=device, dtype=some.dtype)
                rows = rows.expand(len(chosen), *rows.shape[-2:])
                outputs.append(forward(self.shape, stacked, rows).output.cpu())
        return torch.cat(outputs, dim=1) if outputs else some.new_zeros(len(chosen), 0, self.shape.n_outputs).cpu()
