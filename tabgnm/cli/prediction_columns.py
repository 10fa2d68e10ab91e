"""Predictions of a model as columns of a table; their names are known before the first row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tabgnm.cli.score_tables import is_classification
from tabgnm.cli.terminal import UnusableModel, UsageProblem
from tabgnm.estimators.class_targets import ClassTargets

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

    from tabgnm.estimators.base import TabularEstimator

OUT_OF_RANGE = "out_of_range"

# Columns side by side: their names, and a function from a frame of inputs to arrays, one for each of them.
_Block = tuple[list[str], Callable[[Any], list[Any]]]


class PredictionColumns:
    """What `tabgnm predict` writes for each row.

    Parameters
    ----------
    model : fitted estimator
    probabilities : bool
        Write the probability of each class beside the label.
    coverage : float or None
        Write the ends of an interval with this probability of containing the target.
    out_of_range : bool
        Write whether any cell of the row lies outside of what was seen in training.
    keep : list of str
        Columns of the input to begin with.

    Attributes
    ----------
    names : list of str
        Of the columns that are written.
    """

    def __init__(
        self,
        model: TabularEstimator,
        *,
        probabilities: bool,
        coverage: float | None,
        out_of_range: bool,
        keep: list[str],
    ) -> None:
        if probabilities and not is_classification(model):
            raise UsageProblem("--proba requires a classifier; this model is a regressor: use --interval")
        if coverage is not None and is_classification(model):
            raise UsageProblem("--interval requires a regressor; this model is a classifier: use --proba")
        self._keep = keep
        self._blocks: list[_Block] = []
        if is_classification(model):
            self._blocks.append(_labels(model))
            if probabilities:
                self._blocks.append(_probabilities(model))
        else:
            self._blocks.append(_numbers(model))
            if coverage is not None:
                self._blocks.append(_interval(model, coverage))
        if out_of_range:
            self._blocks.append(([OUT_OF_RANGE], lambda X: [np.asarray(model.out_of_range(X)).any(axis=1)]))
        self.names = [*keep, *(name for names, _ in self._blocks for name in names)]
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise UsageProblem(
                f"--keep {twice[0]}: the output already has a column of that name; rename it in the table"
            )

    def of(self, frame: pd.DataFrame, inputs: list[str]) -> pd.DataFrame:
        """Return the columns for the rows of a frame, in their order."""
        import pandas as pd

        X = frame[inputs]
        made = [array for _, values in self._blocks for array in values(X)]
        kept = [frame[name].to_numpy() for name in self._keep]
        return pd.DataFrame(dict(zip(self.names, [*kept, *made], strict=True)), columns=self.names)


def _several(first: str, model: Any, n: int) -> list[str]:
    """Return a name for each of n targets: with that of the target if the model knows it, or else its number."""
    return [first] if n == 1 else [f"{first}_{name}" for name in _names(model, n)]


def _names(model: Any, n: int) -> list[str]:
    names: list[str] = model._target_names()
    return names if len(names) == n else [str(place) for place in range(n)]


def _columns_of(values: Any) -> list[Any]:
    array = np.asarray(values)
    return [array] if array.ndim == 1 else list(array.T)


def _labels(model: Any) -> _Block:
    targets = model.fitted_.targets
    return _several("prediction", model, len(targets.classes)), lambda X: _columns_of(model.predict(X))


def _probabilities(model: Any) -> _Block:
    targets: ClassTargets = model.fitted_.targets
    if targets.kind == "multilabel":
        names = [f"probability_{name}" for name in _names(model, len(targets.classes))]
        return names, lambda X: _columns_of(model.predict_proba(X))
    if targets.kind == "joint":
        known = zip(_names(model, len(targets.classes)), targets.classes, strict=True)
        pairs = [(number, name, own) for number, (name, labels) in enumerate(known, 1) for own in labels]
        names = [f"probability_{name}_{own}" for _, name, own in pairs]
        if len(set(names)) < len(names):  # as for the targets a and a_b with the labels b_c and c
            names = [f"probability_{number}_{name}_{own}" for number, name, own in pairs]
        return names, lambda X: [column for part in model.predict_proba(X) for column in part.T]
    names = [f"probability_{label}" for label in targets.classes[0].tolist()]
    return names, lambda X: _columns_of(model.predict_proba(X))


def _numbers(model: Any) -> _Block:
    targets = model.fitted_.targets
    if targets.quantiles is not None:
        names = [f"quantile_{level:g}" for level in targets.quantiles]
    else:
        names = _several("prediction", model, targets.n_targets)
    return names, lambda X: _columns_of(model.predict(X))


def _interval(model: Any, coverage: float) -> _Block:
    if model.fitted_.targets.quantiles is not None or not model.fitted_.residuals:
        raise UnusableModel(
            "--interval requires a regressor that was validated on folds and does not predict quantiles; small "
            "machines are not validated: use the model from which they were distilled"
        )
    n_targets = model.fitted_.targets.n_targets
    ends = list(zip(_several("lower", model, n_targets), _several("upper", model, n_targets), strict=True))

    def values(X: Any) -> list[Any]:
        intervals = model.predict_interval(X, coverage).reshape(len(X), n_targets, 2)
        return [intervals[:, place, end] for place in range(n_targets) for end in range(2)]

    return [name for pair in ends for name in pair], values
