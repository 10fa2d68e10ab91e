"""Matching the columns of a table with those of the table in `fit`."""

from __future__ import annotations

from collections.abc import Sequence

from tabgnm.table.errors import TableError, printable, warn_caller
from tabgnm.table.raw import RawTable

_MAX_NAMES = 5


def match_columns(raw: RawTable, fitted_names: Sequence[str], fitted_has_names: bool, estimator_name: str) -> RawTable:
    """Return the table with its columns in the order of `fit`.

    If both tables have names, columns are matched by name, in any order. This includes integer names, which pandas
    allows and scikit-learn ignores. Otherwise columns are matched by position, with scikit-learn's warning if only one
    of the tables has names.

    Parameters
    ----------
    raw : RawTable
    fitted_names : sequence of str
        The names of the columns in `fit`.
    fitted_has_names : bool
        Whether the table in `fit` had column names.
    estimator_name : str
        The name of the estimator in messages.

    Raises
    ------
    TableError
        If names are missing or unknown; the message is scikit-learn's. Also if the names of one table are 0, 1, 2, ...
        in a different order and the other table has no names, because the match would be ambiguous.
    """
    # The names given to columns of a table without names begin with "x".
    fitted_integers = not fitted_has_names and not fitted_names[0].startswith("x")
    if (raw.has_names and fitted_has_names) or (raw.has_integer_names and fitted_integers):
        names = raw.names
        if names == list(fitted_names):
            return raw
        unseen, missing = sorted(set(names) - set(fitted_names)), sorted(set(fitted_names) - set(names))
        if unseen or missing:
            message = "The feature names should match those that were passed during fit.\n"
            message += _listed("Feature names unseen at fit time:\n", unseen)
            message += _listed("Feature names seen at fit time, yet now missing:\n", missing)
            raise TableError(message)
        return raw.select(fitted_names)
    if raw.has_names:
        warn_caller(f"X has feature names, but {estimator_name} was fitted without feature names")
    elif fitted_has_names:
        warn_caller(f"X does not have valid feature names, but {estimator_name} was fitted with feature names")
    elif raw.has_integer_names:
        _refuse_disorder(raw.names)
    elif fitted_integers:
        _refuse_disorder(fitted_names)
    if raw.n_columns != len(fitted_names):
        raise TableError(
            f"X has {raw.n_columns} features, but {estimator_name} is expecting {len(fitted_names)} features as input."
        )
    return raw


def _refuse_disorder(names: Sequence[str]) -> None:
    if set(names) == {str(position) for position in range(len(names))}:
        raise TableError(
            f"columns have the names {', '.join(names[:_MAX_NAMES])}{' ...' if len(names) > _MAX_NAMES else ''} in "
            "one table and no names in the other, so it is ambiguous whether to match them by name or by position; "
            "convert the names to strings in both tables with X.columns = X.columns.astype(str), or pass X.to_numpy() "
            "both times"
        )


def _listed(heading: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    lines = [f"- {printable(name)}\n" for name in names[:_MAX_NAMES]]
    return heading + "".join(lines) + ("- ...\n" if len(names) > _MAX_NAMES else "")
