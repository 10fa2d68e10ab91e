"""Contributions of columns to predictions: gradients integrated along straight paths (Sundararajan et al., 2017).

A path leads from a base to a row in the space of the inputs of message passing: scaled numbers, missing-value
indicators, one-hot columns, and the learned features of embedded columns. The contribution of an input is the mean
gradient along the path, multiplied by the difference of the input. Contributions are summed over the inputs that belong
to one column of the table. The sum over all columns is the difference of the two predictions, up to the error of the
numerical integration. Where this error is too large, the steps of a path are halved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.estimators.differentiable import Scale, predictions
from tabgnm.nn.embeddings import embed
from tabgnm.nn.message_passing import forward
from tabgnm.nn.shapes import body_of

if TYPE_CHECKING:
    from tabgnm.estimators.fitting import FittedPack, NetworkGroup

Array = NDArray[Any]

FIRST_STEPS = 2  # initial number of steps of a path
# Gauss-Lobatto quadrature of a step: the nodes include both ends, so their predictions require no extra computation.
_NODES = torch.tensor([-1, -((3 / 7) ** 0.5), 0, (3 / 7) ** 0.5, 1], dtype=torch.float64) / 2 + 0.5
_WEIGHTS = torch.tensor([1 / 10, 49 / 90, 32 / 45, 49 / 90, 1 / 10], dtype=torch.float64) / 2
# A step is halved if its error exceeds this fraction of the sum of the absolute contributions of its path. This is
# less than the documented error of a row, because the errors of steps add up. Over several bases, they mostly cancel.
_STEP_TOLERANCE = 1e-3 / 8
_MIN_SIZE = 1e-6  # relative to the largest row; smaller errors are rounding
_PIECE_ELEMENTS = 2**23  # activations per call


class PathIntegrals:
    """Integrates gradients between rows and bases.

    Parameters
    ----------
    fitted : FittedPack
    n_columns : int
        The number of columns of the table.
    scale : Scale
        The scale of the predictions.
    """

    def __init__(self, fitted: FittedPack, n_columns: int, scale: Scale) -> None:
        self._fitted, self._n_columns, self._scale = fitted, n_columns, scale
        # Columns that are not scaled may be too large for float32.
        exact = any(encoder.settings.scaling == "none" for encoder in fitted.encoders)
        self._bodies = [_Body(group, exact=exact) for group in fitted.groups]
        self._per_point = sum(body.elements_per_row for body in self._bodies)

    def inputs(self, encoded: list[Tensor]) -> list[Tensor]:
        """Return the inputs of message passing of each group, (networks, rows, inputs), for encoded rows."""
        places = {id(encoder): place for place, encoder in enumerate(self._fitted.encoders)}
        return [body.inputs(encoded[places[id(body.group.encoder)]]) for body in self._bodies]

    def typical_inputs(self) -> list[Tensor]:
        """Return the inputs of the reference point, (networks, 1, inputs): typical numbers, means of levels."""
        return [body.typical_inputs() for body in self._bodies]

    def predict(self, inputs: list[Tensor]) -> Tensor:
        """Return the predictions, (rows, outputs)."""
        n_rows = inputs[0].shape[1]
        at_once = self._rows_at_once()
        pieces = [[x[:, first : first + at_once] for x in inputs] for first in range(0, n_rows, at_once)]
        with torch.no_grad():
            return torch.cat([self._outputs(piece) for piece in pieces])

    def contributions(self, rows: list[Tensor], bases: list[Tensor], n_steps: int) -> Tensor:
        """Return the contributions of columns, averaged over the bases, (rows, columns, outputs).

        Parameters
        ----------
        rows, bases : list of Tensor
            Inputs of each group, (networks, rows, inputs) and (networks, bases, inputs).
        n_steps : int
            The minimum length of a step is 1 / n_steps of its path.
        """
        n_rows, n_bases = rows[0].shape[1], bases[0].shape[1]
        total: Tensor | None = None
        at_once = max(1, self._rows_at_once() // (FIRST_STEPS * len(_NODES)))
        for pairs in torch.split(torch.arange(n_rows * n_bases), at_once):
            of_row, of_base = pairs // n_bases, pairs % n_bases
            starts = [x[:, of_base] for x in bases]
            paths = [x[:, of_row] - start for x, start in zip(rows, starts, strict=True)]
            own = self._integrals(starts, paths, n_steps, _STEP_TOLERANCE * n_bases**0.5)
            if total is None:
                total = torch.zeros(n_rows, *own.shape[1:], dtype=torch.float64)
            total.index_add_(0, of_row, own)
        assert total is not None
        return total / n_bases

    def _integrals(self, starts: list[Tensor], paths: list[Tensor], n_steps: int, tolerance: float) -> Tensor:
        """Return the contributions of a few paths, (paths, columns, outputs).

        A path is divided into steps. If the contributions to a step do not sum to the difference of the predictions at
        its ends, for instance because the gradient jumps, the step is halved.
        """
        n_paths = starts[0].shape[1]
        first = min(FIRST_STEPS, n_steps)
        path = torch.arange(n_paths).repeat_interleave(first)
        place = (torch.arange(first, dtype=torch.float64) / first).repeat(n_paths)
        width = torch.full_like(place, 1 / first)
        total, allowed = None, None
        while len(path):
            values, errors = self._steps(starts, paths, path, place, width)
            if total is None or allowed is None:
                total = torch.zeros(n_paths, *values.shape[1:], dtype=torch.float64)
                sizes = total.index_add(0, path, values).abs().sum(dim=1)  # (paths, outputs)
                sizes = sizes if self._scale == "target" else sizes.clamp(min=1.0)
                allowed = tolerance * sizes + _MIN_SIZE * sizes.amax(dim=0)
            halved = (errors.abs() > allowed[path]).any(dim=1) & (width * n_steps >= 2)
            total.index_add_(0, path[~halved], values[~halved])
            path, place, width = path[halved].repeat(2), place[halved], width[halved] / 2
            place, width = torch.cat([place, place + width]), width.repeat(2)
        assert total is not None
        return total

    def _steps(
        self, starts: list[Tensor], paths: list[Tensor], path: Tensor, place: Tensor, width: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the contributions of steps, (steps, columns, outputs), and the errors of their sums."""
        values, errors = [], []
        for some in torch.split(torch.arange(len(path)), max(1, self._rows_at_once() // len(_NODES))):
            own = path[some]
            places = place[some, None] + width[some, None] * _NODES  # (steps, points)
            points = [
                torch.addcmul(start[:, own, None], whole[:, own, None], places.to(whole.dtype)[..., None]).flatten(1, 2)
                for start, whole in zip(starts, paths, strict=True)
            ]
            means, outputs = self._mean_gradients(points)
            result = torch.zeros(len(own), self._n_columns, outputs.shape[2], dtype=torch.float64)
            for body, whole, mean in zip(self._bodies, paths, means, strict=True):
                products = mean * whole[:, own, :, None]  # (networks, steps, inputs, outputs)
                result.index_add_(1, body.owners, products.sum(dim=0, dtype=torch.float64))
            result *= width[some, None, None]
            values.append(result)
            errors.append(outputs[:, -1] - outputs[:, 0] - result.sum(dim=1))
        return torch.cat(values), torch.cat(errors)

    def _mean_gradients(self, points: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        """Return the mean gradient of each step, (networks, steps, inputs, outputs), and outputs at all points."""
        for point in points:
            point.requires_grad_()
        outputs = self._outputs(points)  # (steps x points, outputs)
        by_output: list[list[Tensor]] = []
        for output in range(outputs.shape[1]):
            last = output == outputs.shape[1] - 1
            gradients = torch.autograd.grad(outputs[:, output].sum(), points, retain_graph=not last)
            by_output.append(
                [
                    torch.einsum(
                        "nspf,p->nsf", own.reshape(len(own), -1, len(_NODES), own.shape[2]), _WEIGHTS.to(own.dtype)
                    )
                    for own in gradients
                ]
            )
        means = [torch.stack(own, dim=-1) for own in zip(*by_output, strict=True)]
        return means, outputs.detach().reshape(-1, len(_NODES), outputs.shape[1])

    def _rows_at_once(self) -> int:
        return max(1, _PIECE_ELEMENTS // self._per_point)

    def _outputs(self, inputs: list[Tensor]) -> Tensor:
        return predictions(self._fitted, [body(x) for body, x in zip(self._bodies, inputs, strict=True)], self._scale)


class _Body:
    """The networks of a group without their embeddings."""

    def __init__(self, group: NetworkGroup, *, exact: bool) -> None:
        self.group, shape = group, group.shape
        parameters = group.exact_parameters if exact else group.parameters
        # Copies, because autograd does not accept inference tensors.
        self._parameters = {name: value.clone() for name, value in parameters.items()}
        self._embedding = shape.embedding
        self._body = body_of(shape)
        owners = np.asarray(group.encoder.owners)
        if self._embedding is not None:
            owners = owners[np.asarray(self._embedding.owners())]
        self.owners = torch.as_tensor(owners)
        self.elements_per_row = group.n_networks * (self._body.activations_per_row + 2 * self._body.n_inputs)

    @property
    def _dtype(self) -> torch.dtype:
        return next(iter(self._parameters.values())).dtype

    def __call__(self, inputs: Tensor) -> Tensor:
        return forward(self._body, self._parameters, inputs).output

    def inputs(self, encoded: Tensor) -> Tensor:
        rows = encoded.to(self._dtype).expand(self.group.n_networks, *encoded.shape)
        return rows if self._embedding is None else embed(self._embedding, self._parameters, rows)

    def typical_inputs(self) -> Tensor:
        encoder, embedding = self.group.encoder, self._embedding
        inputs = self.inputs(torch.as_tensor(encoder.typical_row())[None]).clone()
        if embedding is not None and embedding.levels:
            first_place, first_level = inputs.shape[2] - len(embedding.levels) * embedding.level_dim, 0
            for n_levels in embedding.levels:
                known = self._parameters["embed_level"][:, first_level + 1 : first_level + n_levels]  # 0: unknown
                inputs[:, 0, first_place : first_place + embedding.level_dim] = known.mean(dim=1)
                first_place, first_level = first_place + embedding.level_dim, first_level + n_levels
        return inputs
