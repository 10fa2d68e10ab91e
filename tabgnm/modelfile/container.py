"""The container: a zip of `schema.json` and `weights.safetensors`, read without trusting anything in it.

Neither part can hold code. Weights are stored uncompressed, so they cannot be larger than the file; the schema has a
largest size. Every part is covered by zip's own checksum, and the schema names the digest of the weights.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

SCHEMA, WEIGHTS = "schema.json", "weights.safetensors"
FORMAT, VERSION = "tabgnm model", 1
LARGEST_SCHEMA = 16 * 2**20
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes, whenever it is saved

Arrays = dict[str, NDArray[Any]]


class ModelFileError(ValueError):
    """A model file cannot be read, or a model cannot be written as one; the message says what is wrong."""


def write(path: Path, schema: dict[str, Any], arrays: Arrays) -> None:
    """Write a container; an existing file is replaced only when the new one is complete."""
    weights = safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    head = {"format": FORMAT, "version": VERSION, "weights_sha256": hashlib.sha256(weights).hexdigest()}
    text = json.dumps(head | schema, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
    if len(text) > LARGEST_SCHEMA:
        raise ModelFileError(
            f"the schema of this model has {len(text)} bytes; expected at most {LARGEST_SCHEMA}: use a larger "
            "min_level_count, so that fewer category levels are kept"
        )
    # Beside the target, so that the last step is a mere renaming.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            archive.writestr(zipfile.ZipInfo(SCHEMA, _EPOCH), text, zipfile.ZIP_DEFLATED)
            archive.writestr(zipfile.ZipInfo(WEIGHTS, _EPOCH), weights, zipfile.ZIP_STORED)
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)  # mkstemp's files are for their owner alone
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Read a container; whatever is wrong with its content is a ModelFileError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{str(path)!r} cannot be read: {error.strerror or error}") from error
    try:
        return _parse(content)
    except ModelFileError as error:
        raise ModelFileError(f"{str(path)!r}: {error}") from error.__cause__
    except (
        Exception
    ) as error:  # what a damaged file makes zip, JSON and safetensors raise is not for the caller to know
        raise ModelFileError(f"{str(path)!r} is damaged: {type(error).__name__}: {error}") from error


def _parse(content: bytes) -> tuple[dict[str, Any], Arrays]:
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ModelFileError("it is not a model file, or it is damaged: expected a zip archive written by `save`")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        if sorted(entries) != [SCHEMA, WEIGHTS] or len(archive.infolist()) != 2:
            raise ModelFileError(f"it holds {sorted(entries)[:5]}; expected {SCHEMA!r} and {WEIGHTS!r}")
        schema = _schema(_bounded(archive, entries[SCHEMA], LARGEST_SCHEMA))
        if entries[WEIGHTS].compress_type != zipfile.ZIP_STORED:
            raise ModelFileError("its weights are compressed; expected them stored as they are")
        weights = _bounded(archive, entries[WEIGHTS], len(content))
    if hashlib.sha256(weights).hexdigest() != schema.get("weights_sha256"):
        raise ModelFileError("its weights are not those that its schema names; it is damaged or was put together")
    return schema, {name: array.copy() for name, array in safetensors.numpy.load(weights).items()}


def _bounded(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, largest: int) -> bytes:
    """Read an entry, but never more than announced and allowed."""
    if entry.file_size > largest:
        raise ModelFileError(f"{entry.filename!r} claims {entry.file_size} bytes; expected at most {largest}")
    with archive.open(entry) as file:
        data = file.read(entry.file_size + 1)
    if len(data) != entry.file_size:
        raise ModelFileError(f"{entry.filename!r} has {len(data)} bytes; expected the {entry.file_size} it claims")
    return data


def _schema(text: bytes) -> dict[str, Any]:
    schema = json.loads(text.decode("ascii"))
    if not isinstance(schema, dict) or schema.get("format") != FORMAT:
        raise ModelFileError(f"its schema does not say format={FORMAT!r}: it is not a model file of tabgnm")
    version = schema.get("version")
    if not isinstance(version, int) or version < 1:
        raise ModelFileError(f"its format version is {version!r}; expected a number from 1 to {VERSION}")
    if version > VERSION:
        raise ModelFileError(
            f"its format version is {version}, but this tabgnm reads versions up to {VERSION}; install a newer tabgnm"
        )
    return schema
