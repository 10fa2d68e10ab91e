"""Plots of machines, of training, and of what models have learned and predict, drawn with matplotlib."""

from tabgnm.plots.calibration import plot_calibration
from tabgnm.plots.decision_boundary import plot_decision_boundary
from tabgnm.plots.effects import plot_effects
from tabgnm.plots.explanation import plot_explanation
from tabgnm.plots.graph import plot_graph
from tabgnm.plots.history import plot_history
from tabgnm.plots.importance import plot_importance
from tabgnm.plots.pack import plot_pack
from tabgnm.plots.sparsity_path import plot_sparsity_path

__all__ = [
    "plot_calibration",
    "plot_decision_boundary",
    "plot_effects",
    "plot_explanation",
    "plot_graph",
    "plot_history",
    "plot_importance",
    "plot_pack",
    "plot_sparsity_path",
]
