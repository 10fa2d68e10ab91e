"""What all estimators share: fitting, going on, outputs in blocks, importance, saving."""

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
from tabgnm.estimators.fitting import EncodedTables, FittedNetworks, PreparedFit, PreparedRows
from tabgnm.estimators.fixed_parameters import fixed_now
from tabgnm.estimators.parameters import AUTO_EMBEDDED_COLUMNS, NETWORK_ONLY, TrainingParameters
from tabgnm.estimators.targets import Targets
from tabgnm.nn.shapes import GNMShape, MLPShape
from tabgnm.table import RawTable, TableSettings, match_columns, read_table
from tabgnm.table.settings import NUMERIC_EMBEDDINGS, check_choice, checked_kinds
from tabgnm.training import FleetPlan, Job, Member, TrainedModel

if TYPE_CHECKING:
    from pathlib import Path

    from sklearn.utils import Bunch, Tags
    from typing_extensions import Self

    from tabgnm.nn import GNM, MLP, EmbeddedNetwork

Array = NDArray[Any]


class TabularEstimator(TrainingParameters, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Common part of the four estimators.

    Attributes
    ----------
    fitted_ : FittedNetworks
        Encoder, targets and weights: all that predictions need.
    n_features_in_ : int
        Columns of the table in `fit`.
    feature_names_in_ : array of str
        Their names, if it had names.
    """

    fitted_: FittedNetworks
    n_features_in_: int
    feature_names_in_: Array
    _n_calls: int  # of fit and partial_fit since training began
    _fixed: dict[str, Any]  # parameters that the weights were made for

    # What the body of the network and the kind of target add.

    def _network_shape(self, n_inputs: int, n_outputs: int) -> GNMShape | MLPShape:
        raise NotImplementedError

    def _make_targets(self, y: Array, weights: Array | None, classes: Any, *, may_vary: bool) -> Targets:
        """Targets as these rows say; `classes` may be targets that know all labels already."""
        raise NotImplementedError

    def _with_own_loss(self, targets: Targets) -> Targets:
        """Targets of an earlier fit, learned by the loss that the parameters say now."""
        raise NotImplementedError

    def _check_classes(self, targets: Targets, classes: Any) -> None:
        """Raise where other classes are given than those of earlier calls."""

    def _labels_of_all_rows(self, y: Array) -> Any:
        """All labels that may come, from rows of which some have no weight."""
        raise NotImplementedError

    def _row_weights(self, y: Array, sample_weight: Array | None, streamed: Targets | None) -> Array | None:
        """Weights of the rows, with those of their classes; in `partial_fit` rows may lack some of the classes."""
        raise NotImplementedError

    def _check_y(self, y: Any, name: str) -> Array:
        raise NotImplementedError

    def _check_scored(self, y: Array) -> None:
        """Raise where targets cannot be compared with predictions."""
        raise NotImplementedError

    # Fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None, X_val: Any = None, y_val: Any = None) -> Self:
        """Fit to a table.

        Parameters
        ----------
        X : table of shape (rows, columns)
            A NumPy array, a pandas, polars or pyarrow table, a SciPy sparse matrix, or a list of rows. It is not
            changed.
        y : array-like of shape (rows,) or (rows, outputs)
            Targets.
        sample_weight : array-like of shape (rows,), default=None
            How much each row counts; a row of weight 0 is as good as absent.
        X_val, y_val : table and targets, default=None
            Rows to validate all members on, instead of `validation_fraction` of X. Nothing else is learned from them,
            and they all count alike, whatever the weights of rows and classes.

        Ctrl-C ends training after the epoch at work and raises KeyboardInterrupt. The estimator is fitted then, with
        the best weights until there; `history_` says "interrupted".

        Returns
        -------
        self
        """
        going_on = self.fitted_ if self.warm_start and hasattr(self, "fitted_") else None
        return self._fit_prepared(self._prepare(X, y, sample_weight, X_val, y_val, going_on=going_on), going_on)

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        """Train one epoch on these rows, going on from the weights there are."""
        going_on = getattr(self, "fitted_", None)
        prepared = self._prepare(X, y, sample_weight, None, None, going_on=going_on, classes=classes, one_epoch=True)
        return self._fit_prepared(prepared, going_on)

    def _train(self, prepared: PreparedFit) -> list[TrainedModel]:
        return FleetPlan(prepared.jobs, prepared.rows.table).run(verbose=self.verbose)

    def _fit_prepared(self, prepared: PreparedFit, going_on: FittedNetworks | None) -> Self:
        trained = self._train(prepared)
        self._keep(prepared, trained, going_on)
        # Who calls fit in a loop wants Ctrl-C to end the loop; what was trained until then is there all the same.
        if any(model.history.status == "interrupted" for model in trained):
            raise KeyboardInterrupt("fit was interrupted; the estimator has the best weights of the epochs until then")
        return self

    def _prepare(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        *,
        going_on: FittedNetworks | None = None,
        classes: Any = None,
        one_epoch: bool = False,
        shared: EncodedTables | None = None,
    ) -> PreparedFit:
        """Turn a table and targets into jobs for the fleet."""
        self._check_parameters()
        shared = EncodedTables() if shared is None else shared

        def make() -> PreparedRows:
            return preparing.prepare_rows(
                self,
                X,
                y,
                sample_weight,
                X_val,
                y_val,
                going_on=going_on,
                classes=classes,
                one_epoch=one_epoch,
                shared=shared,
            )

        rows = shared.rows(self._rows_key(), make)
        settings = self._fleet_settings(
            rows.targets.loss, len(rows.members[0].train), validated=rows.validated, one_epoch=one_epoch
        )
        if going_on is None:
            shape = fitting.full_shape(rows.encoder, self._network_shape, rows.targets.n_outputs)
        else:
            shape = going_on.shape
        # Every call of partial_fit has an order of rows of its own.
        turn = getattr(self, "_n_calls", 0) if going_on else 0
        jobs = [
            Job(
                shape,
                settings,
                Member(
                    train=own.train,
                    val=own.val,
                    seed=int(seed) + 1_000_003 * turn,
                    learning_rate=self.learning_rate,
                    weight_decay=self.weight_decay,
                    dropout=self.dropout,
                    l1=self.l1,
                    l2=self.l2,
                    l0=self.l0,
                    sample_weight=rows.weights,
                    start=going_on.member(position) if going_on else None,
                ),
            )
            for position, (seed, own) in enumerate(zip(rows.seeds, rows.members, strict=True))
        ]
        return PreparedFit(rows, jobs)

    def _rows_key(self) -> str:
        """All parameters that the rows of a fit depend on: those that only the networks do are left out."""
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

    def _keep(
        self,
        prepared: PreparedFit,
        trained: list[TrainedModel],
        going_on: FittedNetworks | None,
        *,
        with_importance: bool = True,
    ) -> None:
        rows, fitted = prepared.rows, prepared.finish(trained, before=going_on)
        self._n_calls = getattr(self, "_n_calls", 0) + 1 if going_on else 1
        if with_importance:
            training_rows = rows.table.x[: rows.n_rows]
            fitted.importances = importance.gradient_times_input(fitted, training_rows, len(rows.names))
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

    # What was learned

    @property
    def columns_(self) -> Any:
        """What each column was taken for, and how it is encoded: a readable table."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.encoder.columns

    @property
    def history_(self) -> list[dict[str, Any]]:
        """For each member: train_loss, val_loss and the validation metric per epoch, best_epoch, status."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.histories

    @property
    def feature_importances_(self) -> Array:
        """Mean absolute gradient x input of each column on training rows, scaled to a sum of 1."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.importances

    @property
    def members_(self) -> list[GNM | MLP | EmbeddedNetwork]:
        """The members as torch modules, which take encoded rows."""
        check_is_fitted(self, "fitted_")
        fitted = self.fitted_
        return [
            TrainedModel(fitted.shape, fitted.member(i), _no_history(), self.dropout).network()
            for i in range(fitted.n_members)
        ]

    def encode(self, X: Any) -> Array:
        """Return the table as the networks see it: encoded columns as numbers."""
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
        """Score lost when a column is shuffled, for all columns in few passes.

        Parameters
        ----------
        X, y, sample_weight
            Rows to score on, better not those of `fit`.
        n_repeats : int, default=5
            Shufflings per column.
        random_state : int, RandomState or None, default=None

        Returns
        -------
        Bunch
            `importances` (columns, repeats), `importances_mean`, `importances_std`, as scikit-learn's function of that
            name gives them: columns are in the order of X.
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

    # Predicting

    def _matched(self, raw: RawTable) -> RawTable:
        """Columns of a table in the order of `fit`."""
        return match_columns(raw, self._names, hasattr(self, "feature_names_in_"), type(self).__name__)

    def _output_blocks(self, X: Any) -> Iterator[Tensor]:
        """Outputs (members, rows, c), block by block."""
        check_is_fitted(self, "fitted_")
        raw = self._matched(read_table(X))
        fitted = self.fitted_
        n_rows = prediction.block_rows(fitted.encoder.n_encoded)
        for first in range(0, raw.n_rows, n_rows):
            block = raw if raw.n_rows <= n_rows else raw.take(slice(first, first + n_rows))
            yield self._outputs_of(torch.as_tensor(fitted.encoder.encode(block, dtype=fitted.dtype)))

    def _outputs_of(self, x: Tensor) -> Tensor:
        fitted, device = self.fitted_, torch.device("cpu")
        if len(x) >= prediction.GPU_ROWS:
            device = self._prediction_device()
        parameters = fitted.exact_parameters if device.type == "cpu" else fitted.parameters
        return prediction.outputs(fitted.shape, parameters, x, device)

    def _prediction_device(self) -> torch.device:
        """The device of training if it is there: a model may be used on another machine."""
        cpu = torch.device("cpu")
        if self.device == "cpu" or not torch.cuda.is_available():
            return cpu
        device = torch.device("cuda" if self.device == "auto" else self.device)
        is_there = device.type == "cuda" and (device.index or 0) < torch.cuda.device_count()
        return device if is_there else cpu

    # Files

    def save(self, path: str | Path) -> None:
        """Write a model file; `tabgnm.load` reads it. It holds no training data, and loading it runs no code."""
        from tabgnm.modelfile import save

        save(self, path)

    # scikit-learn

    @classmethod
    @functools.cache  # scikit-learn reads the signature anew each time, which costs more than the rest of `get_params`
    def _get_param_names(cls) -> tuple[str, ...]:
        return tuple(super()._get_param_names())

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """Return an estimator with the setting of the paper; keyword arguments change single parameters."""
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


def _no_history() -> Any:
    from tabgnm.training.history import History

    return History()
