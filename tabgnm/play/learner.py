"""One machine that learns, an epoch at a time, while its learning rate and its penalty change."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tabgnm.nn import GNM, BinaryCrossEntropy, CrossEntropy
from tabgnm.play.points import Points
from tabgnm.sparsity import Machine, simplified, unrolled

_BATCH = 32


class Diverged(ArithmeticError):
    """The weights are no longer finite numbers."""


@dataclass(frozen=True)
class Scores:
    """Loss and accuracy on the points learned from and on those held out."""

    train_loss: float
    test_loss: float
    train_accuracy: float
    test_accuracy: float


class Learner:
    """A GNM on the points of the plane, trained by Adam with soft thresholds.

    The rule is that of `optimizer="proximal_adam"` of `tabgnm.training`: a step of Adam, then all weights move towards
    0 by learning rate times penalty, and stop there. A fleet runs to its end with the rates it began with; here both
    change at any time, hence a loop of its own.

    Parameters
    ----------
    points : Points
    n_nodes, n_layers : int
        As in `tabgnm.nn.GNM`. There is always a hidden node, even if `n_nodes` is too small for the outputs.
    seed : int
        Of the first weights and of the order of the points.
    """

    def __init__(self, points: Points, n_nodes: int, n_layers: int, seed: int) -> None:
        n_classes = len(points.class_names)
        n_outputs = 1 if n_classes == 2 else n_classes
        self.points = points
        self.epoch = 0
        self._generator = torch.Generator().manual_seed(seed)
        # "paper" draws weights so small that the first hundred epochs of a deep machine show nothing.
        self.network = GNM(
            2, n_outputs, max(n_nodes, n_outputs + 4), n_layers, init="kaiming", generator=self._generator
        )
        self._optimizer = torch.optim.Adam(self.network.parameters())
        self._loss = BinaryCrossEntropy() if n_outputs == 1 else CrossEntropy()
        self._rows = torch.as_tensor(points.rows)
        labels = torch.as_tensor(points.labels)
        self._targets = labels[:, None].float() if n_outputs == 1 else labels

    @property
    def n_possible_edges(self) -> int:
        """Edges that an output can depend on, before any is pruned; those from the bias node are counted."""
        return self.network.n_effective_parameters()

    def train_epoch(self, learning_rate: float, penalty: float) -> None:
        """Learn from all training points once; raise `Diverged` if weights are no longer finite."""
        self._optimizer.param_groups[0]["lr"] = learning_rate
        threshold = learning_rate * penalty
        order = torch.randperm(self.points.n_train, generator=self._generator)
        for batch in torch.split(order, _BATCH):
            self._optimizer.zero_grad()
            loss = self._loss.per_row(self.network(self._rows[batch]), self._targets[batch]).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            if threshold:
                with torch.no_grad():
                    for weight in self.network.parameters():
                        weight.sub_(weight.clamp(-threshold, threshold))
        if not all(bool(weight.isfinite().all()) for weight in self.network.parameters()):
            raise Diverged
        self.epoch += 1

    def scores(self) -> Scores:
        """Return loss and accuracy of the current weights."""
        n = self.points.n_train
        with torch.no_grad():
            outputs = self.network(self._rows)
            is_right = self._loss.metric_per_row(outputs, self._targets)
            losses = self._loss.per_row(outputs, self._targets)
        means = [float(part.mean()) for part in (losses[:n], losses[n:], is_right[:n], is_right[n:])]
        return Scores(means[0], means[1], means[2], means[3])

    def machine(self) -> Machine:
        """Return the machine as it is drawn and counted: without edges of weight 0 and without what is not needed.

        Inputs are "x1" and "x2" and outputs "y1", "y2", ..., whatever the columns are called: so that a unit has the
        same name in every frame, and no column has the name of a hidden node.
        """
        outputs = [f"y{i + 1}" for i in range(self.network.shape.n_outputs)]
        return simplified(unrolled(self.network, ["x1", "x2"], outputs))
