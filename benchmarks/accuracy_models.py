"""The models that `python -m benchmarks accuracy` compares; their packages are imported when they are built.

No model is tuned. Boosted trees other than scikit-learn's use a tenth of the training rows for early stopping, and
always run on the CPU.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

EARLY_STOPPING_ROUNDS = 50
VALIDATION_FRACTION = 0.1


@dataclass(frozen=True)
class ModelSettings:
    """The settings of a model; `quick` makes it so small that it only checks whether the model runs."""

    task: str
    seed: int
    device: str = "cpu"
    quick: bool = False

    @property
    def classifies(self) -> bool:
        return self.task == "classification"


class EarlyStopped:
    """Boosted trees with early stopping on a random part of the training rows.

    The libraries reject validation rows with a class that is not in the other training rows, so these are left out.
    """

    def __init__(self, model: Any, settings: ModelSettings, **fit_options: Any) -> None:
        self.model, self.settings, self.fit_options = model, settings, fit_options

    def fit(self, x: pd.DataFrame, y: Any) -> EarlyStopped:
        x_train, x_validation, y_train, y_validation = train_test_split(
            self.prepare(x), y, test_size=VALIDATION_FRACTION, random_state=self.settings.seed
        )
        if self.settings.classifies:
            self.classes_, y_train = np.unique(y_train, return_inverse=True)
            known = np.isin(y_validation, self.classes_)
            x_validation, y_validation = x_validation[known], np.searchsorted(self.classes_, y_validation[known])
        self.model.fit(x_train, y_train, eval_set=[(x_validation, y_validation)], **self.fit_options)
        return self

    def prepare(self, x: pd.DataFrame) -> pd.DataFrame:
        return x

    def predict(self, x: pd.DataFrame) -> Any:
        predicted = self.model.predict(self.prepare(x))
        return self.classes_[predicted.ravel().astype(int)] if self.settings.classifies else predicted

    def predict_proba(self, x: pd.DataFrame) -> Any:
        return self.model.predict_proba(self.prepare(x))


def _tabgnm(settings: ModelSettings, effort: str) -> Any:
    from tabgnm import GNMClassifier, GNMRegressor

    make: Any = GNMClassifier if settings.classifies else GNMRegressor
    quick = {"max_epochs": 2, "n_candidates": 1, "n_folds": 2} if settings.quick else {}
    return make(effort=effort, random_state=settings.seed, device=settings.device, **quick)


def _lightgbm(settings: ModelSettings) -> Any:
    import lightgbm

    make = lightgbm.LGBMClassifier if settings.classifies else lightgbm.LGBMRegressor
    rounds = 5 if settings.quick else 2000
    model = make(learning_rate=0.05, n_estimators=rounds, random_state=settings.seed, verbose=-1)
    stop = lightgbm.early_stopping(EARLY_STOPPING_ROUNDS, verbose=False)
    return EarlyStopped(model, settings, callbacks=[stop])


def _xgboost(settings: ModelSettings) -> Any:
    import xgboost

    make = xgboost.XGBClassifier if settings.classifies else xgboost.XGBRegressor
    model = make(
        learning_rate=0.05,
        n_estimators=5 if settings.quick else 2000,
        early_stopping_rounds=EARLY_STOPPING_ROUNDS,
        enable_categorical=True,
        random_state=settings.seed,
    )
    return EarlyStopped(model, settings, verbose=False)


def _catboost(settings: ModelSettings) -> Any:
    import catboost

    class WithTextCategories(EarlyStopped):
        """CatBoost requires categories as text, without missing ones."""

        def fit(self, x: pd.DataFrame, y: Any) -> EarlyStopped:
            self.fit_options["cat_features"] = list(x.select_dtypes("category"))
            return super().fit(x, y)

        def prepare(self, x: pd.DataFrame) -> pd.DataFrame:
            columns = self.fit_options["cat_features"]
            return x.astype(dict.fromkeys(columns, object)).fillna(dict.fromkeys(columns, ""))

    make = catboost.CatBoostClassifier if settings.classifies else catboost.CatBoostRegressor
    rounds = 5 if settings.quick else 1000
    model = make(iterations=rounds, random_seed=settings.seed, allow_writing_files=False, verbose=False)
    return WithTextCategories(model, settings, early_stopping_rounds=EARLY_STOPPING_ROUNDS)


def _pytabkit(settings: ModelSettings, name: str) -> Any:
    import pytabkit

    for logger in ("pytorch_lightning", "lightning.pytorch", "lightning"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    make = getattr(pytabkit, f"{name}_{'Classifier' if settings.classifies else 'Regressor'}")
    quick = {"n_epochs": 2} if settings.quick else {}
    median = SimpleImputer(strategy="median", keep_empty_features=True)
    prepare = make_column_transformer(
        (median, make_column_selector(dtype_include="number")),
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    return make_pipeline(prepare, make(device=settings.device, random_state=settings.seed, **quick))


def _sklearn_mlp(settings: ModelSettings) -> Any:
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    prepare = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), make_column_selector(dtype_exclude="number")),
        remainder=SimpleImputer(strategy="median"),
    )
    make: Any = MLPClassifier if settings.classifies else MLPRegressor
    quick = {"max_iter": 2} if settings.quick else {}
    network = make(hidden_layer_sizes=(128, 128), early_stopping=True, random_state=settings.seed, **quick)
    if not settings.classifies:
        network = TransformedTargetRegressor(network, transformer=StandardScaler())
    return make_pipeline(prepare, StandardScaler(), network)


def _hist_gradient_boosting(settings: ModelSettings) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    make: Any = HistGradientBoostingClassifier if settings.classifies else HistGradientBoostingRegressor
    model = make(random_state=settings.seed, **({"max_iter": 2} if settings.quick else {}))
    # This model rejects columns without any values.
    not_empty = make_column_transformer(
        ("passthrough", lambda x: list(x.columns[x.notna().any()])), verbose_feature_names_out=False
    ).set_output(transform="pandas")
    return make_pipeline(not_empty, model)


OURS: dict[str, Callable[[ModelSettings], Any]] = {
    "tabgnm_fast": lambda settings: _tabgnm(settings, "fast"),
    "tabgnm": lambda settings: _tabgnm(settings, "default"),
    "tabgnm_best": lambda settings: _tabgnm(settings, "best"),
}
PEERS: dict[str, Callable[[ModelSettings], Any]] = {
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "catboost": _catboost,
    "realmlp": lambda settings: _pytabkit(settings, "RealMLP_TD"),
    "tabm": lambda settings: _pytabkit(settings, "TabM_D"),
    "sklearn_mlp": _sklearn_mlp,
    "hist_gradient_boosting": _hist_gradient_boosting,
}
MODELS = OURS | PEERS
PACKAGES = {name: name for name in ("lightgbm", "xgboost", "catboost")} | {"realmlp": "pytabkit", "tabm": "pytabkit"}


def is_installed(model: str) -> bool:
    """Whether the package of the model can be imported."""
    return model not in PACKAGES or importlib.util.find_spec(PACKAGES[model]) is not None
