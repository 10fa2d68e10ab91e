"""SHAP calls estimators, and draws their explanations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from tests.estimators.examples import frame, mlp, mlpr, numbers

shap = pytest.importorskip("shap", reason="SHAP is not installed: pip install shap")

X, LABELS, TARGET = numbers(60)


@pytest.fixture(autouse=True)
def _no_window() -> Iterator[None]:
    from matplotlib import pyplot

    with mpl.rc_context({"backend": "agg"}):
        yield
        pyplot.close("all")


@pytest.mark.parametrize("make", [np.asarray, lambda table: pd.DataFrame(table, columns=list("abcd"))])
def test_shap_explains_predict_proba_of_arrays_and_frames(make: Any) -> None:
    table = make(X)
    model = mlp().fit(table, LABELS)
    found = shap.Explainer(model.predict_proba, table[:20])(table[:5])
    assert found.values.shape == (5, 4, 2)
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), model.predict_proba(table[:5]), atol=1e-6)


def test_shap_explains_predict_of_a_regressor() -> None:
    model = mlpr().fit(X, TARGET)
    found = shap.Explainer(model.predict, X[:20])(X[:5])
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), model.predict(X[:5]), rtol=1e-5)


def converted(model: Any, table: Any) -> Any:
    e = model.explain(table[:10], table[20:])
    return shap.Explanation(e.values, e.base_values, e.data, feature_names=e.feature_names)


def drawn(plot: Any, explanation: Any) -> Any:
    from matplotlib import pyplot

    plot(explanation, show=False)
    figure = pyplot.gcf()
    figure.canvas.draw()
    return figure


@pytest.mark.parametrize("plot", ["waterfall", "beeswarm", "bar"])
@pytest.mark.parametrize("kind", ["mixed columns", "two classes", "three classes"])
def test_plots_of_shap_accept_an_explanation(kind: str, plot: str) -> None:
    table = frame(60) if kind == "mixed columns" else X
    if kind == "mixed columns":
        explanation = converted(mlpr().fit(table, TARGET), table)
    elif kind == "two classes":
        explanation = converted(mlp().fit(table, LABELS), table)
    else:
        explanation = converted(mlp().fit(table, np.digitize(TARGET, [40, 60])), table)[:, :, 1]
    figure = drawn(getattr(shap.plots, plot), explanation[0] if plot == "waterfall" else explanation)
    labels = [label.get_text() for ax in figure.axes for label in ax.get_yticklabels()]
    names = list(table.columns) if kind == "mixed columns" else ["x0", "x1", "x2", "x3"]
    assert all(any(name in label for label in labels) for name in names)
