"""Retrieval of data sets from the cache or the original archive."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tabgnm.datasets.archives import open_member
from tabgnm.datasets.cache import (
    ARCHIVES,
    DATA_VARIABLE,
    MANIFEST,
    CachedFile,
    data_folder,
    find_cached,
    read_cached,
    write_cached,
)
from tabgnm.datasets.content import Checked, check_content
from tabgnm.datasets.download import OnBytes, download
from tabgnm.datasets.errors import DatasetContentError, DatasetUnavailableError
from tabgnm.datasets.formats import Columns, read_columns
from tabgnm.datasets.limits import sha256_of
from tabgnm.datasets.registry import dataset_info
from tabgnm.datasets.spec import Archive, DatasetSpec


@dataclass(frozen=True)
class DatasetRows:
    """The columns of a data set and, if they were read from a file, its path and how they were verified."""

    columns: Columns
    path: Path | None = None
    checked: Checked | None = None


def fetch_dataset(
    name: str,
    data_home: str | os.PathLike[str] | None = None,
    *,
    verify: bool = True,
    on_bytes: OnBytes | None = None,
) -> Path | None:
    """Download a data set to the cache, unless it is already there.

    Parameters
    ----------
    name : str
        The name of the data set, one of `dataset_names()`.
    data_home : path-like, optional
        The cache folder. By default, the environment variable ``TABGNM_DATA`` or, if it is not set, the user's cache
        folder.
    verify : bool, default=True
        Whether to verify that the rows are the expected ones.
    on_bytes : callable, optional
        Called during a download with the number of bytes received and the total number (None if unknown).

    Returns
    -------
    pathlib.Path or None
        The path of the file in the cache; None for a data set that is generated or part of scikit-learn.

    Examples
    --------
    >>> fetch_dataset("xor") is None
    True
    """
    spec = dataset_info(name)
    if not isinstance(spec.source, Archive):
        return None
    return complete_rows(spec, spec.source, data_folder(data_home), verify=verify, on_bytes=on_bytes).path


def availability(spec: DatasetSpec, folder: Path) -> str:
    """Return in a few words whether a data set is available, without reading its rows."""
    if not isinstance(spec.source, Archive):
        return spec.source.origin
    cached = find_cached(folder, spec.name)
    sample = find_cached(folder, f"{spec.name}_sample") if spec.may_be_sampled else None
    if cached is not None and spec.may_be_sampled and (cached.n_samples or spec.n_samples) < spec.n_samples:
        cached, sample = None, cached
    if cached is not None:
        return "cached"
    if sample is not None:
        return f"sample ({sample.n_samples:,})" if sample.n_samples else "sample"
    return "archive" if (folder / ARCHIVES / spec.source.file).is_file() else "to download"


def complete_rows(
    spec: DatasetSpec, archive: Archive, folder: Path, *, verify: bool, on_bytes: OnBytes | None = None
) -> DatasetRows:
    """Return all rows of a data set, from the cache or from the original archive, whose rows are then cached."""
    cached = find_cached(folder, spec.name)
    if cached is not None:
        columns = read_cached(spec, cached, verify=verify)
        n_rows = len(columns[spec.target])
        if spec.may_be_sampled and n_rows < spec.n_samples:
            raise DatasetContentError(
                f"{cached.path} has {n_rows:,} rows, a sample of the {spec.n_samples:,} of {spec.title}; use it "
                f'with variant="sample", or pass another folder as data_home= to get all rows'
            )
        return DatasetRows(
            columns, cached.path, check_content(spec, columns, str(cached.path)) if verify else "nothing"
        )
    try:
        with _original(spec, archive, folder, on_bytes) as (original, where):
            columns = parse_archive(spec, archive, original, where, verify=verify)
            checked = check_content(spec, columns, where) if verify else "nothing"
            return DatasetRows(columns, write_cached(spec, columns, folder), checked)
    except DatasetUnavailableError as error:
        sample = find_cached(folder, f"{spec.name}_sample") if spec.may_be_sampled else None
        if sample is None:
            raise
        raise DatasetUnavailableError(f'{error}, or use the sample in {sample.path} with variant="sample"') from error


def sampled_rows(spec: DatasetSpec, folder: Path, *, verify: bool) -> DatasetRows:
    """Return the sample of a data set in the cache."""
    for key in (f"{spec.name}_sample", spec.name):
        cached = find_cached(folder, key)
        if cached is not None:
            columns = read_cached(spec, cached, verify=verify)
            n_rows = len(columns[spec.target])
            if n_rows < spec.n_samples:
                return DatasetRows(columns, cached.path, _check_sample(n_rows, cached) if verify else "nothing")
    raise DatasetUnavailableError(
        f"there is no sample of {spec.title} in {folder}; put one there as {spec.name}_sample.csv.gz, "
        f'with the columns {", ".join(spec.columns[:3])}, ..., {spec.columns[-1]}, or use variant="clean"'
    )


def _check_sample(n_rows: int, cached: CachedFile) -> Checked:
    if cached.n_samples is not None and cached.n_samples != n_rows:
        raise DatasetContentError(
            f"{cached.path} has {n_rows:,} rows, but {cached.path.parent / MANIFEST} states {cached.n_samples:,}; "
            "replace the file, or correct the manifest"
        )
    return "counts"


def parse_archive(spec: DatasetSpec, archive: Archive, path: Path, where: str, *, verify: bool) -> Columns:
    """Read the columns of a data set from its original archive; `where` is the name of the archive in errors."""
    limits = spec.limits
    if verify and archive.sha256 is not None:
        with path.open("rb") as file:
            actual = sha256_of(file)
        if actual != archive.sha256:
            raise DatasetContentError(
                f"{where} is not the archive of {spec.title}: its SHA-256 is {actual}, expected {archive.sha256}; "
                f"replace it with {archive.url}, or remove it to download it again"
            )
    kinds = dict(archive.raw) if archive.raw is not None else spec.kinds()
    # If the paper uses only a part of a data set, reading stops there.
    max_rows = spec.n_samples if spec.n_samples_original is not None else None
    parts = []
    for member in archive.members:
        inside = f"{member!r} in {where}"
        with open_member(path, member, where, limits) as lines:
            parts.append(
                read_columns(lines, archive.format, kinds, where=inside, max_rows=max_rows, row_limit=limits.n_rows)
            )
    columns = {name: np.concatenate([part[name] for part in parts]) for name in kinds}
    return archive.derive(columns) if archive.derive is not None else columns


@contextmanager
def _original(
    spec: DatasetSpec, archive: Archive, folder: Path, on_bytes: OnBytes | None
) -> Iterator[tuple[Path, str]]:
    """Yield the path of the archive and its name in errors: a file that the user has saved, or a download.

    Each download has its own folder, so that processes that download the same archive do not interfere. It is removed
    once the archive is parsed.
    """
    place = folder / ARCHIVES / archive.file
    if place.is_file():
        yield place, str(place)
        return
    with ExitStack() as stack:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            own = stack.enter_context(tempfile.TemporaryDirectory(dir=place.parent, prefix=".download-"))
        except OSError as error:
            raise DatasetUnavailableError(
                f"there is no writable folder for the download of {archive.url} ({error}); pass one as data_home=, or "
                f"set the environment variable {DATA_VARIABLE}"
            ) from error
        download(archive, Path(own) / archive.file, place=place, max_bytes=spec.limits.n_bytes, on_bytes=on_bytes)
        yield Path(own) / archive.file, archive.url
