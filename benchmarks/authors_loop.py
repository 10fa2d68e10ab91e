"""Training as in the code of the paper's authors: full n x n matrices, a DataLoader, autograd, one model at a time."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.synthetic import Rows
from benchmarks.timing import EpochTime, seconds


class AuthorsGNM(nn.Module):
    """A GNM with all K n n weights, including dead ones; `adjacency[k, v, u]` is the weight of edge u -> v.

    Shape
    -----
    - input: (B, m)
    - output: (B, c)
    """

    def __init__(self, n_inputs: int, n_outputs: int, n_nodes: int, n_layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.n_outputs = n_outputs
        self.n_others = n_nodes - n_inputs
        self.adjacency = nn.Parameter(torch.empty(n_layers, n_nodes, n_nodes))
        nn.init.kaiming_normal_(self.adjacency)
        is_bias = torch.arange(n_nodes) == n_nodes - n_outputs - 1
        self.register_buffer("is_bias", is_bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        states = torch.cat([x, x.new_zeros(len(x), self.n_others)], dim=1)  # (B, n)
        states = states.masked_fill(self.is_bias, 1.0)
        last = len(self.adjacency) - 1
        for layer, matrix in enumerate(self.adjacency):
            states = states @ matrix.T
            if layer < last:
                states = self.dropout(torch.relu(states))
            states = states.masked_fill(self.is_bias, 1.0)
        return states[:, -self.n_outputs :]


def authors_mlp(widths: Sequence[int], dropout: float = 0.0) -> nn.Sequential:
    """Stack linear layers with these widths, with ReLU and dropout after all layers except the last."""
    layers: list[nn.Module] = []
    for sources, targets in itertools.pairwise(widths):
        layers += [nn.Linear(sources, targets), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers[:-2])


def seconds_per_epoch(model: nn.Module, data: Rows, epochs: int, device: str, batch_size: int = 64) -> EpochTime:
    """Train `model` and return the median time of an epoch, including validation, after a first epoch as warm-up."""
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()
    train = DataLoader(TensorDataset(data.x[data.train], data.y[data.train]), batch_size=batch_size, shuffle=True)
    val = DataLoader(TensorDataset(data.x[data.val], data.y[data.val]), batch_size=batch_size)

    def epoch() -> tuple[float, float]:
        model.train()
        train_loss = 0.0
        for x, y in train:
            optimizer.zero_grad()
            loss = loss_of(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            train_loss += loss.item() * len(x)
        model.eval()
        val_loss = 0.0
        with torch.no_grad():
            for x, y in val:
                val_loss += loss_of(model(x.to(device)), y.to(device)).item() * len(x)
        return train_loss / len(data.train), val_loss / len(data.val)

    epoch()
    return EpochTime(statistics.median(seconds(epoch, device) for _ in range(epochs)))
