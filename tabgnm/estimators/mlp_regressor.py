"""The multi-layer perceptron as a regressor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tabgnm.estimators.paper_settings import PAPER_MLP, PAPER_REGRESSOR
from tabgnm.estimators.parameters import MLPParameters
from tabgnm.estimators.regressor import TabularRegressor


@dataclass(eq=False, repr=False, kw_only=True)
class MLPRegressor(MLPParameters, TabularRegressor):
    """Multi-layer perceptron regressor, trained in the same way as `GNMRegressor`.

    Parameters
    ----------
    hidden : sequence of int or "auto", default="auto"
        Widths of the hidden layers. "auto" means two or three layers of 128 nodes on a CPU, and of 256 on a GPU or with
        `effort="best"`.
    activation : str, default="auto"
        Activation of the hidden layers. See `tabgnm.nn.activation_names()`.
    init : {"kaiming", "torch"}, default="kaiming"
        Initial weights: normal with standard deviation sqrt(2 / fan-in), or as in `torch.nn.Linear`.
    loss : str, default="squared_error"
        One of "squared_error", "absolute_error", "huber" and "quantile" (pinball loss), or, for targets >= 0 with a log
        link, so that predictions are positive: "poisson" for counts, "gamma" for positive amounts, and "tweedie" for
        amounts of which some are 0. "mse" is an alias of "squared_error".
    quantile : float or list of float, default=0.5
        Quantile to predict with `loss="quantile"`. A list in ascending order predicts several, which never cross, for a
        single target.
    huber_delta : float, default=1.0
        Error at which the Huber loss becomes linear, in standard deviations of the target (in units of the target if
        `scale_target=False`).
    tweedie_power : float, default=1.5
        Power of the mean that the variance is proportional to with `loss="tweedie"`, from 1.01 (almost "poisson") to
        1.99 (almost "gamma").
    scale_target : bool, default=True
        Standardise the target for training, or divide it by its mean with a log link. Predictions are in units of the
        target either way.
    target_transform : {"auto", "none", "log"}, default="auto"
        Learn the logarithm of positive targets. "auto" has candidates that do if the target has a long tail and the
        loss has no log link.
    effort : {"default", "fast", "best"}, default="default"
        How many candidates, folds and epochs "auto" stands for.
    time_limit : float or None, default=None
        Seconds that `fit` may take. The number of candidates, folds and epochs is reduced to what fits in, and training
        ends in time with the best weights so far. Encoding the table and measuring the speed of training cannot be
        shortened, so that the shortest fit takes a few seconds for large tables.
    n_candidates : int or "auto", default="auto"
        Number of different settings to try; those that help to predict rows outside their training rows are kept and
        weighted. With 1, the first one is used.
    n_folds : int or "auto", default="auto"
        Number of networks per candidate, each validated on another part of the rows. With 1, a tenth of the rows is
        used for validation; with 0, a single candidate is trained on all rows and keeps the weights of the last epoch.
    cv : splitter or iterable, default=None
        Folds of your own: a splitter of scikit-learn, or pairs of training and validation rows. Not stored in model
        files.
    metric : str or callable, default="auto"
        What candidates are chosen by: "auto" for the loss, a name such as "accuracy", "roc_auc", "mae" or
        "poisson_deviance", or a scorer of scikit-learn.
    max_epochs : int or "auto", default="auto"
        Maximum number of passes over the training rows.
    learning_rate : float or "auto", default="auto"
        Largest learning rate of the schedule.
    batch_size : int or "auto", default="auto"
        Rows per step. "auto" makes about 64 steps per epoch on a GPU and 32 on a CPU, with 32 to 512 rows each (64 to
        512 on a CPU from 500 rows on).
    dropout : float or "auto", default="auto"
        Dropout rate in all layers but the last.
    l1, l2, l0 : float, default=0.0
        Strengths of the penalties on the edge weights. l1 with `optimizer="proximal_adam"`, and l0, yield exact zeros.
    weight_decay : float or "auto", default="auto"
        Decay of the edge weights: part of the gradient with `optimizer="adam"`, separate from it with the others.
    optimizer : {"adamw", "adam", "proximal_adam"}, default="adamw"
        AdamW, Adam, or AdamW with a proximal step for l1.
    schedule : {"cosine", "constant", "log_cosine"}, default="cosine"
        Schedule of the learning rate over all epochs.
    warmup : float, default=0.1
        Fraction of all steps in which the learning rate rises linearly to its schedule.
    patience : int, None or "auto", default="auto"
        Stop a network after this many epochs without a lower validation loss; None never stops early. In both cases the
        weights of the best epoch are kept. Ignored without validation rows. If the loss is still falling at
        `max_epochs`, this is a ConvergenceWarning, unless `patience` is None.
    scaling : {"auto", "quantile", "robust", "standard", "none"}, default="auto"
        Scaling of numeric columns.
    numeric_embedding : {"auto", "periodic", "piecewise"} or None, default="auto"
        Learned features of each numeric column: a linear map of cosines with learned frequencies, or of a piecewise
        linear encoding on quantile bins. None uses the scaled numbers.
    n_basis : int or "auto", default="auto"
        Number of cosines or bins per numeric column.
    numeric_dim : int or "auto", default="auto"
        Number of learned features per numeric column. "auto" gives fewer to each column of tables with many of them.
    frequency_scale : float or "auto", default="auto"
        Standard deviation of the initial frequencies: larger for targets that jump, smaller for smooth targets.
    screen_columns : bool or "auto", default="auto"
        Leave out columns that are not related to the target by a test on the training rows of each network; not for
        embedded columns. "auto" has a candidate that does for tables with more than 50 numbers.
    max_one_hot : int, default=8
        Categories with more levels get a learned embedding instead of one input per level.
    level_dim : int, default=8
        Number of learned features per category with an embedding.
    min_level_count : int, default=3
        Levels of such categories with fewer rows share one embedding.
    column_kinds : dict or None, default=None
        Kinds of columns, instead of those inferred from their values: {"zip": "category"}. One of "number",
        "category", "datetime" and "ignore".
    precision : {"float32", "float64", "tf32", "bf16"}, default="float32"
        Arithmetic of training. "tf32" and "bf16" need a GPU.
    device : str or torch.device, default="auto"
        "cpu", "cuda", "cuda:1" and so on, or "auto" for a GPU if there is one. Others, such as "mps", are not
        supported.
    n_jobs : int or None, default=None
        Threads for training and prediction on a CPU; None uses as many as torch does (`torch.get_num_threads()`, which
        respects OMP_NUM_THREADS), -1 all cores this process may use, within the limits of its container, -2 all but
        one. Results with different numbers of threads are equal up to rounding. Not stored in model files.
    warm_start : bool, default=False
        Continue training from the current weights in `fit`, with the columns and classes of the first call. Training
        parameters may change between calls; the networks, their folds and the encoding of the columns may not.
    random_state : int, RandomState or None, default=None
        Seed of the initial weights, folds, shuffling and dropout. Pass an int for reproducible results.
    verbose : int, default=0
        0 shows nothing. 1 or more shows the networks that are done, the best validation score of any of them and the
        time left: as a bar in a terminal or notebook, elsewhere as lines of the logger "tabgnm", every 10 seconds at
        most. They go to stderr unless logging is configured.

    Attributes
    ----------
    columns_ : table
        Kind and encoding of each column.
    feature_importances_ : array of shape (columns,)
        Mean absolute gradient x input of each column on the training rows, scaled to a sum of 1.
    feature_names_in_ : array of str
        Names of the columns. Defined only if the table had names.
    fitted_ : FittedPack
        Encoders, targets and weights: all that predictions need.
    graph_ : list of networkx.DiGraph
        The learned graph of each layer, of the network with the largest weight; see `graph`.
    history_ : list of dict
        Losses and R² of each epoch, per network.
    members_ : list of torch.nn.Module
        The networks; their input is encoded rows, see `encode`.
    n_features_in_ : int
        Number of columns.
    oof_prediction_, oof_score_, oof_scores_
        Predictions of the training rows by networks that were not trained on them, and their scores.
    pack_ : DataFrame
        The candidates: weight, out-of-fold loss, epochs, seconds, settings.

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
