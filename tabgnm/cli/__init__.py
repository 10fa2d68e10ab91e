"""The ``tabgnm`` command."""

from typing import Any

from tabgnm._extras import MissingExtraError, import_extra

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        import_extra("typer", "cli", "the command line")
    except MissingExtraError as error:
        raise SystemExit(f"Error: {error}") from None
    from tabgnm.cli.commands import main as run

    run()


def __getattr__(name: str) -> Any:
    # Loaded when it is used, as typer may be missing.
    if name == "app":
        from tabgnm.cli.commands import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
