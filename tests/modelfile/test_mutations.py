"""Ten thousand damaged files: each is refused, or is the same model."""

import random
import time

import numpy as np
import pytest

from tabgnm.estimators.model_file import from_bytes
from tabgnm.modelfile import ModelFileError
from tests.modelfile.examples import content, fitted, measured, table_for

CASES = [
    "no names",
    "periodic",
    "loss: mse, 2 outputs",
    "labels: several targets",
    "variant: gated",
    "pack of regressors",
]
N_MUTATIONS = 10_000
MOST_MEGABYTES = 200
MOST_SECONDS = 5.0


def flip(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice([1, 1, 2, 8])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def overwrite(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    length = min(rng.choice([1, 2, 4, 8, 64]), len(data) - start)
    data[start : start + length] = rng.choice([bytes(length), b"\xff" * length, rng.randbytes(length)])


def truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.choice([rng.randrange(len(data)), len(data) - 1 - rng.randrange(200)]) :]


def insert(data: bytearray, rng: random.Random) -> None:
    place = rng.choice([0, rng.randrange(len(data)), len(data)])
    data[place:place] = rng.randbytes(rng.choice([1, 4, 100]))


def delete(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    del data[start : start + rng.choice([1, 4, 100, 1000])]


def swap(data: bytearray, rng: random.Random) -> None:
    length = rng.choice([1, 4, 8, 64, 256])
    a, b = (rng.randrange(len(data) - length) for _ in range(2))
    if abs(a - b) >= length:
        data[a : a + length], data[b : b + length] = data[b : b + length], data[a : a + length]


def repeat(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    data[start:start] = data[start : start + rng.choice([1, 30, 500])]


def mix(data: bytearray, rng: random.Random) -> None:
    """The beginning of this file and the end of another, or a part of it."""
    other = content(rng.choice(CASES))
    cut = rng.randrange(min(len(data), len(other)))
    data[cut:] = other[cut:]


# Bytes of zip's own structures are few among all: these look for them.
def strike_headers(data: bytearray, rng: random.Random) -> None:
    places = [data.find(sign) for sign in (b"PK\1\2", b"PK\3\4", b"PK\5\6", b"weights.safetensors")]
    place = rng.choice([place for place in places if place >= 0]) + rng.randrange(46)
    data[min(place, len(data) - 1)] = rng.choice([0, 1, 8, 0x7F, 0xFF, rng.randrange(256)])


MUTATIONS = [flip, overwrite, truncate, insert, delete, swap, repeat, mix, strike_headers]


def test_ten_thousand_mutations_are_refused_or_the_same_model() -> None:
    rng = random.Random(2024)
    expected = {case: fitted(case).predict(table_for(fitted(case))) for case in CASES}
    contents = {case: content(case) for case in CASES}
    refused, slowest = 0, 0.0
    with measured() as cost:
        for number in range(N_MUTATIONS):
            case = CASES[number % len(CASES)]
            data = bytearray(contents[case])
            for _ in range(rng.choice([1, 1, 1, 3])):
                if len(data) > 600:
                    rng.choice(MUTATIONS)(data, rng)
            begun = time.perf_counter()
            try:
                model = from_bytes(bytes(data))
            except ModelFileError:
                refused += 1
            else:
                known = [own for own in CASES if contents[own] == data]  # a mixture may be another file, whole
                of = known[0] if known else case
                np.testing.assert_array_equal(model.predict(table_for(fitted(of))), expected[of])
            slowest = max(slowest, time.perf_counter() - begun)
    assert refused > 0.95 * N_MUTATIONS
    assert cost.megabytes < MOST_MEGABYTES
    assert slowest < MOST_SECONDS


@pytest.mark.parametrize("case", ["no names"])
def test_no_single_byte_can_be_changed_unseen(case: str) -> None:
    data = content(case)
    for place in range(0, len(data), 7):
        changed = bytearray(data)
        changed[place] ^= 0x55
        with pytest.raises(ModelFileError):
            from_bytes(bytes(changed))


@pytest.mark.parametrize("case", ["no names"])
def test_no_end_can_be_cut_off_unseen(case: str) -> None:
    data = content(case)
    for length in range(0, len(data), 13):
        message = "truncated; copy it again" if length else "empty; save the model again"
        with pytest.raises(ModelFileError, match=message):
            from_bytes(data[:length])
