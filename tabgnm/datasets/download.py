"""Downloading an archive completely or not at all, with retries if the network fails."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from tabgnm._extras import import_extra
from tabgnm.datasets.errors import DatasetContentError, DatasetUnavailableError
from tabgnm.datasets.spec import Archive

RETRIES = 3
TIMEOUT_SECONDS = 30.0  # without any data; the time of the whole download is not limited
CHUNK_BYTES = 2**16
TRY_AGAIN = (408, 429)  # "request timeout" and "too many requests", after which a retry may succeed

# Called with the number of bytes received and the total number, or None if the server does not state it.
OnBytes: TypeAlias = Callable[[int, int | None], None]


class _Refused(Exception):
    """The server refuses to send the file, or its name cannot be resolved; a retry would not help."""


class _TooLarge(Exception):
    """The server sends more than the maximum size of the archive."""


def download(
    archive: Archive,
    path: Path,
    *,
    place: Path,
    max_bytes: int,
    on_bytes: OnBytes | None = None,
    retries: int = RETRIES,
    timeout: float = TIMEOUT_SECONDS,
) -> None:
    """Download an archive.

    Parameters
    ----------
    archive : Archive
        The archive, with its checksum if it is known.
    path : pathlib.Path
        The file to write. It exists only once the download is complete and its checksum is correct.
    place : pathlib.Path
        Where errors tell the user to save the file.
    max_bytes : int
        The maximum size of the archive. The download stops if it is exceeded.
    on_bytes : callable, optional
        Called repeatedly with the number of bytes received and the total number (None if unknown).
    retries : int, default=3
        How often to try again after a broken connection, a timeout or a wrong checksum.
    timeout : float, default=30.0
        Seconds to wait for the next bytes.

    Raises
    ------
    DatasetUnavailableError
        If the download failed. The message names the file to save and its place.
    DatasetContentError
        If the server sends more than `max_bytes`.
    """
    pooch = import_extra("pooch", "datasets", "downloading data sets")
    import requests

    store = pooch.create(
        path=path.parent,
        base_url="",
        registry={path.name: archive.sha256},
        urls={path.name: archive.url},
        retry_if_failed=retries,
    )
    try:
        with _quiet(pooch.get_logger()):
            store.fetch(path.name, downloader=lambda url, to, _: _receive(url, Path(to), timeout, max_bytes, on_bytes))
    except _TooLarge as error:
        raise DatasetContentError(
            f"{archive.url} has {error}, but the archive of the data set has at most {max_bytes:,}, so this is a "
            f"different file; save the right file as {place}"
        ) from None
    except (requests.RequestException, _Refused, ValueError, OSError) as error:
        raise DatasetUnavailableError(
            f"{archive.url} could not be downloaded ({_reason(error)}). To continue without the network, save that "
            f"file as {place}"
        ) from error


def _receive(url: str, to: Path, timeout: float, max_bytes: int, on_bytes: OnBytes | None) -> None:
    """Download a URL to a file.

    pooch's own downloader leaves the connection open when it fails and, with older versions of urllib3, accepts a
    truncated body as complete.
    """
    import requests

    headers = {"Accept-Encoding": "identity"}  # so that bytes can be counted
    try:
        answer = requests.get(url, stream=True, timeout=timeout, headers=headers)
    except requests.ConnectionError as error:
        if isinstance(_innermost(error), socket.gaierror):  # retries for twenty data sets would take minutes
            raise _Refused(_reason(error)) from error
        raise
    with answer as response, to.open("wb") as file:
        if 400 <= response.status_code < 500 and response.status_code not in TRY_AGAIN:
            raise _Refused(f"{response.status_code} {response.reason}")
        response.raise_for_status()
        announced = response.headers.get("Content-Length", "")
        total = int(announced) if announced.isdecimal() else None
        if total is not None and total > max_bytes:
            raise _TooLarge(f"{total:,} bytes")
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding != "identity":  # a small body could become a large one
            raise _Refused(f"the server sends it compressed by {encoding!r}, although the request forbids it")
        received = 0
        for chunk in response.iter_content(CHUNK_BYTES):
            received += len(chunk)
            if received > max_bytes:
                raise _TooLarge(f"more than {max_bytes:,} bytes")
            file.write(chunk)
            if on_bytes is not None:
                on_bytes(received, total)
        if total is not None and received != total:
            raise requests.ConnectionError(f"the connection ended after {received:,} of {total:,} bytes")


def _reason(error: Exception) -> str:
    """Return the reason: the message of the innermost error if requests and urllib3 have wrapped it."""
    import requests

    if isinstance(error, requests.Timeout):
        return "the server did not answer in time"
    return str(_innermost(error) if isinstance(error, requests.ConnectionError) else error)


def _innermost(error: BaseException) -> BaseException:
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Prevent pooch from logging every file."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
