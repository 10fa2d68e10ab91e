"""What can go wrong with a data set, told apart by what the user can do about it."""


class DatasetUnavailableError(OSError):
    """The data set is neither in the cache nor can it be downloaded; the message says which file to put where."""


class DatasetContentError(ValueError):
    """A file is there, but it does not hold the data set that it should."""
