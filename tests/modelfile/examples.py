"""Fitted estimators of every kind, tiny and made once; and what is needed to look into files and to forge them."""

from __future__ import annotations

import ctypes
import hashlib
import json
import resource
import struct
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import safetensors.numpy

from tabgnm import GNMClassifier, GNMRegressor, MLPClassifier, MLPRegressor
from tabgnm.estimators.model_file import to_bytes
from tabgnm.modelfile import container

QUICK: dict[str, Any] = {
    "n_candidates": 1,
    "n_folds": 2,
    "max_epochs": 3,
    "learning_rate": 0.01,
    "batch_size": 16,
    "n_basis": 3,
    "numeric_dim": 2,
    "level_dim": 2,
    "max_one_hot": 4,
    "random_state": 0,
}
N_ROWS = 60


def frame(n_rows: int = N_ROWS, seed: int = 0) -> pd.DataFrame:
    """Every kind of column, with missing cells and a name that is not ASCII."""
    rng = np.random.default_rng(seed)
    number = rng.normal(size=n_rows)
    colours = np.array(["red", "green", "blue"], dtype=object)[rng.integers(0, 3, n_rows)]
    holes = rng.integers(0, 5, n_rows) == 0
    return pd.DataFrame(
        {
            "number": number,
            "größe": np.where(holes, np.nan, rng.gamma(2.0, size=n_rows)),
            "count": rng.integers(0, 9, n_rows),
            "flag": rng.integers(0, 2, n_rows).astype(bool),
            "colour": pd.Series(np.where(holes, None, colours), dtype=object),
            "città": np.array(list("abcdefgh"), dtype=object)[rng.integers(0, 8, n_rows)],
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500_000, n_rows), unit="min"),
            "took": pd.to_timedelta(rng.integers(0, 5000, n_rows), unit="s"),
            "constant": 7.0,
        }
    )


def text_frame(n_rows: int = N_ROWS, seed: int = 0) -> pd.DataFrame:
    """Numbers and dates as text, and an ordered category."""
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500, n_rows), unit="D")
    price = [f"{number:.2f}".replace(".", ",") for number in rng.normal(size=n_rows)]
    return pd.DataFrame(
        {
            "price": ["?", *price[1:]],
            "day": [f"{day:%d.%m.%Y}" for day in days],
            "size": pd.Categorical(rng.choice(["S", "M", "L"], n_rows), ["S", "M", "L"], ordered=True),
        }
    )


def numbers(n_rows: int = N_ROWS, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n_rows, 3))


def codes(n_classes: int, n_rows: int = N_ROWS, seed: int = 1) -> np.ndarray:
    """Class numbers, each of them there."""
    return np.random.default_rng(seed).permutation(np.arange(n_rows) % n_classes)


def gnm_classifier(X: Any, y: Any, **parameters: Any) -> GNMClassifier:
    return GNMClassifier(**QUICK | {"n_nodes": 44, "n_layers": 2} | parameters).fit(X, y)


def gnm_regressor(X: Any, y: Any, **parameters: Any) -> GNMRegressor:
    return GNMRegressor(**QUICK | {"n_nodes": 44, "n_layers": 2} | parameters).fit(X, y)


def mlp_classifier(X: Any, y: Any, **parameters: Any) -> MLPClassifier:
    return MLPClassifier(**QUICK | {"hidden": (5,)} | parameters).fit(X, y)


def mlp_regressor(X: Any, y: Any, **parameters: Any) -> MLPRegressor:
    return MLPRegressor(**QUICK | {"hidden": (5,)} | parameters).fit(X, y)


def target(n_outputs: int = 1) -> np.ndarray:
    y = np.random.default_rng(2).normal(3.0, 2.0, size=(N_ROWS, n_outputs))
    return y[:, 0] if n_outputs == 1 else y


def long_tail() -> np.ndarray:
    """Positive numbers whose logarithms are easier to learn."""
    return np.exp(3 * numbers()[:, 0])


LABELS: dict[str, Any] = {
    "one class": lambda: np.full(N_ROWS, "only"),
    "two strings": lambda: np.array(["no", "ja, größer"])[codes(2)],
    "two objects": lambda: np.array(["no", "yes"], dtype=object)[codes(2)],
    "bools": lambda: codes(2).astype(bool),
    "ints with gaps": lambda: np.array([-7, 1000])[codes(2)],
    "small ints": lambda: np.array([3, 250], dtype=np.uint8)[codes(2)],
    "whole floats": lambda: np.array([1.0, 3.0])[codes(2)],
    "dates": lambda: np.array(["2024-02-29", "1969-01-01"], dtype="datetime64[D]")[codes(2)],
    "moments": lambda: pd.Series(pd.to_datetime(["2024-02-29 12:00", "2025-01-01 00:00"])[codes(2)]),
    "categorical": lambda: pd.Categorical.from_codes(codes(3), ["low", "mid", "high"]),
    "three classes": lambda: codes(3),
    "multilabel": lambda: np.stack([codes(2), codes(2, seed=5), codes(2, seed=6)], axis=1),
    "several targets": lambda: np.stack([codes(3), codes(4, seed=5) * 10], axis=1),
    "targets of strings": lambda: np.array([["a", "b", "c"]])[0][np.stack([codes(3), codes(2)], axis=1)],
}

VARIANTS: dict[str, dict[str, Any]] = {
    "residual": {"combine": "residual"},
    "gated": {"combine": "gated", "n_layers": 3},
    "clamped": {"clamp_inputs": True, "persistent_outputs": True},
    "tied": {"tied": True, "n_layers": 4, "learn_initial": True},
    "initial": {"learn_initial": True, "activation": "mish", "init": "paper"},
    "one layer": {"n_layers": 1},
}

TABLES: dict[str, Callable[[], Any]] = {
    "periodic": lambda: gnm_regressor(frame(), target()),
    "piecewise": lambda: gnm_regressor(frame(), target(), numeric_embedding="piecewise"),
    "numbers as they are": lambda: mlp_regressor(frame(), target(), numeric_embedding=None, scaling="robust"),
    "standard": lambda: mlp_regressor(frame(), target(), numeric_embedding=None, scaling="standard"),
    "unscaled, one-hot": lambda: mlp_regressor(frame(), target(), scaling="none", max_one_hot=100),
    "float64": lambda: gnm_classifier(frame(), codes(3), precision="float64"),
    "kinds by position": lambda: mlp_regressor(numbers(), target(), column_kinds={0: "ignore", 2: "number"}),
    "kinds by name": lambda: mlp_regressor(frame(), target(), column_kinds={"count": "category", "größe": "ignore"}),
    "nothing to use": lambda: mlp_classifier(np.zeros((N_ROWS, 1)), codes(3)),
    "no names": lambda: gnm_classifier(numbers(), codes(2)),
    "class weights": lambda: mlp_classifier(frame(), np.array(["a", "b"])[codes(2)], class_weight={"a": 1.0, "b": 2.5}),
    "balanced": lambda: mlp_classifier(numbers(), codes(3), class_weight="balanced", label_smoothing=0.1),
    "weights of several": lambda: mlp_classifier(
        numbers(), np.stack([codes(2), codes(3)], axis=1), class_weight=[{0: 1, 1: 2}, {0: 1, 1: 1, 2: 3}]
    ),
    "l0": lambda: gnm_classifier(numbers(), codes(2), l0=0.01),
    "l1": lambda: gnm_classifier(numbers(), codes(2), l1=0.01, optimizer="proximal_adam"),
    "numpy parameters": lambda: mlp_regressor(
        numbers(),
        target(),
        hidden=[np.int64(4), 3],
        dropout=np.float32(0.25),
        huber_delta=np.float32(1.5),
        loss="huber",
    ),
    "validated apart": lambda: MLPRegressor(**QUICK, hidden=()).fit(
        numbers(), target(), X_val=numbers(9, seed=3), y_val=np.arange(9.0)
    ),
    "not validated": lambda: mlp_regressor(numbers(), target(), n_folds=0),
    "one validated": lambda: mlp_regressor(numbers(), target(), n_folds=1),
    "partly fitted": lambda: GNMClassifier(**QUICK, n_nodes=20).partial_fit(numbers(), codes(3), classes=[0, 1, 2, 7]),
    "paper": lambda: GNMClassifier.paper(max_epochs=2, n_nodes=30, random_state=1).fit(numbers(), codes(3)),
}


def with_path(estimator: Any, X: Any, y: Any) -> Any:
    """Return a small machine with its path of sizes, trained for a moment."""
    with mock.patch("tabgnm.sparsity.path.N_STEPS", 20), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the machine is a constant")  # it may be, after so few steps
        return estimator.fit_sparse(X, y, n_edges=12, n_hidden=3, n_layers=2, n_folds=2, n_starts=1, random_state=0)


PATHS: dict[str, Callable[[], Any]] = {
    "path of a regressor": lambda: with_path(GNMRegressor(), numbers(), target()),
    "path of a classifier": lambda: with_path(GNMClassifier(), frame(), np.array(["no", "yes"])[codes(2)]),
}


def with_all_candidates(X: Any, y: Any, **settings: Any) -> MLPRegressor:
    """Give all candidates the same weight, so that none is left out on any machine."""

    def equal(predictions: Any, *_: Any) -> np.ndarray:
        return np.full(len(predictions), 1 / len(predictions))

    with mock.patch("tabgnm.estimators.pack.greedy_weights", equal):
        return mlp_regressor(X, y, **settings)


PACK: dict[str, Any] = {"n_candidates": 3, "numeric_dim": 1, "n_basis": 2}

PACKS: dict[str, Callable[[], Any]] = {
    "pack of classifiers": lambda: gnm_classifier(numbers(), codes(3), **PACK, n_nodes=12),
    "pack of a table": lambda: mlp_classifier(frame(), np.array(["no", "yes"])[codes(2)], **PACK),
    "pack of regressors": lambda: mlp_regressor(numbers(), target(2), **PACK),
    "pack with logarithms": lambda: with_all_candidates(numbers(), long_tail(), **PACK | {"n_candidates": 4}),
    "all logarithms": lambda: mlp_regressor(numbers(), np.exp(target(2)), target_transform="log", loss="huber"),
    "eleven folds": lambda: mlp_regressor(numbers(), target(), n_folds=11, max_epochs=1),
    "own metric": lambda: mlp_classifier(numbers(), codes(2), **PACK, metric="accuracy"),
    "calibrated": lambda: mlp_classifier(numbers(150), numbers(150)[:, 0] > 0, max_epochs=20),
}

LOSSES: dict[str, dict[str, Any]] = {
    "mse": {},
    "unscaled": {"scale_target": False},
    "huber": {"loss": "huber", "huber_delta": 2},
    "quantile": {"loss": "quantile", "quantile": 0.9},
    "absolute error": {"loss": "absolute_error"},
}
POSITIVE: dict[str, dict[str, Any]] = {
    "poisson": {"loss": "poisson"},
    "gamma": {"loss": "gamma", "scale_target": False},
    "tweedie": {"loss": "tweedie", "tweedie_power": 1.25},
}


def _all() -> dict[str, Callable[[], Any]]:
    cases = TABLES | PACKS | PATHS
    for name, labels in LABELS.items():
        fit = gnm_classifier if len(cases) % 2 else mlp_classifier
        cases[f"labels: {name}"] = lambda fit=fit, labels=labels: fit(numbers(), labels())
    for name, variant in VARIANTS.items():
        cases[f"variant: {name}"] = lambda variant=variant: gnm_classifier(numbers(), codes(3), **variant)
    for name, loss in LOSSES.items():
        for n_outputs in (1, 2):
            cases[f"loss: {name}, {n_outputs} outputs"] = lambda loss=loss, n=n_outputs: mlp_regressor(
                numbers(), target(n), **loss
            )
    for name, loss in POSITIVE.items():
        for n_outputs in (1, 2):
            cases[f"loss: {name}, {n_outputs} outputs"] = lambda loss=loss, n=n_outputs: mlp_regressor(
                numbers(), np.exp(target(n)), **loss
            )
    cases["loss: several quantiles"] = lambda: mlp_regressor(
        numbers(), target(), loss="quantile", quantile=[0.1, 0.5, 0.9], n_candidates=2
    )
    return cases


CASES = _all()


@cache
def fitted(case: str) -> Any:
    """Return the estimator of a case; not to be changed."""
    return CASES[case]()


@cache
def content(case: str) -> bytes:
    """Return its model file."""
    return to_bytes(fitted(case))


def table_for(estimator: Any) -> Any:
    """Rows that were not there in fit, of the table that an estimator was fitted on."""
    if hasattr(estimator, "feature_names_in_"):
        return frame(23, seed=9)
    return numbers(23, seed=9)[:, : estimator.n_features_in_]


# Files, looked into and forged


def parts(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return schema and arrays of a model file."""
    text, weights = raw_parts(data)
    return json.loads(text), safetensors.numpy.load(weights)


def raw_parts(data: bytes) -> tuple[bytes, bytes]:
    """Return the two entries of a model file as bytes, without our own code to read it."""
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.namelist() == ["schema.json", "weights.safetensors"]
        assert archive.testzip() is None
        return archive.read("schema.json"), archive.read("weights.safetensors")


def forged(schema: dict[str, Any], weights: dict[str, np.ndarray] | bytes) -> bytes:
    """Return a file with every checksum right."""
    if not isinstance(weights, bytes):
        weights = safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in weights.items()})
    schema = schema | {"weights_sha256": hashlib.sha256(weights).hexdigest()}
    return framed(json.dumps(schema).encode(), weights)


def framed(text: bytes, weights: bytes) -> bytes:
    """Return the archive of two entries, packed quickly rather than well."""
    packed = deflated(text, level=1)
    first = container._Entry("schema.json", 8, zlib.crc32(text), len(packed), len(text))
    second = container._Entry("weights.safetensors", 0, zlib.crc32(weights), len(weights), len(weights))
    return first.local_header() + packed + second.local_header() + weights + container._directory(first, second)


def safetensors_file(header: Any, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def deflated(text: bytes, level: int = 9) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(text) + packer.flush()


# Time and memory


class Cost:
    """What a block of code took: seconds, and megabytes above what the process had before."""

    seconds: float
    megabytes: float


@contextmanager
def measured() -> Iterator[Cost]:
    cost = Cost()
    started, before = time.perf_counter(), _peak(reset=True)
    yield cost
    cost.seconds, cost.megabytes = time.perf_counter() - started, (_peak() - before) / 2**20


def _peak(*, reset: bool = False) -> int:
    """Most memory that this process ever held, or since the last reset where the system can do that."""
    try:
        if reset:
            ctypes.CDLL(None).malloc_trim(0)  # what is free but kept would hide what is taken next
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, AttributeError, IndexError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
