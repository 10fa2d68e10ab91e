"""What holds for every table there could be."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabgnm.table import RawTable, TableEncoder, TableError, TableSettings, read_table

# Small tables have many such columns.
pytestmark = pytest.mark.filterwarnings(
    "ignore:no level of the category", "ignore:columns of text", "ignore:.*cannot be read as a"
)

floats = st.floats(allow_infinity=False, allow_nan=True)
cells: dict[str, st.SearchStrategy[Any]] = {
    "float": st.one_of(floats, st.none()),
    "few floats": st.sampled_from([0.0, -0.0, 1.0, 1e300, -1e300, 5e-324, None]),
    "int": st.one_of(st.integers(-(2**63), 2**63 - 1), st.none()),
    "bool": st.one_of(st.booleans(), st.none()),
    "text": st.one_of(st.text(max_size=3), st.none()),
    "text of numbers": st.one_of(floats.map(str), st.integers().map(str), st.sampled_from(["", "?", "unknown", None])),
    "text of dates": st.one_of(st.dates().map(str), st.datetimes().map(str), st.none()),
    "letter": st.sampled_from([*"abcdefghij", None]),
    "moment": st.one_of(st.datetimes(), st.none()),
    "date": st.one_of(st.dates(), st.none()),
    "duration": st.one_of(st.timedeltas(datetime.timedelta(-(10**5)), datetime.timedelta(10**5)), st.none()),
    "anything": st.one_of(
        st.none(), st.booleans(), st.integers(), st.text(max_size=2), st.binary(max_size=1), st.dates(), floats
    ),
}


Drawn = tuple[RawTable, np.ndarray[Any, Any], bool]


@st.composite
def tables(draw: st.DrawFn) -> Drawn:
    """A table as an array of objects or a frame, some rows to learn from, and whether others may be refused."""
    n_rows = draw(st.integers(1, 12))
    kinds = draw(st.lists(st.sampled_from(sorted(cells)), min_size=1, max_size=4))
    columns = [draw(st.lists(cells[kind], min_size=n_rows, max_size=n_rows)) for kind in kinds]
    if draw(st.booleans()) and "anything" not in kinds:
        frame = pl.DataFrame({f"c{place}": pl.Series(column, strict=False) for place, column in enumerate(columns)})
        raw = read_table(frame)
    else:
        array = np.empty((n_rows, len(columns)), dtype=object)
        for place, column in enumerate(columns):
            array[:, place] = column
        raw = read_table(array)
    rows = draw(st.lists(st.integers(0, n_rows - 1), min_size=1, max_size=n_rows))
    return raw, np.array(rows), any(kind == "anything" or kind.startswith("text") for kind in kinds)  # "inf" too


table_settings = st.builds(
    TableSettings,
    scaling=st.sampled_from(["none", "standard", "robust", "quantile"]),
    numeric_embedding=st.sampled_from([None, "periodic", "piecewise"]),
    n_basis=st.integers(1, 5),
    max_one_hot=st.integers(0, 4),
    min_level_count=st.integers(1, 3),
    max_levels=st.integers(1, 4),
)


@settings(deadline=None, max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(tables(), table_settings, st.sampled_from([np.float32, np.float64]))
def test_any_table_becomes_finite_numbers_that_do_not_depend_on_the_company(
    table: Drawn, chosen: TableSettings, dtype: Any
) -> None:
    raw, rows, may_be_refused = table
    try:
        encoder = TableEncoder(chosen).fit(raw, rows)
        everything = encoder.encode(raw, dtype=dtype)
    except TableError:  # cells of anything: numbers in the training rows and words in others, or too large
        if not may_be_refused:
            raise
        return
    assert everything.shape == (raw.n_rows, encoder.n_encoded) and everything.flags.c_contiguous
    assert np.isfinite(everything).all()
    np.testing.assert_array_equal(encoder.encode(raw.take(rows), dtype=dtype), everything[rows])

    schema, arrays = encoder.state()
    again = TableEncoder.from_state(json.loads(json.dumps(schema)), arrays)
    np.testing.assert_array_equal(again.encode(raw, dtype=dtype), everything)

    numbers = encoder.embedding
    if numbers is None:
        return
    assert numbers.n_plain + numbers.n_numeric + len(numbers.levels) == encoder.n_encoded
    for place, n_levels in enumerate(numbers.levels, start=numbers.n_plain + numbers.n_numeric):
        codes = everything[:, place]
        assert (codes == codes.round()).all() and codes.min() >= 0 and codes.max() < n_levels
    if numbers.numeric == "piecewise":
        coordinates = everything[:, numbers.n_plain : numbers.n_plain + numbers.n_numeric]
        assert ((coordinates >= 0) & (coordinates <= numbers.n_basis)).all()


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(tables(), table_settings, st.randoms())
def test_the_order_of_columns_does_not_matter_once_they_are_selected_by_name(
    table: Drawn, chosen: TableSettings, shuffler: Any
) -> None:
    raw, _, may_be_refused = table
    try:
        encoder = TableEncoder(chosen).fit(raw)
    except TableError:
        if not may_be_refused:
            raise
        return
    order = raw.names
    shuffler.shuffle(order)
    np.testing.assert_array_equal(encoder.encode(raw.select(order).select(raw.names)), encoder.encode(raw))


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=30),
    st.sampled_from(["standard", "robust", "quantile"]),
)
def test_scaling_keeps_order_and_equality(numbers: list[float], scaling: str) -> None:
    X = np.sort(np.array(numbers))[:, None]
    raw = read_table(X)
    out = TableEncoder(TableSettings(scaling=scaling)).fit(raw).encode(raw, dtype=np.float64)[:, 0]
    assert (np.diff(out) >= -1e-12).all()  # a straight line may end a rounding error too high
    assert (out[:-1] == out[1:])[X[:-1, 0] == X[1:, 0]].all()


@pytest.mark.parametrize("n_basis", [1, 2, 7])
@settings(deadline=None, max_examples=40)
@given(numbers=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=40))
def test_the_smallest_training_number_is_at_the_first_edge_and_the_largest_at_the_last(
    n_basis: int, numbers: list[float]
) -> None:
    X = np.array(numbers)[:, None]
    encoder = TableEncoder(TableSettings(numeric_embedding="piecewise", n_basis=n_basis)).fit(read_table(X))
    if encoder.embedding is None:
        return
    ends = encoder.encode(read_table([[X.min()], [X.max()], [-1e9], [1e9]]))[:, 0]
    assert ends[0] == ends[2] == 0 and ends[1] == ends[3] <= n_basis and ends[1] >= 1
