"""What can go wrong with a data set, told apart by what the user can do about it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from tabgnm._printable import printable

GET_AGAIN = "remove it from the cache, if it is there, and get it again"  # the remedy for most damage


class DatasetUnavailableError(OSError):
    """The data set is neither in the cache nor can it be downloaded; the message says which file to put where."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))  # names of files may hold anything


class DatasetContentError(ValueError):
    """A file is there, but it does not hold the data set that it should, is damaged, or is far too large."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))  # so may files


@contextmanager
def damage_told(where: str) -> Iterator[None]:
    """Tell whatever a decompressor or parser raises on hostile bytes as `DatasetContentError`.

    Those of the standard library raise errors of a dozen kinds, from struct.error to NotImplementedError. Errors of the
    disk and of the memory are passed on, as the file is not to blame.
    """
    try:
        yield
    except (DatasetContentError, MemoryError):
        raise
    except Exception as error:
        # gzip's own errors are OSErrors without a number; EINVAL is a position that cannot be.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise DatasetContentError(f"{where} is damaged ({str(error) or type(error).__name__}); {GET_AGAIN}") from error
