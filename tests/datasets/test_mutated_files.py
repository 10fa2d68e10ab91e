"""Archives, cached tables and manifests with bytes changed at random: the right rows, or `DatasetContentError`."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tabgnm.datasets import DatasetContentError
from tabgnm.datasets.cache import find_cached, read_cached, write_cached
from tabgnm.datasets.content import check_content
from tabgnm.datasets.retrieval import parse_archive
from tabgnm.datasets.spec import Archive
from tests.datasets.originals import ORIGINALS, small_spec

NAMES = [*ORIGINALS]  # zip and tar files, members by compress and gzip, zip in zip, ARFF, blanks, semicolons


def mutated(content: bytes, generator: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(generator.choice([1, 1, 2, 5])):
        at, length = generator.randrange(len(changed) + 1), generator.choice([1, 1, 2, 4, 16, 100])
        match generator.choice(["flip", "random", "extreme", "cut", "repeat", "lose"]):
            case "flip" if at < len(changed):
                changed[at] ^= 1 << generator.randrange(8)
            case "random":
                changed[at : at + length] = generator.randbytes(length)
            case "extreme":
                changed[at : at + length] = generator.choice([b"\x00", b"\xff", b"9", b'"', b"\n", b"\x1b"]) * length
            case "cut" if generator.random() < 0.2:
                del changed[at:]
            case "repeat":
                changed[at:at] = changed[at : at + length] * generator.choice([1, 3, 1000])
            case "lose":
                del changed[at : at + length]
    return bytes(changed)


def read_mutated(folder: Path, seed: int) -> str:
    """Change one of the files that a data set may come from, and read it as `load_dataset` does."""
    generator = random.Random(seed)
    spec = small_spec(generator.choice(NAMES))
    archive = spec.source
    assert isinstance(archive, Archive)
    path = folder / "original"
    path.write_bytes(ORIGINALS[spec.name].archive())
    columns = parse_archive(spec, archive, path, str(path), verify=True)
    kind = generator.choice(["archive", "table", "text of the table", "manifest"])
    cached = write_cached(spec, columns, folder)
    manifest = folder / "datasets.json"
    manifest.write_text(json.dumps({spec.name: {"file": cached.name, "n_samples": spec.n_samples}}))
    try:
        if kind == "archive":
            path.write_bytes(mutated(path.read_bytes(), generator))
            found = parse_archive(spec, archive, path, str(path), verify=True)
        else:
            if kind == "manifest":
                manifest.write_bytes(mutated(manifest.read_bytes(), generator))
            elif kind == "table":
                cached.write_bytes(mutated(cached.read_bytes(), generator))
            else:  # what gzip's checksum does not find
                cached.write_bytes(gzip.compress(mutated(gzip.decompress(cached.read_bytes()), generator), 1))
            entry = find_cached(folder, spec.name)
            if entry is None:
                return f"{kind}: not found"
            found = read_cached(spec, entry, verify=True)
        check_content(spec, found, "the file")
    except DatasetContentError as error:
        assert str(error).isprintable(), error  # noqa: PT017 - any of a thousand may fail here
        return f"{kind}: refused"
    assert list(found) == list(columns)
    same = all(np.array_equal(found[name].astype(str), columns[name].astype(str)) for name in columns)
    return f"{kind}: {'the right rows' if same else 'other values of the right kind'}"


def outcomes(folder: Path, seeds: range) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        try:
            counts.update([read_mutated(folder, seed)])
        except BaseException as error:  # noqa: PERF203 - says which of them it was
            raise AssertionError(f"mutation {seed}: {type(error).__name__}: {error}") from error
    return counts


def test_a_mutated_file_is_read_or_refused(tmp_path: Path) -> None:
    counts = outcomes(tmp_path, range(150))
    assert counts["archive: refused"] > 10 and counts["table: refused"] > 10 and counts["manifest: refused"] > 10


@pytest.mark.slow
def test_each_of_ten_thousand_mutated_files_is_read_or_refused(tmp_path: Path) -> None:
    assert sum(outcomes(tmp_path, range(10_000)).values()) == 10_000
