"""Export of fitted estimators to a single Python file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn.utils.validation import check_is_fitted

from tabgnm import __version__
from tabgnm.estimators.checks import check_number
from tabgnm.estimators.machines import advice
from tabgnm.export.pack_program import pack_program_of
from tabgnm.export.program import ExportError, program_of
from tabgnm.export.python_machine import machine_source
from tabgnm.export.python_pack import pack_source
from tabgnm.export.small import is_small

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

_DOCSTRING = '''\
"""A {estimator}, exported by tabgnm {version}.

predict(rows){of_classes} take{s} a list of dicts, a dict of columns, or a frame, and need{s} NumPy{row_needs}.
COLUMNS maps the columns that are read to their kinds. Missing cells are None or NaN.{unnamed}{dates}
"""

from __future__ import annotations

'''
_UNNAMED = (
    "\nThe model was fitted without names of columns: x0 is the first column, and so on. A 2-D array or a list of lists"
    "\nalso is a table, and a frame with other names is read by position."
)
_DATES = "\nDates with a time zone are converted to UTC; their parts, such as the hour, are those in UTC."


def python_file(estimator: TabularEstimator, *, max_megabytes: float = 50) -> str:
    """Return the source of a Python module with the same predictions, which only requires NumPy.

    Parameters
    ----------
    estimator : TabularEstimator
        A fitted estimator: a whole pack, or the result of `distill` or `fit_sparse`, which is written as readable code
        that does not need NumPy for single rows.
    max_megabytes : float, default=50
        The maximum size of the file; an error is raised if it would be larger.

    Returns
    -------
    str
        The source; see docs/export-python.md for its functions.
    """
    check_is_fitted(estimator, "fitted_")
    most = check_number("max_megabytes", max_megabytes, 0, float("inf"), "50")
    small = is_small(estimator)
    unnamed = [] if hasattr(estimator, "feature_names_in_") else list(estimator._names)
    if small:
        source = machine_source(program_of(estimator), unnamed)
    else:
        program = pack_program_of(estimator)
        _check_size(estimator, program.n_bytes * 1.25, most)  # before anything of that size is created
        source = pack_source(program, unnamed)
    has_classes = hasattr(estimator, "predict_proba")
    docstring = _DOCSTRING.format(
        estimator=type(estimator).__name__,
        version=__version__,
        of_classes=" and predict_proba(rows)" if has_classes else "",
        s="" if has_classes else "s",
        unnamed=_UNNAMED if unnamed else "",
        dates=_DATES if any(plan.kind == "datetime" for plan in estimator.fitted_.encoders[0].plans) else "",
        row_needs="; predict_row(row) takes one dict and needs nothing" if small else "",
    )
    content = docstring + source
    _check_size(estimator, len(content), most)
    return content


def _check_size(estimator: TabularEstimator, n_bytes: float, most: float) -> None:
    if n_bytes > most * 1e6:
        raise ExportError(
            f"the file would have {_megabytes(n_bytes)} MB, more than max_megabytes={most:g}; export to .onnx, use a "
            f"larger max_megabytes, or export a small machine: {advice(estimator)}"
        )


def _megabytes(n_bytes: float) -> str:
    megabytes = n_bytes / 1e6
    return f"{megabytes:,.0f}" if megabytes >= 10 else f"{megabytes:.2g}"
