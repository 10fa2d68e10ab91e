"""Predict a number, an interval around it, and its quantiles.

Run it with ``python examples/regression_intervals.py``.
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from tabgnm import GNMRegressor

# 442 patients; the target is the progression of a disease after one year.
X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = GNMRegressor(effort="fast", random_state=0).fit(X_train, y_train)
print(f"R² on new rows: {model.score(X_test, y_test):.2f}")

# An interval for each row. It is computed from the errors on rows that the networks were not
# trained on (CV+), so its coverage does not depend on a model of the noise.
for coverage in (0.5, 0.8, 0.9):
    low, high = model.predict_interval(X_test, coverage=coverage).T
    inside = np.mean((low <= y_test) & (y_test <= high))
    print(f"{coverage:.0%} intervals contain {inside:.0%} of the new targets; mean width {np.mean(high - low):.0f}")

# How much the networks disagree about a row. This is not an interval: it is small where all
# networks make the same error.
mean, std = model.predict(X_test, return_std=True)
print(f"standard deviation over the networks: {std.min():.0f} to {std.max():.0f}")

# Quantiles can be learned directly. The distance between them depends on the row, while CV+
# intervals have nearly the same width for all rows.
quantiles = GNMRegressor(effort="fast", loss="quantile", quantile=[0.1, 0.5, 0.9], random_state=0)
low, median, high = quantiles.fit(X_train, y_train).predict(X_test).T
width = high - low
inside = np.mean((low <= y_test) & (y_test <= high))
print(f"80 % quantile range contains {inside:.0%}; widths from {width.min():.0f} to {width.max():.0f}")

# None of these estimates is valid for rows outside the range of the training data.
# out_of_range marks such cells.
far = X_test.head(2).copy()
far.loc[far.index[0], "bmi"] = 80.0
print(model.out_of_range(far)[["age", "bmi"]])
