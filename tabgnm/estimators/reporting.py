"""The report of a fitted estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class ReportMethods:
    """Methods of estimators that write reports."""

    def report(
        self,
        X: Any,
        y: Any,
        path: str | Path = "report.html",
        *,
        target_name: str | None = None,
        title: str | None = None,
        machine: Any = None,
    ) -> None:
        """Write a report about this model: a single HTML file that works offline in any browser.

        It requires Jinja: ``pip install "tabgnm[report]"``. See docs/report.md. `tabgnm.report.report_html` returns the
        page as text.

        Parameters
        ----------
        X, y : table and targets
            The rows to evaluate the model on. If these are the rows of `fit`, in the same order and without sample
            weights, out-of-fold predictions are used. Otherwise, and for loaded models, pass rows that the model has
            not seen.
        path : str or Path, default="report.html"
            An existing file is replaced once the new one is complete.
        target_name : str or None, default=None
            The name of the target. If None, the name of the series y.
        title : str or None, default=None
            The title of the page.
        machine : estimator, None or False, default=None
            The small machine to show, such as the result of `distill`. If None, this model if it is a small machine,
            otherwise a machine distilled from it. If False, no machine is shown.
        """
        from tabgnm.report import write_report  # not at the top: it imports the estimators

        write_report(self, X, y, path, target_name=target_name, title=title, machine=machine)  # type: ignore[arg-type] # an estimator
