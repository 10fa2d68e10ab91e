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

Start = Mapping[str, Tensor]  # parameters by name, as `TrainedModel.parameters`


class FlatLayout:
    """Where each parameter stands in a row: edges, then what variants add, embeddings, the gates of the l0 penalty.

    Parameters
    ----------
    shape : Shape
    gates : bool, default=False
        Whether every edge has a gate.
    align : int, default=1
        All sides of the body's matrices, and the rows, are rounded up to a multiple of this: kernels of a GPU read
        several numbers at once, but only where everything is so aligned. What is added is 0 and stays 0.
    """

    def __init__(self, shape: Shape, *, gates: bool = False, align: int = 1) -> None:
        self.shape = shape
        self.gates = gates
        self.sizes = shape.parameter_shapes()
        edges = shape.edge_parameters()
        # Embeddings meet no kernel that asks for aligned sides, and are short enough for zeros to outnumber them.
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
        self.n_body = self.offsets[next(iter(unpadded))] if unpadded else end  # embeddings stand behind these
        self.gate_places = slice(end, end + (self.n_edges if gates else 0))
        self.n_flat = -(-self.gate_places.stop // align) * align

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Parameters by name as views of `flat`: (M, ...) for (M, P), without M for (P,)."""
        views = self.padded_views(flat)
        for name, size in self.sizes.items():
            for dim, side in enumerate(reversed(size), start=1):
                views[name] = views[name].narrow(-dim, 0, side)
        return views

    def padded_views(self, flat: Tensor) -> dict[str, Tensor]:
        """As `views`, with what was added to align them."""
        views = {}
        for name, padded in self._padded.items():
            offset = self.offsets[name]
            views[name] = flat[..., offset : offset + math.prod(padded)].view(*flat.shape[:-1], *padded)
        return views

    def compact(self, flat: Tensor) -> Tensor:
        """Return the weights (M, P) on the CPU in the layout without gates and without gaps."""
        plain = FlatLayout(self.shape)
        out = flat.new_empty(len(flat), plain.n_weights)
        for name, view in plain.views(out).items():
            view.copy_(self.views(flat)[name])
        if flat.device.type == "cuda":
            mark().synchronize()  # a copy that has to wait for the device would keep other threads from it meanwhile
        return out.cpu()

    def first_weights(
        self,
        seeds: list[int],
        device: torch.device,
        dtype: torch.dtype,
        starts: Sequence[Start | None] = (),
        frequency_scales: Sequence[float | None] = (),
    ) -> Tensor:
        """Draw the first weights of every model from its own seed, or take those it starts from: (M, P).

        `frequency_scales` are those of models that differ from the shape. Gates are open to begin with either way.
        """
        flat = torch.zeros(len(seeds), self.n_flat, dtype=dtype, device=device)
        views, own_seeds = self.views(flat), counter_random.seed_array(seeds)
        for position, name in enumerate(self.sizes):
            view, how, n = views[name], self.shape.draws()[name], math.prod(self.sizes[name])
            keys = torch.from_numpy(counter_random.keys(own_seeds, counter_random.INITIAL_WEIGHTS, position)).to(device)
            if how.kind == "normal":
                scales = [how.scale] * len(seeds)
                if name == "embed_frequency":
                    scales = [how.scale if scale is None else scale for scale in frequency_scales] or scales
                drawn = counter_random.normal(keys, n, device)
                view.copy_(drawn.mul_(drawn.new_tensor(scales).unsqueeze(1)).view(view.shape))
            elif how.kind == "uniform":
                numbers = counter_random.uniform(keys, n, device).mul_(2 * how.scale).sub_(how.scale)
                view.copy_(numbers.view(view.shape))
            else:
                view.fill_(how.scale)
        for model, start in enumerate(starts):
            for name, value in (start or {}).items():
                views[name][model].copy_(value)
        self.shape.clear_dead_(views)
        if self.gates:
            flat[:, self.gate_places] = INITIAL_LOG_ALPHA
        return flat

    def check_start(self, start: Start) -> None:
        """Raise ValueError unless `start` has every parameter in its shape, and nothing else."""
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

    def rate_factors(self, factors: dict[str, float], device: torch.device, dtype: torch.dtype) -> Tensor | None:
        """Learning-rate factor of every place in a row, or None if all are 1."""
        if not factors:
            return None
        table = torch.ones(self.n_flat, dtype=dtype, device=device)
        used = set()
        for name, view in self.views(table).items():
            fitting = [start for start in factors if name.startswith(start)]
            if fitting:
                start = max(fitting, key=len)
                used.add(start)
                view.fill_(factors[start])
        if self.gates:  # a gate moves as fast as its edge
            table[self.gate_places] = table[: self.n_edges]
        if set(factors) - used:
            unknown = sorted(set(factors) - used)
            raise ValueError(f"rate_factors name {unknown}, but the parameters are {sorted(self.sizes)}")
        return table
