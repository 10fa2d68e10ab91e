"""``tabgnm demo``: a GNM and an MLP of the same size on two small data sets that need no download."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from tabgnm.nn import GNM, MLP, cross_entropy

BATCH_SIZE = 64
LEARNING_RATE = 0.005
N_NODES = 32


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
    """A trained network and how it did on a problem."""

    problem: Problem
    model: str
    size: str
    net: GNM | MLP
    losses: list[float]
    accuracy: float
    seconds: float


def run_demo(console: Console, *, output: Path, seed: int, epochs: int) -> None:
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
    with one_thread():
        # The first steps in a process are slow; this keeps them out of the first network's time.
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
                    progress.update(bar, description=f"{model} on {problem.name}")
                    results.append(evaluate(model, problem, seed, epochs, after_epoch=lambda: progress.advance(bar)))
    console.print(comparison_table(results, epochs))
    draw_picture(results, output)
    console.print(f"Picture: {output}", highlight=False, soft_wrap=True)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread: in networks this small, several wait for each other, most on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
    """Build, train and test one network.

    Parameters
    ----------
    model : {"GNM", "MLP"}
        The kind of network. The MLP has one hidden unit for every node of the GNM but the bias, which gives
        both the same number of weights that matter.
    problem : Problem
        The data.
    seed : int
        Seed of the weights and the batches.
    epochs : int
        Passes over the training rows.
    after_epoch : callable
        Called without arguments after each of them.

    Returns
    -------
    Result
        The trained network, its loss per epoch, its held-out accuracy and the time that training took.
    """
    n_inputs, n_classes = problem.X_train.shape[1], 2
    with torch.random.fork_rng(devices=[]):  # leaves the caller's random numbers alone
        torch.manual_seed(seed)
        net: GNM | MLP
        if model == "GNM":
            n_nodes = N_NODES + n_inputs
            net, size = GNM(n_inputs, n_classes, n_nodes=n_nodes, n_layers=2), f"{n_nodes} nodes"
        else:
            hidden = N_NODES + n_inputs - 1
            net, size = MLP(n_inputs, n_classes, hidden=(hidden,)), f"{hidden} hidden"
        started = time.perf_counter()
        losses = train(net, problem.X_train, problem.y_train, epochs, after_epoch)
        seconds = time.perf_counter() - started
    with torch.no_grad():
        correct = net(problem.X_test).argmax(dim=1) == problem.y_test
    return Result(problem, model, size, net, losses, float(correct.float().mean()), seconds)


def train(
    net: torch.nn.Module, X: torch.Tensor, y: torch.Tensor, epochs: int, after_epoch: Callable[[], None]
) -> list[float]:
    """Minimise the cross-entropy with Adam on shuffled mini-batches; leave the network in evaluation mode.

    Returns
    -------
    list of float
        The mean training loss of each epoch.
    """
    optimiser = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
    losses = []
    net.train()
    for _ in range(epochs):
        total = 0.0
        for rows in torch.split(torch.randperm(len(X)), BATCH_SIZE):
            loss = cross_entropy(net(X[rows]), y[rows])
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            total += loss.item() * len(rows)
        losses.append(total / len(X))
        after_epoch()
    net.eval()
    return losses


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
        caption="Parameters: as the paper counts them. Effective: those that can matter.\n"
        f"Accuracy: on the held-out quarter of the rows; one seed, {epochs} epochs.",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("Data set", no_wrap=True)
    table.add_column("Model")
    for heading in ("Size", "Parameters", "Effective", "Accuracy", "Time"):
        table.add_column(heading, justify="right")
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
            f"{result.accuracy:.1%}",
            f"{result.seconds:.1f} s",
        )
        shown = result.problem.name
    return table
