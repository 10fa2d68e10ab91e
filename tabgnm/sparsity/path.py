"""Training of a path from a dense network to smaller ones: penalties of several strengths, pruning and fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tabgnm._printable import shown
from tabgnm.nn import GNM
from tabgnm.nn.activations import get_activation
from tabgnm.nn.conversions import live_edges
from tabgnm.nn.losses import Loss
from tabgnm.nn.message_passing import forward
from tabgnm.nn.shapes import GNMShape
from tabgnm.sparsity.negligible import without_negligible
from tabgnm.training import Fleet, FleetSettings, Member, ProgressBar, Table, TrainedModel
from tabgnm.training.interruption import ctrl_c_raises
from tabgnm.training.progress import ProgressLine

PENALTIES = ("l1", "group", "elastic", "l0")
# A step of proximal Adam changes a weight by about the learning rate, so with these penalties, between hardly any and
# all edges are removed.
_STRENGTHS = tuple(0.02 * 150 ** (i / 7) for i in range(8))
_L0_SCALE = 0.01  # the l0 penalty with about the same effect as an l1 penalty of 1
_ELASTIC_L2 = 0.02
BUDGETS = (5, 8, 12, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000)
_ROWS_FOR_IMPORTANCE = 2048
_SMALLEST_BATCH, _LARGEST_BATCH = 32, 128
N_STEPS = 3000
_SHARE_FROM_LARGER = 0.5  # fraction of N_STEPS for a network that starts from a slightly larger trained one

Parameters = dict[str, Tensor]


@dataclass(frozen=True)
class PathSettings:
    """Settings for training a path.

    Attributes
    ----------
    n_hidden, n_layers : int
        The size of the dense network that the path starts from.
    activation : str
    penalty : {"l1", "group", "elastic", "l0"}
    budgets : tuple of int
        The maximum numbers of edges, including biases.
    n_steps : int or None
        The number of steps of training with a penalty, and also of fine-tuning; if None, `N_STEPS`.
    learning_rate : float
    device : str
    n_threads : int or None
    """

    n_hidden: int = 32
    n_layers: int = 3
    activation: str = "relu"
    penalty: str = "l1"
    budgets: tuple[int, ...] = BUDGETS
    n_steps: int | None = None
    learning_rate: float = 0.01
    device: str = "cpu"
    n_threads: int | None = None

    def __post_init__(self) -> None:
        get_activation(self.activation)
        if self.penalty not in PENALTIES:
            raise ValueError(
                f"penalty={shown(self.penalty)} is not known; use one of {', '.join(map(repr, PENALTIES))}"
            )

    def shape(self, n_inputs: int, n_outputs: int) -> GNMShape:
        """Return the shape of all networks of the path."""
        return GNMShape(
            n_inputs,
            n_outputs,
            n_nodes=n_inputs + n_outputs + 1 + self.n_hidden,
            n_layers=self.n_layers,
            activation=self.activation,
            init="kaiming",
            clamp_inputs=True,
        )


@dataclass(frozen=True, eq=False)
class PathPoint:
    """Networks with the same maximum number of edges, one for each set of training rows.

    Attributes
    ----------
    budget : int or None
        None for the dense networks.
    networks : list of GNM
        In the order of the sets of rows.
    """

    budget: int | None
    networks: list[GNM]


def learn_path(
    table: Table,
    loss: Loss,
    n_outputs: int,
    row_sets: Sequence[Tensor],
    groups: Sequence[int],
    settings: PathSettings,
    *,
    seed: int = 0,
    sample_weight: Tensor | None = None,
    progress: ProgressLine | None = None,
) -> list[PathPoint]:
    """Train networks with decreasing numbers of edges on each set of rows.

    Parameters
    ----------
    table : Table
        Inputs and targets.
    loss : Loss
    n_outputs : int
    row_sets : sequence of Tensor
        The sets of rows to train on: the training rows of folds, or all rows.
    groups : sequence of int
        The raw column of each input, starting at 0. The penalty "group" keeps or removes all inputs of a column.
    settings : PathSettings
    seed : int, default=0
    sample_weight : Tensor or None, default=None
        One per row of the table.
    progress : ProgressLine or None, default=None
        A line that is already shown, for the number of trained networks and the time left.

    Returns
    -------
    list of PathPoint
        The dense networks first, then in order of decreasing budget.
    """
    shape = settings.shape(table.x.shape[1], n_outputs)
    max_epochs, batch_size = _epochs_and_batch_size(max(map(len, row_sets)), settings.n_steps or N_STEPS)
    fleet = FleetSettings(
        loss=loss,
        max_epochs=max_epochs,
        batch_size=batch_size,
        optimizer="proximal_adam",
        schedule="cosine",
        warmup=0.05,
        device=settings.device,
        n_threads=settings.n_threads,
        input_groups=tuple(groups) if settings.penalty == "group" else None,
    )
    common: dict[str, Any] = {"learning_rate": settings.learning_rate, "sample_weight": sample_weight}
    free = _unpenalized(shape)
    with_penalty = [
        Member(train=rows, seed=seed + number, l1_factors=free, **_penalties(settings.penalty, strength), **common)
        for number, rows in enumerate(row_sets)
        for strength in _STRENGTHS
    ]
    dense = [Member(train=rows, seed=seed + number, **common) for number, rows in enumerate(row_sets)]
    most = shape.n_effective_parameters()
    budgets = sorted({budget for budget in settings.budgets if budget < most}, reverse=True)
    callbacks = [] if progress is None else [ProgressBar(line=progress)]
    if progress is not None:
        n_whole = len(with_penalty) + len(dense) + len(budgets) * len(row_sets)
        n_shorter = max(0, len(budgets) - 1) * len(row_sets)
        n_epochs = n_whole * fleet.max_epochs + n_shorter * _epochs_from_larger(fleet)
        progress.expect(n_whole + n_shorter, n_epochs)

    def trained_with(members: Sequence[Member], how: FleetSettings) -> list[TrainedModel]:
        with ctrl_c_raises():
            return Fleet(shape, members, how).fit(table, callbacks=callbacks).models

    if settings.penalty == "l0":  # either all models of a fleet have gates or none
        trained = trained_with(with_penalty, fleet) + trained_with(dense, fleet)
    else:
        trained = trained_with([*with_penalty, *dense], fleet)
    n = len(_STRENGTHS)
    paths = [[model.parameters for model in trained[number * n : (number + 1) * n]] for number in range(len(row_sets))]
    least_size = _least_size(table.y, n_outputs)

    def network(parameters: Parameters, number: int) -> GNM:
        """Return a network without the weights that are negligible on its set of training rows."""
        return _network(shape, without_negligible(shape, parameters, table.x[row_sets[number]], least_size))

    dense_models = trained[len(with_penalty) :]
    points = [PathPoint(None, [network(model.parameters, number) for number, model in enumerate(dense_models)])]

    def tuned(starts: Sequence[Parameters], numbers: Sequence[int], max_epochs: int) -> list[GNM]:
        """Fine-tune pruned networks on the sets of rows with these numbers; zeros remain zeros."""
        members = [
            Member(
                train=row_sets[number],
                seed=seed + 1000 + number,
                start=start,
                l1_factors=_fixed_zeros(start),
                **common,
            )
            for number, start in zip(numbers, starts, strict=True)
        ]
        found = trained_with(members, replace(fleet, max_epochs=max_epochs))
        return [network(model.parameters, number) for number, model in zip(numbers, found, strict=True)]

    if not budgets:  # the dense network is smaller than all budgets, such as a linear function of few columns
        return points
    numbers = range(len(row_sets))
    # For each budget, keep the better of two networks: one pruned from the sparsest penalized network with enough
    # edges, and one pruned from the network of the next larger budget.
    at_once = tuned(
        [_pruned(shape, paths[number], budget, table, row_sets[number]) for budget in budgets for number in numbers],
        list(numbers) * len(budgets),
        fleet.max_epochs,
    )
    larger: list[GNM] | None = None
    for place, budget in enumerate(budgets):
        networks = at_once[place * len(row_sets) : (place + 1) * len(row_sets)]
        if larger is not None:
            starts = [
                _pruned(shape, [larger[number].state_dict()], budget, table, row_sets[number]) for number in numbers
            ]
            networks = [
                min(pair, key=lambda network: training_loss(network, loss, table, row_sets[number], sample_weight))
                for number, pair in enumerate(
                    zip(networks, tuned(starts, numbers, _epochs_from_larger(fleet)), strict=True)
                )
            ]
        points.append(PathPoint(budget, networks))
        larger = networks
    return points


def _epochs_and_batch_size(n_rows: int, n_steps: int) -> tuple[int, int]:
    """Return the number of epochs for at most `n_steps` steps (at least one epoch), and the batch size."""
    batch_size = min(_LARGEST_BATCH, max(_SMALLEST_BATCH, n_rows // 30))
    steps_per_epoch = -(-n_rows // batch_size)  # the last batch may be smaller
    return max(1, n_steps // steps_per_epoch), batch_size


def _epochs_from_larger(fleet: FleetSettings) -> int:
    return max(1, round(_SHARE_FROM_LARGER * fleet.max_epochs))


def _least_size(y: Tensor, n_outputs: int) -> Tensor:
    """Return the minimum size of outputs for `without_negligible`: that of the targets, but at most 1."""
    largest = y.abs().amax(dim=0).clamp(max=1).to(torch.float64)
    return largest if largest.shape == (n_outputs,) else largest.max()


def training_loss(network: GNM, loss: Loss, table: Table, rows: Tensor, sample_weight: Tensor | None) -> float:
    """Return the mean loss over the rows that the network was trained on."""
    with torch.inference_mode():
        losses = loss.per_row(network(table.x[rows]), table.y[rows])
        weights = torch.ones_like(losses) if sample_weight is None else sample_weight[rows].to(losses)
        return float((losses * weights).sum() / weights.sum())


def _penalties(penalty: str, strength: float) -> dict[str, Any]:
    if penalty == "l0":
        return {"l0": _L0_SCALE * strength}
    if penalty == "group":
        return {"l1": strength / 2, "group_l1": strength / 2}
    return {"l1": strength} | ({"l2": _ELASTIC_L2 * strength} if penalty == "elastic" else {})


def _unpenalized(shape: GNMShape) -> Parameters:
    """Return factors that exclude the biases of outputs from penalties, because every machine needs them."""
    name = f"bias_{shape.n_layers}"
    return {name: torch.zeros(shape.parameter_shapes()[name])}


def _fixed_zeros(parameters: Parameters) -> Parameters:
    return {name: torch.where(value == 0, torch.inf, 0.0) for name, value in parameters.items()}


def _network(shape: GNMShape, parameters: Mapping[str, Tensor]) -> GNM:
    network = GNM(**shape.settings(), dtype=next(iter(parameters.values())).dtype)
    with torch.no_grad():
        for name, value in parameters.items():
            getattr(network, name).copy_(value)
    return network


def _n_live(network: GNM) -> int:
    return int(live_edges(network, network.adjacency()).sum())


def _pruned(
    shape: GNMShape, path: Sequence[Mapping[str, Tensor]], budget: int, table: Table, rows: Tensor
) -> Parameters:
    """Prune the sparsest network of a path with at least `budget` edges to this number of edges."""
    networks = [_network(shape, parameters) for parameters in path]
    counts = [_n_live(network) for network in networks]
    enough = [i for i, count in enumerate(counts) if count >= budget]
    chosen = min(enough, key=lambda i: (counts[i], -i)) if enough else max(range(len(counts)), key=counts.__getitem__)
    parameters = dict(path[chosen])
    if counts[chosen] <= budget:
        return parameters
    importance = _importance(shape, parameters, table.x[rows[:_ROWS_FOR_IMPORTANCE]])
    ranked = torch.cat([own.flatten() for own in importance.values()]).sort(descending=True).values
    ranked = ranked[ranked > 0]
    # Pruning an edge may make others dead. Keep as many edges as possible with at most `budget` live ones.
    low, high, best = min(budget, len(ranked)), len(ranked), None
    while low <= high:
        middle = (low + high) // 2
        least = ranked[middle - 1]
        kept = {name: torch.where(importance[name] >= least, value, 0) for name, value in parameters.items()}
        if _n_live(_network(shape, kept)) <= budget:
            best, low = kept, middle + 1
        else:
            high = middle - 1
    if best is None:
        least = ranked[min(budget, len(ranked)) - 1]
        best = {name: torch.where(importance[name] >= least, value, 0) for name, value in parameters.items()}
    return best


def _importance(shape: GNMShape, parameters: Parameters, x: Tensor) -> Parameters:
    """Return the root mean square of the contribution of each edge to its target over some rows."""
    importance = {}
    with torch.inference_mode():
        trace = forward(shape, parameters, x.to(next(iter(parameters.values())).dtype), keep=True)
        for number, (layer, (weight, bias)) in enumerate(zip(trace.layers, shape.layer_names, strict=True), start=1):
            size = torch.cat(list(layer.sources), dim=-1).square().mean(dim=0).sqrt()
            importance[weight] = parameters[weight].abs() * size.unsqueeze(1)
            importance[bias] = parameters[bias].abs()
            if number == shape.n_layers:
                importance[bias] = torch.where(parameters[bias] != 0, torch.inf, 0.0)
    return importance
