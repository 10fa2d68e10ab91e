"""Bad input gets an error that names the value, the expectation and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tabgnm.nn.losses import BinaryCrossEntropy, CrossEntropy, SquaredError
from tabgnm.training import Fleet, FleetPlan, FleetSettings, Job, Member, Table
from tests.training.examples import BASE, PERCEPTRON, settings_for, table_for

NAN, INF = float("nan"), float("inf")
TABLE = table_for(CrossEntropy(), 20)
NUMBERS = table_for(SquaredError(), 20)
BITS = table_for(BinaryCrossEntropy(), 20)


def fit(
    *members: Member, table: Any = TABLE, loss: Any = None, fleet: dict[str, Any] | None = None, **how: Any
) -> object:
    of_settings = {name: how.pop(name) for name in list(how) if name in FleetSettings.__dataclass_fields__}
    settings = settings_for(loss, **({"max_epochs": 1} | of_settings))
    return Fleet(BASE, list(members), settings, **(fleet or {})).fit(table, **how)


def fit_rows(which: str, rows: Any) -> object:
    return fit(Member(**{which: rows}))


def table_with(value: float) -> Table:
    x = TABLE.x.clone()
    x[3, 2] = value
    return Table(x, TABLE.y)


def predict(x: torch.Tensor) -> object:
    result: Any = fit(Member(), Member(seed=1))
    return result.predict(x)


# what is done, the error, a part of its message
TABLE_OF_ERRORS: list[tuple[Callable[[], object], type[Exception], str]] = [
    # members
    (lambda: Member(learning_rate=-0.1), ValueError, "learning_rate=-0.1 is out of range; expected a finite number >= 0"),
    (lambda: Member(learning_rate=NAN), ValueError, "learning_rate=nan is out of range"),
    (lambda: Member(learning_rate="fast"), ValueError, "learning_rate='fast' is out of range"),  # type: ignore[arg-type]
    (lambda: Member(weight_decay=-1), ValueError, "weight_decay=-1 is out of range"),
    (lambda: Member(l1=-1e-9), ValueError, "l1=-1e-09 is out of range"),
    (lambda: Member(l2=INF), ValueError, "l2=inf is out of range"),
    (lambda: Member(l0=-1), ValueError, "l0=-1 is out of range"),
    (lambda: Member(dropout=1.0), ValueError, r"dropout=1.0 is not a rate; expected a number in \[0, 1\)"),
    (lambda: Member(dropout=-0.5), ValueError, "dropout=-0.5 is not a rate"),
    (lambda: Member(seed="a"), TypeError, "seed='a' has type str; expected an integer"),  # type: ignore[arg-type]
    (lambda: Member(seed=1.5), TypeError, "seed=1.5 has type float; expected an integer"),  # type: ignore[arg-type]
    (lambda: Member(seed=True), TypeError, "seed=True has type bool"),
    (lambda: Member(seed=None), TypeError, "seed=None has type NoneType"),  # type: ignore[arg-type]
    (lambda: Member(table=-1), ValueError, "table=-1 is too small; expected an integer >= 0"),
    (lambda: Member(table=0.5), TypeError, "table=0.5 has type float"),  # type: ignore[arg-type]
    (lambda: Member(val=torch.arange(3), val_halves=torch.zeros(2, dtype=torch.bool)), ValueError, r"val_halves has dtype torch.bool and shape \(2,\); expected one boolean per row of val"),
    (lambda: Member(val_halves=torch.zeros(2, dtype=torch.bool)), ValueError, "val_halves has dtype torch.bool"),
    (lambda: Member(val=torch.arange(3), val_halves=torch.zeros(3)), ValueError, "val_halves has dtype torch.float32"),
    # settings
    (lambda: settings_for(max_epochs=0), ValueError, "max_epochs=0 is too small; expected an integer >= 1"),
    (lambda: settings_for(max_epochs=2.5), TypeError, "max_epochs=2.5 has type float"),
    (lambda: settings_for(batch_size=0), ValueError, "batch_size=0 is too small"),
    (lambda: settings_for(patience=0), ValueError, "patience=0 is too small"),
    (lambda: settings_for(n_threads=2000), ValueError, "n_threads=2000 is out of range; expected at most 1024"),
    (lambda: settings_for(optimizer="sgd"), ValueError, "optimizer='sgd' is not known; use one of 'adam', 'adamw', 'proximal_adam'"),
    (lambda: settings_for(schedule="linear"), ValueError, "schedule='linear' is not known; use one of 'constant', 'cosine', 'log_cosine'"),
    (lambda: settings_for(precision="float16"), ValueError, "precision='float16' is not known; use one of 'float32'"),
    (lambda: settings_for(warmup=1.0), ValueError, r"warmup=1.0 is out of range; expected a fraction of the steps in \[0, 1\)"),
    (lambda: settings_for(warmup=-0.1), ValueError, "warmup=-0.1 is out of range"),
    (lambda: settings_for(warmup=NAN), ValueError, "warmup=nan is out of range"),
    (lambda: settings_for(betas=(0.9, 1.0)), ValueError, r"betas=\(0.9, 1.0\) are out of range; expected two numbers in \[0, 1\)"),
    (lambda: settings_for(betas=(0.9,)), ValueError, r"betas=\(0.9,\) are out of range"),
    (lambda: settings_for(eps=0.0), ValueError, "eps=0.0 is out of range; expected a finite number > 0"),
    (lambda: fit(Member(), device="tpu"), ValueError, "device='tpu' is not known; use 'auto', 'cpu' or 'cuda'"),
    (lambda: fit(Member(), precision="tf32"), ValueError, "precision='tf32' requires a GPU; use 'float32' or 'float64' on a CPU"),
    (lambda: fit(Member(), precision="bf16"), ValueError, "precision='bf16' requires a GPU"),
    # tables
    (lambda: Table(torch.zeros(3), torch.zeros(3)), ValueError, r"x has shape \(3,\); expected \(rows, features\)"),
    (lambda: Table(torch.zeros(3, 2, dtype=torch.complex64), torch.zeros(3)), ValueError, "x has dtype torch.complex64; expected real"),
    (lambda: Table(torch.zeros(0, 2), torch.zeros(0)), ValueError, "x has no rows; expected at least one"),
    (lambda: Table(torch.zeros(3, 2), torch.zeros(4)), ValueError, "x has 3 rows, but y has 4 targets; expected one target per row"),
    (lambda: Table(torch.zeros(3, 2), torch.tensor(1)), ValueError, "x has 3 rows, but y has 0 targets"),
    (lambda: table_with(NAN), ValueError, r"x\[3, 2\] is nan; expected finite numbers; impute or drop such rows first"),
    (lambda: table_with(-INF), ValueError, r"x\[3, 2\] is -inf; expected finite numbers"),
    (lambda: fit(Member(), table=Table(TABLE.x[:, :5], TABLE.y)), ValueError, "table 0 has 5 columns; expected 6, the n_inputs of the shape"),
    (lambda: fit(Member(), table=[TABLE, Table(TABLE.x[:, :5], TABLE.y)]), ValueError, "table 1 has 5 columns; expected 6"),
    (lambda: fit(Member(), table=NUMBERS), ValueError, "targets for cross-entropy have dtype torch.float64 and shape .*; expected int64 class numbers"),
    (lambda: fit(Member(), table=Table(TABLE.x, TABLE.y + 1)), ValueError, r"targets for cross-entropy lie in \[1, 3\]; expected class numbers from 0 to 2"),
    (lambda: fit(Member(), loss=SquaredError()), ValueError, r"targets for the squared_error loss have shape \(20,\) and dtype torch.int64; expected floating point numbers of shape \(rows, 3\)"),
    (lambda: fit(Member(), loss=SquaredError(), table=Table(TABLE.x, NUMBERS.y[:, :1])), ValueError, r"shape \(20, 1\).*expected floating point numbers of shape \(rows, 3\)"),
    (lambda: fit(Member(), loss=SquaredError(), table=Table(TABLE.x, NUMBERS.y * NAN)), ValueError, "targets for the squared_error loss contain NaN or infinity"),
    (lambda: fit(Member(), loss=BinaryCrossEntropy(), table=Table(TABLE.x, BITS.y + 1)), ValueError, r"targets for binary cross-entropy are outside \[0, 1\]"),
    (lambda: fit(Member(table=1)), ValueError, "a model has table=1, but 1 tables were given"),
    (lambda: fit(Member(table=2), table=[TABLE, TABLE]), ValueError, "a model has table=2, but 2 tables were given"),
    # rows
    (lambda: fit_rows("train", torch.arange(0)), ValueError, "a model has no train rows; expected at least one"),
    (lambda: fit_rows("val", torch.arange(0)), ValueError, "a model has no val rows; expected at least one; use val=None for no validation"),
    (lambda: fit_rows("train", torch.arange(21)), ValueError, r"train rows are in \[0, 20\]; expected 0 to 19, the rows of the table"),
    (lambda: fit_rows("val", torch.tensor([-1, 5])), ValueError, r"val rows are in \[-1, 5\]; expected 0 to 19"),
    (lambda: fit_rows("train", torch.ones(20, dtype=torch.bool)), ValueError, r"train rows have dtype torch.bool and shape \(20,\); expected a 1-D tensor of integers"),
    (lambda: fit_rows("val", torch.tensor([0.0, 1.0])), ValueError, "val rows have dtype torch.float32"),
    (lambda: fit_rows("train", torch.zeros(2, 2, dtype=torch.int64)), ValueError, r"train rows have dtype torch.int64 and shape \(2, 2\)"),
    # weights
    (lambda: fit(Member(sample_weight=torch.ones(19))), ValueError, r"sample_weight has shape \(19,\); expected \(20,\): one weight per row"),
    (lambda: fit(Member(sample_weight=torch.ones(20, 1))), ValueError, r"sample_weight has shape \(20, 1\); expected \(20,\)"),
    (lambda: fit(Member(sample_weight=-torch.ones(20))), ValueError, "sample_weight has weights that are negative or not finite; expected numbers >= 0"),
    (lambda: fit(Member(sample_weight=torch.full((20,), NAN))), ValueError, "sample_weight has weights that are negative or not finite"),
    (lambda: fit(Member(sample_weight=torch.zeros(20))), ValueError, "all rows of a model have weight 0; expected at least one positive weight"),
    (lambda: fit(Member(val=torch.arange(5), sample_weight=(torch.arange(20) >= 5).double())), ValueError, "all rows of a model have weight 0"),
    # fleets
    (lambda: Fleet(BASE, [], settings_for()), ValueError, "members is empty; expected at least one Member to train"),
    (lambda: fit(Member(), table=Table(TABLE.x, TABLE.y[:, None])), ValueError, r"targets for cross-entropy have dtype torch.int64 and shape \(.*, 1\)"),
    (lambda: fit(Member(), table=Table(TABLE.x.double() * 1e40, TABLE.y), precision="float32"), ValueError, 'x of table 0 has numbers of more than 3.4e.38, which are infinite in precision="float32"'),
    (lambda: fit(Member(), loss=SquaredError(), table=Table(TABLE.x, TABLE.x[:, :3].double() * 1e40), precision="float32"), ValueError, "y of table 0 has numbers of more than"),
    (lambda: fit(Member(), patience=3), ValueError, "patience=3 requires validation rows; set `val` of the members, or use patience=None"),
    (lambda: Fleet(BASE, [Member()], settings_for(), chunk_size=0), ValueError, "chunk_size=0 is too small; expected an integer >= 1"),
    (lambda: Fleet(BASE, [Member(), Member(val=torch.arange(3))], settings_for()), ValueError, "1 of 2 models have validation rows; expected all models of a fleet or none; use FleetPlan"),
    (lambda: Fleet(BASE, [Member(l0=0.1), Member(), Member()], settings_for()), ValueError, "1 of 3 models have an l0 penalty; expected all models of a fleet or none; use FleetPlan"),
    (lambda: fit(Member(), checkpoint_every=0), ValueError, "checkpoint_every=0 is too small; expected an integer >= 1"),
    (lambda: Fleet(BASE, settings_for(), [Member()]), TypeError, r"settings is a list; expected Fleet\(shape, members, settings\)"),
    (lambda: Fleet(Member(), [Member()], settings_for()), TypeError, "shape is a Member; expected Fleet"),
    (lambda: Fleet(BASE, Member(), settings_for()), TypeError, r"members is a Member; expected Fleet\(shape, members, settings\)"),
    (lambda: Fleet(BASE, {"seed": 1}, settings_for()), TypeError, "members must be a sequence of Member"),
    (lambda: Fleet(BASE, [3], settings_for()), TypeError, "members must be a sequence of Member, as in Fleet"),
    (lambda: FleetPlan([], TABLE), ValueError, "jobs is empty; expected at least one Job to train"),
    (lambda: FleetPlan([Member()], TABLE), TypeError, "jobs must be a sequence of Job, as in FleetPlan"),
    (lambda: FleetPlan([Job(PERCEPTRON, settings_for(), Member(table=3))], TABLE).run(), ValueError, "a model has table=3, but 1 tables were given"),
    # results
    (lambda: predict(torch.zeros(5, 4)), ValueError, r"x has shape \(5, 4\); expected \(rows, 6\), or \(2, rows, 6\) with rows for each model"),
    (lambda: predict(torch.zeros(3, 5, 6)), ValueError, r"x has shape \(3, 5, 6\); expected \(rows, 6\), or \(2, rows, 6\)"),
    (lambda: predict(torch.zeros(6)), ValueError, r"x has shape \(6,\)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("action", "error", "message"), TABLE_OF_ERRORS, ids=[row[2][:60].replace("\\", "") for row in TABLE_OF_ERRORS]
)
def test_bad_input_is_explained(action: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        action()


def test_a_gpu_that_is_not_there_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        ValueError,
        match="device='cuda' is not available, because torch finds no CUDA device; use device='auto' or 'cpu'",
    ):
        fit(Member(), device="cuda")
    fit(Member(), device="auto")


def test_one_bad_member_among_many_is_noticed() -> None:
    good = [Member(seed=seed) for seed in range(5)]
    with pytest.raises(ValueError, match="train rows are in"):
        fit(*good, Member(train=torch.tensor([20])))
    with pytest.raises(ValueError, match="sample_weight has shape"):
        fit(*good, Member(sample_weight=torch.ones(3)), fleet={"chunk_size": 1})


def test_settings_cannot_be_changed_afterwards() -> None:
    settings = settings_for()
    with pytest.raises(AttributeError):
        settings.max_epochs = 3  # type: ignore[misc]
    assert replace(settings, max_epochs=9).max_epochs == 9


def test_arrays_that_cannot_be_written_are_copied() -> None:
    x = np.zeros((3, 2))
    x.flags.writeable = False
    table = Table(x, x)  # type: ignore[arg-type] # torch would warn that writing to the tensor is undefined
    table.x[0, 0] = 1.0
    assert x[0, 0] == 0
