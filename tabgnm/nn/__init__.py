"""Pure PyTorch: graphs, GNM, MLP, embeddings, asynchronous message passing, conversions, regularizers, losses."""

from tabgnm.nn.activations import activation_names
from tabgnm.nn.async_mlp import AsyncMLP
from tabgnm.nn.conversions import Edge, NotMultipartite
from tabgnm.nn.embedded_network import EmbeddedNetwork
from tabgnm.nn.embeddings import InputEmbedding
from tabgnm.nn.gnm import GNM
from tabgnm.nn.graphs import gnm_graph, in_neighbors, mlp_graph, out_neighbors
from tabgnm.nn.layout import NodeLayout
from tabgnm.nn.losses import (
    AbsoluteError,
    BinaryCrossEntropy,
    CrossEntropy,
    Gamma,
    Huber,
    JointCrossEntropy,
    Loss,
    LossWithMetric,
    Pinball,
    Poisson,
    Quantiles,
    SquaredError,
    Tweedie,
    binary_cross_entropy,
    cross_entropy,
    loss_by_name,
    loss_names,
    mean_squared_error,
)
from tabgnm.nn.mlp import MLP
from tabgnm.nn.node_names import NodeNames
from tabgnm.nn.regularizers import elastic_penalty, expected_l0, l1_penalty, l2_penalty
from tabgnm.nn.shapes import EmbeddedShape, GNMShape, MLPShape

__all__ = [
    "GNM",
    "MLP",
    "AbsoluteError",
    "AsyncMLP",
    "BinaryCrossEntropy",
    "CrossEntropy",
    "Edge",
    "EmbeddedNetwork",
    "EmbeddedShape",
    "GNMShape",
    "Gamma",
    "Huber",
    "InputEmbedding",
    "JointCrossEntropy",
    "Loss",
    "LossWithMetric",
    "MLPShape",
    "NodeLayout",
    "NodeNames",
    "NotMultipartite",
    "Pinball",
    "Poisson",
    "Quantiles",
    "SquaredError",
    "Tweedie",
    "activation_names",
    "binary_cross_entropy",
    "cross_entropy",
    "elastic_penalty",
    "expected_l0",
    "gnm_graph",
    "in_neighbors",
    "l1_penalty",
    "l2_penalty",
    "loss_by_name",
    "loss_names",
    "mean_squared_error",
    "mlp_graph",
    "out_neighbors",
]
