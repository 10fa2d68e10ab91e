"""Warnings about columns: a fit issues one per topic, and a search warns of each column once per topic."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

from tabgnm.table.errors import warn_caller

Topic = Literal[
    "read as numbers",
    "read as dates",
    "ambiguous",
    "like numbers",
    "like dates",
    "identifiers",
    "not used",
    "only gaps used",
    "no column",
]

_Warned = set[tuple[str, str]]  # topics and columns
_warned: ContextVar[_Warned | None] = ContextVar("warned", default=None)
_warned_in_searches: WeakKeyDictionary[Any, _Warned] = WeakKeyDictionary()


@dataclass(frozen=True)
class Advice:
    """A warning about a column.

    Attributes
    ----------
    topic : Topic
    column : str
        The name of the column.
    detail : str
        Details of this column, or "".
    """

    topic: Topic
    column: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.column!r} ({self.detail})" if self.detail else repr(self.column)


@contextmanager
def warned_once() -> Iterator[None]:
    """Within this context, warn about each column at most once per topic, even if several encoders are fitted."""
    if _warned.get() is not None:
        yield
        return
    search = _search_of_scikit_learn()
    token = _warned.set(set() if search is None else _warned_in_searches.setdefault(search, set()))
    try:
        yield
    finally:
        _warned.reset(token)


def _search_of_scikit_learn() -> Any:
    """Return the search or the cross-validated estimator whose folds scikit-learn is fitting; None if there is none.

    GridSearchCV, cross_validate and the like call `fit` for each fold and reset the warning filters each time, so
    Python cannot recognize that a warning is a repetition.
    """
    found, frame = None, sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__", "").startswith("sklearn.model_selection."):
            found = frame.f_locals.get("self", frame.f_locals.get("estimator", found))
    return found if hasattr(found, "get_params") else None  # the outermost one


def warn_about(columns: Iterable[Advice], min_level_count: int) -> None:
    """Warn about columns: at most one warning about text that was read as numbers or dates, and one per other topic."""
    before = _warned.get()
    fresh = [advice for advice in columns if before is None or (advice.topic, advice.column) not in before]
    if before is not None:
        before.update((advice.topic, advice.column) for advice in fresh)
    by_topic: dict[Topic, list[Advice]] = {}
    for advice in fresh:
        by_topic.setdefault(advice.topic, []).append(advice)
    for message in _messages(by_topic, min_level_count):
        warn_caller(message)


def warn_once_about(topic: str, message: str, category: type[Warning]) -> None:
    """Issue a warning that is not about a column; within `warned_once`, only once per topic."""
    before = _warned.get()
    if before is not None and (topic, "") in before:
        return
    if before is not None:
        before.add((topic, ""))
    warn_caller(message, category)


class ColumnWarning(UserWarning):
    """A warning about columns, in parts, so that programs can replace the remedy in Python code by their own.

    Attributes
    ----------
    subject : {"read as", "like numbers", "like dates", "ambiguous", "identifiers", "not used", "no column"}
    finding : str
        What was found, without a remedy.
    kinds : dict
        The columns, and the kind to declare each of them as.
    columns : tuple of Advice
        The findings by column, if the subject is "read as".
    """

    def __init__(
        self, subject: str, finding: str, remedy: str, kinds: dict[str, str], columns: tuple[Advice, ...] = ()
    ) -> None:
        super().__init__(f"{finding}{remedy}")
        self.subject, self.finding, self.kinds, self.columns = subject, finding, kinds, columns


def read_as(columns: Iterable[Advice]) -> ColumnWarning | None:
    """Return a warning about columns of text that are read as numbers or dates; None without such columns."""
    own = tuple(columns)
    numbers, dates = ([each for each in own if each.topic == f"read as {what}"] for what in ("numbers", "dates"))
    said = [f"{what}: {_listed(found)}" for what, found in (("numbers", numbers), ("dates", dates)) if found]
    if not said:
        return None
    kinds = _kinds(numbers, "number") | _kinds(dates, "datetime")
    return ColumnWarning(
        "read as",
        f"columns of text are read as {'; as '.join(said)}",
        f". Convert them before fit or confirm with {_parameter(kinds)}; to keep a column as a category, use the kind "
        "'category'",
        kinds,
        (*numbers, *dates),
    )


def _messages(by_topic: dict[Topic, list[Advice]], min_level_count: int) -> Iterator[ColumnWarning]:
    text_read = read_as([*by_topic.get("read as numbers", []), *by_topic.get("read as dates", [])])
    if text_read is not None:
        yield text_read
    if own := by_topic.get("like numbers"):
        first, kinds = repr(own[0].column), _kinds(own, "number")
        yield ColumnWarning(
            "like numbers",
            f"columns of text look like numbers, but some cells cannot be read: {_listed(own)}. They are treated as "
            "categories",
            f". Remove units and signs before fit, for instance with X[{first}] = "
            f"X[{first}].str.replace('kg', '').str.strip(), and use {_parameter(kinds)}; or set cells that are not "
            f"numbers to missing with X[{first}] = pandas.to_numeric(X[{first}], errors='coerce'); {_to_keep(own)}",
            kinds,
        )
    if own := by_topic.get("like dates"):
        first = repr(own[0].column)
        yield ColumnWarning(
            "like dates",
            f"columns of text look like dates or times, but cannot be read: {_listed(own)}. They are treated as "
            "categories",
            f". Convert them before fit, for instance with X[{first}] = pandas.to_datetime(X[{first}], format=...); "
            f"{_to_keep(own)}",
            _kinds(own, "datetime"),
        )
    if own := by_topic.get("ambiguous"):
        yield ColumnWarning(
            "ambiguous",
            f"columns of text are treated as categories because their numbers or dates are ambiguous: {_listed(own)}",
            ". Convert them before fit, for instance with the arguments thousands and decimal of pandas.read_csv, or "
            f"with pandas.to_datetime; {_to_keep(own)}",
            _kinds(own, "category"),
        )
    if own := by_topic.get("identifiers"):
        yield ColumnWarning(
            "identifiers",
            f"columns look like identifiers, because few rows share a level: {_listed(own)}",
            ". A model cannot generalize from them to new rows; drop them or use "
            f"{_parameter(_kinds(own, 'ignore'))}, declare the text as numbers or dates with the kind 'number' or "
            f"'datetime', or keep them with {_parameter(_kinds(own, 'category'))}",
            _kinds(own, "ignore"),
        )
    unused: dict[Topic, str] = {"not used": "not used", "only gaps used": "only whether it is missing is used"}
    for topic, what in unused.items():
        if own := by_topic.get(topic):
            yield ColumnWarning(
                "not used",
                f"no level of the category {_listed(own)} has min_level_count={min_level_count} training rows: {what}",
                "; drop the column, turn its text into numbers before fit, declare it with the kind 'number' or "
                "'datetime', or use a smaller min_level_count",
                _kinds(own, "ignore"),
            )
    if "no column" in by_topic:
        yield ColumnWarning(
            "no column",
            "no column can be used, so all predictions are the same: each column is constant, missing, ignored or "
            "without frequent levels",
            "; see the notes in columns_",
            {},
        )


def _listed(columns: list[Advice], longest: int = 20) -> str:
    shown = ", ".join(map(str, columns[:longest]))
    return shown if len(columns) <= longest else f"{shown}, ... ({len(columns)} in all)"


def _kinds(columns: list[Advice], kind: str) -> dict[str, str]:
    return dict.fromkeys((own.column for own in columns), kind)


def _parameter(kinds: dict[str, str]) -> str:
    """Return an argument for the estimators that users can copy; in TableSettings it is called `kinds`."""
    return f"column_kinds={kinds!r}"


def _to_keep(columns: list[Advice]) -> str:
    return f"to keep the columns as categories, use {_parameter(_kinds(columns, 'category'))}"
