"""Damaged checkpoints, and files that cannot be written: a `CheckpointError`, and nothing else."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

from tabgnm._files import tensors
from tabgnm._files.errors import FileError
from tabgnm._files.streams import InputStream
from tabgnm.training import CheckpointError, checkpoint_file
from tabgnm.training.checkpoint import Saver
from tests.damage import DAMAGES, damage
from tests.training.examples import BASE, assert_all_same, different_members, settings_for
from tests.training.test_checkpoint import TABLE, fit, interrupt

MEMBERS, SETTINGS = different_members(6), settings_for(max_epochs=30, patience=4)
AFTER = 14  # some models have stopped, others are in training


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("checkpoint") / "fleet.ckpt"
    interrupt(path, MEMBERS, SETTINGS, after=AFTER, checkpoint_every=1)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "fleet.ckpt"
    path.write_bytes(content)
    return path


def saver(path: Path) -> Saver:
    return Saver(path, 1, BASE, SETTINGS, MEMBERS, [TABLE])


def test_the_example_has_models_in_training_and_models_that_are_done(path: Path) -> None:
    snapshot = saver(path).load()
    assert snapshot is not None and snapshot.alive and snapshot.done


@pytest.mark.parametrize("n_mutations", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_damaged_checkpoint_is_refused(path: Path, content: bytes, n_mutations: int) -> None:
    rng = random.Random(7)
    reader, found = saver(path), Counter[str]()
    for _ in range(n_mutations):
        data = bytearray(content)
        damage(data, rng, DAMAGES)
        path.write_bytes(data)
        if data == content:  # parts of it that are alike were exchanged
            found["unchanged"] += reader.load() is not None
            continue
        with pytest.raises(CheckpointError, match=r"is not a usable checkpoint \(.*\); delete it to start over"):
            reader.load()
        found["refused"] += 1
    print(dict(found))  # noqa: T201
    assert found.total() == n_mutations and found["refused"] > 0.95 * n_mutations


def test_no_byte_of_a_checkpoint_can_be_changed_unseen(path: Path, content: bytes) -> None:
    reader = saver(path)
    for place in [*range(200), *range(200, len(content), 997), len(content) - 1]:
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(CheckpointError):
            reader.load()


def test_the_file_is_what_its_description_says(content: bytes) -> None:
    assert hashlib.sha256(content[:-32]).digest() == content[-32:]
    first, rest = content.split(b"\n", maxsplit=1)
    assert first == b"tabgnm checkpoint 7"
    assert safetensors.numpy.load(rest[:-32]).keys() >= {"flat", "exp_avg", "best_flat"}


def test_the_number_of_arrays_does_not_depend_on_the_number_of_models(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.ckpt"
    interrupt(other, different_members(20), SETTINGS, after=AFTER, checkpoint_every=1)
    assert checkpoint_file.read(other).keys() == checkpoint_file.read(path).keys()


# Paths and disks


def test_a_pipe_is_neither_waited_for_nor_replaced(path: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match=r"pipe' is not a regular file, but a pipe, socket or device"):
        fit(tmp_path / "pipe", MEMBERS, SETTINGS)
    snapshot = saver(path).load()
    assert snapshot is not None
    with pytest.raises(CheckpointError, match=r"was not saved: .*pipe' is not a regular file"):
        saver(tmp_path / "pipe").save(snapshot)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    interrupt(tmp_path / "link", MEMBERS, SETTINGS, after=AFTER, checkpoint_every=1)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").is_file()
    assert_all_same(fit(tmp_path / "link", MEMBERS, SETTINGS).models, fit(None, MEMBERS, SETTINGS).models)
    assert not (tmp_path / "target").exists()


SMALL_DISK = """
import resource, signal, sys
from tabgnm.training import CheckpointError
from tests.training.test_checkpoint import fit
from tests.training.test_checkpoint_files import MEMBERS, SETTINGS

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that the write fails as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    fit(sys.argv[1], MEMBERS, SETTINGS, checkpoint_every=1)
except CheckpointError as error:
    assert "was not saved: " in str(error) and "cannot be written: File too large" in str(error), error
else:
    raise AssertionError("it was written")
"""


def in_process(program: str, path: Path) -> int:
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, "-c", program, path], env=environment, cwd=root, check=False).returncode


def test_a_full_disk_is_a_checkpoint_error_and_leaves_the_old_file(path: Path) -> None:
    before = path.read_bytes()
    assert in_process(SMALL_DISK, path) == 0
    assert path.read_bytes() == before and list(path.parent.iterdir()) == [path]


KILLED = """
import os, signal, sys

from tests.training.test_checkpoint import fit
from tests.training.test_checkpoint_files import MEMBERS, SETTINGS

os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
fit(sys.argv[1], MEMBERS, SETTINGS, checkpoint_every=1)
"""


def test_a_file_that_cannot_be_deleted_does_not_discard_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(path: Path) -> None:
        raise FileError(f"'{path}' cannot be deleted: Permission denied")

    monkeypatch.setattr("tabgnm._files.paths.remove", failing)
    with pytest.warns(
        RuntimeWarning, match=r"no longer needed, but '.*' cannot be deleted: Permission denied"
    ) as found:
        result = fit(tmp_path / "file", MEMBERS, SETTINGS)
    assert len(result.models) == len(MEMBERS)
    assert found[0].filename.endswith("test_checkpoint.py")


def test_what_a_killed_process_left_is_removed_when_all_models_are_done(path: Path) -> None:
    assert in_process(KILLED, path) == -signal.SIGKILL
    assert len(list(path.parent.iterdir())) == 2
    fit(path, MEMBERS, SETTINGS)
    assert list(path.parent.iterdir()) == []


def test_losses_that_are_not_finite_are_kept_as_they_are(path: Path) -> None:
    own = saver(path)
    snapshot = own.load()
    assert snapshot is not None
    special = [np.nan, np.inf, -np.inf, 5e-324]
    snapshot.histories[0].train_loss[:4] = special
    own.save(snapshot)
    again = own.load()
    assert again is not None
    np.testing.assert_array_equal(again.histories[0].train_loss[:4], special)


def test_arrays_are_those_of_the_safetensors_library(tmp_path: Path) -> None:
    import safetensors.numpy

    rng = np.random.default_rng(0)
    arrays = {
        "bytes": rng.integers(0, 255, 7).astype(np.uint8),
        "none": np.empty((0, 3), dtype=np.float32),
        "one": np.array(2.5),
        "turned": rng.normal(size=(4, 3)).T,
        "big endian": np.arange(5, dtype=">i8"),
    }
    content = b"".join(tensors.parts(arrays))
    theirs = safetensors.numpy.load(content)
    (tmp_path / "arrays").write_bytes(content)
    with (tmp_path / "arrays").open("rb") as file:
        ours = tensors.read(InputStream(file), len(content))
    assert theirs.keys() == ours.keys() == arrays.keys()
    for name, array in arrays.items():
        for found in (theirs[name], ours[name]):
            np.testing.assert_array_equal(found, array)
            assert found.shape == array.shape and found.dtype == array.dtype.newbyteorder("=")
        assert torch.from_numpy(ours[name]).data_ptr() % 64 == 0 or not array.size
