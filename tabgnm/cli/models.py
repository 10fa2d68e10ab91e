"""Model files as commands see them: loaded, with the columns and the target that a table needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabgnm import load
from tabgnm.cli.tablefiles import check_target, read_table, require_columns
from tabgnm.cli.terminal import UnusableModel, UsageProblem

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


def target_of(model: TabularEstimator, given: str | None, *, required: bool = True) -> str | None:
    """Return the name of the target: as given, or as the model knows it."""
    name = given if given is not None else getattr(model, "target_name_", None)
    if name is None and required:
        raise UsageProblem("the model file does not contain the name of the target; set it with --target")
    return name


def read_inputs(source: str, reading: Reading, model: TabularEstimator) -> pd.DataFrame:
    """Read a table that has the columns of a model, and maybe others."""
    wanted = inputs_of(model)
    # As text, which the model reads itself: the rows of this file alone might look like another type.
    frame = read_table(source, text=wanted, **reading.keywords())
    require_columns(list(frame.columns), wanted, source)
    return frame


def inputs_and_target(source: str, reading: Reading, model: TabularEstimator, target: str) -> tuple[pd.DataFrame, Any]:
    """Read the columns of a model and its target."""
    frame = read_inputs(source, reading, model)
    require_columns(list(frame.columns), [target], source)
    if frame[target].nunique(dropna=False) > 1 or frame[target].isna().any():  # a single class can be scored, too
        check_target(frame, target, source)
    return frame[inputs_of(model)], frame[target]
