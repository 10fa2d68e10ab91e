"""The multi-layer perceptron as a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tabgnm.estimators.classifier import TabularClassifier
from tabgnm.estimators.paper_settings import PAPER_CLASSIFIER, PAPER_MLP
from tabgnm.estimators.parameters import MLPParameters


@dataclass(eq=False, repr=False, kw_only=True)
class MLPClassifier(MLPParameters, TabularClassifier):
    """Multi-layer perceptron classifier, trained in the same way as `GNMClassifier`.

    Parameters
    ----------
    hidden : sequence of int or "auto", default="auto"
        The widths of the hidden layers. "auto" uses two or three layers, with 128 units each on a CPU and 256 on a GPU
        or with `effort="best"`.
    activation : str, default="auto"
        The activation function of the hidden layers. See `tabgnm.nn.activation_names()` for the valid names.
    init : {"kaiming", "torch"}, default="kaiming"
        How to initialize the weights: from a normal distribution with standard deviation sqrt(2 / fan_in), or as
        `torch.nn.Linear` does.
    class_weight : dict, "balanced", list or None, default=None
        The weights of the classes, as in scikit-learn: labels that do not occur are ignored if all others have one.
        "balanced" is not supported by `partial_fit`.
    label_smoothing : float, default=0.0
        The fraction of each label that is distributed evenly over all classes.
    calibrated : bool, default=True
        Whether to calibrate the probabilities by temperature scaling, with the temperature that has the lowest log-loss
        on held-out rows. Predicted labels do not change.
    effort : {"default", "fast", "best"}, default="default"
        How much work `fit` does: the number of candidates, folds and epochs where these are "auto".
    time_limit : float or None, default=None
        The maximum duration of `fit` in seconds. The number of candidates, folds and epochs is reduced accordingly, and
        training stops in time with the best weights so far. Encoding the table and measuring the training speed cannot
        be shortened, so on large tables `fit` takes a few seconds at least. If None, there is no limit.
    n_candidates : int or "auto", default="auto"
        The number of different settings to try. Those that improve the predictions for held-out rows are kept, each
        with a weight. If 1, only the first setting is used.
    n_folds : int or "auto", default="auto"
        The number of networks per candidate, each validated on a different fold. If 1, a tenth of the rows is held out
        for validation. If 0, a single candidate is trained on all rows and keeps the weights of the last epoch.
    cv : splitter or iterable, default=None
        Custom folds: a scikit-learn splitter, or an iterable of (training rows, validation rows). If None, see
        `n_folds`. Not stored in model files.
    metric : str or callable, default="auto"
        The metric to select candidates by: "auto" for the loss, a name such as "accuracy", "roc_auc", "mae" or
        "poisson_deviance", or a scikit-learn scorer.
    max_epochs : int or "auto", default="auto"
        The maximum number of passes over the training rows. "auto" depends on `effort` and the table; on a CPU, it is
        reduced if the first networks soon stop improving.
    learning_rate : float or "auto", default="auto"
        The maximum learning rate of the schedule.
    batch_size : int or "auto", default="auto"
        The number of rows per training step. "auto" aims at 64 steps per epoch on a GPU or with `effort="best"`, and at
        32 steps otherwise, with at least 32 rows per step and at most 512 on a GPU or 128 on a CPU.
    dropout : float or "auto", default="auto"
        The dropout rate of all layers except the last.
    l1, l2, l0 : float, default=0.0
        The strengths of the penalties on the edge weights. `l0`, and `l1` with `optimizer="proximal_adam"`, set weights
        to exactly zero.
    weight_decay : float or "auto", default="auto"
        The weight decay of the edge weights: added to the gradient with `optimizer="adam"`, decoupled from it with the
        other optimizers.
    optimizer : {"adamw", "adam", "proximal_adam"}, default="adamw"
        The optimizer: AdamW, Adam, or AdamW with a proximal step for `l1`.
    schedule : {"cosine", "constant", "log_cosine"}, default="cosine"
        The schedule of the learning rate over `max_epochs`.
    warmup : float, default=0.1
        The fraction of the training steps during which the learning rate increases linearly from 0.
    patience : int, None or "auto", default="auto"
        The number of epochs without a lower validation loss after which training of a network stops. If None, training
        never stops early. In both cases the weights of the best epoch are kept. Ignored without validation rows. A
        ConvergenceWarning is issued if the loss is still falling at `max_epochs`, unless `patience` is None.
    scaling : {"auto", "quantile", "robust", "standard", "none"}, default="auto"
        How to scale numeric columns.
    numeric_embedding : {"auto", "periodic", "piecewise"} or None, default="auto"
        How to compute learned features of each numeric column: "periodic" is a linear layer on cosines with learned
        frequencies, "piecewise" a linear layer on a piecewise linear encoding with quantile bins. If None, the scaled
        numbers are used without an embedding.
    n_basis : int or "auto", default="auto"
        The number of cosines or bins per numeric column.
    numeric_dim : int or "auto", default="auto"
        The number of learned features per numeric column. "auto" uses fewer per column for tables with many numeric
        columns.
    frequency_scale : float or "auto", default="auto"
        The standard deviation of the initial frequencies. Larger values suit targets with jumps, smaller values smooth
        targets.
    screen_columns : bool or "auto", default="auto"
        Whether to leave out columns that a statistical test on the training rows of each network finds unrelated to the
        target. Columns with a learned embedding are never left out, so True also disables `numeric_embedding="auto"`.
        "auto" adds a candidate with screening for tables with more than 50 encoded columns, and screens all candidates
        for tables with more than 500, except for tables that are not too wide if the test finds no more than chance.
        "auto" does not screen tables with more than 20 million encoded numbers.
    integer_codes : bool or "auto", default="auto"
        Whether columns of whole numbers are encoded as categories if they have more than 32 and at most 2,000 different
        values, half of which have at least five rows (or `min_level_count`). "auto" does so if the target depends on
        the number, but hardly on the order of the numbers, as with numbers of shops, and if most numbers in validation
        rows also occur in training rows. Columns in `column_kinds` are left out, and "auto" does nothing in
        `partial_fit`.
    max_one_hot : int, default=8
        The maximum number of levels of a one-hot encoded category. Categories with more levels get a learned embedding.
    level_dim : int, default=8
        The number of learned features per category with an embedding.
    min_level_count : int, default=3
        The minimum number of rows for a level to have its own embedding. All rarer levels of a category share one
        embedding.
    column_kinds : dict or None, default=None
        The kinds of some columns, by name or position, such as {"zip": "category"}: "number", "category", "datetime" or
        "ignore". The kinds of all other columns are inferred from their values.
    precision : {"float32", "float64", "tf32", "bf16"}, default="float32"
        The floating-point precision of training. "tf32" and "bf16" require a GPU.
    device : str or torch.device, default="auto"
        The device for training and prediction: "cpu", "cuda", "cuda:1" and so on. "auto" uses a GPU if one is
        available. "auto" and "cuda" train on the current GPU and all others like it, and predict on the current one.
        Other devices, such as "mps", are not supported.
    n_jobs : int or None, default=None
        The number of threads for training and prediction on a CPU. If None, `torch.get_num_threads()`, which respects
        OMP_NUM_THREADS. -1 means all cores available to the process, within the limits of its container, and -2 all
        cores but one. Results with different numbers of threads are equal up to rounding. Not stored in model files.
    warm_start : bool, default=False
        Whether `fit` continues training from the current weights, with the columns and classes of the first call.
        Training parameters may change between calls; the networks, their folds and the encoding of the columns may not.
    random_state : int, RandomState or None, default=None
        The seed of the initial weights, folds, shuffling and dropout. Pass an int for reproducible results.
    verbose : int, default=0
        The verbosity level. If 1 or more, show the number of finished networks, the best validation score so far and
        the remaining time: as a progress bar in a terminal or notebook, elsewhere as messages of the logger "tabgnm",
        at most one every 10 seconds. They are written to stderr unless logging is configured.

    Attributes
    ----------
    classes_ : array of shape (classes,)
        The labels, in the order of the columns of `predict_proba`.
    columns_ : table
        The kind and encoding of each column.
    feature_importances_ : array of shape (columns,)
        The mean absolute value of gradient x input of each column on the training rows, normalized to a sum of 1.
    feature_names_in_ : array of str
        The names of the columns seen during `fit`. Defined only if the columns of X have names.
    fitted_ : FittedPack
        The encoders, targets and weights: everything that predictions need.
    graph_ : list of networkx.DiGraph
        The learned graph of each layer of the network with the largest weight; see `graph`.
    history_ : list of dict
        Losses and accuracy of each epoch, one dict per network.
    members_ : list of torch.nn.Module
        The networks. Their inputs are encoded rows; see `encode`.
    n_features_in_ : int
        The number of columns seen during `fit`.
    oof_prediction_, oof_score_, oof_scores_
        Predictions for the training rows by networks that were not trained on them, and their scores.
    pack_ : DataFrame
        The candidates: their weight, out-of-fold loss, epochs, seconds and settings.

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
