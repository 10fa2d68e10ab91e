"""The four estimators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tabgnm.estimators.classifier import TabularClassifier
from tabgnm.estimators.paper_settings import PAPER_CLASSIFIER, PAPER_GNM, PAPER_MLP, PAPER_REGRESSOR
from tabgnm.estimators.parameters import GNMParameters, MLPParameters, with_parameter_docs
from tabgnm.estimators.regressor import TabularRegressor


@with_parameter_docs
@dataclass(eq=False, repr=False, kw_only=True)
class GNMClassifier(GNMParameters, TabularClassifier):
    """Graph Neural Machine classifier (Nikolentzos et al., 2024).

    Accepts tables with numbers, categories, dates and missing values. Trains several settings on several folds, all
    together, and keeps a weighted choice of them.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : array of shape (classes,)
        Labels in the order of the columns of `predict_proba`.
    columns_ : table
        Kind and encoding of each column.
    history_ : list of dict
        Losses and accuracy of each epoch, per network.
    pack_ : DataFrame
        The candidates: weight, out-of-fold loss, epochs, seconds, settings.
    oof_prediction_, oof_score_, oof_scores_
        Predictions of the training rows by networks that were not trained on them, and their scores.
    feature_importances_ : array of shape (columns,)
    n_features_in_ : int
    feature_names_in_ : array of str
        Defined only if the table had names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tabgnm import GNMClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = GNMClassifier(n_candidates=2, n_folds=3, max_epochs=20, random_state=0).fit(X, y)
    >>> clf.score(X, y) > 0.9
    True
    """

    @classmethod
    def _paper_setting(cls) -> Mapping[str, Any]:
        return PAPER_GNM | PAPER_CLASSIFIER


@with_parameter_docs
@dataclass(eq=False, repr=False, kw_only=True)
class GNMRegressor(GNMParameters, TabularRegressor):
    """Graph Neural Machine regressor (Nikolentzos et al., 2024).

    Accepts tables with numbers, categories, dates and missing values. Trains several settings on several folds, all
    together, and keeps a weighted choice of them.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    columns_ : table
        Kind and encoding of each column.
    history_ : list of dict
        Losses and R² of each epoch, per network.
    pack_ : DataFrame
        The candidates: weight, out-of-fold loss, epochs, seconds, settings.
    oof_prediction_, oof_score_, oof_scores_
        Predictions of the training rows by networks that were not trained on them, and their scores.
    feature_importances_ : array of shape (columns,)
    n_features_in_ : int
    feature_names_in_ : array of str
        Defined only if the table had names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from tabgnm import GNMRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = GNMRegressor(n_candidates=2, n_folds=3, max_epochs=20, random_state=0).fit(X, y)
    >>> mean, std = model.predict(X, return_std=True)
    >>> model.score(X, y) > 0.4
    True
    """

    @classmethod
    def _paper_setting(cls) -> Mapping[str, Any]:
        return PAPER_GNM | PAPER_REGRESSOR


@with_parameter_docs
@dataclass(eq=False, repr=False, kw_only=True)
class MLPClassifier(MLPParameters, TabularClassifier):
    """Multi-layer perceptron classifier, trained in the same way as `GNMClassifier`.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : array of shape (classes,)
        Labels in the order of the columns of `predict_proba`.
    columns_ : table
        Kind and encoding of each column.
    history_ : list of dict
        Losses and accuracy of each epoch, per network.
    pack_ : DataFrame
        The candidates: weight, out-of-fold loss, epochs, seconds, settings.
    oof_prediction_, oof_score_, oof_scores_
        Predictions of the training rows by networks that were not trained on them, and their scores.
    feature_importances_ : array of shape (columns,)
    n_features_in_ : int
    feature_names_in_ : array of str
        Defined only if the table had names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tabgnm import MLPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier(n_candidates=2, n_folds=3, max_epochs=20, random_state=0).fit(X, y)
    >>> clf.predict_proba(X).shape
    (150, 3)
    """

    @classmethod
    def _paper_setting(cls) -> Mapping[str, Any]:
        return PAPER_MLP | PAPER_CLASSIFIER


@with_parameter_docs
@dataclass(eq=False, repr=False, kw_only=True)
class MLPRegressor(MLPParameters, TabularRegressor):
    """Multi-layer perceptron regressor, trained in the same way as `GNMRegressor`.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    columns_ : table
        Kind and encoding of each column.
    history_ : list of dict
        Losses and R² of each epoch, per network.
    pack_ : DataFrame
        The candidates: weight, out-of-fold loss, epochs, seconds, settings.
    oof_prediction_, oof_score_, oof_scores_
        Predictions of the training rows by networks that were not trained on them, and their scores.
    feature_importances_ : array of shape (columns,)
    n_features_in_ : int
    feature_names_in_ : array of str
        Defined only if the table had names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from tabgnm import MLPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> MLPRegressor(n_candidates=2, n_folds=3, max_epochs=20, random_state=0).fit(X, y).predict(X[:3]).shape
    (3,)
    """

    @classmethod
    def _paper_setting(cls) -> Mapping[str, Any]:
        return PAPER_MLP | PAPER_REGRESSOR
