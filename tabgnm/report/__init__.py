"""Reports about fitted models: one self-contained HTML file."""

from tabgnm.report.machine import machine_html
from tabgnm.report.page import report_html, write_report

__all__ = ["machine_html", "report_html", "write_report"]
