"""Running exported Python files, as a user would."""

from __future__ import annotations

from types import ModuleType


def loaded(source: str) -> ModuleType:
    """Return the module that a source is."""
    module = ModuleType("exported")
    exec(compile(source, "exported.py", "exec"), vars(module))
    return module
