"""What all estimators offer about their machine: learning a small one, reading it, drawing it, exporting it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tabgnm.estimators import pruning, small_machines
from tabgnm.estimators.checks import check_integer, check_number, random_numbers
from tabgnm.estimators.frames import as_frame
from tabgnm.estimators.learned_graph import node_names
from tabgnm.estimators.pruning import PAPER_THRESHOLD
from tabgnm.estimators.target_arrays import name_of_target
from tabgnm.sparsity import Machine, described, edge_records, simplified, unrolled
from tabgnm.sparsity.path import PathSettings

if TYPE_CHECKING:
    from typing_extensions import Self

    from tabgnm.estimators.fitting import FittedPack

# With n_edges, machines are cut down from those of a few larger sizes, which makes them better than cutting at once.
_LARGER_SIZES = 3


class NoSingleMachine(ValueError, AttributeError):
    """The estimator is a pack of several networks, or has learned embeddings, so that there is no machine to read.

    It is an AttributeError as well, so that `hasattr(estimator, "machine_")` is False.
    """


class MachineMethods:
    """Methods of estimators about the graph that they have learned."""

    # `self` is always a TabularEstimator, which this is mixed into; mypy does not know it, hence the ignores below.
    fitted_: FittedPack
    _path: list[dict[str, Any]]  # sizes and scores of the path that a small machine was chosen from
    _path_fitted: list[FittedPack]
    pruning_: dict[str, float]

    @property
    def machine_(self) -> Machine:
        """The only network as a simplified `tabgnm.sparsity.Machine`, whose inputs are the encoded columns.

        Raises
        ------
        NoSingleMachine
            For packs and for networks with learned embeddings; use `distill` or `fit_sparse` first.
        """
        check_is_fitted(self, "fitted_")
        if self.fitted_.n_networks > 1 or self.fitted_.groups[0].shape.embedding is not None:
            what = "learned embeddings of its columns"
            if self.fitted_.n_networks > 1:
                what = f"{self.fitted_.n_networks} networks"
            raise NoSingleMachine(
                f"this {type(self).__name__} has {what}, so there is no single machine to read or export; call "
                "distill(X) for a small machine that it teaches, or fit_sparse(X, y) for one that learns from labels"
            )
        group = self.fitted_.groups[0]
        network = self.members_[0]  # type: ignore[attr-defined] # of the estimator
        names = node_names(group, self._names)  # type: ignore[attr-defined]
        return simplified(unrolled(network.double(), names.inputs, names.outputs))

    @property
    def sparsity_path_(self) -> Any:
        """The path that `distill` or `fit_sparse` chose this machine from, by falling number of edges.

        For each size: edges, columns that are used, hidden units, loss on held-out rows with its standard error, score
        (accuracy or R²) with its standard deviation over folds, and whether it was chosen. A pandas DataFrame, or a
        list of dicts where pandas is not installed.
        """
        if not hasattr(self, "_path"):
            raise AttributeError(
                f"this {type(self).__name__} was not made by distill or fit_sparse, or was fitted or pruned since, so "
                "there is no path of sizes"
            )
        return as_frame(self._path)

    def resized(self, n_edges: int) -> Self:
        """Return the best machine with at most so many edges of the path that this one was chosen from.

        Nothing is trained; the sizes are those of `sparsity_path_`.

        Parameters
        ----------
        n_edges : int
            Most edges, biases counted.

        Returns
        -------
        estimator
        """
        n_edges = check_integer("n_edges", n_edges)
        if not hasattr(self, "_path_fitted"):
            raise AttributeError(
                f"this {type(self).__name__} has no path of sizes: it was not made by distill or fit_sparse, or it was "
                "fitted or pruned since"
            )
        place = small_machines.choose(self._path, n_edges, None)
        has_names = hasattr(self, "feature_names_in_")
        small: Any = small_machines.at_place(self, place, self._names, has_names)  # type: ignore[attr-defined, arg-type]
        return small  # type: ignore[no-any-return]

    def describe(self) -> str:
        """Say in words what the machine is: layers, skip edges, columns that it uses.

        Returns
        -------
        str
        """
        return described(self.machine_)

    def equations(self, format: str = "text", digits: int | None = 6) -> Any:  # noqa: A002 - the usual name
        """Return what the machine computes as equations, in the names and units of the columns of the table.

        Comments below the equations explain names, missing values and functions, and state by how much the results may
        differ from predictions because of rounded numbers.

        Parameters
        ----------
        format : {"text", "latex", "sympy"}, default="text"
            "text" can also be read by a program: one line per quantity, and continued lines are indented. "sympy"
            returns a dict from each prediction to an expression whose symbols have the names of the text. It needs
            SymPy.
        digits : int or None, default=6
            Significant digits of the numbers; None for exact ones.

        Returns
        -------
        str or dict

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

        Columns are "layer", "source", "target", "weight" and "column". Inputs are named like encoded columns, such as
        "city=Oslo", and "column" is the column of the table that they come from. The source of a bias is "bias".
        Weights are those of the network: of scaled columns, and of a scaled target, so that they can be compared.

        Returns
        -------
        pandas.DataFrame, or a list of dicts where pandas is not installed
        """
        machine = self.machine_
        names = node_names(self.fitted_.groups[0], self._names)  # type: ignore[attr-defined]
        records = edge_records(machine, names.columns)
        return as_frame(records)

    def prune(self, threshold: float = PAPER_THRESHOLD, X: Any = None, y: Any = None) -> Self:
        """Set small weights to 0, as in section 6.5 of the paper, and return a new estimator.

        This is done in all networks, with weights of edges and biases whose absolute value is smaller than the
        threshold. Learned embeddings of columns stay as they are. Nothing is trained; `fit_sparse` and `distill` learn
        machines that are much smaller for the same accuracy.

        Parameters
        ----------
        threshold : float, default=1e-3
        X, y : table and targets, default=None
            Rows to compute the score before and after pruning.

        Returns
        -------
        estimator
            A copy with the pruned networks. Its attribute `pruning_` is a dict with "threshold", "n_edges_before" and
            "n_edges_after" (of all networks, biases counted), and "score_before" and "score_after" if X and y were
            given. It has no out-of-fold predictions and scores; `history_` and `feature_importances_` are those of the
            networks before pruning.
        """
        return pruning.pruned(self, threshold, X, y)  # type: ignore[type-var]

    def distill(
        self,
        X: Any,
        y: Any = None,
        *,
        n_edges: int | None = None,
        tolerance: float | None = None,
        penalty: str = "l1",
        n_hidden: int = 32,
        n_layers: int = 3,
        activation: str = "relu",
        n_folds: int = 3,
        n_augmented: int | None = None,
        random_state: Any = None,
    ) -> Self:
        """Teach one small machine what this fitted estimator predicts, and return it as an estimator of its own.

        It learns from predictions for the rows of X and for rows that mix columns of two of them, which makes it better
        than one of the same size that learns from labels. A whole path of sizes is trained at once; by default the
        smallest machine is returned whose loss is within one standard error of the best. `sparsity_path_` shows all.

        Parameters
        ----------
        X : table of shape (rows, columns)
            Rows to learn from, usually those of `fit`.
        y : array-like, default=None
            True targets of these rows to choose the size by. None: the predictions of this estimator.
        n_edges : int or None, default=None
            Return the best machine with at most so many edges, biases counted.
        tolerance : float or None, default=None
            Return the smallest machine whose loss is at most this fraction above the best one.
        penalty : {"l1", "group", "elastic", "l0"}, default="l1"
            That makes edges vanish. "group" makes all edges of a column vanish together.
        n_hidden, n_layers, activation : int, int, str
            Of the dense network that the path begins with.
        n_folds : int, default=3
            Folds on which the sizes are compared.
        n_augmented : int or None, default=None
            Mixed rows; None: as many as are missing to 5,000 rows.
        random_state : int, RandomState or None, default=None

        Returns
        -------
        estimator
            Of the same class, with a single sparse network.
        """
        check_is_fitted(self, "fitted_")
        settings = self._path_settings(penalty, n_hidden, n_layers, activation, n_edges, tolerance, n_folds)
        rng = random_numbers(random_state)
        if n_augmented is not None:
            n_augmented = check_integer("n_augmented", n_augmented, smallest=0)
        lesson, raw = small_machines.lesson_of_teacher(self, X, y, n_augmented, rng)  # type: ignore[arg-type]
        name = name_of_target(y) or getattr(self, "target_name_", None)
        return self._learned(lesson, raw, settings, n_edges, tolerance, n_folds, rng, name)

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
        random_state: Any = None,
    ) -> Self:
        """Learn one small machine from labels, and return it as an estimator of its own.

        As `distill`, without a teacher; this estimator need not be fitted. (It is not called `sparsify`, as that is a
        method of linear models in scikit-learn which takes no rows.)

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        n_edges, tolerance, penalty, n_hidden, n_layers, activation, n_folds, random_state
            As in `distill`.

        Returns
        -------
        estimator
            Of the same class, with a single sparse network.
        """
        settings = self._path_settings(penalty, n_hidden, n_layers, activation, n_edges, tolerance, n_folds)
        rng = random_numbers(random_state)
        lesson, raw = small_machines.lesson_of_labels(self, X, y, sample_weight)  # type: ignore[arg-type]
        return self._learned(lesson, raw, settings, n_edges, tolerance, n_folds, rng, name_of_target(y))

    def export(self, path: str | Path, **options: Any) -> None:
        """Write this fitted estimator as code or a model that makes the same predictions without this package.

        The suffix of the file says the format. Scaling, missing values, levels and labels are part of it.

        - ".onnx": an ONNX model, also of packs, see docs/export-onnx.md;
        - ".py": a single Python file that needs NumPy only, also of packs, see docs/export-python.md;
        - ".c": one file of C99, see docs/export-c.md;
        - ".sql": a query for SQLite, DuckDB or PostgreSQL, see docs/export-sql.md.

        Parameters
        ----------
        path : str or Path
            An existing file is replaced once the new one is complete.
        **options
            Of the format. ".onnx": `matrix` and `number_type`. ".py": `max_megabytes`. ".c": `prefix` of all names.
            ".sql": `table`, a name, or schema and name; `dialect`, one of "sqlite", "duckdb" and "postgresql"; and
            `keep`, columns to return beside the predictions.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ExportError
            If the estimator cannot be written in this format (packs to ".c" and ".sql": use `distill` or `fit_sparse`
            first), or the file cannot be written.
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
    ) -> PathSettings:
        from tabgnm.estimators.parameters import GNMParameters  # not at the top: the parameters of all estimators

        if not isinstance(self, GNMParameters):
            wanted = type(self).__name__.replace("MLP", "GNM")
            raise TypeError(
                f"{type(self).__name__} has fixed layers, and no graph to learn; use {wanted}().fit_sparse(X, y), or "
                f"{wanted}(...).fit(X, y).distill(X)"
            )
        if n_edges is not None and tolerance is not None:
            raise ValueError(
                f"n_edges={n_edges} and tolerance={tolerance} both say how large the machine may be; give one of them"
            )
        if tolerance is not None:
            check_number("tolerance", tolerance, 0, np.inf, "0.02")
        check_integer("n_folds", n_folds, smallest=2)
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
        lesson: small_machines.Lesson,
        raw: Any,
        settings: PathSettings,
        n_edges: int | None,
        tolerance: float | None,
        n_folds: int,
        rng: np.random.RandomState,
        target_name: str | None,
    ) -> Self:
        small: Any = small_machines.learn(
            self,  # type: ignore[arg-type]
            lesson,
            raw,
            settings,
            n_edges=n_edges,
            tolerance=tolerance,
            n_folds=n_folds,
            rng=rng,
        )
        small._set_target_name(target_name)
        return small  # type: ignore[no-any-return]
