"""Validation of the parameters of a search; errors name the value, what was expected and what to do."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tabgnm._printable import shown
from tabgnm.estimators.checks import check_flag, check_integer, check_random, check_verbose
from tabgnm.training.threads import thread_count

if TYPE_CHECKING:
    from tabgnm.estimators.search import FleetSearchCV


def check_search(search: FleetSearchCV) -> None:
    """Validate parameters before any data is read; raise if any is invalid.

    scikit-learn validates the scores, the folds and the values of a grid.
    """
    grids(search.param_grid)
    if search.n_iter is not None:
        check_integer("n_iter", search.n_iter)
    thread_count(search.n_jobs)
    refit, error_score = search.refit, search.error_score
    if not isinstance(refit, bool | np.bool_ | str) and not callable(refit):
        raise TypeError(
            f"refit={shown(refit)} has type {type(refit).__name__}; use True, False, the name of a score, or a "
            "function that selects a candidate from cv_results_"
        )
    if error_score != "raise" and (isinstance(error_score, bool) or not isinstance(error_score, numbers.Real)):
        raise ValueError(f"error_score={shown(error_score)} is not a score; use 'raise', or a number such as numpy.nan")
    check_flag("return_train_score", search.return_train_score)
    check_verbose(search.verbose)
    check_random(search.random_state)


def grids(param_grid: Any) -> list[Mapping[str, Any]]:
    """Return the list of grids to search."""
    given = [param_grid] if isinstance(param_grid, Mapping) else param_grid
    if not isinstance(given, list | tuple) or not all(isinstance(grid, Mapping) for grid in given):
        raise TypeError(
            f"param_grid={shown(param_grid)} is not a grid; expected a dict of lists, such as "
            "{'learning_rate': [0.01, 0.001]}, or a list of such dicts"
        )
    if not given:
        raise ValueError(
            f"param_grid={shown(param_grid)} does not define any candidates; expected a dict of lists, or a list of "
            "such dicts"
        )
    return list(given)
