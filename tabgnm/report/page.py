"""The report as one HTML page."""

from __future__ import annotations

import datetime
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sklearn.utils.validation import check_is_fitted

import tabgnm
from tabgnm._extras import import_extra
from tabgnm._files.paths import replace
from tabgnm.estimators.base import TabularEstimator
from tabgnm.estimators.targets import NumberTargets
from tabgnm.report.class_charts import Chart, class_charts
from tabgnm.report.columns_section import columns_section
from tabgnm.report.evaluation import Evaluation, evaluate
from tabgnm.report.number_charts import number_charts
from tabgnm.report.pack_section import pack_section
from tabgnm.report.rows_section import rows_section
from tabgnm.report.score_section import score_section
from tabgnm.report.small_machine import small_machine
from tabgnm.report.svg import Svg
from tabgnm.report.usage import usage
from tabgnm.report.wording import number, shortened, text

if TYPE_CHECKING:
    import jinja2

_log = logging.getLogger("tabgnm")

MAX_CHARTED_TARGETS = 3
_MAX_NAMED = 3  # targets in the heading
_TASKS = {
    "one": "classification, one class",
    "binary": "classification, two classes",
    "multiclass": "classification, {n} classes",
    "multilabel": "multilabel classification, {targets} labels",
    "joint": "classification of {targets} targets",
    "number": "regression",
    "numbers": "regression of {targets} targets",
    "quantiles": "regression of quantiles",
}


def write_report(
    model: TabularEstimator,
    X: Any,
    y: Any,
    path: str | Path,
    *,
    target_name: str | None = None,
    title: str | None = None,
    machine: TabularEstimator | Literal[False] | None = None,
    file_rows: Any = None,
) -> None:
    """Write a report about a fitted model: one HTML file that opens in any browser and needs no network.

    It has scores with intervals beside baselines, the candidates and their learning curves, charts of the predictions,
    importance and effects of columns, rows that the model is unsure of, a small machine, and code to use the model.

    Parameters
    ----------
    model : estimator
        Fitted.
    X, y : table and targets
        Rows to judge the model by. For the rows of `fit`, in the same order and without sample weights, out-of-fold
        predictions are used, except in loaded models; otherwise give rows that the model has not seen.
    path : str or Path
        An existing file is replaced once the new one is complete.
    target_name : str or None, default=None
        None: the name of the series y.
    title : str or None, default=None
        Of the page.
    machine : estimator, None or False, default=None
        The small machine to show, such as the result of `distill` or `fit_sparse`. None: the model itself if it is a
        small machine, or else one that is distilled from it. False: none.
    file_rows : array-like of int or None, default=None
        The position of each row of X in the file that it was read from, starting at 0, if X has only some of the rows.
        The page then numbers rows like the command line: from 1, without the header. None: rows are numbered by their
        position in X, starting at 0.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    MissingExtraError
        If Jinja is not installed: ``pip install "tabgnm[report]"``.
    FileError
        If the file cannot be written.
    """
    page = report_html(model, X, y, target_name=target_name, title=title, machine=machine, file_rows=file_rows)
    replace(Path(path), [page.encode()])


def report_html(
    model: TabularEstimator,
    X: Any,
    y: Any,
    *,
    target_name: str | None = None,
    title: str | None = None,
    machine: TabularEstimator | Literal[False] | None = None,
    file_rows: Any = None,
) -> str:
    """Return the page that `write_report` writes; the parameters are the same."""
    environment = _environment()  # before anything is computed
    check_is_fitted(model, "fitted_")
    _log.info("predicting the rows of the report")
    evaluation = evaluate(model, X, y, target_name, file_rows=file_rows)
    _log.info("distilling a small machine for the report")
    small = small_machine(evaluation, machine)  # first, as a machine that cannot be shown is refused
    _log.info("computing scores for the report")
    scores = score_section(evaluation)
    _log.info("computing the importance and effects of columns for the report")
    columns = columns_section(evaluation)
    charts = [(own.name, _charts(own)) for own in evaluation.targets[:MAX_CHARTED_TARGETS]]
    target = _names(evaluation)
    if title is None:
        title = f"Predicting {shortened(target, 60)}"
    return environment.get_template("report.html.jinja").render(
        title=text(title),
        facts=_facts(evaluation, target),
        scores=scores,
        pack=pack_section(model),
        charts=charts,
        n_more_targets=len(evaluation.targets) - len(charts),
        is_classifier=bool(evaluation.classes),
        columns=columns,
        row_numbers=(
            "positions in the table, starting at 0"
            if file_rows is None
            else "positions in the file, starting at 1, without the header"
        ),
        rows=rows_section(evaluation, columns.ranked),
        small=small,
        usage=usage(model),
        version=tabgnm.__version__,
    )


def _charts(target: Any) -> list[Chart]:
    return number_charts(target) if hasattr(target, "y") else class_charts(target)


def _names(evaluation: Evaluation) -> str:
    """Return the name of the target, or those of a few targets, or else their number."""
    names = [own.name for own in evaluation.targets]
    if len(names) == 1:
        return names[0]
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return listed if len(names) <= _MAX_NAMED and len(listed) <= 60 else f"{len(names)} targets"


def _facts(evaluation: Evaluation, target: str) -> list[tuple[str, str]]:
    """Return what was trained on what, as names and values."""
    model, fitted = evaluation.model, evaluation.model.fitted_
    n_classes = len(evaluation.classes[0].labels) if evaluation.classes else 0
    task = _TASKS[evaluation.kind].format(n=n_classes, targets=len(evaluation.targets))
    seconds = sum(float(own["seconds"]) for own in fitted.candidates)
    rows = f"{evaluation.n_given:,}"
    if evaluation.out_of_fold:
        rows += " (training rows)"
    facts = [
        ("Model", type(model).__name__),
        ("Target", target),
        ("Task", task),
        ("Rows", rows),
        ("Columns", f"{model.n_features_in_:,}"),
        *_loss(evaluation),
        ("Networks", f"{fitted.n_networks:,}"),
    ]
    if seconds:
        facts.append(("Training", _duration(seconds)))
    if str(model.device) != "auto":
        facts.append(("Device", str(model.device)))
    now = datetime.datetime.now().astimezone()
    return [*facts, ("Date", now.strftime("%Y-%m-%d %H:%M")), ("Version", f"tabgnm {tabgnm.__version__}")]


def _loss(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Return the loss of a regressor, unless it is squared error, or that of several quantiles."""
    targets = evaluation.model.fitted_.targets
    if not isinstance(targets, NumberTargets) or evaluation.kind == "quantiles" or targets.loss.name == "squared_error":
        return []
    return [("Loss", targets.loss.name.replace("_", " "))]


def _duration(seconds: float) -> str:
    return f"{number(seconds, 2)} s" if seconds < 120 else f"{number(seconds / 60, 2)} min"


def _environment() -> jinja2.Environment:
    engine = import_extra("jinja2", "report", "writing a report")
    environment: jinja2.Environment = engine.Environment(
        loader=engine.PackageLoader("tabgnm.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=engine.StrictUndefined,
    )
    environment.filters["shortened"] = shortened

    def asset(name: str) -> Svg:
        """Return a file of the package as it is."""
        assert environment.loader is not None
        return Svg(environment.loader.get_source(environment, name)[0])

    environment.globals["asset"] = asset
    return environment
