"""``tabgnm export``: a model as a program that needs no tabgnm."""

from __future__ import annotations

import inspect
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabgnm import load
from tabgnm.cli.terminal import Output, UnusableModel, UsageProblem
from tabgnm.cli.wording import in_file_terms
from tabgnm.estimators.parameters import GNMParameters
from tabgnm.export.exporting import FORMATS, export
from tabgnm.export.small import is_small

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

_SMALL_ONLY = (".c", ".sql")
_OPTION = {"number_type": "--float32"}


def run_export(model_path: Path, output: Path, suffix: str | None, options: dict[str, Any], *, as_json: bool) -> None:
    """Write a model in another format; `options` has those that were given."""
    out = Output(as_json=as_json)
    kind = output.suffix.lower()
    if suffix is not None and kind != suffix:
        raise UsageProblem(f"the file {str(output)!r} does not end in {suffix}, which --to {suffix[1:]} requires")
    if kind not in FORMATS:
        raise UsageProblem(
            f"the format of {str(output)!r} is unknown; use one of the extensions {', '.join(FORMATS)}, or --to"
        )
    known = inspect.signature(FORMATS[kind]).parameters
    for name in options:
        if name not in known:
            option = _OPTION.get(name, f"--{name.replace('_', '-')}")
            raise UsageProblem(f"{option} is not an option for exports to {kind}")
    with out.showing_warnings():
        model = load(model_path)
        if kind in _SMALL_ONLY and not is_small(model):
            small = shlex.quote(str(model_path.with_name("small.tabgnm")))
            first = f"first run: tabgnm sparsify {shlex.quote(str(model_path))} DATA -o {small}"
            if not isinstance(model, GNMParameters):
                first = (
                    f"{type(model).__name__} has fixed layers: fit a GNM with `tabgnm fit`, and run `tabgnm sparsify`"
                )
            raise UnusableModel(
                f"the model {str(model_path)!r} is too large for {kind[1:].upper()}, which requires a small machine; "
                f"{first}"
            )
        # After the check of the model: options are of no use before there is a small machine.
        missing = [name for name, own in known.items() if own.kind is own.KEYWORD_ONLY and own.default is own.empty]
        lacking = [f"--{name}" for name in missing if name not in options]
        if lacking:
            raise UsageProblem(f"an export to {kind} needs {' and '.join(lacking)}")
        _export(model, output, options)
    n_bytes = output.stat().st_size
    out.text(f"{output}: {n_bytes:,} bytes")
    out.finish({"model": str(model_path), "output": str(output), "format": kind[1:], "bytes": n_bytes})


def _export(model: TabularEstimator, output: Path, options: dict[str, Any]) -> None:
    """Write the file; errors that begin with the name of an option are about its value."""
    try:
        export(model, output, **options)
    except ValueError as error:
        if str(error).partition("=")[0] not in options:
            raise
        raise UsageProblem(in_file_terms(str(error))) from error
