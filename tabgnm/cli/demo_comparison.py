"""``tabgnm demo --compare``: a GNM and an MLP of the same size on two small data sets that need no download."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from tabgnm.cli.demo_picture import draw_picture, require_matplotlib
from tabgnm.nn import GNMShape, MLPShape
from tabgnm.nn.losses import CrossEntropy
from tabgnm.nn.network import Network
from tabgnm.training import Callback, EpochReport, Fleet, FleetSettings, Member
from tabgnm.training import Table as TrainingTable
from tabgnm.training.interruption import ctrl_c_raises

BATCH_SIZE = 64
LEARNING_RATE = 0.005
N_NODES = 32
N_SEEDS = 20


@dataclass(frozen=True)
class Problem:
    """A two-class data set: standardised rows, split into a training and a held-out part."""

    name: str
    X_train: torch.Tensor
    y_train: torch.Tensor
    X_test: torch.Tensor
    y_test: torch.Tensor


@dataclass(frozen=True)
class Result:
    """A fleet of networks of one kind: the first of them, all losses and held-out accuracies."""

    problem: Problem
    model: str
    size: str
    net: Network
    losses: list[list[float]]
    accuracies: list[float]
    seconds: float


def run_comparison(console: Console, *, output: Path, seed: int, epochs: int) -> None:
    """Train, print the comparison and write the picture.

    Parameters
    ----------
    console : rich.console.Console
        Where the progress bar and the table go; the bar shows only on a terminal.
    output : pathlib.Path
        The PNG file to write.
    seed : int
        Seed of the data, the weights and the batches.
    epochs : int
        Passes over the training rows, for every network.
    """
    require_matplotlib()  # before the training, not after it
    problems = load_problems(seed)
    # The first steps in a process are slow; this keeps them out of the first fleet's time.
    evaluate("MLP", problems[0], seed, epochs=1, after_epoch=lambda: None)
    results = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=2 * len(problems) * epochs)
        for problem in problems:
            for model in ("GNM", "MLP"):
                progress.update(bar, description=f"{N_SEEDS} x {model} on {problem.name}")
                results.append(evaluate(model, problem, seed, epochs, after_epoch=lambda: progress.advance(bar)))
    console.print(comparison_table(results, epochs))
    draw_picture(results, output)
    console.print(f"Picture: {output}", highlight=False, soft_wrap=True)


def load_problems(seed: int) -> list[Problem]:
    """Return the demo's data sets, a quarter of each held out.

    Parameters
    ----------
    seed : int
        Seed of the moons and of both splits.

    Returns
    -------
    list of Problem
        The moons, which have two features and can be drawn, and breast cancer, a real table with thirty.
    """
    moons = make_moons(n_samples=1000, noise=0.2, random_state=seed)
    cancer = load_breast_cancer(return_X_y=True)
    return [split_and_scale(name, X, y, seed) for name, (X, y) in (("Moons", moons), ("Breast cancer", cancer))]


def split_and_scale(name: str, X: np.ndarray, y: np.ndarray, seed: int) -> Problem:
    """Hold out a quarter of the rows and standardise all by the mean and spread of the others."""
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, stratify=y, random_state=seed)
    scaler = StandardScaler().fit(X_train)
    return Problem(
        name,
        torch.as_tensor(scaler.transform(X_train), dtype=torch.float32),
        torch.as_tensor(y_train, dtype=torch.int64),
        torch.as_tensor(scaler.transform(X_test), dtype=torch.float32),
        torch.as_tensor(y_test, dtype=torch.int64),
    )


def evaluate(model: str, problem: Problem, seed: int, epochs: int, after_epoch: Callable[[], None]) -> Result:
    """Train a fleet of one kind of network, a seed each, and test it.

    Parameters
    ----------
    model : {"GNM", "MLP"}
        The kind of network. The MLP has one hidden unit for every node of the GNM but the bias, which gives
        both the same number of weights that matter.
    problem : Problem
        The data.
    seed : int
        Seed of the first network's weights and batches; the others count on from it.
    epochs : int
        Passes over the training rows.
    after_epoch : callable
        Called without arguments after each of them.

    Returns
    -------
    Result
        The networks' losses, their held-out accuracies and the time that training all of them took.
    """
    n_inputs, n_classes = problem.X_train.shape[1], 2
    shape: GNMShape | MLPShape
    if model == "GNM":
        n_nodes = N_NODES + n_inputs
        shape, size = GNMShape(n_inputs, n_classes, n_nodes=n_nodes, n_layers=2), f"{n_nodes} nodes"
    else:
        hidden = N_NODES + n_inputs - 1
        shape, size = MLPShape(n_inputs, n_classes, hidden=(hidden,)), f"{hidden} hidden"
    settings = FleetSettings(loss=CrossEntropy(), max_epochs=epochs, batch_size=BATCH_SIZE)
    members = [Member(seed=seed + i, learning_rate=LEARNING_RATE) for i in range(N_SEEDS)]
    started = time.perf_counter()
    fleet = Fleet(shape, members, settings)
    with ctrl_c_raises():
        result = fleet.fit(TrainingTable(problem.X_train, problem.y_train), callbacks=[_EveryEpoch(after_epoch)])
    seconds = time.perf_counter() - started
    correct = result.predict(problem.X_test).argmax(dim=2) == problem.y_test
    losses = [trained.history.train_loss for trained in result.models]
    return Result(
        problem, model, size, result.models[0].network(), losses, correct.float().mean(dim=1).tolist(), seconds
    )


class _EveryEpoch(Callback):
    """Moves the demo's own progress bar."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action

    def on_epoch_end(self, report: EpochReport) -> None:  # noqa: ARG002 - the hook's signature
        """Pass it on."""
        self._action()


def comparison_table(results: list[Result], epochs: int) -> Table:
    """Lay the results out as a table.

    Parameters
    ----------
    results : list of Result
        In the order of the rows; a rule separates the data sets.
    epochs : int
        For the caption.

    Returns
    -------
    rich.table.Table
        The table, ready to print.
    """
    table = Table(
        title="A Graph Neural Machine and an MLP of the same size",
        caption="Parameters: as the paper counts them. Effective: those that can change a prediction.\n"
        f"Accuracy: on the held-out quarter of the rows, mean and standard deviation over {N_SEEDS} seeds.\n"
        f"Time: all {N_SEEDS} networks together, {epochs} epochs each.",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("Data set", no_wrap=True)
    table.add_column("Model")
    for heading in ("Size", "Parameters", "Effective", "Accuracy", "Time"):
        table.add_column(heading, justify="right", no_wrap=True)
    shown = None
    for result in results:
        if result.problem.name != shown:
            table.add_section()
        table.add_row(
            result.problem.name if result.problem.name != shown else "",
            result.model,
            result.size,
            f"{result.net.n_parameters():,}",
            f"{result.net.n_effective_parameters():,}",
            f"{np.mean(result.accuracies):.1%} ± {100 * np.std(result.accuracies):.1f}",
            f"{result.seconds:.1f} s",
        )
        shown = result.problem.name
    return table
