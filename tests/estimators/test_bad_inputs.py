"""Every row of the table of bad and odd inputs has the documented outcome."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from tests.bad_inputs import ROWS, Error, Row
from tests.estimators.examples import mlp, mlpr


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_bad_or_odd_input_has_the_documented_error_or_result(row: Row) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "no column can be used")
        if not isinstance(row.out, Error):
            row.out(row.do())
            return
        with pytest.raises(row.out.kind) as caught:
            row.do()
    message = str(caught.value)
    assert isinstance(caught.value, ValueError | TypeError | AttributeError), caught.value
    missing = [piece for piece in row.out.pieces if piece not in message]
    assert not missing, f"{missing} is not in: {message}"


def test_every_row_has_a_name_of_its_own() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names)) >= 80


def test_errors_name_the_cause_and_a_remedy_that_works() -> None:
    y = pd.Series(["1,234.5", "7.25"] * 20)
    X = np.arange(40.0)[:, None]
    with pytest.raises(ValueError, match=r"with y\.astype\(float\), after y\.str\.replace\(',', ''\)"):
        mlpr().fit(X, y)
    mlpr().fit(X, y.str.replace(",", "").astype(float))
    with pytest.raises(ValueError, match=r"class_weight=\{'a': 2, 'b': 1\} does not match the labels"):
        mlp(class_weight={"a": 2, "b": 1}).fit(X, [0, 1] * 20)
    y = [0, 1] * 20
    for estimator in (LogisticRegression(), mlp()):  # labels that do not occur are ignored if all others have a weight
        estimator.set_params(class_weight={0: 1, 1: 2, 7: 3}).fit(X, y)
        with pytest.raises(ValueError, match=r"The classes, \[(np\.int64\()?1\)?\], are not in class_weight"):
            estimator.set_params(class_weight={0: 1, 7: 3}).fit(X, y)
    with pytest.warns(UserWarning, match="no column can be used"):
        single = mlpr().fit(X[:1], [1.0])
    with pytest.raises(ValueError, match=r"call fit with n_folds>=1 and at least 2 rows"):
        single.predict_interval(X)
