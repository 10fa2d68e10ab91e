"""The picture of the scores of machines of all sizes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from tabgnm import GNMRegressor
from tabgnm.plots import plot_sparsity_path


def fitted(judged_by: str = "target") -> GNMRegressor:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    model = GNMRegressor(n_candidates=1, n_folds=0, max_epochs=1, random_state=0).fit(X, X[:, 0])
    path = pd.DataFrame(
        {
            "edges": [1000, 100, 20, 5],
            "score": [0.9, 0.91, 0.9, 0.5],
            "score_std": [0.01, 0.02, 0.03, 0.04],
            "chosen": [False, False, True, False],
            "judged_by": judged_by,
        }
    )
    model._path = path.to_dict("records")
    return model


def test_scores_are_drawn_with_their_deviations_against_edges_on_a_logarithmic_axis() -> None:
    ax = Figure().subplots()
    assert plot_sparsity_path(fitted(), ax) is ax
    assert ax.get_xscale() == "log"
    x, y = ax.lines[0].get_data()
    assert list(x) == [5, 20, 100, 1000] and list(y) == [0.5, 0.9, 0.91, 0.9]
    [bars] = [own for own in ax.collections if len(own.get_segments()) == 4]
    assert np.allclose([np.ptp(segment[:, 1]) for segment in bars.get_segments()], [0.08, 0.06, 0.04, 0.02])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("edges", "R²")


def test_the_chosen_size_is_marked() -> None:
    ax = Figure().subplots()
    plot_sparsity_path(fitted(), ax)
    [label] = [text.get_text() for text in ax.get_legend().get_texts()]
    assert label == "chosen: 20 edges, R² 0.900 ± 0.030"


def test_scores_against_predictions_of_the_model_are_labelled_as_such() -> None:
    ax = plot_sparsity_path(fitted("model"), Figure().subplots())
    assert ax.get_ylabel() == "R² against the model's predictions"
    assert ax.get_legend().get_texts()[0].get_text() == "chosen: 20 edges, R² 0.900 ± 0.030"


@pytest.mark.parametrize("judged_by", ["target", "model"])
def test_the_legend_is_above_the_axes_and_within_the_figure(judged_by: str) -> None:
    ax = plot_sparsity_path(fitted(judged_by))
    ax.figure.canvas.draw()
    legend, axes = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert legend.y0 >= axes.y1 - 1 and legend.y1 <= ax.figure.bbox.y1
    assert ax.figure.bbox.x0 <= legend.x0 and legend.x1 <= ax.figure.bbox.x1


def test_an_estimator_without_a_path_is_refused() -> None:
    with pytest.raises(
        ValueError, match="has no sparsity_path_; expected an estimator returned by distill or fit_sparse"
    ):
        plot_sparsity_path(GNMRegressor())
