"""Fit a table with missing values and categories, inspect the model, and save it.

Run it with ``python examples/first_table.py``.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from tabgnm import GNMClassifier, load

# A table of customers. Replace it with your own, for instance pd.read_csv("customers.csv").
rng = np.random.default_rng(0)
n = 600
customers = pd.DataFrame(
    {
        "age": rng.integers(18, 90, n).astype(float),
        "plan": rng.choice(["basic", "plus", "pro"], n, p=[0.6, 0.3, 0.1]),
        "city": rng.choice(["Athens", "Bergen", "Lyon", "Uppsala"], n),
        "since": pd.Timestamp("2018-01-01") + pd.to_timedelta(rng.integers(0, 2500, n), unit="D"),
        "calls": rng.poisson(2, n),
    }
)
risk = 1.2 * customers["calls"] - 0.05 * customers["age"] - 2 * (customers["plan"] == "pro")
left = np.where(risk + rng.normal(0, 0.7, n) > 0, "left", "stayed")

# Real tables have missing values. None, NaN, NaT and pandas.NA all count as missing.
customers.loc[rng.random(n) < 0.1, "age"] = np.nan
customers.loc[rng.random(n) < 0.1, "city"] = None

# No scaling, one-hot encoding or imputation is needed. Labels may be strings.
X_train, X_test, y_train, y_test = train_test_split(customers, left, random_state=0)
clf = GNMClassifier(effort="fast", random_state=0).fit(X_train, y_train)
print(f"accuracy on new rows: {clf.score(X_test, y_test):.3f}")

# How each column was interpreted. column_kinds={"calls": "category"} would override one of them.
print(clf.columns_)

# Every training row is also predicted by networks that were not trained on it, so a first
# estimate of the accuracy needs no test set.
print(f"accuracy on left-out training rows: {clf.oof_score_:.3f}")

# Which columns matter: the drop in accuracy when the values of one column are shuffled.
importance = clf.permutation_importance(X_test, y_test, n_repeats=5, random_state=0)
for name, drop in sorted(zip(X_test.columns, importance.importances_mean, strict=True), key=lambda item: -item[1]):
    print(f"{name:6} {drop:+.3f}")

# New rows may have unknown categories, missing values, and columns in another order.
new = pd.DataFrame(
    {"city": ["Oslo", None], "plan": ["pro", "basic"], "age": [np.nan, 22.0], "calls": [0, 7], "since": [pd.NaT] * 2}
)
probabilities = pd.DataFrame(clf.predict_proba(new), columns=clf.classes_).round(3)
print(probabilities)

# A saved model is a small file without training rows, and loading it runs no code.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "customers.tabgnm"
    clf.save(path)
    same = load(path)
    assert (same.predict_proba(new) == clf.predict_proba(new)).all()
    print(f"saved in {path.stat().st_size / 1000:.0f} kB")
