"""Files made by someone who knows the format and makes every checksum right.

Each is refused with a `ModelFileError`, in little memory.
"""

import copy
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tabgnm
from tabgnm.estimators.model_file import from_bytes, to_bytes
from tabgnm.modelfile import ModelFileError, container
from tests.modelfile.examples import (
    content,
    deflated,
    forged,
    frame,
    framed,
    measured,
    mlp_regressor,
    numbers,
    parts,
    raw_parts,
    safetensors_file,
)

MAX_MEGABYTES = 250

Schema = dict[str, Any]
Change = Callable[[Schema], None]


def edited(case: str, change: Change) -> bytes:
    schema, arrays = parts(content(case))
    schema = copy.deepcopy(schema)
    change(schema)
    return forged(schema, arrays)


def put(path: str, value: Any) -> Change:
    """Return a change of the value at a path such as "encoders.0.columns.0.name"."""

    def change(schema: Schema) -> None:
        *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        place: Any = schema
        for step in way:
            place = place[step]
        place[last] = value

    return change


def dropped(key: str) -> Change:
    return lambda schema: schema.pop(key)


def retexted(change: Callable[[str], str]) -> bytes:
    """Return a file whose schema is a text that no JSON program would write."""
    text, weights = raw_parts(content("no names"))
    return framed(change(text.decode()).encode(), weights)


def with_value(text: str) -> bytes:
    """Return a file with this text as the value of `verbose`."""
    return retexted(lambda schema: schema.replace('"verbose":0', f'"verbose":{text}'))


def rearranged(change: Callable[[dict[str, np.ndarray]], None], case: str = "no names") -> bytes:
    schema, arrays = parts(content(case))
    change(arrays)
    return forged(schema, arrays)


def array(name: str, value: np.ndarray) -> Callable[[dict[str, np.ndarray]], None]:
    return lambda arrays: arrays.__setitem__(name, value)


def reheaded(change: Callable[[dict[str, Any]], Any]) -> bytes:
    """Return a file whose weights have another safetensors header."""
    text, weights = raw_parts(content("no names"))
    (length,) = struct.unpack("<Q", weights[:8])
    header = json.loads(weights[8 : 8 + length])
    changed = change(header)
    return forged(json.loads(text), safetensors_file(header if changed is None else changed, weights[8 + length :]))


def weights_of(raw: bytes) -> bytes:
    return forged(parts(content("no names"))[0], raw)


def zip_with(change: Callable[[bytearray], None]) -> bytes:
    data = bytearray(content("no names"))
    change(data)
    return bytes(data)


def rezipped(method: int) -> bytes:
    """Return the same entries in an archive of another kind."""
    text, weights = raw_parts(content("no names"))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("schema.json", text)
        archive.writestr("weights.safetensors", weights)
    return file.getvalue()


def lzma_bomb() -> bytes:
    """Return an LZMA entry that asks for a dictionary of 4 GB."""
    data = bytearray(rezipped(zipfile.ZIP_LZMA))
    properties = data.index(b"schema.json") + len("schema.json") + 4
    data[properties + 1 : properties + 5] = b"\xff\xff\xff\xff"
    return bytes(data)


def bomb(claimed: int | None = None) -> bytes:
    """Return a schema of a gigabyte in a few megabytes."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    mega = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)  # stands for itself, so it can be repeated
    packed = mega * 1024 + packer.flush()
    entry = container._Entry("schema.json", 8, 0, len(packed), 2**30 if claimed is None else claimed)
    return entry.local_header() + packed


def appended_to_deflated() -> bytes:
    text, weights = raw_parts(content("no names"))
    packed = deflated(text) + b"hidden"
    first = container._Entry("schema.json", 8, zlib.crc32(text), len(packed), len(text))
    second = container._Entry("weights.safetensors", 0, zlib.crc32(weights), len(weights), len(weights))
    return first.local_header() + packed + second.local_header() + weights + container._directory(first, second)


def set_bytes(start: int, value: bytes) -> Callable[[bytearray], None]:
    return lambda data: data.__setitem__(slice(start, start + len(value) or None), value)


def many_strings(length: int) -> list[str]:
    return [f"{i:x}".rjust(length, "0") for i in range(8 * 2**20 // (length + 4))]


def levels_bomb(schema: Schema) -> None:
    """A column whose levels all repeat a long name."""
    column = next(column for column in schema["encoders"][0]["columns"] if column["encoding"] == "one-hot")
    column["name"] = "x" * 2**20
    column["levels"] = many_strings(8)[:200_000]


def level_twice(levels: list[str]) -> None:
    levels[1] = levels[0]


def log_place() -> int:
    """Return the position of the group that learns logarithms."""
    groups = parts(content("pack with logarithms"))[0]["groups"]
    return next(place for place, group in enumerate(groups) if group["targets"] is not None)


def log_edited(path: str, value: Any) -> bytes:
    return edited("pack with logarithms", put(f"groups.{log_place()}.{path}", value))


def log_rearranged(name: str, value: np.ndarray) -> bytes:
    return rearranged(array(f"groups/{log_place()}/{name}", value), "pack with logarithms")


def multiplied(case: str, n: int, *, encoders: bool = False) -> bytes:
    """Return a pack with n more groups like the first, and as many encoders."""
    schema, arrays = parts(content(case))
    for kind in ("groups", "encoders")[: 1 + encoders]:
        first = len(schema[kind])
        own = {name.removeprefix(f"{kind}/0/"): a for name, a in arrays.items() if name.startswith(f"{kind}/0/")}
        schema[kind] += [copy.deepcopy(schema[kind][0]) for _ in range(n)]
        arrays |= {f"{kind}/{first + i}/{name}": a for i in range(n) for name, a in own.items()}
    if encoders:
        for place in range(n):
            schema["groups"][-1 - place]["encoder"] = len(schema["encoders"]) - 1 - place
    return forged(schema, arrays)


def with_long_names() -> bytes:
    """Return a pack whose encoders each repeat long names, though none of them too many."""
    schema, arrays = parts(multiplied("unscaled, one-hot", 39, encoders=True))
    for encoder in schema["encoders"]:
        next(column for column in encoder["columns"] if column["encoding"] == "one-hot")["name"] = "x" * 200_000
        next(column for column in encoder["columns"] if column["name"] == "when")["name"] = "y" * 800
    return forged(schema, arrays)


def with_unused_encoder() -> bytes:
    schema, arrays = parts(multiplied(MSE, 1, encoders=True))
    schema["groups"][1]["encoder"] = 0
    return forged(schema, arrays)


def logs_of_another_loss(schema: Schema) -> None:
    schema["groups"][log_place()]["targets"] |= {"loss": "huber", "loss_setting": 1.0}


def deep_groups() -> bytes:
    """Return a pack whose groups each have as many layers as a file may have."""
    schema, arrays = parts(multiplied("variant: tied", 900))
    for group in schema["groups"]:
        group["shape"]["n_layers"] = 4096
    return forged(schema, arrays)


def with_encoder(change: Change) -> bytes:
    """Return a pack of which only the second encoder is changed."""
    return edited("pack of a table", lambda schema: change(schema["encoders"][1]))


def candidates_of_their_own(schema: Schema) -> None:
    """Candidates that would make a table of a billion cells."""
    schema["candidates"] = [{f"{row:x}_{i:x}": 0 for i in range(30)} for row in range(8_000)]


def first_version(change: Change, arrays: dict[str, np.ndarray] | None = None) -> bytes:
    """Return a forged file of the first version of the format."""
    path = Path(__file__).parent / "fixtures" / "v1-quantile-float64-mlp-regressor.tabgnm"
    schema, own = parts(path.read_bytes())
    change(schema)
    return forged(schema, own | (arrays or {}))


def unchosen(schema: Schema) -> None:
    for size in schema["path"]:
        size["chosen"] = False


def moved(by: int) -> Callable[[dict[str, np.ndarray]], None]:
    return lambda arrays: arrays.update({"path/0/places": arrays["path/0/places"] + by})


PATH = "path of a regressor"
PAIR = "pack of a table"  # several groups and encoders
MSE = "loss: mse, 1 outputs"
QUANTILES = "loss: several quantiles"
RESIDUALS = np.arange(5.0)[:, None]
COLUMN, CITY = "encoders.0.columns.0", "encoders.0.columns.5"
CLASSES = "targets.classes.0"

ATTACKS: dict[str, Callable[[], bytes]] = {
    # zip
    "a bomb": bomb,
    "a bomb that claims to be small": lambda: bomb(1000),
    "an LZMA bomb": lzma_bomb,
    "packed by bzip2": lambda: rezipped(zipfile.ZIP_BZIP2),
    "not packed": lambda: rezipped(zipfile.ZIP_STORED),
    "encrypted": lambda: zip_with(set_bytes(6, b"\1\0")),
    "sizes after the data": lambda: zip_with(set_bytes(6, b"\10\0")),
    "names in UTF-8": lambda: zip_with(set_bytes(6, b"\0\10")),
    "an absurd packed size": lambda: zip_with(set_bytes(18, b"\xff\xff\xff\xff")),
    "an absurd size": lambda: zip_with(set_bytes(22, b"\xff\xff\xff\xff")),
    "an absurd length of a name": lambda: zip_with(set_bytes(26, b"\xff\xff")),
    "an extra field": lambda: zip_with(set_bytes(28, b"\4\0")),
    "an entry in a folder": lambda: content("no names").replace(b"schema.json", b"../../a.jsn"),
    "a comment": lambda: zip_with(lambda data: data.__setitem__(slice(-2, None), b"\5\0hello")),
    "another number of entries": lambda: zip_with(set_bytes(-14, b"\3")),
    "a directory that points elsewhere": lambda: zip_with(set_bytes(-6, b"\0\0\0\0")),
    "entries that overlap": lambda: zip_with(lambda data: data.__setitem__(slice(-22 - 19 - 4, -22 - 19), b"\0\0\0\0")),
    "another name in the directory": lambda: zip_with(set_bytes(-22 - 19, b"x")),
    "data after the packed schema": appended_to_deflated,
    # JSON
    "no object": lambda: retexted(lambda _: "[]"),
    "no JSON": lambda: retexted(lambda text: text[:-1]),
    "two objects": lambda: retexted(lambda text: text + text),
    "another format": lambda: edited("no names", put("format", "pickle")),
    "deep nesting": lambda: with_value("[" * 100_000 + "]" * 100_000),
    "deeper nesting": lambda: retexted(lambda _: "[" * 8_000_000),
    "a nested parameter": lambda: with_value('{"list":[' * 200 + "]}" * 200),
    "a duplicate key": lambda: with_value('0,"verbose":1'),
    "a duplicate key at the top": lambda: retexted(lambda text: text[:-1] + ',"version":1}'),
    "NaN": lambda: with_value("NaN"),
    "infinity": lambda: with_value("-Infinity"),
    "a number beyond float64": lambda: with_value("1e999"),
    "a number of a million digits": lambda: with_value("9" * 10**6),
    "a fraction of a million digits": lambda: with_value("0." + "9" * 10**6),
    "not ASCII": lambda: with_value('"ü"'),
    "a schema that is too long": lambda: with_value(" " * 9 * 2**20 + "0"),
    "millions of lists": lambda: with_value('{"list":[' + "[]," * 2_700_000 + "[]]}"),
    "millions of objects": lambda: with_value('{"list":[' + "{}," * 2_700_000 + "{}]}"),
    "millions of strings": lambda: with_value('{"list":' + json.dumps(many_strings(4)) + "}"),
    "millions of numbers": lambda: with_value('{"list":[' + "1.5," * 2_000_000 + "0]}"),
    "millions of keys": lambda: with_value(json.dumps({f"{i:x}": 0 for i in range(500_000)})),
    # The estimator and its parameters
    "another estimator": lambda: edited("no names", put("estimator", "Pipeline")),
    "an estimator of another kind": lambda: edited("no names", put("estimator", "GNMRegressor")),
    "an MLP that is a GNM": lambda: edited("no names", put("estimator", "MLPClassifier")),
    "an estimator by path": lambda: edited("no names", put("estimator", "os.system")),
    "an estimator that is a list": lambda: edited("no names", put("estimator", ["GNMClassifier"])),
    "an unknown parameter": lambda: edited("no names", put("parameters.fitted_", 1)),
    "a dunder parameter": lambda: edited("no names", put("parameters.__class__", "x")),
    "parameters that are a list": lambda: edited("no names", put("parameters", [])),
    "a parameter that is an object": lambda: edited("no names", put("parameters.l1", {"py/object": "os.system"})),
    "a parameter with unhashable keys": lambda: edited(
        "no names", put("parameters.l1", {"pairs": [[{"list": []}, 1]]})
    ),
    "a parameter with a key twice": lambda: edited("no names", put("parameters.l1", {"pairs": [["a", 1], ["a", 2]]})),
    "pairs of three": lambda: edited("no names", put("parameters.l1", {"pairs": [[1, 2, 3]]})),
    "a device that is none": lambda: edited("no names", put("parameters.device", "x" * 10**6)),
    "a device that is a number": lambda: edited("no names", put("parameters.device", 3)),
    "a number of threads": lambda: edited("no names", put("parameters.n_jobs", 10**6)),
    "a missing entry": lambda: edited("no names", dropped("groups")),
    "an extra entry": lambda: edited("no names", put("extra", 1)),
    "a version of tabgnm that is a novel": lambda: edited("no names", put("tabgnm", "x" * 10**6)),
    "other parameters of the fit, as a list": lambda: edited("no names", put("fitted_with", [1])),
    "a name of the target that is a number": lambda: edited("no names", put("target_name", 1)),
    "a name of the target that is empty": lambda: edited("no names", put("target_name", "")),
    "names of several targets for one": lambda: edited("no names", put("target_names", ["a", "b"])),
    "names of targets that are no list": lambda: edited("no names", put("target_names", "ab")),
    "other parameters of the fit that do not exist": lambda: edited("no names", put("fitted_with", {"n_trees": 1})),
    "other parameters of the fit that may change": lambda: edited("no names", put("fitted_with", {"max_epochs": 1})),
    "other parameters of the fit that are nested": lambda: edited("no names", put("fitted_with", {"n_nodes": [1]})),
    # Numbers
    "no seeds": lambda: edited("no names", put("groups.0.seeds", [])),
    "a negative seed": lambda: edited("no names", put("groups.0.seeds.0", -1)),
    "a huge seed": lambda: edited("no names", put("groups.0.seeds.0", 2**64)),
    "a seed that is a bool": lambda: edited("no names", put("groups.0.seeds.0", True)),
    "a seed that is a float": lambda: edited("no names", put("groups.0.seeds.0", 1.0)),
    "too many seeds": lambda: edited("no names", put("groups.0.seeds", [1, 2, 3])),
    "millions of seeds": lambda: edited("no names", put("groups.0.seeds", [1] * 1_000_000)),
    "calls below 1": lambda: edited("no names", put("n_calls", 0)),
    "calls beyond counting": lambda: edited("no names", put("n_calls", 10**30)),
    "has_names that is a string": lambda: edited("no names", put("has_names", "yes")),
    "histories of others": lambda: edited("no names", put("groups.0.histories", [{}, {}])),
    "histories of numbers": lambda: edited("no names", put("groups.0.histories", [1, 2])),
    "too few histories": lambda: edited("no names", put("groups.0.histories", [])),
    "a loss that is a string": lambda: edited("no names", put("groups.0.histories.0.train_loss", ["x"])),
    "a loss that is an int": lambda: edited("no names", put("groups.0.histories.0.train_loss.0", 1)),
    "a loss that is not a list": lambda: edited("no names", put("groups.0.histories.0.train_loss", 1.5)),
    "a best epoch before the first": lambda: edited("no names", put("groups.0.histories.0.best_epoch", -1)),
    "a status of its own": lambda: edited("no names", put("groups.0.histories.0.status", "great")),
    "a metric of regressors": lambda: edited("no names", put("groups.0.histories.0.val_r2", [])),
    # Groups
    "no groups": lambda: edited(PAIR, put("groups", [])),
    "groups that are an object": lambda: edited(PAIR, put("groups", {"0": {}})),
    "a group that is a number": lambda: edited(PAIR, put("groups.1", 1)),
    "a group without weights": lambda: edited(PAIR, lambda schema: schema["groups"].append(schema["groups"][0])),
    "a group less": lambda: edited(PAIR, lambda schema: schema["groups"].pop()),
    "groups in another order": lambda: edited(PAIR, lambda schema: schema["groups"].reverse()),
    "an entry of a group less": lambda: edited(PAIR, lambda schema: schema["groups"][1].pop("weight")),
    "an entry of a group more": lambda: edited(PAIR, put("groups.1.extra", 1)),
    "too many groups": lambda: multiplied(MSE, 1000),
    "a million groups": lambda: edited(PAIR, put("groups", [0] * 500_000)),
    "layers of all groups": deep_groups,
    "a weight of 0": lambda: edited(PAIR, put("groups.1.weight", 0.0)),
    "a weight below 0": lambda: edited(PAIR, put("groups.1.weight", -0.5)),
    "a weight above 1": lambda: edited(PAIR, put("groups.1.weight", 1e300)),
    "a weight that is an int": lambda: edited(PAIR, put("groups.1.weight", 1)),
    "a weight that is a string": lambda: edited(PAIR, put("groups.1.weight", "NaN")),
    "a weight that would vanish": lambda: edited(PAIR, put("groups.1.weight", 5e-324)),
    "settings that are a list": lambda: edited(PAIR, put("groups.1.settings", [])),
    "no settings": lambda: edited(PAIR, put("groups.1.settings", {})),
    "settings of its own for a group": lambda: edited(PAIR, put("groups.1.settings.n_trees", 1)),
    "a dropout beyond 1": lambda: edited(PAIR, put("groups.1.settings.dropout", 1.5)),
    "a dropout that is a string": lambda: edited(PAIR, put("groups.1.settings.dropout", "0.1")),
    "a setting that is an object": lambda: edited(PAIR, put("groups.1.settings.learning_rate", {"a": 1})),
    "no folds": lambda: edited(PAIR, put("groups.1.folds", [])),
    "a fold less": lambda: edited(PAIR, put("groups.1.folds", [0])),
    "a fold before the first": lambda: edited(PAIR, put("groups.1.folds.0", -1)),
    "a fold that is a bool": lambda: edited(PAIR, put("groups.1.folds.0", True)),
    "a fold that is a float": lambda: edited(PAIR, put("groups.1.folds.0", 1.0)),
    "a fold beyond all": lambda: edited(PAIR, put("groups.1.folds.0", 2**31 - 1)),
    "a fold without errors": lambda: edited(MSE, put("groups.0.folds.0", 2)),
    "seeds of a group less": lambda: edited(PAIR, put("groups.1.seeds", [1])),
    "a history of a group less": lambda: edited(PAIR, lambda schema: schema["groups"][1]["histories"].pop()),
    "an encoder beyond the last": lambda: edited(PAIR, put("groups.1.encoder", 2)),
    "an encoder before the first": lambda: edited(PAIR, put("groups.1.encoder", -1)),
    "an encoder by name": lambda: edited(PAIR, put("groups.1.encoder", "0")),
    "an encoder that is a bool": lambda: edited(PAIR, put("groups.1.encoder", False)),
    "an encoder of another group": lambda: edited(
        PAIR, lambda schema: [group.update(encoder=1 - group["encoder"]) for group in schema["groups"]]
    ),
    "an encoder that no group uses": with_unused_encoder,
    "a shape of another group": lambda: edited(PAIR, put("groups.1.shape.hidden", [6])),
    "groups of two number types": lambda: rearranged(
        lambda a: a.update({n: v.astype(np.float64) for n, v in a.items() if n.startswith("groups/1/networks")}), PAIR
    ),
    "a weight of the second group that is NaN": lambda: rearranged(
        lambda a: a["groups/1/networks/bias_1"].__setitem__((0, 0), np.nan), PAIR
    ),
    "an array of a group of unknown use": lambda: rearranged(array("groups/1/extra", np.zeros(3)), PAIR),
    "an array in a group of unknown use": lambda: rearranged(array("groups/1/extra/bias_1", np.zeros(3)), PAIR),
    "an array of a group that does not exist": lambda: rearranged(array("groups/7/networks/bias_1", np.zeros(3)), PAIR),
    "a group written in another way": lambda: rearranged(array("groups/01/networks/bias_1", np.zeros(3)), PAIR),
    "arrays of the targets of a group": lambda: rearranged(array("groups/0/targets/center", np.zeros(1)), MSE),
    # Candidates and what is known of them
    "candidates that are an object": lambda: edited(PAIR, put("candidates", {})),
    "a candidate that is a number": lambda: edited(PAIR, put("candidates.0", 1)),
    "a candidate with a list": lambda: edited(PAIR, put("candidates.0.loss", [1.0])),
    "a candidate with an object": lambda: edited(PAIR, put("candidates.0.loss", {"pairs": []})),
    "a candidate with half a character": lambda: edited(PAIR, put("candidates.0.scaling", "\ud800")),
    "candidates with half a character in a name": lambda: edited(PAIR, put("candidates", [{"\ud800": 1}])),
    "a candidate with an entry of its own": lambda: edited(PAIR, put("candidates.0.extra", 1)),
    "a candidate of too many entries": lambda: edited(PAIR, put("candidates", [{f"{i}": 0 for i in range(101)}])),
    "candidates that make a huge table": lambda: edited(PAIR, candidates_of_their_own),
    "too many candidates": lambda: edited(PAIR, put("candidates", [{}] * 10_001)),
    "scores that are a list": lambda: edited(PAIR, put("scores", [1.0])),
    "a score that is a string": lambda: edited(PAIR, put("scores.accuracy", "good")),
    "a score that is an int": lambda: edited(PAIR, put("scores.accuracy", 1)),
    "a score that is None": lambda: edited(PAIR, put("scores.accuracy", None)),
    "scores without the first": lambda: edited(PAIR, put("scores", {"log_loss": 0.5})),
    "scores of a regressor": lambda: edited(PAIR, put("scores", {"r2": 0.5, "mse": 1.0, "mae": 1.0})),
    "a temperature of 0": lambda: edited(PAIR, put("temperature", 0.0)),
    "a temperature below 0": lambda: edited(PAIR, put("temperature", -1.0)),
    "a temperature beyond all": lambda: edited(PAIR, put("temperature", 1e300)),
    "a temperature that is an int": lambda: edited(PAIR, put("temperature", 1)),
    "a temperature that is None": lambda: edited(PAIR, put("temperature", None)),
    "a temperature that is a string": lambda: edited(PAIR, put("temperature", "NaN")),
    "errors of a classifier": lambda: rearranged(array("residuals/0", RESIDUALS)),
    "errors of a later fold only": lambda: rearranged(lambda arrays: arrays.pop("residuals/0"), MSE),
    "errors of a fold by name": lambda: rearranged(array("residuals/first", RESIDUALS), MSE),
    "errors of a fold by another name": lambda: rearranged(array("residuals/02", RESIDUALS), MSE),
    "errors that fall": lambda: rearranged(array("residuals/0", RESIDUALS[::-1]), MSE),
    "errors below 0": lambda: rearranged(array("residuals/0", RESIDUALS - 1), MSE),
    "errors that are NaN": lambda: rearranged(array("residuals/0", RESIDUALS * np.nan), MSE),
    "errors that are infinite": lambda: rearranged(array("residuals/0", RESIDUALS + np.inf), MSE),
    "errors in float32": lambda: rearranged(array("residuals/0", RESIDUALS.astype(np.float32)), MSE),
    "errors of one dimension": lambda: rearranged(array("residuals/0", RESIDUALS[:, 0]), MSE),
    "errors of more outputs": lambda: rearranged(array("residuals/0", np.zeros((5, 2))), MSE),
    "no errors in any fold": lambda: rearranged(
        lambda arrays: arrays.update({f"residuals/{fold}": np.zeros((0, 1)) for fold in range(2)}), MSE
    ),
    # Shapes
    "a shape that is a list": lambda: edited("no names", put("groups.0.shape", [1])),
    "no layers": lambda: edited("no names", put("groups.0.shape.n_layers", 0)),
    "a billion layers": lambda: edited("no names", put("groups.0.shape.n_layers", 10**9)),
    "a billion tied layers": lambda: edited("variant: tied", put("groups.0.shape.n_layers", 10**9)),
    "layers that are a float": lambda: edited("no names", put("groups.0.shape.n_layers", 2.0)),
    "10^30 nodes": lambda: edited("no names", put("groups.0.shape.n_nodes", 10**30)),
    "one node more": lambda: edited("no names", put("groups.0.shape.n_nodes", 45)),
    "negative nodes": lambda: edited("no names", put("groups.0.shape.n_nodes", -5)),
    "more inputs": lambda: edited("no names", put("groups.0.shape.n_inputs", 4)),
    "more outputs": lambda: edited("no names", put("groups.0.shape.n_outputs", 2)),
    "an activation by path": lambda: edited("no names", put("groups.0.shape.activation", "os.system")),
    "an activation that is a list": lambda: edited("no names", put("groups.0.shape.activation", [])),
    "an activation of megabytes": lambda: edited("no names", put("groups.0.shape.activation", "x" * 5_000_000)),
    "a variant that is a string": lambda: edited("no names", put("groups.0.shape.tied", "no")),
    "a setting of its own": lambda: edited("no names", put("groups.0.shape.extra", 1)),
    "slices of its own": lambda: edited("no names", put("groups.0.shape._slices", [])),
    "hidden layers of an MLP that is none": lambda: edited(MSE, put("groups.0.shape.hidden", "55")),
    "a million hidden layers": lambda: edited(MSE, put("groups.0.shape.hidden", [1] * 1_000_000)),
    "another hidden layer": lambda: edited(MSE, put("groups.0.shape.hidden", [5, 5])),
    "a hidden layer of width 0": lambda: edited(MSE, put("groups.0.shape.hidden", [0])),
    # Targets
    "a kind of its own": lambda: edited("no names", put("targets.kind", "many")),
    "a kind that is a list": lambda: edited("no names", put("targets.kind", ["binary"])),
    "three classes of two": lambda: edited("no names", put(CLASSES, {"dtype": "<i8", "values": [1, 2, 3]})),
    "classes that are not a list": lambda: edited("no names", put("targets.classes", 5)),
    "the same class twice": lambda: edited("no names", put(f"{CLASSES}.values", [1, 1])),
    "classes out of order": lambda: edited("no names", put(f"{CLASSES}.values", [2, 1])),
    "no classes": lambda: edited("no names", put(f"{CLASSES}.values", [])),
    "classes of another type": lambda: edited("no names", put(f"{CLASSES}.values", ["a", "b"])),
    "bools as ints": lambda: edited("no names", put(f"{CLASSES}.values", [False, True])),
    "classes of several types": lambda: edited("no names", put(CLASSES, {"dtype": "|O", "values": ["a", 1]})),
    "a label that does not fit": lambda: edited("no names", put(CLASSES, {"dtype": "|u1", "values": [1, 300]})),
    "labels of void": lambda: edited("no names", put(f"{CLASSES}.dtype", "|V1000000000")),
    "labels of gigabytes": lambda: edited("no names", put(CLASSES, {"dtype": "<U100000000", "values": ["a", "b"]})),
    "many labels of kilobytes": lambda: edited(
        "labels: three classes", put(CLASSES, {"dtype": "<U4000", "values": sorted(many_strings(5)[:200_000])})
    ),
    "wide labels of many targets": lambda: edited(
        "labels: several targets", put("targets.classes", [{"dtype": "<U3000000", "values": ["a", "b"]}] * 100)
    ),
    "a long name of many parts": lambda: edited("periodic", put("encoders.0.columns.6.name", "x" * 4_000_000)),
    "labels of records": lambda: edited("no names", put(f"{CLASSES}.dtype", "i4,i4")),
    "labels of a dict": lambda: edited("no names", put(f"{CLASSES}.dtype", {"names": ["a"], "formats": ["i4"]})),
    "labels of a path": lambda: edited("no names", put(f"{CLASSES}.dtype", "numpy.int64")),
    "labels of complex numbers": lambda: edited("no names", put(f"{CLASSES}.dtype", "<c16")),
    "NaT": lambda: edited("labels: one class", put(CLASSES, {"dtype": "<M8[ns]", "values": [-(2**63)]})),
    "a date of its own unit": lambda: edited("labels: one class", put(CLASSES, {"dtype": "<M8[eons]", "values": [1]})),
    "smoothing that is a string": lambda: edited("no names", put("targets.label_smoothing", "0.1")),
    "smoothing beyond 1": lambda: edited("no names", put("targets.label_smoothing", 1.5)),
    "smoothing of several targets": lambda: edited("labels: several targets", put("targets.label_smoothing", 0.1)),
    "labels of multilabel targets": lambda: edited("labels: multilabel", put(f"{CLASSES}.values", [0, 2])),
    "a loss of its own": lambda: edited(MSE, put("targets.loss", "os.system")),
    "a quantile beyond 1": lambda: edited("loss: quantile, 1 outputs", put("targets.loss_setting", 2.0)),
    "a power beyond 2": lambda: edited("loss: tweedie, 1 outputs", put("targets.loss_setting", 2.5)),
    "another power of Poisson": lambda: edited("loss: poisson, 1 outputs", put("targets.loss_setting", 1.5)),
    "a loss of classes": lambda: edited(MSE, put("targets.loss", "binary_cross_entropy")),
    "a log link of a logarithm": lambda: edited("loss: poisson, 1 outputs", put("targets.transform", "log")),
    "more quantiles than outputs": lambda: edited(QUANTILES, put("targets.loss_setting", [0.1, 0.5, 0.8, 0.9])),
    "quantiles in another order": lambda: edited(QUANTILES, put("targets.loss_setting", [0.5, 0.1, 0.9])),
    "quantiles that are strings": lambda: edited(QUANTILES, put("targets.loss_setting", ["0.1", "0.5", "0.9"])),
    "a quantile instead of several": lambda: edited(QUANTILES, put("targets.loss_setting", 0.5)),
    "a delta below 0": lambda: edited("loss: huber, 1 outputs", put("targets.loss_setting", -1.0)),
    "a variance of 0": lambda: edited(MSE, put("targets.variance", 0)),
    "a variance that is a string": lambda: edited(MSE, put("targets.variance", "1")),
    "one target that is two": lambda: edited("loss: mse, 2 outputs", put("targets.one_dimensional", True)),
    "a transform of its own": lambda: edited(MSE, put("targets.transform", "exp")),
    "a transform that is a list": lambda: edited(MSE, put("targets.transform", ["log"])),
    "a transform of all targets": lambda: edited(MSE, put("targets.transform", "log")),
    "logarithms that are none": lambda: log_edited("targets.transform", "none"),
    "logarithms of another loss": lambda: edited("pack with logarithms", logs_of_another_loss),
    "logarithms of another form": lambda: log_edited("targets.one_dimensional", False),
    "logarithms of no targets": lambda: log_edited("targets", None),
    "logarithms that are a string": lambda: log_edited("targets", "log"),
    "logarithms of classes": lambda: edited(PAIR, lambda schema: schema["groups"][0].update(targets=schema["targets"])),
    "logarithms beyond float64": lambda: log_rearranged("targets/center", np.full(1, 801.0)),
    "logarithms far below float64": lambda: log_rearranged("targets/center", np.full(1, -1e300)),
    "logarithms with a center of NaN": lambda: log_rearranged("targets/center", np.full(1, np.nan)),
    "logarithms with a scale below 0": lambda: log_rearranged("targets/scale", -np.ones(1)),
    "logarithms of more outputs": lambda: rearranged(
        lambda arrays: arrays.update({f"groups/{log_place()}/targets/{n}": np.ones(2) for n in ("center", "scale")}),
        "pack with logarithms",
    ),
    "logarithms with an array more": lambda: log_rearranged("targets/extra", np.ones(1)),
    # Columns
    "no encoders": lambda: edited(PAIR, put("encoders", [])),
    "encoders that are an object": lambda: edited(PAIR, put("encoders", {"0": {}})),
    "an encoder that is a number": lambda: edited(PAIR, put("encoders.1", 1)),
    "an encoder less": lambda: edited(PAIR, lambda schema: schema["encoders"].pop()),
    "too many encoders": lambda: multiplied(MSE, 1000, encoders=True),
    "another column in another encoder": lambda: with_encoder(put("columns.0.name", "else")),
    "columns of another encoder in another order": lambda: with_encoder(lambda own: own["columns"].reverse()),
    "a level more in another encoder": lambda: with_encoder(lambda own: own["columns"][5]["levels"].append("z")),
    "names that many encoders repeat": with_long_names,
    "an array of an encoder of unknown use": lambda: rearranged(array("encoders/1/extra", np.zeros(3)), PAIR),
    "an array in an encoder of unknown use": lambda: rearranged(array("encoders/1/extra/knots", np.zeros(3)), PAIR),
    "an array of an encoder that does not exist": lambda: rearranged(array("encoders/7/knots", np.zeros(3)), PAIR),
    "no columns": lambda: edited("periodic", put("encoders.0.columns", [])),
    "a column twice": lambda: edited("periodic", put(f"{COLUMN}.name", "count")),
    "a column without a name": lambda: edited("periodic", put(f"{COLUMN}.name", None)),
    "a column that is a category and none": lambda: edited("periodic", put(f"{COLUMN}.kind", "category")),
    "another column less": lambda: edited("periodic", lambda schema: schema["encoders"][0]["columns"].pop()),
    "a level more": lambda: edited(
        "periodic", lambda schema: schema["encoders"][0]["columns"][5]["levels"].append("z")
    ),
    "a level less": lambda: edited("periodic", lambda schema: schema["encoders"][0]["columns"][5]["levels"].pop()),
    "a level twice": lambda: edited(
        "periodic", lambda schema: level_twice(schema["encoders"][0]["columns"][5]["levels"])
    ),
    "a level that is a number": lambda: edited("periodic", put(f"{CITY}.levels.0", 1)),
    "a rare level more": lambda: edited("periodic", put(f"{CITY}.rare", True)),
    "an embedding that is none": lambda: edited("periodic", put(f"{CITY}.encoding", "one-hot")),
    "levels by the million": lambda: edited("periodic", put(f"{CITY}.levels", many_strings(6)[:600_000])),
    "levels of no weights": lambda: edited(
        "periodic",
        lambda schema: schema["encoders"][0]["columns"][5].update(
            encoding="indicator", indicator=True, levels=many_strings(6)[:600_000]
        ),
    ),
    "levels with a name that is repeated": lambda: edited("periodic", levels_bomb),
    "settings of its own": lambda: edited("periodic", put("encoders.0.settings.extra", 1)),
    "larger embeddings": lambda: edited("periodic", put("encoders.0.settings.level_dim", 3)),
    "huge embeddings": lambda: edited("periodic", put("encoders.0.settings.n_basis", 10**15)),
    "another embedding": lambda: edited("periodic", put("encoders.0.settings.numeric_embedding", "piecewise")),
    "no embedding": lambda: edited("periodic", put("encoders.0.settings.numeric_embedding", None)),
    "an encoder of a newer format": lambda: edited("periodic", put("encoders.0.format", 3)),
    # Arrays
    "a weight that is NaN": lambda: rearranged(
        array("groups/0/networks/bias_1", np.full((2, 43), np.nan, dtype=np.float32))
    ),
    "a weight that is infinite": lambda: rearranged(
        array("groups/0/networks/bias_1", np.full((2, 43), np.inf, dtype=np.float32))
    ),
    "weights of two types": lambda: rearranged(array("groups/0/networks/bias_1", np.zeros((2, 43)))),
    "weights of ints": lambda: rearranged(
        lambda a: a.update({n: v.astype(np.int64) for n, v in a.items() if "net" in n})
    ),
    "weights of float16": lambda: rearranged(
        lambda a: a.update({n: v.astype(np.float16) for n, v in a.items() if "net" in n})
    ),
    "weights that are bools": lambda: rearranged(array("groups/0/networks/bias_1", np.zeros((2, 43), dtype=bool))),
    "weights of another shape": lambda: rearranged(
        array("groups/0/networks/bias_1", np.zeros((2, 42), dtype=np.float32))
    ),
    "weights of no members": lambda: rearranged(array("groups/0/networks/bias_1", np.zeros((0, 43), dtype=np.float32))),
    "weights of more dimensions": lambda: rearranged(
        array("groups/0/networks/bias_1", np.zeros((2, 43, 1), dtype=np.float32))
    ),
    "a missing weight": lambda: rearranged(lambda arrays: arrays.pop("groups/0/networks/bias_1")),
    "a weight too many": lambda: rearranged(array("groups/0/networks/bias_3", np.zeros((2, 1), dtype=np.float32))),
    "an array of unknown use": lambda: rearranged(array("extra", np.zeros(3))),
    "an array with a name like another": lambda: rearranged(array("importances2", np.zeros(3))),
    "an array without a name": lambda: rearranged(array("", np.zeros(3))),
    "an array with a folder for a name": lambda: rearranged(array("importances/", np.zeros(3))),
    "an array of targets too many": lambda: rearranged(array("targets/scale", np.zeros(1))),
    "importances of others": lambda: rearranged(array("importances", np.zeros(4))),
    "importances that are NaN": lambda: rearranged(array("importances", np.full(3, np.nan))),
    "importances in float32": lambda: rearranged(array("importances", np.zeros(3, dtype=np.float32))),
    "no importances": lambda: rearranged(lambda arrays: arrays.pop("importances")),
    "a method beyond the last": lambda: rearranged(array("encoders/0/number_method", np.full(3, 9, dtype=np.uint8))),
    "a scale of 0": lambda: rearranged(array("encoders/0/number_scale", np.zeros(3))),
    "knots that fall": lambda: rearranged(
        lambda arrays: arrays["encoders/0/knots"].sort() or arrays["encoders/0/knots"][::-1].sort()
    ),
    "knots by the wrong count": lambda: rearranged(
        lambda arrays: arrays["encoders/0/knot_counts"].__setitem__(0, 2**62)
    ),
    "a target scale below 0": lambda: rearranged(array("targets/scale", -np.ones(1)), MSE),
    "a negative target scale": lambda: rearranged(array("targets/scale", -np.ones(1)), MSE),
    "a target center that is NaN": lambda: rearranged(
        array("targets/center", np.full(1, np.nan)), "loss: mse, 1 outputs"
    ),
    "a target center that is an int": lambda: rearranged(
        array("targets/center", np.zeros(1, dtype=np.int64)), "loss: mse, 1 outputs"
    ),
    "centers of more targets": lambda: rearranged(array("targets/center", np.zeros(2)), MSE),
    # safetensors
    "no weights": lambda: weights_of(b""),
    "weights of seven bytes": lambda: weights_of(b"\0" * 7),
    "an absurd header length": lambda: weights_of(b"\xff" * 8),
    "a header beyond the file": lambda: weights_of(struct.pack("<Q", 1000) + b"{}"),
    "a header that is a list": lambda: reheaded(lambda _: []),
    "a header that is not JSON": lambda: reheaded(lambda _: b"{"),
    "metadata": lambda: reheaded(put("__metadata__", {"format": "pt"})),
    "bf16": lambda: reheaded(put("groups/0/networks/bias_1.dtype", "BF16")),
    "a type that is a list": lambda: reheaded(put("groups/0/networks/bias_1.dtype", ["F32"])),
    "a negative size": lambda: reheaded(put("groups/0/networks/bias_1.shape", [-2, -43])),
    "sizes that overflow": lambda: reheaded(put("groups/0/networks/bias_1.shape", [2**62, 4, 2**62])),
    "sizes of zero": lambda: reheaded(put("groups/0/networks/bias_1.shape", [0, 2**62])),
    "sizes that are floats": lambda: reheaded(put("groups/0/networks/bias_1.shape", [2.0, 43.0])),
    "a thousand dimensions": lambda: reheaded(put("groups/0/networks/bias_1.shape", [1] * 1000)),
    "offsets that overlap": lambda: reheaded(put("groups/0/networks/bias_1.data_offsets", [0, 344])),
    "offsets beyond the end": lambda: reheaded(put("groups/0/networks/bias_1.data_offsets", [10**9, 10**9 + 344])),
    "offsets that run back": lambda: reheaded(put("groups/0/networks/bias_1.data_offsets", [344, 0])),
    "offsets that are negative": lambda: reheaded(put("groups/0/networks/bias_1.data_offsets", [-344, 0])),
    "a hole": lambda: weights_of(raw_parts(content("no names"))[1] + b"\0"),
    "a tensor twice": lambda: reheaded(
        lambda header: (
            json.dumps(header)[:-1].encode()
            + b',"groups/0/networks/bias_1":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
        )
    ),
    "a million tensors": lambda: reheaded(
        lambda header: header | {f"{i}": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(30_000)}
    ),
    # The path of a small machine
    "a path that is an object": lambda: edited(PATH, put("path", {})),
    "a path without sizes": lambda: edited(PATH, put("path", [])),
    "a path of thousands of sizes": lambda: edited(PATH, lambda schema: schema["path"].extend(schema["path"] * 9999)),
    "a path of a pack": lambda: edited(PAIR, lambda schema: schema.update(path=parts(content(PATH))[0]["path"])),
    "a path of which nothing is chosen": lambda: edited(PATH, unchosen),
    "a size without edges": lambda: edited(PATH, lambda schema: schema["path"][0].pop("edges")),
    "a size with something else": lambda: edited(PATH, put("path.0.nodes", 3)),
    "a size of -1 edges": lambda: edited(PATH, put("path.0.edges", -1)),
    "a size of half an edge": lambda: edited(PATH, put("path.0.edges", 0.5)),
    "a size whose loss is a list": lambda: edited(PATH, put("path.0.loss", [])),
    "a size without its arrays": lambda: edited(
        PATH, lambda schema: schema["path"].append(schema["path"][0] | {"chosen": False})
    ),
    "a size without weights": lambda: rearranged(lambda arrays: arrays.pop("path/0/weights"), PATH),
    "a size of a machine that nobody needs": lambda: rearranged(array("path/99/weights", np.ones(3)), PATH),
    "places beyond the weights": lambda: rearranged(moved(2**40), PATH),
    "places before the weights": lambda: rearranged(moved(-1000), PATH),
    "places that are floats": lambda: rearranged(
        lambda arrays: arrays.update({"path/0/places": arrays["path/0/places"].astype(float)}), PATH
    ),
    "places that are not in order": lambda: rearranged(
        lambda arrays: arrays.update({"path/0/places": arrays["path/0/places"][::-1].copy()}), PATH
    ),
    "fewer places than weights": lambda: rearranged(array("path/0/places", np.arange(2)), PATH),
    "weights of a path that are not finite": lambda: rearranged(
        lambda arrays: arrays["path/0/weights"].fill(np.inf), PATH
    ),
    "weights of a path that are 0": lambda: rearranged(lambda arrays: arrays["path/0/weights"].fill(0), PATH),
    "weights of a path of another type": lambda: rearranged(
        lambda arrays: arrays.update({"path/0/weights": arrays["path/0/weights"].astype(np.float64)}), PATH
    ),
    "importances of a path of too few columns": lambda: rearranged(array("path/0/importances", np.ones(1)), PATH),
    # The first version of the format
    "version 1 without seeds": lambda: first_version(dropped("seeds")),
    "version 1 with groups": lambda: first_version(put("groups", [])),
    "version 1 with parameters that are a list": lambda: first_version(put("parameters", [])),
    "version 1 with seeds that are a number": lambda: first_version(put("seeds", 3)),
    "version 1 with millions of seeds": lambda: first_version(put("seeds", [1] * 1_000_000)),
    "version 1 with one seed less": lambda: first_version(lambda schema: schema["seeds"].pop()),
    "version 1 with an estimator that is a list": lambda: first_version(put("estimator", ["MLPRegressor"])),
    "version 1 with a parameter that is an object": lambda: first_version(put("parameters.n_members", {"a": 1})),
    "version 1 with a parameter of its own": lambda: first_version(put("parameters.n_trees", 1)),
    "version 1 with an encoder that is a list": lambda: first_version(put("encoder", [])),
    "version 1 fitted with a list": lambda: first_version(put("fitted_with", [1])),
    "version 1 fitted with something else": lambda: first_version(put("fitted_with", {"n_trees": 1})),
    "version 1 with a dropout beyond 1": lambda: first_version(put("parameters.dropout", 2.0)),
    "version 1 with an array of unknown use": lambda: first_version(lambda _: None, {"extra": np.zeros(3)}),
    "version 1 with an array of version 2": lambda: first_version(
        lambda _: None, {"groups/0/networks/bias_1": np.zeros((2, 5))}
    ),
    "version 1 with errors": lambda: first_version(lambda _: None, {"residuals/0": RESIDUALS}),
    "version 1 that claims to be version 2": lambda: first_version(put("version", 2)),
}


@pytest.mark.parametrize("case", ATTACKS)
def test_a_hostile_file_is_refused_in_little_memory(case: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.tabgnm"
    path.write_bytes(ATTACKS[case]())
    with measured() as cost, pytest.raises(ModelFileError) as caught:
        tabgnm.load(path)
    assert cost.megabytes < MAX_MEGABYTES
    message = str(caught.value)
    assert message.startswith(repr(str(path))) and len(message) < 1500


def levels_without_weights() -> bytes:
    """Return a file with a column of which only matters whether it is missing, and with many levels in it."""
    X = [[float(row), "a" if row % 3 else None] for row in range(30)]
    schema, arrays = parts(to_bytes(mlp_regressor(X, np.arange(30.0))))
    put("encoders.0.columns.1.levels", many_strings(6)[:500_000])(schema)
    return forged(schema, arrays)


HEAVY: dict[str, Callable[[], bytes]] = {
    "wide characters": lambda: with_value('{"list":[' + '"\\ud83d\\ude00",' * 450_000 + "0]}"),
    "one wide string": lambda: with_value('"' + "x" * 8_000_000 + '\\ud83d\\ude00"'),
    "numbers": lambda: with_value('{"list":[' + "1.5," * 1_000_000 + "0]}"),
    "pairs": lambda: with_value('{"pairs":[' + ",".join(f"[{i},0]" for i in range(150_000)) + "]}"),
    "levels": levels_without_weights,
    "epochs": lambda: edited("no names", put("groups.0.histories.0.train_loss", [0.5] * 900_000)),
    "groups and encoders": lambda: multiplied(MSE, 999, encoders=True),
    "candidates": lambda: edited("no names", put("candidates", [{f"{i:x}": 0 for i in range(40)}] * 10_000)),
}


@pytest.mark.parametrize("case", HEAVY)
def test_the_heaviest_file_that_is_not_refused_takes_little_memory_too(case: str, tmp_path: Path) -> None:
    path = tmp_path / "heavy.tabgnm"
    path.write_bytes(HEAVY[case]())
    with measured() as cost:
        model = tabgnm.load(path)
    assert cost.megabytes < MAX_MEGABYTES
    assert len(model.predict(numbers()[:, : model.n_features_in_])) == len(numbers())


def test_the_forger_makes_files_that_load_where_nothing_is_changed() -> None:
    """Otherwise every refusal above would prove nothing."""
    cases = (
        "no names",
        "periodic",
        MSE,
        "labels: several targets",
        "variant: tied",
        PAIR,
        "pack with logarithms",
        PATH,
    )
    for case in cases:
        for data in (edited(case, lambda _: None), rearranged(lambda _: None, case)):
            from_bytes(data)
    from_bytes(first_version(lambda _: None))
    from_bytes(multiplied(MSE, 3))
    from_bytes(multiplied("unscaled, one-hot", 3, encoders=True))
    from_bytes(reheaded(lambda _: None))
    from_bytes(retexted(lambda text: text))
    from_bytes(with_value("3"))
    from_bytes(with_value('{"list":[{"tuple":[1,"x",null]},{"pairs":[["a",1.5]]}]}'))


def test_no_part_of_loading_can_execute_what_a_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins
    import pickle

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("something was executed")

    path = tmp_path / "model.tabgnm"
    path.write_bytes(content("periodic"))
    for module, name in (
        (pickle, "loads"),
        (pickle, "load"),
        (pickle, "Unpickler"),
        (builtins, "eval"),
        (builtins, "exec"),
    ):
        monkeypatch.setattr(module, name, refuse)
    assert len(tabgnm.load(path).predict(frame())) == len(numbers())
