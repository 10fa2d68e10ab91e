"""Downloading an archive: whole or not at all, tried again when the network fails."""

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
TIMEOUT_SECONDS = 30.0  # without a single byte, that is; a slow download may take as long as it takes
CHUNK_BYTES = 2**16
TRY_AGAIN = (408, 429)  # "request timeout" and "too many requests": not the request's fault

# Called with the number of bytes that have come, and with their number in all where the server tells it.
OnBytes: TypeAlias = Callable[[int, int | None], None]


class _Refused(Exception):
    """The server will not give the file, or its name leads nowhere; asking again is of no use."""


class _TooLarge(Exception):
    """The server sends more than the archive can have."""


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
        What to download, and its checksum where it is known.
    path : pathlib.Path
        Where to put it. Nothing is there until the download is complete and its checksum right.
    place : pathlib.Path
        Where the error tells the user to put the file.
    max_bytes : int
        The most that the archive can have; the download stops there.
    on_bytes : callable, optional
        Called with the number of bytes that have come and their number in all (None if unknown), again and again.
    retries : int, default=3
        How often to try again after a connection that broke, a time-out or a wrong checksum.
    timeout : float, default=30.0
        Seconds to wait for the next bytes.

    Raises
    ------
    DatasetUnavailableError
        When it did not succeed; the message says which file to put where instead.
    DatasetContentError
        When the server sends more than `max_bytes`.
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
    """Write what a URL gives to a file.

    pooch's own downloader leaves the connection open when it fails, and takes a body that ends early for whole with
    older versions of urllib3.
    """
    import requests

    headers = {"Accept-Encoding": "identity"}  # so that bytes can be counted
    try:
        answer = requests.get(url, stream=True, timeout=timeout, headers=headers)
    except requests.ConnectionError as error:
        if isinstance(_innermost(error), socket.gaierror):  # without a network, twenty data sets would take minutes
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
            raise _Refused(f"the server sends it compressed by {encoding!r}, though asked not to")
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
    """Say why, in the words of the innermost error where requests and urllib3 have put theirs around it."""
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
    """Keep pooch from announcing every file on the terminal."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
