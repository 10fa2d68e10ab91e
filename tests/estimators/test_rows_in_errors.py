"""An error names the row of the table that was passed, whichever members, folds or blocks look at it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from tabgnm import FleetSearchCV, MLPClassifier

N_ROWS = 120
BAD_ROW = 50
X = np.random.default_rng(0).normal(size=(N_ROWS, 3))
Y = (X[:, 0] > 0).astype(int)
BAD = X.copy()
BAD[BAD_ROW, 1] = np.inf


def model(**changed: Any) -> MLPClassifier:
    return MLPClassifier(
        **({"hidden": (4,), "n_candidates": 1, "n_folds": 1, "max_epochs": 2, "random_state": 0} | changed)
    )


@pytest.mark.parametrize("seed", range(3))
def test_fit_names_the_row_whoever_trains_on_it(seed: int) -> None:
    with pytest.raises(ValueError, match=f"has inf in row {BAD_ROW};"):
        model(random_state=seed).fit(BAD, Y)


def test_rows_without_weight_count_as_well() -> None:
    weights = np.arange(N_ROWS) % 5 != 1
    with pytest.raises(ValueError, match=f"has inf in row {BAD_ROW};"):
        model().fit(BAD, Y, sample_weight=weights)


def test_a_cell_that_is_no_number_is_named_by_its_row() -> None:
    cells = [f"{number}" for number in X[:, 0]]
    cells[55:] = ["zz"] * len(cells[55:])  # a few would be missing values
    with pytest.raises(ValueError, match="has 'zz' in row 55,"):
        model(column_kinds={"a": "number"}).fit(pd.DataFrame({"a": cells}), Y)


def test_predict_names_the_row_not_its_place_in_a_block() -> None:
    fitted = model().fit(X, Y)
    many = np.zeros((40_000, 3))
    many[30_000, 1] = np.inf
    with pytest.raises(ValueError, match="has inf in row 30000;"):
        fitted.predict(many)


@pytest.mark.parametrize("cv", [KFold(3), ShuffleSplit(2, random_state=0), "masks"], ids=str)
def test_a_search_names_the_row_not_its_place_in_a_fold(cv: Any) -> None:
    if cv == "masks":
        cv = [(np.arange(N_ROWS) >= 40, np.arange(N_ROWS) < 40)]
    for table in (BAD, pd.DataFrame(BAD, columns=["a", "b", "c"]), BAD.tolist()):
        search = FleetSearchCV(model(), {"learning_rate": [0.01]}, cv=cv, error_score="raise")
        with pytest.raises(ValueError, match=f"has inf in row {BAD_ROW};"):
            search.fit(table, Y)


def test_steps_of_a_pipeline_see_a_fold_as_it_is() -> None:
    """What they make of it may be any table, so rows are those of the fold, as in GridSearchCV."""
    pipeline = make_pipeline(FunctionTransformer(), model())
    search = FleetSearchCV(pipeline, {"mlpclassifier__learning_rate": [0.01]}, cv=KFold(3), error_score="raise")
    with pytest.raises(ValueError, match=f"has inf in row {BAD_ROW - 40};"):
        search.fit(BAD, Y)
