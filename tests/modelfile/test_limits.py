"""What a file may ask for is bounded by its weights; what users train is not refused.

Files are forged with right checksums and with weights for the shapes that they declare.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabgnm import MLPRegressor
from tabgnm._files.tensors import Arrays
from tabgnm.estimators import model_limits
from tabgnm.estimators.fitting import full_shape
from tabgnm.estimators.model_file import from_bytes, to_bytes
from tabgnm.modelfile import ModelFileError
from tabgnm.nn import InputEmbedding
from tabgnm.nn.shapes import GNMShape, MLPShape
from tabgnm.table import TableEncoder
from tests.modelfile.examples import (
    QUICK,
    codes,
    content,
    forged,
    gnm_classifier,
    measured,
    mlp_classifier,
    numbers,
    parts,
)

MAX_MEGABYTES = 250
TIMES_THE_FILE = 10
N_ROWS = 100

File = tuple[bytes, Any]  # and rows for it


def with_weights(schema: dict[str, Any], arrays: Arrays) -> bytes:
    """Return a file with equal weights of the sizes that the schema declares."""
    arrays = {name: array for name, array in arrays.items() if "/networks/" not in name}
    encoders = []
    for place, own in enumerate(schema["encoders"]):
        folder = f"encoders/{place}/"
        own_arrays = {name.removeprefix(folder): array for name, array in arrays.items() if name.startswith(folder)}
        encoders.append(TableEncoder.from_state(own, own_arrays))
    for place, group in enumerate(schema["groups"]):
        encoder, shape = encoders[group["encoder"]], group["shape"]
        embedding = encoder.embedding
        shape["n_inputs"] = encoder.n_encoded if embedding is None else InputEmbedding(**vars(embedding)).n_outputs
        body = (MLPShape if "hidden" in shape else GNMShape)(**shape)
        for name, size in full_shape(encoder, lambda *_, body=body: body, body.n_outputs).parameter_shapes().items():
            arrays[f"groups/{place}/networks/{name}"] = np.full((len(group["seeds"]), *size), 0.01, dtype=np.float32)
    return forged(schema, arrays)


def strings(n: int) -> list[str]:
    return [f"{i:06x}" for i in range(n)]


def table() -> Any:
    return pd.DataFrame({"number": np.arange(float(N_ROWS)), "name": [f"00000{i % 10}" for i in range(N_ROWS)]})


def regressor(**parameters: Any) -> tuple[dict[str, Any], Arrays]:
    X = pd.DataFrame({"number": np.arange(60.0), "name": [*"abc"] * 20})
    settings = QUICK | {"n_folds": 1, "numeric_embedding": None} | parameters
    return parts(to_bytes(MLPRegressor(**settings, hidden=(1,)).fit(X, np.arange(60.0))))


def levels(n: int, **parameters: Any) -> File:
    schema, arrays = regressor(**parameters)
    schema["encoders"][0]["columns"][1]["levels"] = strings(n)
    return with_weights(schema, arrays), table()


def repeated(schema: dict[str, Any], arrays: Arrays, n_encoders: int) -> tuple[dict[str, Any], Arrays]:
    """Return a file with the same encoder and group again and again."""
    for kind in ("encoders", "groups"):
        own = {name.removeprefix(f"{kind}/0/"): a for name, a in arrays.items() if name.startswith(f"{kind}/0/")}
        for place in range(1, n_encoders):
            schema[kind].append(copy.deepcopy(schema[kind][0]))
            arrays |= {f"{kind}/{place}/{name}": array for name, array in own.items()}
    for place, group in enumerate(schema["groups"]):
        group["encoder"] = place
    return schema, arrays


def levels_of_encoders(n_encoders: int, n_levels: int) -> File:
    schema, arrays = regressor()
    schema["encoders"][0]["columns"][1]["levels"] = strings(n_levels)
    return with_weights(*repeated(schema, arrays, n_encoders)), table()


def dates_of_encoders(n_encoders: int) -> tuple[dict[str, Any], Arrays]:
    """Return a file whose encoders all read the same dates from text."""
    X = pd.DataFrame({"number": np.arange(60.0), "day": [f"2024-02-{1 + i % 29:02}" for i in range(60)]})
    with pytest.warns(UserWarning, match="read as dates"):
        model = MLPRegressor(**QUICK | {"n_folds": 1, "numeric_embedding": None}, hidden=(1,)).fit(X, np.arange(60.0))
    return repeated(*parts(to_bytes(model)), n_encoders)


def of_setting(name: str, value: int, **parameters: Any) -> File:
    schema, arrays = regressor(**parameters)
    schema["encoders"][0]["settings"][name] = value
    return with_weights(schema, arrays), table()


def tied(n_nodes: int, n_layers: int, n_groups: int = 1) -> File:
    model = gnm_classifier(numbers(), codes(2), n_nodes=20, n_layers=2, tied=True, n_folds=1, numeric_embedding=None)
    schema, arrays = parts(to_bytes(model))
    schema["groups"][0]["shape"] |= {"n_nodes": n_nodes, "n_layers": n_layers}
    schema["groups"] = [copy.deepcopy(schema["groups"][0]) for _ in range(n_groups)]
    return with_weights(schema, arrays), numbers(N_ROWS)


def hidden(*widths: int) -> File:
    schema, arrays = regressor()
    schema["groups"][0]["shape"]["hidden"] = list(widths)
    return with_weights(schema, arrays), table()


def classes(n: int, width: int = 1) -> File:
    schema, arrays = parts(to_bytes(mlp_classifier(numbers(), codes(3), n_folds=1, numeric_embedding=None)))
    schema["targets"]["classes"][0]["values"] = list(range(n))
    schema["groups"][0]["shape"] |= {"n_outputs": n, "hidden": [width]}
    return with_weights(schema, arrays), numbers(N_ROWS)


def path(n_sizes: int, n_nodes: int) -> File:
    """Return a file with a path of large machines all of whose weights are 0."""
    schema, arrays = parts(content("path of a regressor"))
    chosen = next(size for size in schema["path"] if size["chosen"])
    arrays = {name: array for name, array in arrays.items() if not name.startswith("path/")}
    schema["path"] = [chosen, *(chosen | {"chosen": False} for _ in range(n_sizes - 1))]
    for place in range(1, n_sizes):
        arrays[f"path/{place}/places"] = np.zeros(0, dtype=np.int64)
        arrays[f"path/{place}/weights"] = np.zeros(0, dtype=np.float32)
        arrays[f"path/{place}/importances"] = arrays["importances"]
    schema["groups"][0]["shape"]["n_nodes"] = n_nodes
    return with_weights(schema, arrays), numbers(N_ROWS)


REFUSED: dict[str, tuple[Callable[[], File], str]] = {
    "140,000 one-hot levels": (lambda: levels(140_000), "levels and encoded columns count as 560003 entries"),
    "one-hot levels of eight encoders": (lambda: levels_of_encoders(8, 18_000), "levels and encoded columns"),
    "4,096 rounds of 1,000 nodes": (lambda: tied(1000, 4096), "a tied network with fewer layers"),
    "512 rounds of eight groups": (lambda: tied(300, 512, 8), "a tied network with fewer layers"),
    "64 machines of 30,000 nodes": (lambda: path(64, 30_000), "the 64 machines of its path have"),
    "100,000 classes": (lambda: classes(100_000), "it has 100000 outputs; expected at most 32768 with"),
}


# What takes longer to forge than to refuse.
HEAVIEST: dict[str, tuple[Callable[[], File], str]] = {
    "800,000 one-hot levels": (
        lambda: levels(800_000),
        "the names of its encoded columns have .* expected at most 8388608",
    ),
    "800,000 embedded levels": (lambda: levels(800_000, max_one_hot=0, level_dim=1), "levels and encoded columns"),
    "one-hot levels of twenty encoders": (lambda: levels_of_encoders(20, 35_000), "levels and encoded columns"),
}


@pytest.mark.parametrize("case", [*REFUSED, *(pytest.param(case, marks=pytest.mark.slow) for case in HEAVIEST)])
def test_what_would_take_much_more_than_its_weights_is_refused(case: str) -> None:
    make, message = (REFUSED | HEAVIEST)[case]
    data, _ = make()
    with measured() as cost, pytest.raises(ModelFileError, match=message):
        from_bytes(data)
    assert cost.megabytes < MAX_MEGABYTES


LARGE: dict[str, Callable[[], File]] = {
    "125,000 one-hot levels": lambda: levels(125_000),
    "200,000 embedded levels": lambda: levels(200_000, max_one_hot=0, level_dim=1),
    "one-hot levels of eight encoders": lambda: levels_of_encoders(8, 16_000),
    "4,096 rounds": lambda: tied(20, 4096),
    "40 rounds of 300 nodes of eight groups": lambda: tied(300, 40, 8),
    "1,024 layers": lambda: hidden(*[1] * 1023),
    "64 machines of 12,000 nodes": lambda: path(64, 12_000),
    "a wide layer": lambda: hidden(2**17),
    "many frequencies": lambda: of_setting("n_basis", 2**16, numeric_embedding="periodic", numeric_dim=1),
    "many bins": lambda: of_setting("n_basis", 2**16, numeric_embedding="piecewise", numeric_dim=1),
    "large embeddings": lambda: of_setting("level_dim", 2**16, max_one_hot=0),
    "32,768 classes": lambda: classes(2**15),
}


@pytest.mark.filterwarnings("ignore:column .* has no level that occurred in fit")
@pytest.mark.parametrize("case", LARGE)
def test_what_is_not_refused_takes_little_memory_beyond_its_weights(case: str) -> None:
    data, X = LARGE[case]()
    with measured() as cost:
        model = from_bytes(data)
        assert len(model.predict(X)) == N_ROWS
        if hasattr(model, "classes_"):
            model.predict_proba(X)
    assert cost.megabytes < MAX_MEGABYTES + TIMES_THE_FILE * len(data) / 2**20


@pytest.mark.parametrize(
    "variant", [{"tied": True, "n_layers": 32}, {"n_layers": 2}, {"combine": "gated", "n_layers": 3}]
)
def test_networks_of_4096_nodes_are_not_refused(variant: dict[str, Any]) -> None:
    """They are too large to train here: what counts is what their shape says."""
    shape = GNMShape(n_inputs=20, n_outputs=3, n_nodes=4096, **variant)
    n_weights = sum(int(np.prod(size)) for size in shape.parameter_shapes().values())
    model = gnm_classifier(numbers(), codes(3))
    model.fitted_.groups[0].shape = shape
    model_limits.check_work(model.fitted_, 2 * n_weights)


def test_a_category_of_100000_levels_is_not_refused() -> None:
    """One-hot; not trained here, as its rows alone would take gigabytes."""
    model = from_bytes(levels(100_000)[0])
    same = from_bytes(to_bytes(model))
    assert same.fitted_.encoders[0].n_encoded == 100_001
    np.testing.assert_array_equal(same.predict(table()), model.predict(table()))


def test_large_networks_may_have_more_classes_and_levels() -> None:
    model = from_bytes(classes(40_000, width=128)[0])
    assert len(model.classes_) == 40_000


def test_encoders_that_read_a_column_in_different_ways_are_refused() -> None:
    """Each way takes its time, and encoders of a model are fitted to the same rows."""
    schema, arrays = dates_of_encoders(3)
    assert len(from_bytes(with_weights(schema, arrays)).fitted_.encoders) == 3
    for text in (["day/month/year", []], ["year-month-day", ["unknown"]]):
        forged_schema = copy.deepcopy(schema)
        forged_schema["encoders"][1]["columns"][1]["text"] = text
        with pytest.raises(ModelFileError, match="its encoders read a column in different ways"):
            from_bytes(with_weights(forged_schema, arrays))
