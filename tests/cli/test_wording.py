"""Warnings of the library, as the command line shows them: with remedies that it has."""

from __future__ import annotations

import re
import shlex
import warnings
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tabgnm
from tabgnm.cli.settings import ESTIMATORS, FitSettings
from tabgnm.cli.wording import OPTIONS, in_options, warning_text
from tabgnm.table.advice import Advice, ColumnWarning, Topic, warn_about
from tests.cli.running import QUICK, iris, run

TOPICS: tuple[Topic, ...] = get_args(Topic)


def warned(*columns: Advice) -> list[Warning]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_about(columns, min_level_count=2)
    return [own.message for own in found if isinstance(own.message, Warning)]


def options_in(text: str) -> list[list[str]]:
    """Return the options that a warning proposes, as a shell reads them."""
    parts = re.split(r"; |, or |\. | and so on|with |use |pass ", text)
    return [shlex.split(part) for part in parts if part.startswith("--")]


@pytest.mark.parametrize("topic", TOPICS)
def test_no_remedy_is_python_and_all_can_be_followed(topic: Topic) -> None:
    (warning,) = warned(Advice(topic, "the price"), Advice(topic, "a=b"))
    assert isinstance(warning, ColumnWarning)
    text = warning_text(warning)
    assert text.startswith(warning.finding)
    for python in ("column_kinds", "pandas", "X[", "before fit", "columns_", "{"):
        assert python not in text
    for option, *values in options_in(text):
        assert option in ("--column-kind", "--ignore", "--set")
        given_kinds = [own for own in values if own != option]
        if option == "--column-kind" and given_kinds:
            kinds = FitSettings.of("auto", [], {}, given_kinds).values["column_kinds"]
            assert set(kinds) == {"the price", "a=b"}


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.sampled_from(["number", "category", "ignore"]), min_size=1))
def test_any_name_of_a_column_can_have_a_kind(kinds: dict[str, str]) -> None:
    given = [f"{name}={kind}" for name, kind in kinds.items()]
    assert FitSettings.of("auto", [], {}, given).values["column_kinds"] == kinds


def test_remedies_for_many_columns_stay_short() -> None:
    (warning,) = warned(*(Advice("identifiers", f"column {number}") for number in range(50)))
    assert "--ignore 'column 2' and so on" in warning_text(warning)


def test_parameters_with_an_option_are_called_by_it() -> None:
    parameters = {name for estimator in ESTIMATORS.values() for name in estimator().get_params()}
    assert OPTIONS.keys() - {"sample_weight"} <= parameters
    for name, option in OPTIONS.items():
        assert in_options(f"{name}=3 is wrong") == f"{option} 3 is wrong"
    assert in_options("use n_edges>=3 for a larger one") == "use --edges 3 for a larger one"
    assert in_options("no metric of this device") == "no metric of this device"


def test_other_parameters_are_named_with_how_to_set_them() -> None:
    said = warning_text(UserWarning("use a larger max_epochs, or patience=None"))
    assert said.endswith("--set max_epochs=VALUE")
    assert "--set" not in warning_text(UserWarning("the loss of this activation"))


def test_the_remedy_for_a_column_that_looks_like_an_identifier_works() -> None:
    frame = iris().assign(code=[f"code {number}" for number in range(150)])
    frame.to_csv("table.csv", index=False)
    first = run("fit", "table.csv", "-t", "species", *QUICK)
    assert "leave them out with --ignore code" in first.stderr
    kept = run("fit", "table.csv", "-t", "species", *QUICK, "--column-kind", "code=category")
    assert "identifiers" not in kept.stderr
    assert {own.name: own.kind for own in tabgnm.load("model.tabgnm").columns_}["code"] == "category"


def test_a_kind_for_a_column_that_is_not_there_is_an_error() -> None:
    frame = pd.DataFrame({"a": np.arange(20), "y": np.arange(20) % 2})
    frame.to_csv("table.csv", index=False)
    assert "'b'" in run("fit", "table.csv", "-t", "y", *QUICK, "--column-kind", "b=category", code=3).stderr
