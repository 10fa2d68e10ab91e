"""What all estimators share: fitting, continuing a fit, encoding, importance, saving."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tabgnm.estimators import fitting, importance, prediction, preparing
from tabgnm.estimators.checks import check_integer, check_lengths, random_numbers, sample_weights
from tabgnm.estimators.fitting import EncodedTables, FittedNetworks, PreparedFit
from tabgnm.estimators.fixed_parameters import fixed_now
from tabgnm.estimators.parameters import AUTO_EMBEDDED_COLUMNS, NETWORK_ONLY, TrainingParameters
from tabgnm.estimators.targets import Targets
from tabgnm.nn.shapes import GNMShape, MLPShape
from tabgnm.table import RawTable, TableSettings, match_columns, read_table
from tabgnm.table.settings import NUMERIC_EMBEDDINGS, check_choice, checked_kinds
from tabgnm.training import Fleet, History, Member, TrainedModel
from tabgnm.training.threads import thread_count, torch_threads

if TYPE_CHECKING:
    from pathlib import Path

    from sklearn.utils import Bunch, Tags
    from typing_extensions import Self

    from tabgnm.nn import GNM, MLP, EmbeddedNetwork

Array = NDArray[Any]


class TabularEstimator(TrainingParameters, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Base class of the four estimators.

    Attributes
    ----------
    fitted_ : FittedNetworks
        Encoder, targets and weights: all that predictions need.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : array of str
        Names of the columns seen during `fit`. Defined only if the table had names.
    """

    fitted_: FittedNetworks
    n_features_in_: int
    feature_names_in_: Array
    _n_calls: int  # of fit and partial_fit since training began
    _fixed: dict[str, Any]  # parameters that cannot change while training continues, as they were at its start

    # Implemented by the network and by the kind of target

    def _network_shape(self, n_inputs: int, n_outputs: int) -> GNMShape | MLPShape:
        raise NotImplementedError

    def _make_targets(self, y: Array, weights: Array | None, classes: Any, *, may_vary: bool) -> Targets:
        """Learn the targets from these rows; `classes` may be targets that already know all labels."""
        raise NotImplementedError

    def _with_own_loss(self, targets: Targets) -> Targets:
        """Return the targets of an earlier fit with the loss that the parameters name now."""
        raise NotImplementedError

    def _check_classes(self, targets: Targets, classes: Any) -> None:
        """Raise if `classes` differ from those of earlier calls."""

    def _labels_of_all_rows(self, y: Array) -> Any:
        """Return all labels that may occur, from rows of which some have no weight."""
        raise NotImplementedError

    def _row_weights(self, y: Array, sample_weight: Array | None, streamed: Targets | None) -> Array | None:
        """Return sample weights times class weights; the rows of `partial_fit` may lack some of the classes."""
        raise NotImplementedError

    def _check_y(self, y: Any, name: str) -> Array:
        raise NotImplementedError

    def _reduce(self, outputs: Tensor) -> list[Array]:
        """Combine the outputs of the members, (members, rows, c), to arrays with one entry per row."""
        raise NotImplementedError

    def _check_scored(self, y: Array) -> None:
        """Raise if the targets cannot be compared with predictions."""
        raise NotImplementedError

    def _score_reduced(self, parts: list[Array], y: Array, sample_weight: Any) -> float:
        """Return the score, given what `_reduce` returned for all rows."""
        raise NotImplementedError

    # Fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None, X_val: Any = None, y_val: Any = None) -> Self:
        """Fit to a table.

        Ctrl-C finishes the current epoch, keeps the best weights so far and raises KeyboardInterrupt. The estimator is
        then fitted, and the status in `history_` is "interrupted".

        Parameters
        ----------
        X : table of shape (rows, columns)
            A NumPy array, a pandas, polars or pyarrow table, a SciPy sparse matrix, or a list of rows. It is not
            modified.
        y : array-like of shape (rows,) or (rows, outputs)
            Targets.
        sample_weight : array-like of shape (rows,), default=None
            Weight of each row. Rows with weight 0 are ignored.
        X_val, y_val : table and targets, default=None
            Validation rows for all members, instead of `validation_fraction` of X. They are used for nothing else, and
            all have the same weight, whatever the sample and class weights.

        Returns
        -------
        self
        """
        previous = self.fitted_ if self.warm_start and hasattr(self, "fitted_") else None
        return self._train(self._prepare(X, y, sample_weight, X_val, y_val, previous=previous))

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        """Continue training for one epoch on these rows."""
        previous = getattr(self, "fitted_", None)
        return self._train(self._prepare(X, y, sample_weight, previous=previous, classes=classes, one_epoch=True))

    def _prepare(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        *,
        previous: FittedNetworks | None = None,
        classes: Any = None,
        one_epoch: bool = False,
        shared: EncodedTables | None = None,
    ) -> PreparedFit:
        """Turn a table and targets into the members of a fleet.

        Parameters
        ----------
        previous : FittedNetworks or None, default=None
            Continue training from these networks.
        classes : array-like, default=None
            All labels that may occur, for `partial_fit`.
        one_epoch : bool, default=False
            Train for one epoch with a constant learning rate, without validation.
        shared : EncodedTables or None, default=None
            Tables that other fits to the same rows have encoded.
        """
        self._check_parameters()
        shared = EncodedTables() if shared is None else shared
        key = self._rows_key()
        if key not in shared.rows:
            shared.rows[key] = preparing.prepare_rows(
                self,
                X,
                y,
                sample_weight,
                X_val,
                y_val,
                previous=previous,
                classes=classes,
                one_epoch=one_epoch,
                shared=shared,
            )
        rows = shared.rows[key]
        settings = self._fleet_settings(
            rows.targets.loss, len(rows.members[0].train), validated=rows.validated, one_epoch=one_epoch
        )
        if previous is None:
            shape = fitting.full_shape(rows.encoder, self._network_shape, rows.targets.n_outputs)
        else:
            shape = previous.shape
        # Each call of partial_fit shuffles the rows in a different order.
        n_calls = getattr(self, "_n_calls", 0) if previous else 0
        members = [
            Member(
                train=own.train,
                val=own.val,
                seed=int(seed) + 1_000_003 * n_calls,
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
                dropout=self.dropout,
                l1=self.l1,
                l2=self.l2,
                l0=self.l0,
                sample_weight=rows.weights,
                start=previous.member(position) if previous else None,
            )
            for position, (seed, own) in enumerate(zip(rows.seeds, rows.members, strict=True))
        ]
        return PreparedFit(rows, shape, settings, members, previous)

    def _train(self, prepared: PreparedFit) -> Self:
        fleet = Fleet(prepared.shape, prepared.members, prepared.settings)
        trained = fleet.fit(prepared.rows.table, verbose=self.verbose).models
        self._keep(prepared, trained)
        # Raised so that Ctrl-C also ends a loop that calls `fit`; the trained weights are kept all the same.
        if any(model.history.status == "interrupted" for model in trained):
            raise KeyboardInterrupt("fit was interrupted; the estimator keeps the best weights so far")
        return self

    def _rows_key(self) -> str:
        """Return the parameters that the encoded rows depend on."""
        parameters = self.get_params(deep=False)
        return repr(sorted((name, value) for name, value in parameters.items() if name not in NETWORK_ONLY))

    def _table_settings(self, n_columns: int) -> TableSettings:
        embedding = self.numeric_embedding
        check_choice("numeric_embedding", embedding, ("auto", *NUMERIC_EMBEDDINGS))
        if embedding == "auto":
            embedding = "periodic" if n_columns <= AUTO_EMBEDDED_COLUMNS else None
        return TableSettings(
            scaling=self.scaling,
            numeric_embedding=embedding,
            n_basis=self.n_basis,
            numeric_dim=self.numeric_dim,
            frequency_scale=self.frequency_scale,
            max_one_hot=self.max_one_hot,
            level_dim=self.level_dim,
            min_level_count=self.min_level_count,
            kinds=checked_kinds("column_kinds", self.column_kinds),
        )

    def _seeds(self) -> list[int]:
        n_members = check_integer("n_members", self.n_members)
        drawn = random_numbers(self.random_state).randint(np.iinfo(np.int32).max, size=n_members)
        return [int(seed) for seed in drawn]

    def _keep(self, prepared: PreparedFit, trained: list[TrainedModel], *, with_importance: bool = True) -> None:
        rows = prepared.rows
        with torch_threads(thread_count(self.n_jobs)):
            fitted = prepared.finish(trained)
            if with_importance:
                training_rows = rows.table.x[: rows.n_rows]
                fitted.importances = importance.gradient_times_input(fitted, training_rows, len(rows.names))
        self._n_calls = getattr(self, "_n_calls", 0) + 1 if prepared.previous else 1
        self._set_fitted(fitted, rows.names, rows.has_names)

    def _set_fitted(self, fitted: FittedNetworks, names: list[str], has_names: bool) -> None:
        self.fitted_ = fitted
        self.n_features_in_ = len(names)
        self._names = list(names)
        self._fixed = fixed_now(self)
        if has_names:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    # Fitted attributes

    @property
    def columns_(self) -> Any:
        """Kind and encoding of each column, as a readable table."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.encoder.columns

    @property
    def history_(self) -> list[dict[str, Any]]:
        """Per member: train_loss, val_loss and the validation metric of each epoch, best_epoch and status."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.histories

    @property
    def feature_importances_(self) -> Array:
        """Mean absolute gradient x input of each column on the training rows, scaled to a sum of 1."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.importances

    @property
    def members_(self) -> list[GNM | MLP | EmbeddedNetwork]:
        """The members as torch modules. Their input is encoded rows, see `encode`."""
        check_is_fitted(self, "fitted_")
        fitted = self.fitted_
        return [
            TrainedModel(fitted.shape, fitted.member(i), History(), self.dropout).network()
            for i in range(fitted.n_members)
        ]

    def encode(self, X: Any) -> Array:
        """Return the encoded table: the numbers that the networks get as input."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.encoder.encode(self._matched(read_table(X)), dtype=self.fitted_.dtype)

    def permutation_importance(
        self,
        X: Any,
        y: Any,
        *,
        n_repeats: int = 5,
        sample_weight: Any = None,
        random_state: Any = None,
    ) -> Bunch:
        """Measure how much the score drops when a column is shuffled, for many columns in one pass.

        Parameters
        ----------
        X, y, sample_weight
            Rows to score on, preferably not those of `fit`.
        n_repeats : int, default=5
            Number of times each column is shuffled.
        random_state : int, RandomState or None, default=None

        Returns
        -------
        Bunch
            `importances` of shape (columns, repeats), `importances_mean` and `importances_std`, as returned by
            `sklearn.inspection.permutation_importance`. Columns are in the order of X.
        """
        check_is_fitted(self, "fitted_")
        given = read_table(X)
        targets = self._check_y(y, "y")
        check_lengths(given.n_rows, targets)
        self._check_scored(targets)
        return importance.permutation_importance(
            self,
            given,
            targets,
            check_integer("n_repeats", n_repeats),
            sample_weights(sample_weight, given.n_rows),
            random_numbers(random_state),
        )

    # Prediction

    def _matched(self, raw: RawTable) -> RawTable:
        """Return the table with its columns in the order of `fit`."""
        return match_columns(raw, self._names, hasattr(self, "feature_names_in_"), type(self).__name__)

    def _encoded_blocks(self, X: Any) -> Iterator[Tensor]:
        """Yield the encoded rows of a table, (rows, columns), block by block."""
        raw, fitted = self._matched(read_table(X)), self.fitted_
        n_rows = prediction.block_rows(fitted.encoder.n_encoded)
        for first in range(0, raw.n_rows, n_rows):
            block = raw if raw.n_rows <= n_rows else raw.take(slice(first, first + n_rows))
            yield torch.as_tensor(fitted.encoder.encode(block, dtype=fitted.dtype))

    # Files

    def save(self, path: str | Path) -> None:
        """Write a model file, which `tabgnm.load` reads.

        The file contains everything that predictions need, and what `get_params`, `history_`, `columns_` and
        `feature_importances_` return, except for `n_jobs` and the state of a `RandomState`. It contains no rows of the
        training data, and loading it runs no code; see `docs/model-files.md`.

        Parameters
        ----------
        path : str or Path
            An existing file is replaced once the new one is complete.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ModelFileError
            If a parameter is not a plain value, or the file cannot be written.
        """
        from tabgnm.estimators import model_file  # not at the top: it imports all estimators

        model_file.save(self, path)

    # scikit-learn

    @classmethod
    @functools.cache  # scikit-learn inspects the signature in every call, which dominates the time of `get_params`
    def _get_param_names(cls) -> tuple[str, ...]:
        return tuple(super()._get_param_names())

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """Return an estimator with the settings of the paper; keyword arguments override them."""
        return cls(**(dict(cls._paper_setting()) | overrides))

    @classmethod
    def _paper_setting(cls) -> Mapping[str, Any]:
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.non_deterministic = self.random_state is None
        return tags
