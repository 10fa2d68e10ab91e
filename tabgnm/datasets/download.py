"""Downloading an archive: whole or not at all, tried again when the network fails."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from tabgnm.datasets.cache import DATA_VARIABLE
from tabgnm.datasets.errors import DatasetUnavailableError
from tabgnm.datasets.spec import Archive

RETRIES = 3
TIMEOUT_SECONDS = 30.0  # without a single byte, that is; a slow download may take as long as it takes
CHUNK_BYTES = 2**16


class ProgressBar(Protocol):
    """What a download reports to."""

    total: int

    def update(self, n_bytes: int) -> None:
        """So many more bytes have come."""

    def reset(self) -> None:
        """Nothing has come yet."""

    def close(self) -> None:
        """All has come."""


class _Refused(Exception):
    """The server answered, and will not give the file; asking again is of no use."""


def download(
    archive: Archive,
    path: Path,
    *,
    progress: ProgressBar | None = None,
    retries: int = RETRIES,
    timeout: float = TIMEOUT_SECONDS,
) -> None:
    """Download an archive.

    Parameters
    ----------
    archive : Archive
        What to download, and its checksum where it is known.
    path : pathlib.Path
        Where to put it. Nothing is there until the download is complete and its checksum right.
    progress : ProgressBar, optional
        Told of the bytes as they come.
    retries : int, default=3
        How often to try again after a connection that broke, a time-out or a wrong checksum.
    timeout : float, default=30.0
        Seconds to wait for the next bytes.

    Raises
    ------
    DatasetUnavailableError
        When it did not succeed; the message says which file to put where instead.
    """
    import pooch
    import requests

    def get(url: str, output_file: str, pooch_object: Any) -> None:
        try:
            fetch = pooch.HTTPDownloader(progressbar=progress or False, chunk_size=CHUNK_BYTES, timeout=timeout)
            fetch(url, output_file, pooch_object)
        except requests.HTTPError as error:
            if error.response is not None and 400 <= error.response.status_code < 500:
                raise _Refused(str(error)) from error
            raise

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(f"{path.parent} cannot be written")
    except OSError as error:
        raise DatasetUnavailableError(
            f"there is no folder to download {archive.url} to ({error}); give a folder that can be written, "
            f"as data_home= or in the environment variable {DATA_VARIABLE}"
        ) from error
    store = pooch.create(
        path=path.parent,
        base_url="",
        registry={path.name: archive.sha256},
        urls={path.name: archive.url},
        retry_if_failed=retries,
    )
    try:
        with _quiet(pooch.get_logger()):
            store.fetch(path.name, downloader=get)
    except (requests.RequestException, _Refused, ValueError, OSError) as error:
        raise DatasetUnavailableError(
            f"{archive.url} could not be downloaded ({_reason(error)}). "
            f"To go on without the network, save that file as {path}"
        ) from error


def _reason(error: Exception) -> str:
    """Return the innermost cause: "Connection refused" rather than a chain of objects around it."""
    import requests

    if isinstance(error, requests.Timeout):
        return "the server did not answer in time"
    if isinstance(error, requests.ConnectionError):
        return f"no connection: {error}"
    return str(error)


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Keep pooch from announcing every file on the terminal."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
