"""Pictures of machines and of their sparsity path, drawn with matplotlib."""

from tabgnm.plots.graph import plot_graph
from tabgnm.plots.sparsity_path import plot_sparsity_path

__all__ = ["plot_graph", "plot_sparsity_path"]
