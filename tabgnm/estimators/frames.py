"""Records as a table of the library that people have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def as_frame(records: list[dict[str, Any]], columns: Sequence[str] | None = None) -> Any:
    """Return a pandas DataFrame with one row per record, or the records where pandas is not installed.

    `columns` are those of a table that may have no rows.
    """
    try:
        import pandas as pd  # type: ignore[import-untyped]
    except ImportError:
        return records
    return pd.DataFrame(records, columns=columns)
