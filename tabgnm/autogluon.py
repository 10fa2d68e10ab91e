"""A model class for AutoGluon and TabArena, which trains Graph Neural Machines like AutoGluon's own models.

No other module of the package imports this one, so AutoGluon is needed only by those who use it.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

from tabgnm._extras import import_extra
from tabgnm.estimators import GNMClassifier, GNMRegressor

_AbstractModel: Any = import_extra("autogluon.core.models", "autogluon", "the AutoGluon model class").AbstractModel

__all__ = ["TabGNMModel"]

_CLASSIFICATION = ("binary", "multiclass")
# Memory of Python, AutoGluon and torch before a fit. AutoGluon expects estimates to include it, because each fold may
# run in a process of its own.
_PROCESS_BYTES = 400 * 2**20


class TabGNMModel(_AbstractModel):  # type: ignore[misc] # untyped
    """`GNMClassifier` and `GNMRegressor` as a model class of AutoGluon.

    The hyperparameters are the parameters of these estimators. AutoGluon sets `time_limit`, `n_jobs`, `device`,
    `verbose` and `random_state`; hyperparameters with these names take precedence, except that the shorter of two time
    limits applies.

    The estimator splits the training rows into its own folds, also in `refit_full`. It does not use AutoGluon's
    validation rows: their scores would be too optimistic if networks and candidates were selected on them.
    """

    ag_key = "TABGNM"
    ag_name = "TabGNM"
    seed_name = "random_state"
    default_num_gpus = 1
    _supported_problem_types: ClassVar[list[str]] = [*_CLASSIFICATION, "regression", "quantile"]
    _default_auxiliary_params_extra: ClassVar[dict[str, Any]] = {
        "valid_raw_types": ["bool", "int", "float", "category"]  # AutoGluon turns dates and texts into these
    }

    def _fit(
        self,
        X: Any,
        y: Any,
        time_limit: float | None = None,
        sample_weight: Any = None,
        num_cpus: int = 1,
        num_gpus: float = 0,
        verbosity: int = 2,
        **_: Any,
    ) -> None:
        began = time.monotonic()
        X = self.preprocess(X, y=y, is_train=True)
        self.model = self._estimator(num_cpus, num_gpus, verbosity)
        if time_limit is not None:
            left = time_limit - (time.monotonic() - began)
            own = self.model.time_limit
            limit = float(left if own is None else min(left, own))
            self.model.set_params(time_limit=limit)
            self.params_trained["time_limit"] = limit  # for `refit_full`, to which AutoGluon passes no time limit
        self.model.fit(X, y, sample_weight=sample_weight)

    def _estimate_memory_usage(self, X: Any, y: Any, num_cpus: int = 1, num_gpus: float = 0, **_: Any) -> int:
        # X is not preprocessed yet. With tuning data but no weights, AutoGluon adds a column named None to it.
        X = X.loc[:, [name is not None for name in X.columns]]
        return _PROCESS_BYTES + self._estimator(num_cpus, num_gpus).estimate_memory(X, y).training.bytes

    def _estimator(self, num_cpus: int, num_gpus: float, verbosity: int = 0) -> GNMClassifier | GNMRegressor:
        """Return an estimator that is not fitted yet."""
        parameters = {
            "n_jobs": num_cpus,
            # "cuda" is all GPUs that the process sees, which need not be this model's.
            "device": "cpu" if not num_gpus else "cuda:0" if num_gpus <= 1 else "cuda",
            "verbose": int(verbosity > 2),  # AutoGluon logs training iterations at verbosity 3 and above
            **self._get_model_params(),
        }
        if self.problem_type in _CLASSIFICATION:
            return GNMClassifier(**parameters)
        if self.problem_type == "quantile":
            parameters |= {"loss": "quantile", "quantile": list(self.quantile_levels)}
        return GNMRegressor(**parameters)

    def _more_tags(self) -> dict[str, bool]:
        return {"can_refit_full": True}
