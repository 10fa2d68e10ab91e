"""Model files as commands see them: loaded, with the columns and the target that a table needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabgnm import load
from tabgnm.cli.tablefiles import check_target, read_table, require_columns, without_missing_targets
from tabgnm.cli.target_values import as_labels, as_numbers
from tabgnm.cli.terminal import UnusableModel, UsageProblem
from tabgnm.cli.training_table import target_columns
from tabgnm.estimators.class_targets import ClassTargets
from tabgnm.table.text import says_nothing

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

    from tabgnm.cli.options import Reading
    from tabgnm.estimators.base import TabularEstimator


def load_model(path: Path) -> TabularEstimator:
    """Load a model whose columns have names, as commands find columns by name."""
    model: TabularEstimator = load(path)
    if not hasattr(model, "feature_names_in_"):
        raise UnusableModel(
            f"the model {str(path)!r} was fitted on a table without column names, so the columns of a file cannot be "
            "matched; fit it with `tabgnm fit`, or on a DataFrame"
        )
    return model


def inputs_of(model: TabularEstimator) -> list[str]:
    """Return the names of the columns that a model reads."""
    return [str(name) for name in model.feature_names_in_]


def n_targets(model: TabularEstimator) -> int:
    """Return how many targets a model predicts."""
    targets = model.fitted_.targets
    return len(targets.classes) if isinstance(targets, ClassTargets) else targets.n_targets


def targets_of(model: TabularEstimator, given: Sequence[str], *, required: bool = True) -> list[str]:
    """Return the names of the targets: as given, or as the model knows them; empty if neither is the case."""
    names = list(given) or model._target_names()
    n = n_targets(model)
    if given and len(given) != n:
        raise UsageProblem(
            f"the model predicts {n} {'target' if n == 1 else 'targets'}, but --target is given {len(given)} "
            f"{'time' if len(given) == 1 else 'times'}; name the columns in the order of the fit"
        )
    if not names and required:
        what = "name of the target" if n == 1 else f"names of its {n} targets"
        how = "" if n == 1 else f" ({n} times, in the order of the fit)"
        raise UsageProblem(f"the model file does not contain the {what}; set it with --target{how}")
    return names


def strips_spaces(model: TabularEstimator) -> bool:
    """Whether spaces before the cells of a text file mean nothing: the model knows no level that begins with one.

    The file itself cannot tell, as it may have a single row.
    """
    fitted = model.fitted_
    levels = [name for own in fitted.encoders for plan in own.plans if plan.levels for name in plan.levels.names]
    labels = [own for part in getattr(fitted.targets, "classes", []) for own in part.tolist()]
    return not any(isinstance(own, str) and own.startswith(" ") for own in (*levels, *labels))


def read_inputs(source: str, reading: Reading, model: TabularEstimator, targets: Sequence[str] = ()) -> pd.DataFrame:
    """Read a table that has the columns of a model, and maybe others, such as its targets."""
    wanted = inputs_of(model)
    labels = targets if isinstance(model.fitted_.targets, ClassTargets) else ()
    # As text, which the model or its classes say how to read: the rows of this file alone might look like another type.
    frame = read_table(source, text=[*wanted, *labels], strip=strips_spaces(model), **reading.keywords())
    require_columns(list(frame.columns), wanted, source)
    if isinstance(model.fitted_.targets, ClassTargets):
        for name, classes in zip(labels, model.fitted_.targets.classes, strict=False):  # no labels are read to predict
            if name in frame and not any(isinstance(own, str) for own in classes.tolist()):
                frame[name] = [None if isinstance(own, str) and says_nothing(own) else own for own in frame[name]]
    return frame


def read_targets(frame: pd.DataFrame, source: str, model: TabularEstimator, targets: Sequence[str]) -> Any:
    """Return targets without missing cells as the model needs them: numbers, or labels of the type of its classes."""
    known = model.fitted_.targets
    if isinstance(known, ClassTargets):
        read = {
            name: as_labels(frame[name], classes, source) for name, classes in zip(targets, known.classes, strict=True)
        }
    else:
        remedy = "write numbers like 1234.5 in the file"
        read = {name: as_numbers(frame[name], source, remedy)[0] for name in targets}
    return target_columns(read)


def inputs_and_targets(
    source: str, reading: Reading, model: TabularEstimator, targets: Sequence[str]
) -> tuple[pd.DataFrame, Any]:
    """Read the columns of a model and its targets; the index has the positions of the rows in the file, from 0."""
    frame = read_inputs(source, reading, model, targets)
    require_columns(list(frame.columns), targets, source)
    if reading.drop_missing_target:
        frame = without_missing_targets(frame, targets, source)
    for name in targets:
        if frame[name].nunique(dropna=False) > 1 or frame[name].isna().any():  # a single class can be scored, too
            check_target(frame, name, source, droppable=True)
    y = read_targets(frame, source, model, targets)
    return frame[inputs_of(model)], y
