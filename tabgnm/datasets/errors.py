"""Errors of data sets."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from tabgnm._printable import printable

GET_AGAIN = "remove it from the cache, if it is there, and download it again"  # the remedy for most damage


class DatasetUnavailableError(OSError):
    """The data set is not in the cache and cannot be downloaded; the message names the file to save and its place."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))  # file names may contain any characters


class DatasetContentError(ValueError):
    """A file is damaged, far too large, or does not contain the data set."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))  # files may contain any characters


@contextmanager
def damage_told(where: str) -> Iterator[None]:
    """Convert any error of a decompressor or parser to `DatasetContentError`.

    Those of the standard library raise errors of a dozen types, from struct.error to NotImplementedError. Errors of the
    disk and of memory are raised unchanged, because the file is not their cause.
    """
    try:
        yield
    except (DatasetContentError, MemoryError):
        raise
    except Exception as error:
        # gzip's own errors are OSErrors without a number; EINVAL means an invalid position.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise DatasetContentError(f"{where} is damaged ({str(error) or type(error).__name__}); {GET_AGAIN}") from error
