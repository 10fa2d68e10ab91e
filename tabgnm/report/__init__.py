"""Reports about fitted models: one self-contained HTML file."""

from tabgnm.report.machine import machine_html

__all__ = ["machine_html"]
