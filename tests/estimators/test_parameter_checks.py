"""Invalid parameters are errors before the table is read, also those that do not go together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import KFold

from tabgnm import GNMClassifier
from tests.bad_inputs import BAD_PARAMETERS
from tests.estimators.examples import gnm, mlp, mlpr, numbers

X, Y, T = numbers()
NEEDS_THE_TABLE = [("n_nodes", 5)]


class Unreadable:
    """Fails the test when anything is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        pytest.fail(f"the table was looked at: {name}")

    def __len__(self) -> int:
        pytest.fail("the table was looked at")


INVALID = [
    pytest.param(make, name, value, id=f"{make.__name__} {name}={value!r}")
    for make, name, values in BAD_PARAMETERS
    for value in values
    if (name, value) not in NEEDS_THE_TABLE
]


@pytest.mark.parametrize(("make", "name", "value"), INVALID)
def test_an_invalid_parameter_is_an_error_before_the_table_is_read(make: Any, name: str, value: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=name):
        make(**{name: value}).fit(Unreadable(), Unreadable())


@pytest.mark.parametrize("name", ["clamp_inputs", "persistent_outputs", "tied", "screen_columns", "integer_codes"])
def test_errors_of_flags_name_auto_where_it_is_allowed(name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name}='yes' has type str; expected 'auto', True or False$"):
        gnm(**{name: "yes"}).fit(X, Y)


def test_what_depends_on_the_table_is_an_error_once_it_has_been_read() -> None:
    with pytest.raises(ValueError, match=r"n_nodes=5 is too small: 20 encoded inputs .* use n_nodes>=22"):
        gnm(n_nodes=5).fit(X, Y)


@pytest.mark.parametrize(
    ("make", "together", "message"),
    [
        (mlp, {"cv": KFold(3), "n_folds": 3}, "cv and n_folds=3 cannot both be given; use"),
        (mlp, {"precision": "bf16"}, "precision='bf16' requires a GPU; use 'float32' or 'float64'"),
        (
            gnm,
            {"screen_columns": True, "clamp_inputs": True},
            "screen_columns=True cannot be combined with clamp_inputs=True",
        ),
        (gnm, {"screen_columns": True, "combine": "gated"}, "use screen_columns=False or combine='none'"),
        (gnm, {"screen_columns": True, "learn_initial": True}, "use screen_columns=False or learn_initial=False"),
        (mlp, {"cv": 5, "n_folds": "auto"}, "cv=5 is not a splitter; use n_folds"),
        (mlpr, {"loss": "quantile", "quantile": 2}, "quantile=2 is out of range"),
    ],
)
def test_parameters_that_do_not_go_together_are_an_error_before_the_table_is_read(
    make: Any, together: dict[str, Any], message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make(**together).fit(Unreadable(), Unreadable())


def test_arguments_of_fit_that_do_not_go_together_are_an_error_before_the_table_is_read() -> None:
    nothing = Unreadable()
    with pytest.raises(ValueError, match="X_val was given without y_val"):
        mlp().fit(nothing, nothing, X_val=nothing)
    with pytest.raises(ValueError, match="groups and X_val cannot both be given"):
        mlp().fit(nothing, nothing, X_val=nothing, y_val=nothing, groups=nothing)
    with pytest.raises(ValueError, match="class_weight='balanced' is not supported by partial_fit"):
        mlp(class_weight="balanced").partial_fit(nothing, nothing)
    with pytest.raises(ValueError, match="max_epochs=0"):
        mlp(max_epochs=0).partial_fit(nothing, nothing)
    started = mlp(warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match=r"hidden=\(9,\) was \(8,\) when training started"):
        started.set_params(hidden=(9,)).fit(nothing, nothing)


@pytest.mark.parametrize("device", ["mps", "meta", "xpu"])
def test_a_device_that_is_not_supported_is_an_error_with_those_that_are(device: str) -> None:
    with pytest.raises(ValueError, match=f"device='{device}' is not supported; use 'cpu', 'cuda' .* or 'auto'"):
        mlp(device=device).fit(Unreadable(), Unreadable())


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (gnm, "n_layers"),
        (mlp, "n_candidates"),
        (mlp, "n_folds"),
        (mlp, "n_basis"),
        (mlp, "numeric_dim"),
        (mlp, "level_dim"),
    ],
)
def test_a_count_far_beyond_use_is_an_error_with_the_largest_one(make: Any, name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}=1000000000 is too large; expected an integer <= \d+"):
        make(**{name: 10**9}).fit(Unreadable(), Unreadable())


def test_candidates_of_which_no_columns_can_be_left_out_are_not_tried_with_screening() -> None:
    wide = np.random.default_rng(0).normal(size=(40, 5))
    model = GNMClassifier(
        n_candidates=20, n_folds=2, max_epochs=1, n_nodes=100, screen_columns=True, random_state=0, patience=None
    ).fit(wide, wide[:, 0] > 0)
    assert len(model.pack_) == 20 and model.pack_["screen_columns"].all() and not model.pack_["clamp_inputs"].any()


class WithoutText:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


NAMES = {(make.__name__, name): (make, name) for make, name, _ in BAD_PARAMETERS}


@pytest.mark.parametrize("value", ["a" * 10**6, ["a"] * 10**5, WithoutText()], ids=["text", "list", "without a text"])
@pytest.mark.parametrize(("make", "name"), NAMES.values(), ids=[" ".join(key) for key in NAMES])
def test_a_value_is_shown_in_a_few_words_however_long_it_is(make: Any, name: str, value: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=name) as caught:
        make(**{name: value}).fit(Unreadable(), Unreadable())
    assert len(str(caught.value)) < 2000
