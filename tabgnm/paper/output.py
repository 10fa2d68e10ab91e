"""The output of an experiment: a CSV, a JSON, a PNG and a Markdown file, from one description of its result."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import platform
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from tabgnm import __version__


@dataclass(frozen=True)
class TextTable:
    """A table for readers; the first column is text, the others are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Page:
    """The result of one experiment.

    Parameters
    ----------
    name : str
        The name of the files, without suffix.
    title : str
    remarks : list of str
        Remarks for readers: slices, samples, what is missing.
    tables : list of TextTable
    rows : list of mappings
        The rows of the CSV file. Lists are left out, and entries of nested mappings become columns with joined names.
    content : mapping
        The content of the JSON file.
    draw : callable or None
        Draws the picture into a file.
    """

    name: str
    title: str
    remarks: list[str]
    tables: list[TextTable]
    rows: Sequence[Mapping[str, Any]]
    content: Mapping[str, Any]
    draw: Callable[[Path], None] | None = None


def provenance(command: str, device: str) -> dict[str, str]:
    """Return when, where and how a result was produced."""
    gpu = torch.cuda.get_device_name() if device != "cpu" and torch.cuda.is_available() else None
    cores = f"{os.cpu_count()} CPU cores, {torch.get_num_threads()} threads"
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{gpu} and {cores}" if gpu else f"{cores} ({platform.machine()})",
        "software": f"tabgnm {__version__}, torch {torch.__version__}, Python {platform.python_version()}",
        "command": command,
    }


def write_page(page: Page, folder: Path, origin: Mapping[str, str]) -> list[Path]:
    """Write the files of a page into a folder, each completely or not at all; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "csv": _csv(page.rows),
        "json": json.dumps(_finite({**origin, "remarks": page.remarks, **page.content}), indent=1) + "\n",
        "md": _markdown(page, origin),
    }
    paths = []
    if page.draw is not None:
        paths.append(folder / f"{page.name}.png")
        with whole_file(paths[-1]) as part:
            page.draw(part)
    for suffix, text in texts.items():
        paths.append(folder / f"{page.name}.{suffix}")
        with whole_file(paths[-1]) as part:
            part.write_text(text, encoding="utf-8")
    return paths


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to. It replaces `path` at the end, or is removed after an error."""
    # Processes that share a store may write the same page at the same time, each to its own temporary file.
    part = path.with_name(f".{path.stem}.{os.getpid()}-{uuid.uuid4().hex[:8]}.part{path.suffix}")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    plain = [_plain(row) for row in rows]
    names = list(dict.fromkeys(name for row in plain for name in row))
    file = io.StringIO()
    writer = csv.DictWriter(file, fieldnames=names or ["nothing"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(plain)
    return file.getvalue()


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a cell can hold: entries of mappings under joined names, no lists."""
    plain: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            plain |= {f"{name}_{inner}": own for inner, own in _plain(value).items()}
        elif value is not None and not isinstance(value, (list, tuple)):
            plain[name] = value
    return plain


def _finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(own) for own in value]
    return value


def _markdown(page: Page, origin: Mapping[str, str]) -> str:
    lines = [f"# {page.title}", ""]
    lines += [f"{name.capitalize()}: {text}  " for name, text in origin.items() if name != "command"]
    lines += [f"Command: `{origin.get('command', '')}`", ""]
    lines += [f"- {remark}" for remark in page.remarks] + ([""] if page.remarks else [])
    for table in page.tables:
        lines += [f"## {table.title}", "", f"| {' | '.join(table.columns)} |"]
        lines.append("|---|" + "---:|" * (len(table.columns) - 1))
        lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in table.rows] + [""]
    if page.draw is not None:
        lines += [f"![{page.title}]({page.name}.png)", ""]
    return "\n".join(lines)
