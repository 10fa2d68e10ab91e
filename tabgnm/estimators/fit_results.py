"""Results of a fit: columns, candidates, out-of-fold predictions, histories and networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tabgnm.estimators.fitting import FittedPack
from tabgnm.estimators.frames import as_frame
from tabgnm.estimators.row_marks import RowMarks
from tabgnm.table import RawTable, read_table
from tabgnm.training import History, TrainedModel

if TYPE_CHECKING:
    from tabgnm.nn import GNM, MLP, EmbeddedNetwork

Array = NDArray[Any]


class FitResults:
    """Attributes of fitted estimators."""

    fitted_: FittedPack
    _oof_values: Array | None  # out-of-fold predictions
    _oof_rows: RowMarks | None
    _as_predicted: Callable[[Array], Any]
    _matched: Callable[[RawTable], RawTable]

    @property
    def columns_(self) -> Any:
        """The kind and encoding of each column, as a readable table, for the candidate with the largest weight."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.groups[0].encoder.columns

    @property
    def pack_(self) -> Any:
        """The candidates: weight, out-of-fold loss and its spread over folds, epochs, seconds, race and settings.

        A pandas DataFrame, or a list of dicts if pandas is not installed.
        """
        check_is_fitted(self, "fitted_")
        return as_frame([dict(record) for record in self.fitted_.candidates])

    @property
    def oof_scores_(self) -> dict[str, float]:
        """Scores on rows that the networks were not trained on.

        For classifiers: accuracy, log-loss and expected calibration error (over 15 bins of equal width). For
        regressors: R², mean squared and mean absolute error, and the mean of any other `loss`; with `loss="quantile"`:
        D² and quantile loss. If `metric` is set, "metric" is its value; larger is better.

        Unless there are many rows, the epochs and weights of networks that predict a row were chosen by other rows.
        This does not hold after repeated calls of `fit` with `warm_start=True`: the weights from which training
        continues were chosen by the same rows, so scores are too good, and tend to increase even on pure noise.
        """
        return dict(self._scores_on_left_out_rows("oof_scores_"))

    @property
    def oof_score_(self) -> float:
        """The score on rows that the networks were not trained on (accuracy, R² or D²); see `oof_scores_`."""
        return self._scores_on_left_out_rows("oof_score_")[self.fitted_.targets.metric_name]

    def _scores_on_left_out_rows(self, asked_for: str) -> dict[str, float]:
        check_is_fitted(self, "fitted_")
        if not self.fitted_.scores:
            raise AttributeError(
                f"{asked_for} needs rows that networks were not trained on, and there are none; call fit with "
                "n_folds>=1 (partial_fit holds out no rows), and with two rows of at least one class"
            )
        return self.fitted_.scores

    @property
    def oof_prediction_(self) -> Any:
        """The prediction for each row of `fit` (or of X_val) by the networks that were not trained on it.

        Probabilities in the form of `predict_proba` for classifiers, numbers for regressors. NaN for rows that are in
        no validation fold or have no weight. Stored in pickles (8 bytes per row and class or target), but not in model
        files.
        """
        check_is_fitted(self, "fitted_")
        values = getattr(self, "_oof_values", None)
        if values is None:
            raise AttributeError(
                "oof_prediction_ is not available: it needs a fit with n_folds>=1 and is not stored in model files"
            )
        return self._as_predicted(values)

    @property
    def history_(self) -> list[dict[str, Any]]:
        """One dict per network: train_loss, val_loss and the validation metric of each epoch, best_epoch and status."""
        check_is_fitted(self, "fitted_")
        return [history for group in self.fitted_.groups for history in group.histories]

    @property
    def feature_importances_(self) -> Array:
        """The mean absolute value of gradient x input of each column, normalized to a sum of 1."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.importances

    @property
    def members_(self) -> list[GNM | MLP | EmbeddedNetwork]:
        """The networks as torch modules, candidate by candidate. Their inputs are encoded rows; see `encode`."""
        check_is_fitted(self, "fitted_")
        return [
            TrainedModel(group.shape, group.network(i), History(), group.settings["dropout"]).network()
            for group in self.fitted_.groups
            for i in range(group.n_networks)
        ]

    def encode(self, X: Any, group: int = 0) -> Array:
        """Return the encoded table: the inputs of the networks of one candidate.

        Parameters
        ----------
        X : table of shape (rows, columns)
        group : int, default=0
            The position of the candidate among those that were kept, the one with the largest weight first. Candidates
            may encode tables differently.
        """
        check_is_fitted(self, "fitted_")
        encoder = self.fitted_.groups[group].encoder
        return encoder.encode(self._matched(read_table(X)), dtype=self.fitted_.dtype)
