"""Base class of all estimators: fitting, continuing a fit, predicting, saving."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tabgnm.estimators import importance, memory, pack, prediction, preparing, preparing_candidates
from tabgnm.estimators.explaining import ExplainingMethods
from tabgnm.estimators.fit_results import FitResults
from tabgnm.estimators.fitting import EncodedTables, FittedPack, PreparedFit
from tabgnm.estimators.fixed_parameters import fixed_now
from tabgnm.estimators.learned_graph import LearnedGraph
from tabgnm.estimators.machines import MachineMethods
from tabgnm.estimators.memory import MemoryEstimate
from tabgnm.estimators.pack import TrainedPack
from tabgnm.estimators.parameter_roles import NOT_OF_ROWS
from tabgnm.estimators.parameters import TrainingParameters
from tabgnm.estimators.reporting import ReportMethods
from tabgnm.estimators.row_marks import RowMarks
from tabgnm.estimators.target_arrays import names_of_targets
from tabgnm.estimators.targets import Targets
from tabgnm.nn.shapes import GNMShape, MLPShape
from tabgnm.table import RawTable, match_columns, read_table
from tabgnm.table.advice import warned_once
from tabgnm.training.threads import thread_count, torch_threads

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from typing_extensions import Self

    from tabgnm._files.paths import PathOrFile

Array = NDArray[Any]


class TabularEstimator(
    TrainingParameters,
    FitResults,
    LearnedGraph,
    MachineMethods,
    ExplainingMethods,
    ReportMethods,
    BaseEstimator,  # type: ignore[misc] # untyped
):
    """Base class of the four estimators.

    Attributes
    ----------
    fitted_ : FittedPack
        The encoders, targets and weights: everything that predictions need.
    n_features_in_ : int
        The number of columns seen during `fit`.
    feature_names_in_ : array of str
        The names of the columns seen during `fit`. Defined only if the columns of X have names.
    target_name_ : str
        The name of the target. Defined only if y is a series with a name, such as a column of a pandas DataFrame.
    target_names_ : list of str
        The names of several targets. Defined only if y is a table with names of columns, such as a pandas DataFrame.
    """

    fitted_: FittedPack
    n_features_in_: int
    feature_names_in_: Array
    target_name_: str
    target_names_: list[str]
    _n_calls: int  # of fit and partial_fit since training began
    _fixed: dict[str, Any]  # parameters that cannot change while training continues, as they were at its start

    # Implemented by the network and by the kind of target

    def _network_shape(
        self, n_inputs: int, n_outputs: int, settings: Mapping[str, Any], n_auto: int
    ) -> GNMShape | MLPShape:
        """Return the shape of a candidate's networks; `n_auto` is the width for parameters that are "auto"."""
        raise NotImplementedError

    def _make_targets(self, y: Array, weights: Array | None, classes: Any, *, may_vary: bool) -> Targets:
        """Learn the targets from these rows; `classes` may be targets of the same kind that know all labels."""
        raise NotImplementedError

    def _with_own_loss(self, targets: Targets) -> Targets:
        """Return the targets of an earlier fit with the loss that the parameters currently set."""
        raise NotImplementedError

    def _check_classes(self, targets: Targets, classes: Any) -> None:
        """Raise if `classes` differ from those of earlier calls."""

    def _labels_of_all_rows(self, y: Array) -> Any:
        """Return all labels of these rows, including those of rows with weight 0."""
        raise NotImplementedError

    def _row_weights(self, y: Array, sample_weight: Array | None, streamed: Targets | None) -> Array | None:
        """Return sample weights times class weights; the rows of `partial_fit` may lack some of the classes."""
        raise NotImplementedError

    def _check_y(self, y: Any, name: str) -> Array:
        raise NotImplementedError

    def _check_learnable(self, y: Array, name: str, row_number: Callable[[int], int]) -> None:
        """Raise if the loss cannot learn these targets; `row_number` maps a position to the row that errors name."""

    def _reduce(self, outputs: list[Tensor]) -> list[Array]:
        """Combine the outputs of each group, (networks, rows, c), into arrays with one entry per row."""
        raise NotImplementedError

    def _as_predicted(self, combined: Array) -> Any:
        """Return combined out-of-fold predictions (rows, outputs) in the form of predictions."""
        raise NotImplementedError

    def _check_scored(self, y: Array) -> None:
        """Raise if the targets cannot be compared with predictions."""
        raise NotImplementedError

    def _score_reduced(self, parts: list[Array], y: Array, sample_weight: Any) -> float:
        """Return the score, given what `_reduce` returned for all rows."""
        raise NotImplementedError

    # Fitting

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, X_val: Any = None, y_val: Any = None, groups: Any = None
    ) -> Self:
        """Fit the estimator to a table.

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
            The weight of each row. Rows with weight 0 are ignored. If None, all rows have equal weight.
        X_val, y_val : table and targets, default=None
            Validation rows for all networks, instead of folds of X. They are used only for validation, with equal
            weights regardless of the sample and class weights.
        groups : array-like of shape (rows,), default=None
            Group labels of the rows. Rows of the same group are in the same fold. If None, rows that appear to be exact
            copies are in the same fold; see the user guide.

        Returns
        -------
        self
        """
        began = time.monotonic()
        previous = self.fitted_ if self.warm_start and hasattr(self, "fitted_") else None
        if previous is None and hasattr(self, "_path_fitted"):
            warnings.warn(
                "fit replaces the small machine by a dense network with the same parameters; call fit_sparse(X, y) for "
                "another small machine",
                stacklevel=2,
            )
        prepared = self._prepare(X, y, sample_weight, X_val, y_val, groups, previous=previous)
        self._set_target_names(names_of_targets(y))
        return self._train(prepared, began)

    def estimate_memory(
        self, X: Any, y: Any, sample_weight: Any = None, X_val: Any = None, y_val: Any = None, groups: Any = None
    ) -> MemoryEstimate:
        """Estimate how much memory `fit` and predictions would take, without allocating it.

        `fit` raises a MemoryError before training if the estimate exceeds the memory of the machine or its container.

        Parameters
        ----------
        X, y, sample_weight, X_val, y_val, groups
            As in `fit`.

        Returns
        -------
        MemoryEstimate
            Has the attributes `training` and `prediction`, each with `bytes` and its `parts`, and `gpu_bytes` and
            `gpu_parts` for a GPU. Memory that is already in use, such as that of X, is not included. The actual use is
            between half and twice the estimate.
        """
        copy = clone(self)  # so that drawing folds does not change a RandomState
        return memory.estimate(copy._prepare(X, y, sample_weight, X_val, y_val, groups, only_planned=True))

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        """Continue training for one epoch on these rows."""
        began = time.monotonic()
        previous = getattr(self, "fitted_", None)
        prepared = self._prepare(X, y, sample_weight, previous=previous, classes=classes, one_epoch=True)
        return self._train(prepared, began)

    def _prepare(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        groups: Any = None,
        *,
        previous: FittedPack | None = None,
        classes: Any = None,
        one_epoch: bool = False,
        shared: EncodedTables | None = None,
        only_planned: bool = False,
    ) -> PreparedFit:
        """Turn a table and targets into candidates that are ready to train.

        Parameters
        ----------
        previous : FittedPack or None, default=None
            Continue training from these networks.
        classes : array-like, default=None
            All labels that may occur, for `partial_fit`.
        one_epoch : bool, default=False
            Train for one epoch with a constant learning rate, without validation.
        shared : EncodedTables or None, default=None
            Tables that other fits to the same rows have encoded.
        only_planned : bool, default=False
            Do not encode the table; nothing large is allocated.
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
                groups,
                X_val,
                y_val,
                previous=previous,
                classes=classes,
                one_epoch=one_epoch,
            )
        n_calls = getattr(self, "_n_calls", 0) if previous else 0
        with warned_once():  # candidates encode the same columns
            return preparing_candidates.prepare_candidates(
                self,
                shared.rows[key],
                shared,
                previous=previous,
                one_epoch=one_epoch,
                n_calls=n_calls,
                only_planned=only_planned,
            )

    def _train(self, prepared: PreparedFit, began: float) -> Self:
        trained = pack.train(self, prepared, began)
        self._keep(trained)
        # Raised so that Ctrl-C also ends a loop that calls `fit`; the trained weights are kept all the same.
        if trained.interrupted and not trained.out_of_time:
            raise KeyboardInterrupt("fit was interrupted; the estimator keeps the best weights so far")
        return self

    def _rows_key(self) -> str:
        """Return the parameters that rows and folds depend on."""
        parameters = self.get_params(deep=False)
        parameters["cv"] = id(self.cv)  # the text of long lists of rows is abridged
        return repr(sorted((name, repr(value)) for name, value in parameters.items() if name not in NOT_OF_ROWS))

    def _keep(self, trained: TrainedPack, *, with_importance: bool = True) -> None:
        prepared = trained.prepared
        with torch_threads(thread_count(self.n_jobs)):
            fitted, self._oof_values = pack.select(self, trained)
            self._oof_rows = None if self._oof_values is None else RowMarks.of(fitted, prepared.rows)
            if with_importance:
                fitted.importances = importance.gradient_times_input(fitted, prepared)
        self._n_calls = getattr(self, "_n_calls", 0) + 1 if prepared.previous else 1
        self._set_fitted(fitted, prepared.names, prepared.has_names)

    def _set_fitted(self, fitted: FittedPack, names: list[str], has_names: bool) -> None:
        self.fitted_ = fitted
        self._forget_other_path()
        self.n_features_in_ = len(names)
        self._names = list(names)
        self._fixed = fixed_now(self)
        if has_names:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _set_target_names(self, names: Sequence[str]) -> None:
        for attribute in ("target_name_", "target_names_"):
            if hasattr(self, attribute):
                delattr(self, attribute)
        if len(names) == 1:
            self.target_name_ = names[0]
        elif names:
            self.target_names_ = list(names)

    def _target_names(self) -> list[str]:
        """Return the names of the targets; none if they had none."""
        return [self.target_name_] if hasattr(self, "target_name_") else list(getattr(self, "target_names_", []))

    # Prediction

    def _matched(self, raw: RawTable) -> RawTable:
        """Return the table with its columns in the order of `fit`."""
        return match_columns(raw, self._names, hasattr(self, "feature_names_in_"), type(self).__name__)

    def _predicted(self, X: Any, reduce: Callable[[list[Tensor]], list[Array]]) -> list[Array]:
        """Apply `reduce` to the outputs of all groups for all rows of a table."""
        check_is_fitted(self, "fitted_")
        thread_count(self.n_jobs)  # an invalid number is refused before the table is read
        raw, fitted = self._matched(read_table(X)), self.fitted_
        encoders = fitted.encoders
        n_rows = prediction.block_rows(sum(encoder.n_encoded for encoder in encoders))

        def blocks() -> Iterator[list[Tensor]]:
            for first in range(0, raw.n_rows, n_rows):
                block = raw if raw.n_rows <= n_rows else raw.take(slice(first, first + n_rows))
                yield [torch.as_tensor(encoder.encode(block, dtype=fitted.dtype)) for encoder in encoders]

        with warned_once():  # about columns, not by every encoder
            return prediction.map_outputs(self, blocks(), reduce, raw.n_rows)

    # Files

    def save(self, file: PathOrFile) -> None:
        """Save the fitted estimator to a model file, which `tabgnm.load` reads.

        The file contains everything that predictions need, the parameters (except `n_jobs`, `cv` and the state of a
        `RandomState`), and `history_`, `columns_`, `pack_`, `oof_scores_` and `feature_importances_`. It contains no
        rows of the training data, and loading it does not run any code; see `docs/model-files.md`.

        Parameters
        ----------
        file : str, path or binary file
            A path, or a file that is open for writing in binary mode, such as `io.BytesIO`. An existing file at the
            path is replaced once the new one is complete; for a symbolic link, its target is replaced. Pipes and
            devices are not supported. An open file is written from its current position, without seeking, and is not
            closed.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ModelFileError
            If a parameter cannot be stored as a plain value, or the file cannot be written.
        TypeError
            If `file` is neither a path nor a binary file, for instance a file in text mode.
        """
        from tabgnm.estimators import model_file  # not at the top: it imports all estimators

        model_file.save(self, file)

    # scikit-learn

    @classmethod
    @functools.cache  # scikit-learn inspects the signature in every call, which dominates the time of `get_params`
    def _get_param_names(cls) -> tuple[str, ...]:
        return tuple(super()._get_param_names())

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """Return an estimator with the settings of the paper. Keyword arguments override these settings."""
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
