"""A model class for AutoGluon and TabArena: Graph Neural Machines beside AutoGluon's own models.

Nothing else in the package imports this module, so only those who use it need AutoGluon.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

from tabgnm._extras import import_extra
from tabgnm.estimators import GNMClassifier, GNMRegressor

_AbstractModel: Any = import_extra("autogluon.core.models", "autogluon", "the AutoGluon model class").AbstractModel

__all__ = ["TabGNMModel"]

_CLASSIFICATION = ("binary", "multiclass")
# What Python, AutoGluon and torch take before a fit. AutoGluon expects it in estimates, as folds may be processes.
_PROCESS_BYTES = 400 * 2**20


class TabGNMModel(_AbstractModel):  # type: ignore[misc] # untyped
    """`GNMClassifier` and `GNMRegressor` as a model of AutoGluon.

    Hyperparameters are the parameters of these estimators. AutoGluon sets `time_limit`, `n_jobs`, `device`, `verbose`
    and `random_state`. If hyperparameters name one of them too, they take precedence; of two time limits, the shorter
    one applies.

    The estimator makes its own folds of the training rows, in `refit_full` too. It does not use the validation rows of
    AutoGluon, whose scores would be too good if networks and candidates were chosen on them.
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
            self.params_trained["time_limit"] = limit  # for `refit_full`, to which AutoGluon passes none
        self.model.fit(X, y, sample_weight=sample_weight)

    def _estimate_memory_usage(self, X: Any, y: Any, num_cpus: int = 1, num_gpus: float = 0, **_: Any) -> int:
        # X comes before `preprocess`. With tuning data, AutoGluon adds a column named None to it, for absent weights.
        X = X.loc[:, [name is not None for name in X.columns]]
        return _PROCESS_BYTES + self._estimator(num_cpus, num_gpus).estimate_memory(X, y).training.bytes

    def _estimator(self, num_cpus: int, num_gpus: float, verbosity: int = 0) -> GNMClassifier | GNMRegressor:
        """Return an estimator that is not fitted yet."""
        parameters = {
            "n_jobs": num_cpus,
            # "cuda" is all GPUs that the process sees, which need not be this model's.
            "device": "cpu" if not num_gpus else "cuda:0" if num_gpus <= 1 else "cuda",
            "verbose": int(verbosity > 2),  # AutoGluon logs training iterations from 3 on
            **self._get_model_params(),
        }
        if self.problem_type in _CLASSIFICATION:
            return GNMClassifier(**parameters)
        if self.problem_type == "quantile":
            parameters |= {"loss": "quantile", "quantile": list(self.quantile_levels)}
        return GNMRegressor(**parameters)

    def _more_tags(self) -> dict[str, bool]:
        return {"can_refit_full": True}
