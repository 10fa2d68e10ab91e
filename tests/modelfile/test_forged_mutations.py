"""Random changes behind right checksums: a file is refused when it is loaded, or the model works.

"Works" means that predictions, and everything that is shown, raise nothing; a `TableError` that says that a table does
not have the columns of the model is the one exception, as a forger may rename them.
"""

import copy
import json
import random
import struct
import time
import warnings
from typing import Any

import numpy as np
import pytest

from tabgnm.estimators.model_file import from_bytes, to_bytes
from tabgnm.modelfile import ModelFileError
from tabgnm.table import TableError
from tests.modelfile.examples import content, fitted, forged, measured, parts, raw_parts, safetensors_file, table_for

CASES = [
    "periodic", "piecewise", "unscaled, one-hot", "no names", "class weights", "partly fitted", "variant: gated",
    "variant: tied", "labels: several targets", "labels: multilabel", "labels: dates", "labels: one class",
    "loss: quantile, 2 outputs", "loss: huber, 1 outputs", "float64", "pack of a table", "pack of regressors",
    "pack with logarithms", "all logarithms", "calibrated", "not validated",
]  # fmt: skip
N_EACH = 100

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 4096, 2**31, 2**63, 10**30, 0.0, -0.0, 0.5, -1.5, 1e308, 5e-324, "", "x",
    "number", "category", "embedding", "one-hot", "periodic", "<i8", "|O", "\ud800", "a\0b", [], {}, [[]], [0, 1],
    ["a", "b"], {"list": []}, {"pairs": [[1, 2]]}, "cuda", "auto",
]  # fmt: skip


def places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Collect every (container, key) of a JSON value."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        found.append((value, key))
        places(value[key], found)
    return found


def change_json(schema: Any, rng: random.Random) -> None:
    every = places(schema, [])
    home, key = rng.choice(every)
    kind = rng.randrange(6)
    if kind <= 1:
        home[key] = copy.deepcopy(rng.choice(VALUES))
    elif kind == 2:
        del home[key]
    elif kind == 3:
        other, elsewhere = rng.choice(every)
        home[key] = copy.deepcopy(other[elsewhere])
    elif kind == 4 and isinstance(home[key], int | float) and not isinstance(home[key], bool):
        home[key] = rng.choice([home[key] + 1, -home[key], home[key] * 2, float(home[key]), home[key] - 1])
    elif isinstance(home[key], list) and home[key]:
        own = home[key]
        rng.choice([own.reverse, own.pop, lambda: own.append(own[0]), lambda: rng.shuffle(own)])()
    elif isinstance(home[key], str):
        home[key] = rng.choice([home[key] * 2, home[key][:-1], home[key].upper(), home[key] * 10_000])
    else:
        home[key] = copy.deepcopy(rng.choice(VALUES))


def change_arrays(arrays: dict[str, np.ndarray], rng: random.Random) -> None:
    name = rng.choice(list(arrays))
    array = arrays[name].copy()
    kind = rng.randrange(8)
    if kind <= 3 and array.size:
        extreme = [0, 1, -1, 2, 100, 1e30, -1e300, 1e308, 5e-324, np.nan, np.inf, -np.inf]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array.reshape(-1)[rng.randrange(array.size)] = np.array(rng.choice(extreme)).astype(array.dtype)
        arrays[name] = array
    elif kind == 4:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arrays[name] = array.astype(rng.choice(["f2", "f4", "f8", "i8", "u1", "?"]))
    elif kind == 5:
        arrays[name] = rng.choice(
            [array.reshape(-1), array[None], array[:0], array[:1], np.concatenate([array, array])]
        )
    elif kind == 6:
        del arrays[name]
    else:
        other = rng.choice(list(arrays))
        arrays[name], arrays[other] = arrays[other], arrays[name]


def change_header(weights: bytes, rng: random.Random) -> bytes:
    (length,) = struct.unpack("<Q", weights[:8])
    header = json.loads(weights[8 : 8 + length])
    change_json(header, rng)
    return safetensors_file(header, weights[8 + length :])


def mutated(case: str, rng: random.Random) -> bytes:
    schema, arrays = parts(content(case))
    kind = rng.randrange(10)
    if kind == 0:
        return forged(schema, change_header(raw_parts(content(case))[1], rng))
    for _ in range(rng.choice([1, 1, 2])):
        change_json(schema, rng) if kind <= 6 else change_arrays(arrays, rng)
    if not isinstance(schema, dict):
        return forged({}, arrays)
    return forged(schema, arrays)


def use(model: Any, X: Any) -> None:
    """Ask everything that a model can be asked."""
    repr(model), model.get_params(), repr(model.columns_), model.history_, model.feature_importances_, model.members_
    repr(model.pack_), model.fitted_.scores and (model.oof_scores_, model.oof_score_)
    try:
        model.predict(X)
        if hasattr(model, "classes_"):
            repr(model.classes_), model.predict_proba(X), model.decision_function(X)
        elif model.fitted_.residuals:
            model.predict_interval(X)
        for group in range(len(model.fitted_.groups)):
            model.encode(X, group)
    except TableError:
        return


@pytest.mark.parametrize("case", CASES)
def test_a_forged_file_is_refused_or_the_model_works(case: str) -> None:
    rng = random.Random(f"forger of {case}")
    X = table_for(fitted(case))
    loaded, slowest, longest = 0, 0.0, 0
    with measured() as cost, warnings.catch_warnings():
        # Weights of 1e308 overflow, and a model without names warns of a table that has some.
        warnings.simplefilter("ignore")
        for number in range(N_EACH):
            data = mutated(case, rng)
            begun = time.perf_counter()
            try:
                model = from_bytes(data)
            except ModelFileError as error:
                longest = max(longest, len(str(error)))
                continue
            finally:
                slowest = max(slowest, time.perf_counter() - begun)
            loaded += 1
            try:
                use(model, X)
                assert to_bytes(from_bytes(to_bytes(model))) == to_bytes(model)
            except Exception as error:
                raise AssertionError(f"mutation {number} of {case!r} loads, and then: {error!r}") from error
    assert 0 < loaded < N_EACH
    assert cost.megabytes < 200 and slowest < 5 and longest < 1500
