"""Verification of the content of a data set by counts and a checksum of the values."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tabgnm.datasets.errors import DatasetContentError
from tabgnm.datasets.formats import Columns
from tabgnm.datasets.spec import DatasetSpec

# How the rows of a file were verified: by a checksum of the values, only by counts, or not at all.
Checked = Literal["values", "counts", "nothing"]
CELL_SEPARATOR = "\x1f"  # the ASCII unit separator, which no cell contains


def is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values of a column are missing."""
    if values.dtype == object:
        return np.array([not isinstance(value, str) for value in values], dtype=bool)
    missing: NDArray[np.bool_] = np.isnan(values)
    return missing


def content_checksum(columns: Columns) -> str:
    """Return the SHA-256 of the values of a table, which does not depend on the file format.

    The checksum covers the names and the order of columns and rows. Numbers are rounded to 32-bit floats, because the
    same table may be published with 15 digits in one file and with 17 in another.

    Parameters
    ----------
    columns : dict
        The columns, in the order of `DatasetSpec.columns`.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    digest = hashlib.sha256()
    for name, values in columns.items():
        digest.update(name.encode() + b"\0")
        if values.dtype == object:
            texts = ["" if gone else text for text, gone in zip(values, is_missing(values), strict=True)]
            digest.update(CELL_SEPARATOR.join(texts).encode())
        elif values.dtype.kind == "i":
            digest.update(values.astype("<i8").tobytes())
        else:
            with np.errstate(over="ignore"):  # huge numbers in a damaged file become infinite
                rounded = values.astype("<f4") + np.float32(0)  # no negative zero
            rounded[np.isnan(rounded)] = np.nan  # one bit pattern for every NaN
            digest.update(rounded.astype("<f4").tobytes())
    return digest.hexdigest()


def check_content(spec: DatasetSpec, columns: Columns, where: str) -> Checked:
    """Compare a table with the description of its data set.

    Parameters
    ----------
    spec : DatasetSpec
        The data set.
    columns : dict
        Its columns, as read.
    where : str
        The name of the file in errors.

    Returns
    -------
    {"values", "counts"}
        How the table was verified.

    Raises
    ------
    DatasetContentError
        If the table is not that data set.
    """
    target = columns[spec.target]
    found = {
        "rows": (len(target), spec.n_samples),
        "missing values": (int(sum(is_missing(values).sum() for values in columns.values())), spec.n_missing),
    }
    if spec.task == "classification":
        found["classes"] = (len(set(target.tolist())), spec.n_classes or 0)
    for what, (actual, expected) in found.items():
        if actual != expected:
            raise DatasetContentError(
                f"{where} has {actual:,} {what}, but {spec.title} has {expected:,}; the file is damaged or a different "
                "version. Download it again, or use it anyway with verify=False"
            )
    if spec.content_sha256 is None:
        return "counts"
    actual_sha256 = content_checksum(columns)
    if actual_sha256 != spec.content_sha256:
        raise DatasetContentError(
            f"{where} has the same number of rows and classes as {spec.title}, but different values: their checksum is "
            f"{actual_sha256}, expected {spec.content_sha256}. Results on it cannot be compared with others. Download "
            "it again, or use it anyway with verify=False"
        )
    return "values"
