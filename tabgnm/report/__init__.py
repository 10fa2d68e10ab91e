"""Reports about fitted models: one self-contained HTML file."""

from tabgnm.report.page import report_html, write_report

__all__ = ["report_html", "write_report"]
