"""Methods of all estimators to learn a small machine, and to read, prune and export it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tabgnm.estimators import lessons, pruning, small_machines
from tabgnm.estimators.checks import check_integer, check_number, random_numbers
from tabgnm.estimators.constant_targets import machine_of
from tabgnm.estimators.frames import as_frame
from tabgnm.estimators.pruning import PAPER_THRESHOLD
from tabgnm.estimators.target_arrays import names_of_targets
from tabgnm.estimators.unused_parameters import warn_about_unused
from tabgnm.sparsity import Machine, NoMachine, described, edge_records
from tabgnm.sparsity.edge_table import EDGE_COLUMNS
from tabgnm.sparsity.path import PathSettings
from tabgnm.sparsity.simplifying import with_hidden_names
from tabgnm.sparsity.structure import listed_names
from tabgnm.table.layout import NOTHING

if TYPE_CHECKING:
    from typing_extensions import Self

    from tabgnm.estimators.fitting import FittedPack
    from tabgnm.nn.node_names import NodeNames

# With n_edges, machines of a few larger sizes are trained first and reduced step by step, which is more accurate.
_LARGER_SIZES = 3


class NoSingleMachine(ValueError, AttributeError):
    """The estimator has several networks, learned embeddings or gates, so there is no single machine to read.

    Raised by `machine_`, `describe`, `edges`, `equations` and `tabgnm.export.program_of`; `export` raises `ExportError`
    instead. It is an AttributeError, so that `hasattr(estimator, "machine_")` is False.
    """


def check_teaching(label_share: float | None, n_augmented: int | None) -> None:
    """Validate the parameters that only `distill` has; raise if any is invalid."""
    if label_share is not None:
        check_number("label_share", label_share, 0, 1, "0.5", include_low=True, include_high=True)
    if n_augmented is not None:
        check_integer("n_augmented", n_augmented, smallest=0)


def advice(estimator: Any) -> str:
    """Return the part of an error message that explains how to get a small machine from an estimator."""
    from tabgnm.estimators.parameters import GNMParameters  # not at the top: the parameters of all estimators

    if isinstance(estimator, GNMParameters):
        return (
            "call distill(X) for a small machine that imitates it, or fit_sparse(X, y) for one that learns from the "
            "labels"
        )
    gnm = type(estimator).__name__.replace("MLP", "GNM")
    return f"MLPs do not learn small machines: use {gnm}().fit_sparse(X, y), or {gnm}().fit(X, y).distill(X)"


class MachineMethods:
    """Methods of estimators to learn, read, prune and export small machines."""

    # `self` is always a TabularEstimator, which this is mixed into; mypy does not know it, hence the ignores below.
    fitted_: FittedPack
    _path: list[dict[str, Any]]  # sizes and scores of the path that a small machine was chosen from
    _path_fitted: list[FittedPack]
    pruning_: dict[str, float]

    @property
    def machine_(self) -> Machine:
        """The network of an estimator with a single network, as a simplified `tabgnm.sparsity.Machine`.

        Its inputs are the encoded columns, and its hidden units are called h1, h2, ... (without names of columns). Its
        outputs have the names of the targets, if y had any, else "y", or "y0", "y1", ...

        Raises
        ------
        NoSingleMachine
            If the estimator has several networks, learned embeddings or `combine="gated"`; use `distill` or
            `fit_sparse` first.
        """
        check_is_fitted(self, "fitted_")
        if self.fitted_.n_networks > 1 or self.fitted_.groups[0].shape.embedding is not None:
            what = "learned embeddings of its columns"
            if self.fitted_.n_networks > 1:
                what = f"{self.fitted_.n_networks} networks"
            raise NoSingleMachine(
                f"this {type(self).__name__} has {what}, so there is no single machine to read or export; "
                f"{advice(self)}"
            )
        group = self.fitted_.groups[0]
        network = self.members_[0]  # type: ignore[attr-defined] # of the estimator
        names: NodeNames = self._node_names(group)  # type: ignore[attr-defined]
        try:
            machine = machine_of(network.double(), group.targets, names.inputs, names.outputs)
        except NoMachine as error:
            raise NoSingleMachine(f"this {type(self).__name__} is not a machine: {error}; or {advice(self)}") from error
        return with_hidden_names(machine, taken=self._names)  # type: ignore[attr-defined]

    @property
    def sparsity_path_(self) -> Any:
        """The machines that `distill` or `fit_sparse` chose this one from, by decreasing number of edges.

        For each size: the number of edges, columns used and hidden units, the loss on held-out rows with its standard
        error, the score (accuracy or R²) with its standard deviation over folds, what both are measured against, and
        whether the size was chosen. "judged_by" is "target" or, if `distill` was called without y, "model": then loss
        and score compare with predictions of the distilled estimator, and say nothing about true targets. A pandas
        DataFrame, or a list of dicts if pandas is not installed.
        """
        if not hasattr(self, "_path"):
            raise AttributeError(
                f"this {type(self).__name__} has no sparsity_path_: it was not returned by distill or fit_sparse, or "
                "it has been fitted or pruned since; call distill or fit_sparse again"
            )
        return as_frame(self._path)

    def resized(self, n_edges: int) -> Self:
        """Return the best machine of `sparsity_path_` with at most `n_edges` edges.

        No training takes place.

        Parameters
        ----------
        n_edges : int
            The maximum number of edges, including biases.

        Returns
        -------
        estimator
        """
        n_edges = check_integer("n_edges", n_edges)
        if not hasattr(self, "_path_fitted"):
            raise AttributeError(
                f"this {type(self).__name__} cannot be resized: it was not returned by distill or fit_sparse, or it "
                "has been fitted or pruned since; call distill or fit_sparse again"
            )
        place = small_machines.choose(self._path, n_edges, None)
        small_machines.warn_if_constant(self._path, place, n_edges, stacklevel=2)
        has_names = hasattr(self, "feature_names_in_")
        small: Any = small_machines.at_place(self, place, self._names, has_names)  # type: ignore[attr-defined, arg-type]
        return small  # type: ignore[no-any-return]

    def describe(self) -> str:
        """Describe the machine in words: its layers, skip edges and the columns that it uses.

        Returns
        -------
        str
        """
        group, columns = self.fitted_.groups[0], self._names  # type: ignore[attr-defined]
        owners = dict(zip(group.encoder.encoded_names, group.encoder.owners, strict=True))
        owners.pop(NOTHING, None)
        encoded = set(owners.values())
        lines = [described(self.machine_).removesuffix(f"\nIt does not use: {NOTHING}.")]
        if left_out := [name for place, name in enumerate(columns) if place not in encoded]:
            lines.append(f"Columns that are constant or ignored: {listed_names(left_out)}.")
        if quantiles := getattr(group.targets, "predicted_quantiles", ()):
            names: NodeNames = self._node_names(group)  # type: ignore[attr-defined]
            target = ", ".join(self._named_targets(group))  # type: ignore[attr-defined]
            pairs = zip(names.outputs, quantiles, strict=True)
            listed = ", ".join(f"{name} the {quantile:g} quantile" for name, quantile in pairs)
            lines.append(f"It predicts quantiles of {target}: {listed}.")
        return "\n".join(lines)

    def equations(self, format: str = "text", digits: int | None = 6) -> Any:  # noqa: A002 - the usual name
        """Return the equations of the machine, in the names and units of the columns of the table.

        Comments below the equations explain names, missing values and functions, and state how much the results may
        differ from predictions because of rounding.

        Parameters
        ----------
        format : {"text", "latex", "sympy"}, default="text"
            The output format. "text" can also be parsed by a program: there is one line per quantity, and continuation
            lines are indented. "sympy" returns a dict from each prediction to an expression whose symbols have the same
            names as in "text"; it requires SymPy.
        digits : int or None, default=6
            The number of significant digits. If None, numbers are exact.

        Returns
        -------
        str or dict

        Raises
        ------
        NoSingleMachine
            If the estimator has several networks, learned embeddings or gates.
        ExportError
            If the network predicts logarithms (`target_transform="log"`).

        Examples
        --------
        >>> from tabgnm import GNMRegressor
        >>> settings = {"numeric_embedding": None, "n_candidates": 1, "n_folds": 0, "max_epochs": 1}
        >>> model = GNMRegressor(n_layers=1, n_nodes=4, scaling="standard", scale_target=False, **settings)
        >>> model = model.fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 2.0])
        >>> for values in model.fitted_.groups[0].parameters.values():  # instead of learning them
        ...     _ = values.fill_(1.0)
        >>> print(model.equations(digits=3))
        y = 1.22*x0 - 1.44...
        <BLANKLINE>
        # Where a value is missing, use x0 = 2
        ...
        """
        from tabgnm.export import equations, program_of  # not at the top: it imports estimators

        return equations(program_of(self), format, digits)  # type: ignore[arg-type] # an estimator

    def edges(self) -> Any:
        """Return the edges of the machine as a table, layer by layer.

        The columns are "layer", "source", "target", "weight" and "column". Inputs have the names of encoded columns,
        such as "city=Oslo", and "column" is the column of the table they are computed from. The source of a bias is
        "bias". Weights are those of the network, which uses scaled columns and a scaled target, so they can be
        compared.

        Returns
        -------
        pandas.DataFrame, or a list of dicts if pandas is not installed
        """
        machine = self.machine_
        names: NodeNames = self._node_names(self.fitted_.groups[0])  # type: ignore[attr-defined]
        records = edge_records(machine, names.columns)
        return as_frame(records, EDGE_COLUMNS)

    def prune(self, threshold: float = PAPER_THRESHOLD, X: Any = None, y: Any = None) -> Self:
        """Return a copy of the estimator with small weights set to 0, as in section 6.5 of the paper.

        In all networks, edge weights and biases whose absolute value is smaller than the threshold are set to 0.
        Learned embeddings of columns do not change, and no training takes place. `fit_sparse` and `distill` learn
        machines that are much smaller at the same accuracy.

        Parameters
        ----------
        threshold : float, default=1e-3
        X, y : table and targets, default=None
            Rows to compute the score on before and after pruning.

        Returns
        -------
        estimator
            A copy with the pruned networks. Its attribute `pruning_` is a dict with "threshold", "n_edges_before" and
            "n_edges_after" (of all networks, including biases), and "score_before" and "score_after" if X and y are
            given. It has no out-of-fold predictions and scores; `history_` and `feature_importances_` are those before
            pruning.
        """
        return pruning.pruned(self, threshold, X, y)  # type: ignore[type-var]

    def distill(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        label_share: float | None = None,
        n_edges: int | None = None,
        tolerance: float | None = None,
        penalty: str = "l1",
        n_hidden: int = 32,
        n_layers: int = 3,
        activation: str = "relu",
        n_folds: int = 3,
        n_starts: int = 3,
        n_augmented: int | None = None,
        random_state: Any = None,
    ) -> Self:
        """Train a small machine to imitate this fitted estimator, and return it as a new estimator.

        The machine learns from the predictions for the rows of X and for augmented rows, each of which mixes the
        columns of two rows of X. If y is passed, it learns from the mean of the prediction and the true target of each
        row of X. It is usually more accurate than a machine of the same size that learns from labels alone.
        Machines of many sizes are trained; see `sparsity_path_`. By default, the smallest machine whose loss is within
        one standard error of the lowest loss is returned.

        Parameters
        ----------
        X : table of shape (rows, columns)
            The rows to learn from, usually those of `fit`.
        y : array-like, default=None
            The true targets of these rows, to learn from and to choose the size by. If None, the predictions of this
            estimator are used, and the scores of `sparsity_path_` are those of agreeing with it. For quantiles, y is
            required, and the machine learns only from it: a quantile of predicted quantiles is not a quantile of the
            target.
        sample_weight : array-like of shape (rows,), default=None
            The weight of each row. Rows with weight 0 are ignored. If None, all rows have equal weight.
        label_share : float or None, default=None
            The weight of y in the mean that the machine learns from, between 0 and 1. With 0, y is only used to choose
            the size. If None, 0.5; but 0 if this estimator was fitted with sample weights and none are passed here.
        n_edges : int or None, default=None
            The maximum number of edges, including biases. The best machine within this limit is returned, with a
            warning if it is a constant because no column can be used with so few edges.
        tolerance : float or None, default=None
            The tolerated increase of the loss: the smallest machine whose loss is at most this fraction above the
            lowest loss is returned. 0 returns the machine with the lowest loss.
        penalty : {"l1", "group", "elastic", "l0"}, default="l1"
            The penalty that removes edges. "group" removes all edges of a column together.
        n_hidden, n_layers, activation : int, int, str
            The size and activation function of the dense network that training starts with.
        n_folds : int, default=3
            The number of folds on which the sizes are compared. Copies of a row are in the same fold, as in `fit`.
        n_starts : int, default=3
            How often machines are trained on all rows, from different initial weights. Of each size, the machine with
            the lowest training loss is kept. 1 is faster.
        n_augmented : int or None, default=None
            The number of augmented rows. If None, X is augmented to 5,000 rows.
        random_state : int, RandomState or None, default=None
            If None, the `random_state` of the estimator.

        Returns
        -------
        estimator
            An estimator of the same class, with a single sparse network. Its method `fit`, and that of a clone, trains
            a dense network; call `fit_sparse` for another small machine.
        """
        check_is_fitted(self, "fitted_")
        settings = self._path_settings(penalty, n_hidden, n_layers, activation, n_edges, tolerance, n_folds, n_starts)
        rng = random_numbers(self.random_state if random_state is None else random_state)  # type: ignore[attr-defined]
        check_teaching(label_share, n_augmented)
        teacher: Any = self  # these are methods of estimators, which the type of the mixin does not say
        lesson, raw = lessons.lesson_of_teacher(teacher, X, y, sample_weight, label_share, n_augmented, rng)
        names = names_of_targets(y) or self._target_names()  # type: ignore[attr-defined]
        return self._learned(lesson, raw, settings, n_edges, tolerance, n_folds, n_starts, rng, names)

    def fit_sparse(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        n_edges: int | None = None,
        tolerance: float | None = None,
        penalty: str = "l1",
        n_hidden: int = 32,
        n_layers: int = 3,
        activation: str = "relu",
        n_folds: int = 3,
        n_starts: int = 3,
        random_state: Any = None,
    ) -> Self:
        """Train a small machine on labels, and return it as a new estimator.

        Like `distill`, but learns from y instead of the predictions of this estimator, which does not need to be
        fitted. Of the parameters of the estimator, it uses those of the target (`loss`, `class_weight` and so on),
        `column_kinds`, `device`, `n_jobs` and `random_state`. A warning names others that were set. (It is
        not called `sparsify` because scikit-learn's linear models have a different method of that name.)

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        n_edges, tolerance, penalty, n_hidden, n_layers, activation, n_folds, n_starts, random_state
            As in `distill`.

        Returns
        -------
        estimator
            An estimator of the same class, with a single sparse network. Its method `fit`, and that of a clone, trains
            a dense network; call `fit_sparse` for another small machine.
        """
        settings = self._path_settings(penalty, n_hidden, n_layers, activation, n_edges, tolerance, n_folds, n_starts)
        rng = random_numbers(self.random_state if random_state is None else random_state)  # type: ignore[attr-defined]
        estimator: Any = self  # these are methods of estimators, which the type of the mixin does not say
        lesson, raw = lessons.lesson_of_labels(estimator, X, y, sample_weight)
        warn_about_unused(estimator, small_machines.small_parameters(estimator, lesson, settings), stacklevel=2)
        return self._learned(lesson, raw, settings, n_edges, tolerance, n_folds, n_starts, rng, names_of_targets(y))

    def export(self, path: str | Path, **options: Any) -> None:
        """Export this fitted estimator as code or a model that makes the same predictions without this package.

        The format is determined by the suffix of the file. Scaling, missing values, levels and labels are included.

        - ".onnx": an ONNX model; supports packs; see docs/export-onnx.md.
        - ".py": a single Python file that only requires NumPy; supports packs; see docs/export-python.md.
        - ".c": a single C99 file; see docs/export-c.md.
        - ".sql": a query for SQLite, DuckDB or PostgreSQL; see docs/export-sql.md.

        Parameters
        ----------
        path : str or Path
            An existing file is replaced once the new one is complete.
        **options
            Options of the format. ".onnx": `matrix` and `number_type`. ".py": `max_megabytes`. ".c": `prefix` of all
            names. ".sql": `table`, a name, or schema and name; `dialect`, one of "sqlite", "duckdb" and "postgresql";
            and `keep`, the columns to return with the predictions.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ExportError
            If the estimator cannot be exported to this format, or the file cannot be written. ".c" and ".sql" require
            a single machine (see `machine_`); use `distill` or `fit_sparse` first.
        """
        from tabgnm.export.exporting import export  # not at the top: it imports the estimators

        export(self, path, **options)  # type: ignore[arg-type]

    def _forget_other_path(self) -> None:
        """Forget the path of sizes unless the estimator is one of its machines."""
        if hasattr(self, "_path_fitted") and not any(own is self.fitted_ for own in self._path_fitted):
            del self._path, self._path_fitted

    def _path_settings(
        self,
        penalty: str,
        n_hidden: int,
        n_layers: int,
        activation: str,
        n_edges: int | None,
        tolerance: float | None,
        n_folds: int,
        n_starts: int,
    ) -> PathSettings:
        from tabgnm.estimators.parameters import GNMParameters  # not at the top: the parameters of all estimators

        if not isinstance(self, GNMParameters):
            raise TypeError(f"{type(self).__name__} has fixed layers and does not learn a graph. {advice(self)}")
        self._check_parameters()
        if n_edges is not None and tolerance is not None:
            raise ValueError(
                f"n_edges={n_edges} and tolerance={tolerance} cannot both be given; use n_edges=None or tolerance=None"
            )
        if tolerance is not None:
            check_number("tolerance", tolerance, 0, np.inf, "0.02", include_low=True)
        check_integer("n_folds", n_folds, smallest=2)
        check_integer("n_starts", n_starts)
        budgets = PathSettings().budgets
        if n_edges is not None:
            n_edges = check_integer("n_edges", n_edges)
            larger = [own for own in budgets if own > n_edges][:_LARGER_SIZES]
            budgets = tuple(sorted({*(own for own in budgets if own < n_edges), n_edges, *larger}))
        return PathSettings(
            n_hidden=check_integer("n_hidden", n_hidden, smallest=0),
            n_layers=check_integer("n_layers", n_layers),
            activation=activation,
            penalty=penalty,
            budgets=budgets,
            device=str(self.device),  # type: ignore[attr-defined]
            n_threads=self.n_jobs,  # type: ignore[attr-defined]
        )

    def _learned(
        self,
        lesson: lessons.Lesson,
        raw: Any,
        settings: PathSettings,
        n_edges: int | None,
        tolerance: float | None,
        n_folds: int,
        n_starts: int,
        rng: np.random.RandomState,
        target_names: list[str],
    ) -> Self:
        small: Any = small_machines.learn(
            self,  # type: ignore[arg-type]
            lesson,
            raw,
            settings,
            n_edges=n_edges,
            tolerance=tolerance,
            n_folds=n_folds,
            n_starts=n_starts,
            rng=rng,
        )
        small._set_target_names(target_names)
        return small  # type: ignore[no-any-return]
