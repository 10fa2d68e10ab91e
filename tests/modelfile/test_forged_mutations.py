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
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from tabgnm._files.tensors import Arrays
from tabgnm.estimators.model_file import from_bytes, to_bytes
from tabgnm.modelfile import ModelFileError
from tabgnm.table import TableError
from tests.modelfile.examples import content, fitted, forged, measured, parts, raw_parts, safetensors_file, table_for

CASES = [
    "periodic", "piecewise", "unscaled, one-hot", "no names", "class weights", "partly fitted", "variant: gated",
    "variant: tied", "labels: several targets", "labels: multilabel", "labels: dates", "labels: one class",
    "loss: quantile, 2 outputs", "loss: huber, 1 outputs", "float64", "pack of a table", "pack of regressors",
    "pack with logarithms", "all logarithms", "calibrated", "not validated", "path of a regressor",
    "path of a classifier",
]  # fmt: skip
N_EACH = [20, pytest.param(960, marks=pytest.mark.slow)]  # files of each case; the latter are 20,160 together
MAX_MEGABYTES = 250
MAX_SECONDS = 5.0  # of processor time; only for the slow ones, on a machine that may be busy

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


# What a forger with an idea would change


def swap_weights(_schema: Any, arrays: Arrays, rng: random.Random) -> None:
    one, other = rng.choice(list(arrays)), rng.choice(list(arrays))
    alike = [name for name, array in arrays.items() if array.shape == arrays[one].shape]
    other = rng.choice([other, *alike])
    arrays[one], arrays[other] = arrays[other], arrays[one]


def spoil_array(_schema: Any, arrays: Arrays, rng: random.Random) -> None:
    name = rng.choice([name for name, array in arrays.items() if array.dtype.kind == "f"])
    with np.errstate(all="ignore"):
        arrays[name] = np.full_like(arrays[name], rng.choice([np.nan, np.inf, -np.inf, 3e38, 1e308, 5e-324, -1.0]))


def spoil_integer(schema: Any, _arrays: Arrays, rng: random.Random) -> None:
    own = [(home, key) for home, key in places(schema, []) if type(home[key]) is int]
    home, key = rng.choice(own)
    home[key] = rng.choice([2**31, 2**63, 10**30, 10**300, -1, -(2**31), -(2**63), 0, home[key] + 1, 2**20, 2**24])


def stretch_list(schema: Any, _arrays: Arrays, rng: random.Random) -> None:
    own = [(home, key) for home, key in places(schema, []) if isinstance(home[key], list)]
    home, key = rng.choice(own)
    times = rng.choice([0, 2, 3, 100, 5000])
    home[key] = [copy.deepcopy(value) for _ in range(times) for value in home[key][:3]]


def nest(schema: Any, _arrays: Arrays, rng: random.Random) -> None:
    home, key = rng.choice(places(schema, []))
    for _ in range(rng.choice([1, 2, 7, 100])):
        home[key] = rng.choice([[home[key]], {"list": [home[key]]}, {"pairs": [["a", home[key]]]}])


def reweigh(schema: Any, _arrays: Arrays, rng: random.Random) -> None:
    weights = rng.choice([[1.0], [1e-12], [1.0, 1e-12], [0.3, 0.9], [5e-324], [2.0], [0.0]])
    for group in schema["groups"]:
        group["weight"] = rng.choice(weights)


def reshape(schema: Any, _arrays: Arrays, rng: random.Random) -> None:
    shape = rng.choice(schema["groups"])["shape"]
    changes: dict[str, list[Any]] = {
        "n_layers": [1, 2, 3, 5, 4096, 4097], "n_nodes": [3, 45, 10**6], "tied": [True, False], "hidden": [[], [5, 5], [1]],
        "combine": ["none", "residual", "gated"], "clamp_inputs": [True, False], "persistent_outputs": [True, False],
        "learn_initial": [True, False], "activation": ["relu", "tanh", "gelu"], "n_inputs": [1, 2**40],
    }  # fmt: skip
    name = rng.choice([name for name in changes if name in shape])
    shape[name] = rng.choice(changes[name])


def other_table(schema: Any, arrays: Arrays, rng: random.Random) -> None:
    """Take an encoder, its arrays or one of its columns from another file."""
    their_schema, their_arrays = parts(content(rng.choice(CASES)))
    place = rng.randrange(len(schema["encoders"]))
    own, theirs = schema["encoders"][place], rng.choice(their_schema["encoders"])
    kind = rng.randrange(4)
    if kind == 0:
        schema["encoders"][place] = theirs
    elif kind == 1:
        own["settings"] = theirs["settings"]
    elif kind == 2:
        own["columns"][rng.randrange(len(own["columns"]))] = rng.choice(theirs["columns"])
    if kind in (0, 3):
        taken = {name: array for name, array in their_arrays.items() if name.startswith("encoders/0/")}
        arrays |= {name.replace("encoders/0/", f"encoders/{place}/"): array for name, array in taken.items()}


def change_column(schema: Any, _arrays: Arrays, rng: random.Random) -> None:
    columns = rng.choice(schema["encoders"])["columns"]
    column = rng.choice(columns)
    changes: dict[str, list[Any]] = {
        "kind": ["number", "category", "datetime", "boolean", "ignore"], "rare": [True, False],
        "encoding": ["", "one-hot", "two-level", "embedding", "indicator"], "indicator": [True, False],
        "levels": [None, [], ["a"], ["a", "b"], ["\ud800", "a\0b"]], "features": [[], [["", "plain"]], [["", "embedded"]]],
        "n_missing": [0, 1, 10**30], "name": ["", "number", "x" * 10_000, "\ud800"],
    }  # fmt: skip
    for name in rng.sample(list(changes), rng.choice([1, 2])):
        column[name] = rng.choice(changes[name])


def other_targets(schema: Any, arrays: Arrays, rng: random.Random) -> None:
    their_schema, their_arrays = parts(content(rng.choice(CASES)))
    schema["targets"] = their_schema["targets"]
    arrays |= {name: array for name, array in their_arrays.items() if name.startswith("targets/")}


def change_path(schema: Any, arrays: Arrays, rng: random.Random) -> None:
    """Change a size of a path or what its machine is; of a file without one, make one."""
    path = schema.setdefault("path", [copy.deepcopy(A_SIZE)])
    size = rng.choice(path)
    values: list[Any] = [True, False, 0, -1, 5, 2**31, 0.5, "NaN", "Infinity", None]
    size[rng.choice(list(size))] = rng.choice(values)
    folder = f"path/{rng.randrange(len(path))}"
    if rng.randrange(2) and f"{folder}/places" in arrays:
        places, n = arrays[f"{folder}/places"], rng.choice([0, 1, 7])
        arrays[f"{folder}/places"] = rng.choice([places[:n], places[::-1], places + n, places - n, places * 2**40])
        arrays[f"{folder}/weights"] = rng.choice([arrays[f"{folder}/weights"], np.ones(n, dtype=np.float32)])


A_SIZE = {
    "edges": 3, "columns": 1, "hidden": 0, "loss": 0.5, "loss_se": 0.1, "score": 0.5, "score_std": 0.1, "chosen": True,
    "judged_by": "model",
}  # fmt: skip


def change_residuals(schema: Any, arrays: Arrays, rng: random.Random) -> None:
    for fold in range(rng.choice([1, 2, 3])):
        arrays[f"residuals/{fold}"] = np.sort(np.random.default_rng(0).random((rng.choice([0, 1, 5000]), 1)), axis=0)
    schema["n_left_out"] = rng.choice([0, 1, 5, 2**31 - 1])


MEANINGS = [
    swap_weights, spoil_array, spoil_integer, stretch_list, nest, reweigh, reshape, other_table, change_column,
    other_targets, change_residuals, change_path,
]  # fmt: skip


def mutated(case: str, rng: random.Random) -> bytes:
    schema, arrays = parts(content(case))
    kind = rng.randrange(10)
    if kind == 0:
        return forged(schema, change_header(raw_parts(content(case))[1], rng))
    for _ in range(rng.choice([1, 1, 2])):
        if kind <= 5:
            with suppress(LookupError, TypeError, AttributeError):  # the first change may have removed what it changes
                rng.choice(MEANINGS)(schema, arrays, rng)
        elif kind <= 7:
            change_json(schema, rng)
        elif arrays:
            change_arrays(arrays, rng)
    return forged(schema, arrays)


def use(model: Any, X: Any) -> None:
    """Ask everything that a model can be asked."""
    repr(model), model.get_params(), repr(model.columns_), model.history_, model.feature_importances_, model.members_
    if hasattr(model, "_path"):
        repr(model.sparsity_path_)
        for n_edges in {own["edges"] for own in model._path}:
            if n_edges > 0:
                use_predictions(model.resized(n_edges), X)
    repr(model.pack_), model.fitted_.scores and (model.oof_scores_, model.oof_score_)
    use_predictions(model, X)


def use_predictions(model: Any, X: Any) -> None:
    try:
        model.predict(X)
        if hasattr(model, "classes_"):
            repr(model.classes_), model.predict_proba(X), model.decision_function(X)
        elif model.fitted_.residuals:
            model.predict_interval(X, coverage=0.5)
        for group in range(len(model.fitted_.groups)):
            model.encode(X, group)
    except TableError:
        return


@pytest.mark.parametrize("n_files", N_EACH)
@pytest.mark.parametrize("case", CASES)
def test_a_forged_file_is_refused_or_the_model_works(case: str, n_files: int) -> None:
    rng = random.Random(f"forger of {case}")
    X = table_for(fitted(case))
    loaded, slowest, longest = 0, 0.0, 0
    with measured() as cost, warnings.catch_warnings():
        # Weights of 1e308 overflow, and a model without names warns of a table that has some.
        warnings.simplefilter("ignore")
        for number in range(n_files):
            data = mutated(case, rng)
            begun = time.process_time()
            try:
                model = from_bytes(data)
                use(model, X)
                loaded += 1
            except ModelFileError as error:
                longest = max(longest, len(str(error)))
                continue
            except Exception as error:
                raise AssertionError(f"mutation {number} of {case!r} loads, and then: {error!r}") from error
            finally:
                slowest = max(slowest, time.process_time() - begun)
            try:
                assert to_bytes(from_bytes(to_bytes(model))) == to_bytes(model)
            except Exception as error:
                raise AssertionError(f"mutation {number} of {case!r} is not saved as it was: {error!r}") from error
    print(f"{case}: {loaded} of {n_files} loaded; {cost.megabytes:.0f} MB; slowest {slowest:.2f} s")  # noqa: T201
    assert 0 < loaded < n_files
    assert cost.megabytes < MAX_MEGABYTES and longest < 1500
    assert n_files < 100 or slowest < MAX_SECONDS
