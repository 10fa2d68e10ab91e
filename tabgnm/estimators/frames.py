"""Conversion of records to a pandas DataFrame, if pandas is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def as_frame(records: list[dict[str, Any]], columns: Sequence[str] | None = None) -> Any:
    """Return a pandas DataFrame with one row per record, or the records if pandas is not installed.

    `columns` are the columns of the table, required if there may be no records.
    """
    try:
        import pandas as pd  # type: ignore[import-untyped]
    except ImportError:
        return records
    return pd.DataFrame(records, columns=columns)
