"""All parameters of M stacked models in one buffer, a row per model, and views of it by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from tabgnm.nn.hard_concrete import INITIAL_LOG_ALPHA
from tabgnm.nn.shapes import Shape
from tabgnm.training import counter_random
from tabgnm.training.gpu_sharing import mark
from tabgnm.training.settings import Member


class FlatLayout:
    """The position of each parameter in a row: edges, parameters of variants, embeddings, gates of the l0 penalty.

    Parameters
    ----------
    shape : Shape
    gates : bool, default=False
        Whether every edge has a gate.
    align : int, default=1
        The sizes of the body's matrices, and of the rows, are rounded up to a multiple of this, because GPU kernels
        read several numbers at once only if all of them are aligned. The padding is 0 and stays 0.
    """

    def __init__(self, shape: Shape, *, gates: bool = False, align: int = 1) -> None:
        self.shape = shape
        self.gates = gates
        self.sizes = shape.parameter_shapes()
        edges = shape.edge_parameters()
        # The kernels of embeddings do not need aligned sizes, and embeddings are so small that padding would dominate.
        unpadded = {} if shape.embedding is None else shape.embedding.parameter_shapes()
        self.offsets: dict[str, int] = {}
        self._padded: dict[str, tuple[int, ...]] = {}  # sizes in the buffer
        end = 0
        for name in [*edges, *(name for name in self.sizes if name not in edges)]:
            self.offsets[name] = end
            size = self.sizes[name]
            self._padded[name] = size if name in unpadded else tuple(-(-side // align) * align for side in size)
            end += -(-math.prod(self._padded[name]) // align) * align
            if name == edges[-1]:
                self.n_edges = end
        self.n_weights = end
        self.n_body = self.offsets[next(iter(unpadded))] if unpadded else end  # embeddings follow the body
        self.gate_places = slice(end, end + (self.n_edges if gates else 0))
        self.n_flat = -(-self.gate_places.stop // align) * align

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Return parameters by name as views of `flat`: (M, ...) for (M, P), without M for (P,)."""
        views = self.padded_views(flat)
        for name, size in self.sizes.items():
            for dim, side in enumerate(reversed(size), start=1):
                views[name] = views[name].narrow(-dim, 0, side)
        return views

    def padded_views(self, flat: Tensor) -> dict[str, Tensor]:
        """Return `views` including their padding."""
        views = {}
        for name, padded in self._padded.items():
            offset = self.offsets[name]
            views[name] = flat[..., offset : offset + math.prod(padded)].view(*flat.shape[:-1], *padded)
        return views

    def compact(self, flat: Tensor) -> Tensor:
        """Return the weights (M, P) on the CPU, in the layout without gates and padding."""
        plain = FlatLayout(self.shape)
        out = flat.new_empty(len(flat), plain.n_weights)
        for name, view in plain.views(out).items():
            view.copy_(self.views(flat)[name])
        if flat.device.type == "cuda":
            mark().synchronize()  # a copy that has to wait for the device would block other threads
        return out.cpu()

    def first_weights(self, members: Sequence[Member], device: torch.device, dtype: torch.dtype) -> Tensor:
        """Return the initial weights (M, P) of each model: those it starts from, or drawn from its own seed.

        Gates are always open at first.
        """
        flat = torch.zeros(len(members), self.n_flat, dtype=dtype, device=device)
        views, seeds = self.views(flat), counter_random.seed_array([member.seed for member in members])
        for position, name in enumerate(self.sizes):
            view, how, n = views[name], self.shape.initializers()[name], math.prod(self.sizes[name])
            keys = torch.from_numpy(counter_random.keys(seeds, counter_random.INITIAL_WEIGHTS, position)).to(device)
            if how.kind == "normal":
                scales = [how.scale] * len(members)
                if name == "embed_frequency":
                    scales = [member.frequency_scale or how.scale for member in members]
                drawn = counter_random.normal(keys, n)
                view.copy_(drawn.mul_(drawn.new_tensor(scales).unsqueeze(1)).view(view.shape))
            elif how.kind == "uniform":
                numbers = counter_random.uniform(keys, n).mul_(2 * how.scale).sub_(how.scale)
                view.copy_(numbers.view(view.shape))
            else:
                view.fill_(how.scale)
        for model, member in enumerate(members):
            for name, value in (member.start or {}).items():
                views[name][model].copy_(value)
        self.shape.zero_unused_(views)
        if self.gates:
            flat[:, self.gate_places] = INITIAL_LOG_ALPHA
        return flat

    def check_start(self, start: Mapping[str, Tensor]) -> None:
        """Raise ValueError unless `start` has exactly the parameters of the shape, with the right sizes."""
        missing, unknown = sorted(set(self.sizes) - set(start)), sorted(set(start) - set(self.sizes))
        if missing or unknown:
            found = [f"{what} {names}" for what, names in (("lacks", missing), ("has unknown", unknown)) if names]
            raise ValueError(
                f"start {' and '.join(found)}; expected the parameters {sorted(self.sizes)} of the shape, e.g. the "
                "`parameters` of a TrainedModel of the same shape"
            )
        for name, size in self.sizes.items():
            if tuple(start[name].shape) != size:
                raise ValueError(
                    f"start[{name!r}] has shape {tuple(start[name].shape)}; expected {size}: start from a model of the "
                    "same shape"
                )
