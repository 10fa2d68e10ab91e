"""Every row of the table of bad and odd inputs has the documented outcome."""

from __future__ import annotations

import warnings

import pytest

from tests.bad_inputs import ROWS, Error, Row


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_bad_or_odd_input_has_the_documented_error_or_result(row: Row) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if not isinstance(row.out, Error):
            row.out(row.do())
            return
        with pytest.raises(row.out.kind) as caught:
            row.do()
    message = str(caught.value)
    assert isinstance(caught.value, ValueError | TypeError | AttributeError), caught.value
    missing = [piece for piece in row.out.pieces if piece not in message]
    assert not missing, f"{missing} is not in: {message}"


def test_every_row_has_a_name_of_its_own() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names)) >= 80
