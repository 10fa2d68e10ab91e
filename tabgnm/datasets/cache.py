"""The folder of data sets: one ``NAME.csv.gz`` each, with a header, and optionally a manifest ``datasets.json``.

The manifest maps the name of a data set to its file (``file``), the checksum of the file (``sha256``) and the number of
rows (``n_samples``).
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from tabgnm._extras import import_extra
from tabgnm._printable import brief
from tabgnm.datasets.content import is_missing
from tabgnm.datasets.errors import DatasetContentError, DatasetUnavailableError
from tabgnm.datasets.formats import BLOCK_ROWS, Columns, Delimited, read_columns
from tabgnm.datasets.limits import MANIFEST_BYTES, ByteBudget, bounded_lines, sha256_of, too_large
from tabgnm.datasets.spec import DatasetSpec

DATA_VARIABLE = "TABGNM_DATA"
MANIFEST = "datasets.json"
ARCHIVES = "archives"
COMPRESSION = 4  # of gzip; on Isolet, five times as fast as the default of 9, with a tenth more bytes


@dataclass(frozen=True)
class CachedFile:
    """A table in the cache, with its entries in the manifest."""

    path: Path
    sha256: str | None = None
    n_samples: int | None = None


def data_folder(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of data sets.

    Parameters
    ----------
    data_home : path-like, optional
        The folder. By default, the environment variable ``TABGNM_DATA`` or, if it is not set, the folder ``tabgnm`` in
        the user's cache folder.
    """
    chosen = data_home if data_home is not None else os.environ.get(DATA_VARIABLE) or None
    if chosen is None:
        pooch = import_extra("pooch", "datasets", "the cache of data sets")
        chosen = pooch.os_cache("tabgnm")
    return Path(chosen).expanduser()


def find_cached(folder: Path, key: str) -> CachedFile | None:
    """Return the table with this name in a folder, or None."""
    entry = _manifest(folder).get(key, {})
    name = entry.get("file", f"{key}.csv.gz")
    if not _is_file_name(name):
        raise DatasetContentError(
            f"{folder / MANIFEST} has {brief(repr(name))} as the file of {key}; "
            "expected the name of a file in the same folder"
        )
    path = folder / name
    if path.is_file():
        sha256, n_samples = entry.get("sha256"), entry.get("n_samples")
        for field, value, kind in (("sha256", sha256, str), ("n_samples", n_samples, int)):
            if value is not None and not isinstance(value, kind):
                raise DatasetContentError(
                    f"{folder / MANIFEST} has {brief(repr(value))} as {field} of {key}; expected {kind.__name__}"
                )
        return CachedFile(path, sha256, n_samples)
    return None


def _is_file_name(name: Any) -> bool:
    """Whether a value is a file name without a folder that is valid on every system."""
    return isinstance(name, str) and Path(name).name == name and name.isprintable() and len(name.encode()) < 256


def _manifest(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / MANIFEST
    if not path.is_file():
        return {}
    try:
        with path.open("rb") as file:
            content = file.read(MANIFEST_BYTES + 1)
        if len(content) > MANIFEST_BYTES:
            raise ValueError(f"it has more than {MANIFEST_BYTES:,} bytes")
        manifest = json.loads(content.decode())
        if not isinstance(manifest, dict) or not all(isinstance(entry, dict) for entry in manifest.values()):
            raise ValueError("expected an object of objects")
    except (ValueError, RecursionError) as error:
        raise DatasetContentError(f"{path} is not a manifest of data sets: {error}; correct or remove it") from error
    return manifest


def read_cached(spec: DatasetSpec, cached: CachedFile, *, verify: bool) -> Columns:
    """Read a table from the cache.

    Raises
    ------
    DatasetContentError
        If the file is damaged or too large, or (with `verify`) does not have the checksum in the manifest.
    """
    limits, where = spec.limits, str(cached.path)
    with cached.path.open("rb") as file:
        if cached.path.stat().st_size > limits.n_bytes:
            raise too_large(where, limits.n_bytes)
        if verify and cached.sha256 is not None and (actual := sha256_of(file)) != cached.sha256:
            raise DatasetContentError(
                f"{where} is not the file that {cached.path.parent / MANIFEST} describes: its SHA-256 is "
                f"{actual}, expected {cached.sha256}; replace the file"
            )
        with gzip.GzipFile(fileobj=file) as packed:
            budget = ByteBudget(limits.n_bytes, where)
            lines = bounded_lines(cast("IO[bytes]", packed), limits, budget, where, errors="strict")
            return read_columns(lines, Delimited(), spec.kinds(), where=where, max_rows=None, row_limit=limits.n_rows)


def _cells(values: NDArray[Any]) -> list[Any]:
    cells: list[Any] = np.where(is_missing(values), "", values.astype(object)).tolist()
    return cells


def write_cached(spec: DatasetSpec, columns: Columns, folder: Path) -> Path:
    """Write a table to the cache, completely or not at all; several processes may do this at the same time.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    DatasetUnavailableError
        If the folder is not writable.
    """
    path = folder / f"{spec.name}.csv.gz"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{spec.name}-", delete=False) as file:
            try:
                # No time stamp in the file, so the same table always has the same bytes.
                with gzip.GzipFile(fileobj=file, mode="wb", filename="", compresslevel=COMPRESSION, mtime=0) as packed:
                    text = io.TextIOWrapper(packed, encoding="utf-8", newline="")
                    writer = csv.writer(text, lineterminator="\n")
                    writer.writerow(columns)
                    for start in range(0, len(columns[spec.target]), BLOCK_ROWS):
                        block = (values[start : start + BLOCK_ROWS] for values in columns.values())
                        writer.writerows(zip(*map(_cells, block), strict=True))
                    text.flush()
                    text.detach()
                file.close()
                Path(file.name).chmod(0o644)  # temporary files are private, but a cache may be shared
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise DatasetUnavailableError(
            f"{spec.title} cannot be stored as {path} ({error}); pass a writable folder as data_home=, or set the "
            f"environment variable {DATA_VARIABLE}"
        ) from error
    return path
