"""The ``tabgnm`` command."""

from tabgnm.cli.app import app, main

__all__ = ["app", "main"]
