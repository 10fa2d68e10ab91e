"""Objects in cells whose methods fail: levels of a category where possible, else an error that says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tabgnm.table import TableEncoder, TableError, TableSettings, read_table


class Broken(Exception):
    pass


def hostile(*methods: str, base: type = object) -> type:
    """Return a type of which these methods fail."""

    def fail(*_: Any) -> Any:
        raise Broken("the cause")

    own: dict[str, Any] = dict.fromkeys(methods, fail)
    if "__hash__" not in methods and base is object:
        own["__hash__"] = lambda _: 1
    if "__str__" not in methods:
        own["__str__"] = lambda self: type(self).__name__
    return type("Hostile", (base,), own)


def table(cell: Callable[[], Any]) -> np.ndarray:
    cells = [value for _ in range(30) for value in (cell(), "other", None)]
    array = np.empty((len(cells), 1), dtype=object)
    array[:, 0] = cells
    return array


@pytest.mark.parametrize("methods", [["__hash__"], ["__eq__"], ["__eq__", "__ne__", "__hash__", "__repr__"]])
def test_objects_that_cannot_be_compared_are_levels_by_their_text(methods: list[str]) -> None:
    raw = read_table(table(hostile(*methods)))
    encoder = TableEncoder(TableSettings()).fit(raw)
    assert encoder.plans[0].levels is not None
    assert encoder.plans[0].levels.names == ("Hostile", "other")
    assert len(np.unique(encoder.encode(raw), axis=0)) == 3


@pytest.mark.parametrize("base", [object, str])
def test_an_object_without_a_text_is_an_error_with_the_cause(base: type) -> None:
    raw = read_table(table(hostile("__str__", "__repr__", base=base)))
    with pytest.raises(
        TableError, match=r"type Hostile cannot be converted to a string \(Broken: the cause\); replace it with"
    ):
        TableEncoder(TableSettings()).fit(raw)
