"""Everything is learned from training rows only: other rows can be anything."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabgnm.table import RawTable, TableEncoder, TableSettings, read_table
from tests.table.examples import NUMERIC_SETTINGS

Fit = Callable[[TableEncoder, RawTable, Any], TableEncoder]
TRAINING = np.arange(0, 80)


def table(other: str) -> pd.DataFrame:
    """100 rows, of which the last 20 differ with `other` and the first 80 never do."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=100),
            "counts": rng.poisson(1, 100).astype(float),
            "flag": rng.random(100) < 0.5,
            "few": rng.choice(["a", "b", "c"], 100),
            "two": rng.choice(["a", "b"], 100),
            "many": [f"level {i}" for i in rng.integers(0, 12, 100)],
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 999, 100), unit="D"),
            "object": pd.Series(rng.normal(size=100), dtype=object),
        }
    )
    rest = slice(80, None)
    columns = {name: frame[name].astype(object).tolist() for name in frame}
    changes: dict[str, dict[str, Any]] = {
        "nothing": {},
        "far away": {"number": 1e6, "counts": -77.0, "day": pd.Timestamp("2050-05-05")},
        "missing": dict.fromkeys(frame, None),
        "new levels": {"few": "new", "two": "third", "many": "never seen"},
        "other types": {"object": "a string", "number": "?", "flag": "maybe", "day": "no day"},
        "infinite": {"number": np.inf, "counts": -np.inf},
        "containers": {"object": {}, "few": [1]},
    }
    for name, value in changes[other].items():
        columns[name][rest] = [value] * 20
    return pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})


def learned(fit: Fit, other: str, **settings: Any) -> tuple[str, list[bytes]]:
    encoder = fit(TableEncoder(TableSettings(**settings)), read_table(table(other)), TRAINING)
    schema, arrays = encoder.state()
    return json.dumps(schema), [arrays[name].tobytes() for name in sorted(arrays)]


def does_not_leak(fit: Fit, other: str, **settings: Any) -> bool:
    return learned(fit, other, **settings) == learned(fit, "nothing", **settings)


def properly(encoder: TableEncoder, raw: RawTable, rows: Any) -> TableEncoder:
    return encoder.fit(raw, rows)


OTHERS = ["far away", "missing", "new levels", "other types", "infinite", "containers"]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("settings", NUMERIC_SETTINGS, ids=str)
def test_nothing_but_training_rows_is_looked_at(settings: dict[str, Any], other: str) -> None:
    assert does_not_leak(properly, other, **settings)


def test_the_test_above_catches_an_encoder_that_looks_at_all_rows() -> None:
    def leaking(encoder: TableEncoder, raw: RawTable, rows: Any) -> TableEncoder:  # noqa: ARG001
        return encoder.fit(raw)

    for other in ("far away", "missing", "new levels"):
        assert not does_not_leak(leaking, other)


def test_the_test_above_catches_a_single_leaking_number() -> None:
    """An encoder right in everything but the scaling of numbers, which sees all rows."""

    def leaking(encoder: TableEncoder, raw: RawTable, rows: Any) -> TableEncoder:
        encoder.fit(raw, rows)
        all_rows = TableEncoder(encoder.settings).fit(raw)
        plans = list(encoder.plans)
        plans[0] = all_rows.plans[0]
        encoder._set_plans(plans)
        return encoder

    assert not does_not_leak(leaking, "far away")
    assert does_not_leak(leaking, "new levels")


def test_what_was_learned_is_that_of_the_training_rows_alone() -> None:
    frame = table("nothing")
    whole = TableEncoder().fit(read_table(frame), TRAINING)
    alone = TableEncoder().fit(read_table(frame.iloc[:80]))
    everything = read_table(frame)
    np.testing.assert_array_equal(whole.encode(everything), alone.encode(everything))
    assert repr(whole.columns) == repr(alone.columns)


def test_rows_may_be_a_slice_or_positions() -> None:
    frame = table("far away")
    by_slice = TableEncoder().fit(read_table(frame), slice(0, 80))
    assert by_slice.state()[0] == TableEncoder().fit(read_table(frame), TRAINING.tolist()).state()[0]


def test_a_date_in_training_rows_stays_one_beside_other_types() -> None:
    cells = [datetime.date(2024, 1, 1), datetime.date(2025, 1, 1), "?"]
    encoder = TableEncoder().fit(read_table([[cell] for cell in cells]), [0, 1])
    assert encoder.columns[0].kind == "datetime"
