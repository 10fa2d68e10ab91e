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
        """Write a report about this model: one HTML file that opens in any browser and needs no network.

        It needs Jinja: ``pip install "tabgnm[report]"``. See docs/report.md, and `tabgnm.report.report_html` for the
        page as text.

        Parameters
        ----------
        X, y : table and targets
            Rows to judge the model by. For the rows of `fit`, in the same order and without sample weights,
            out-of-fold predictions are used, except in loaded models; otherwise give rows that the model has not seen.
        path : str or Path, default="report.html"
            An existing file is replaced once the new one is complete.
        target_name : str or None, default=None
            None: the name of the series y.
        title : str or None, default=None
            Of the page.
        machine : estimator, None or False, default=None
            The small machine to show, such as the result of `distill`. None: this model if it is a small machine, or
            else one that is distilled from it. False: none.
        """
        from tabgnm.report import write_report  # not at the top: it imports the estimators

        write_report(self, X, y, path, target_name=target_name, title=title, machine=machine)  # type: ignore[arg-type] # an estimator
