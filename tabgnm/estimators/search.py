"""Hyper-parameter search with cross-validation that trains all candidates and folds as fleets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from traceback import format_exc
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid, ParameterSampler, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import _insert_error_scores, _score, _warn_or_raise_about_fit_failures
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params

from tabgnm._printable import shown
from tabgnm.estimators.base import TabularEstimator
from tabgnm.estimators.fitting import EncodedTables, PreparedFit
from tabgnm.estimators.pack import TrainedPack, jobs_of
from tabgnm.estimators.pipeline_steps import fit_first_steps, split_params
from tabgnm.estimators.search_parameters import check_search, grids
from tabgnm.table import RawTable, read_table
from tabgnm.table.advice import warned_once
from tabgnm.training import FleetPlan, Job, Table
from tabgnm.training.progress import ProgressBar, ProgressLine

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from typing_extensions import Self


@dataclass(eq=False)
class _Fold:
    """The rows of one fold, and the data that its fits share."""

    train: Any
    test: Any
    shared: EncodedTables = field(default_factory=EncodedTables)
    _parts: dict[str, Any] = field(default_factory=dict)  # tables, targets and parameters of its rows

    def part(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a part of the data, which is created in the first call."""
        if name not in self._parts:
            self._parts[name] = make()
        return self._parts[name]


@dataclass(eq=False)
class _Fit:
    """One candidate on one fold."""

    estimator: Any  # an estimator of tabgnm, or a pipeline that ends with one
    fold: _Fold
    candidate: dict[str, Any]
    prepared: PreparedFit | None = None
    seconds: float = 0.0
    error: str | None = None

    @property
    def model(self) -> TabularEstimator:
        return _last_step(self.estimator)


class FleetSearchCV(BaseSearchCV):  # type: ignore[misc] # scikit-learn has no types
    """`GridSearchCV` and `RandomizedSearchCV` for tabgnm's estimators, trained as fleets.

    Candidates and folds whose networks have the same shape are trained together. Attributes and methods are those of
    scikit-learn's searches.

    In the search, all candidates of a pack are trained on all folds with the full number of epochs. `GridSearchCV`,
    and the refit of the best estimator, train in the same way as `fit`: a pack stops candidates early, networks on a
    CPU are trained for fewer epochs if the first ones soon stop improving, and `time_limit` applies. If none of this
    happens, as with `n_candidates=1`, a given `max_epochs` and no `time_limit`, scores are those of `GridSearchCV` up
    to rounding. Long training in float32 amplifies rounding, so the result of a single fit may differ as much as with
    another seed.

    In a pipeline, the steps before the last are fitted once per fold for all candidates that share the parameters of
    these steps. Candidates may replace any step, as long as the last step is a tabgnm estimator. Fit parameters are
    routed as in a pipeline: by a prefix with the name of the step, or by metadata routing. `transform_input` is not
    supported.

    Parameters
    ----------
    estimator : GNMClassifier, GNMRegressor, MLPClassifier, MLPRegressor, or a Pipeline that ends with one
        The estimator to search. Set its `random_state` for reproducible results. Its `n_jobs` is the number of threads
        for training. Its `warm_start` must be False, because candidates must not depend on each other.
    param_grid : dict or list of dicts
        The values to try for each parameter. With `n_iter`, they may be distributions with an `rvs` method.
    n_iter : int or None, default=None
        The number of candidates to draw at random. If None, the whole grid is searched.
    scoring : str, callable, list, tuple or dict, default=None
        One or several scores, as in `GridSearchCV`. If None, the `score` method of the estimator is used.
    n_jobs : int or None, default=None
        The number of threads for scoring candidates. None means 1, and -1 all cores. Training uses the `n_jobs` of the
        estimator.
    refit : bool, str or callable, default=True
        Whether to fit the best candidate to all rows. With several scores, the name of the score that determines the
        best candidate, or a function that selects it from `cv_results_`.
    cv : int, splitter or iterable, default=None
        The cross-validation folds. If None, 5 folds are used.
    verbose : int, default=0
        The verbosity level. If 1 or more, show a progress bar in a terminal or notebook, and messages of the logger
        "tabgnm" elsewhere.
    error_score : "raise" or float, default=nan
        The score of a candidate that cannot be fitted. If "raise", the error is raised.
    return_train_score : bool, default=False
        Whether to also score the training rows.
    random_state : int, RandomState or None, default=None
        The seed for drawing candidates with `n_iter`.

    Attributes
    ----------
    cv_results_ : dict of arrays
        As in `GridSearchCV`. `fit_time` is the training time of a fleet (models that are trained together) divided by
        its number of fits.
    best_estimator_, best_params_, best_score_, best_index_, scorer_, n_splits_, refit_time_, multimetric_
        As in `GridSearchCV`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tabgnm import FleetSearchCV, GNMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> estimator = GNMClassifier(n_candidates=1, n_folds=1, max_epochs=10, random_state=0)
    >>> search = FleetSearchCV(estimator, {"learning_rate": [0.01, 0.001], "dropout": [0.0, 0.2]}, cv=3).fit(X, y)
    >>> search.best_params_["learning_rate"], len(search.cv_results_["params"])
    (0.01, 4)
    """

    _parameter_constraints = None  # those of scikit-learn forbid distributions; see `check_search`

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        n_iter: int | None = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        error_score: Any = np.nan,
        return_train_score: bool = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.param_grid = param_grid
        self.n_iter = n_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Train and score all candidates on all folds, then fit the best one to all rows.

        Parameters
        ----------
        X : table of shape (rows, columns)
        y : array-like of shape (rows,) or (rows, outputs)
        **params
            Passed to the `fit` method of the estimator, to the splitter (`groups`) and to the scorers. Parameters with
            one value per row are restricted to the rows of each fold.

        Returns
        -------
        self
        """
        with warned_once():  # about columns, not in every fold
            return self._search(X, y, params)

    def _search(self, X: Any, y: Any, params: dict[str, Any]) -> Self:
        check_search(self)
        _last_step(self.estimator)._check_y(y, "y")  # before the splitter looks at it
        scorers, refit_metric = self._get_scorers()
        X, y = indexable(X, y)
        params = _check_method_params(X, params=params)
        routed = self._get_routed_params_for_fit(params)
        cv = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        self.n_splits_ = cv.get_n_splits(X, y, **routed.splitter.split)
        splits = list(cv.split(X, y, **routed.splitter.split))
        if len(splits) != self.n_splits_:
            raise ValueError(
                f"cv.split yields {len(splits)} splits, but cv.get_n_splits returns {self.n_splits_}; use a splitter "
                "that can be used repeatedly"
            )
        if not splits:
            raise ValueError(
                f"cv={shown(self.cv)} yields no folds; expected at least one pair of training and test rows"
            )
        candidates = self._candidates()
        folds = [_Fold(train, test) for train, test in splits]
        fits = [
            _Fit(estimator, fold, candidate)
            for candidate in candidates
            for estimator, fold in zip(self._copies(candidate, len(folds)), folds, strict=True)
        ]

        out = self._train_and_score(fits, X, y, scorers, routed)
        _warn_or_raise_about_fit_failures(out, self.error_score)
        if callable(self.scoring):
            _insert_error_scores(out, self.error_score)
        results = self._format_results(candidates, self.n_splits_, out)

        first = out[0]["test_scores"]
        self.multimetric_ = isinstance(first, dict)
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(first)
            refit_metric = self.refit
        if self.refit or not self.multimetric_:
            self.best_index_ = self._select_best_index(self.refit, refit_metric, results)
            if not callable(self.refit):
                self.best_score_ = results[f"mean_test_{refit_metric}"][self.best_index_]
            self.best_params_ = results["params"][self.best_index_]
        if self.refit:
            self.best_estimator_ = self._with(self.best_params_)
            began = time.time()
            self.best_estimator_.fit(X, y, **routed.estimator.fit)
            self.refit_time_ = time.time() - began
            if hasattr(self.best_estimator_, "feature_names_in_"):
                self.feature_names_in_ = self.best_estimator_.feature_names_in_
        self.scorer_ = getattr(scorers, "_scorers", scorers)
        self.cv_results_ = results
        return self

    def _candidates(self) -> list[dict[str, Any]]:
        drawn = [name for one in grids(self.param_grid) for name, values in one.items() if hasattr(values, "rvs")]
        if self.n_iter is not None:
            return list(ParameterSampler(self.param_grid, self.n_iter, random_state=self.random_state))
        if drawn:
            raise ValueError(
                f"param_grid has a distribution for {shown(drawn[0])}, which requires n_iter; set n_iter to the number "
                "of candidates to draw"
            )
        return list(ParameterGrid(self.param_grid))

    def _copies(self, candidate: dict[str, Any], n: int) -> list[Any]:
        """Return one estimator with the parameters of a candidate for each fold.

        An estimator that is not fitted holds only its parameters. If these are plain values, a shallow copy is enough,
        which is much faster than `clone`.
        """
        first = self._with(candidate)
        plain = isinstance(first, TabularEstimator) and all(
            value is None or isinstance(value, bool | int | float | str)
            for value in first.get_params(deep=False).values()
        )
        return [first, *(copy(first) if plain else self._with(candidate) for _ in range(n - 1))]

    def _with(self, candidate: dict[str, Any]) -> Any:
        # Clone values, which may be estimators that a fit would change.
        return clone(self.estimator).set_params(**clone(candidate, safe=False))

    def _train_and_score(self, fits: Sequence[_Fit], X: Any, y: Any, scorers: Any, routed: Any) -> list[dict[str, Any]]:
        """Return what scikit-learn's `_fit_and_score` returns, for each fit."""
        for fit in fits:
            self._prepare(fit, X, y, routed.estimator.fit)
        ready = [fit for fit in fits if fit.prepared is not None]
        out: dict[int, dict[str, Any]] = {}
        score = partial(self._scored, X=X, y=y, scorers=scorers, score_params=routed.scorer.score)
        # Threads even if a joblib backend of a cluster is configured: fitted estimators would have to be sent to it.
        parallel = Parallel(n_jobs=self.n_jobs, require="sharedmem")
        in_threads = effective_n_jobs(self.n_jobs) > 1  # otherwise joblib is only overhead
        for group, trained in self._trained_fleets(ready):
            for fit, own in zip(group, trained, strict=True):
                self._finish(fit, own)
            scored = parallel(delayed(score)(fit) for fit in group) if in_threads else map(score, group)
            out.update({id(fit): result for fit, result in zip(group, scored, strict=True)})
            for fit in group:  # scored, so free the memory of the fitted estimators
                fit.estimator, fit.prepared = None, None
        for fit in fits:
            if id(fit) not in out:
                out[id(fit)] = score(fit)
        return [out[id(fit)] for fit in fits]

    def _prepare(self, fit: _Fit, X: Any, y: Any, fit_params: dict[str, Any]) -> None:
        began = time.time()
        fold, shared = fit.fold, fit.fold.shared
        try:
            own = fold.part("params", lambda: _check_method_params(X, params=fit_params, indices=fold.train))
            if isinstance(fit.estimator, Pipeline):
                rows, targets = fold.part("train", lambda: _safe_split(fit.estimator, X, y, fold.train))
                of_first, own = split_params(fit.estimator, own)
                # Candidates with the same steps before the last share the transformed fold.
                last = fit.estimator.steps[-1][0]
                given = [(name, id(value)) for name, value in fit.candidate.items() if name.partition("__")[0] != last]
                steps = sorted(given)
                first, rows, shared = fold.part(
                    f"steps {steps}", partial(fit_first_steps, fit.estimator, rows, targets, of_first)
                )
                fit.estimator.steps[:-1] = first
            else:
                rows, targets = fold.part("table", partial(_part_of_table, X, y, fold.train))
            fit.prepared = fit.model._prepare(rows, targets, shared=shared, **own)
        except Exception:
            if self.error_score == "raise":
                raise
            fit.error = format_exc()
        fit.seconds += time.time() - began

    def _trained_fleets(self, fits: Sequence[_Fit]) -> Any:
        """Train the fleets; yield fits that are complete with their networks."""
        if not fits:
            return
        tables: list[Table] = []
        jobs: list[Job] = []
        owners: list[tuple[int, int, int]] = []  # fit, candidate of its pack, position
        packs: list[TrainedPack] = []
        n_left: list[int] = []
        for number, fit in enumerate(fits):
            assert fit.prepared is not None
            packs.append(TrainedPack(fit.prepared))
            wanted = [(c, k) for c, own in enumerate(fit.prepared.candidates) for k in range(len(own.members))]
            jobs += jobs_of(fit.prepared, wanted, tables)
            owners += [(number, *own) for own in wanted]
            n_left.append(len(wanted))
        plan = FleetPlan(jobs, tables)
        began = time.time()
        for fleet, models in _run_fleets(plan, shown=bool(self.verbose)):
            # Fleets may share a GPU: count the time since the previous one was done.
            seconds = plan.seconds.get(fleet.jobs, time.time() - began) / len(models)
            if any(model.history.status == "interrupted" for model in models):
                raise KeyboardInterrupt("the search was interrupted; its results are discarded")
            done = []
            for place, model in zip(fleet.jobs, models, strict=True):
                number, candidate, position = owners[place]
                packs[number].add(candidate, position, model, seconds)
                fits[number].seconds += seconds
                n_left[number] -= 1
                if n_left[number] == 0:
                    done.append(number)
            yield [fits[number] for number in done], [packs[number] for number in done]
            began = time.time()

    def _finish(self, fit: _Fit, trained: TrainedPack) -> None:
        try:
            fit.model._keep(trained, with_importance=False)
        except Exception:
            if self.error_score == "raise":
                raise
            fit.error = format_exc()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        own = get_tags(self.estimator)
        tags.input_tags, tags.target_tags = own.input_tags, own.target_tags
        tags.non_deterministic = own.non_deterministic
        return tags

    def _scored(self, fit: _Fit, X: Any, y: Any, scorers: Any, score_params: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {"fit_error": fit.error, "fit_time": fit.seconds, "score_time": 0.0}
        names = ["test_scores", *(["train_scores"] if self.return_train_score else [])]
        if fit.error is not None:
            many = getattr(scorers, "_scorers", None)
            failed = self.error_score if many is None else dict.fromkeys(many, self.error_score)
            return result | dict.fromkeys(names, failed)
        began = time.time()
        fold = fit.fold
        for name, part in zip(names, ("test", "train"), strict=False):
            rows = getattr(fold, part)
            own_X, own_y = fold.part(part, partial(_safe_split, fit.estimator, X, y, rows, fold.train))
            own_params = fold.part(f"{part} score", partial(_check_method_params, X, params=score_params, indices=rows))
            result[name] = _score(fit.estimator, own_X, own_y, scorers, own_params, self.error_score)
            if name == "test_scores":
                result["score_time"] = time.time() - began
        return result


def _part_of_table(X: Any, y: Any, rows: Any) -> tuple[RawTable, Any]:
    """Return some rows of a table and its targets; errors still name rows of the whole table."""
    raw = read_table(X)
    return raw.take(np.arange(raw.n_rows)[rows]), _safe_indexing(y, rows)  # splitters yield positions or a mask


def _last_step(estimator: Any) -> TabularEstimator:
    """Return the tabgnm estimator that is searched; raise if it is not one."""
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    if not isinstance(last, TabularEstimator):
        raise TypeError(
            f"estimator is a {type(last).__name__}; expected a tabgnm estimator, or a Pipeline that ends with one; use "
            "GridSearchCV for other estimators"
        )
    if last.warm_start:
        raise ValueError(
            "warm_start=True is not supported in a search, because candidates would depend on each other; use "
            "warm_start=False"
        )
    return last


def _run_fleets(plan: FleetPlan, *, shown: bool) -> Any:
    """Train one fleet after the other; if `shown`, with a progress bar without losses, because a search uses scores."""
    if not shown:
        yield from plan.run_fleets()
        return
    line = ProgressLine(shows_best=False)
    with line.shown(len(plan.jobs), plan.n_model_epochs):
        yield from plan.run_fleets(progress=lambda _: ProgressBar(line=line))
