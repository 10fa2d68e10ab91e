"""Ten thousand damaged files: each is refused, or is the same model."""

import random
import time

import numpy as np
import pytest

from tabgnm.estimators.model_file import from_bytes
from tabgnm.modelfile import ModelFileError
from tests.damage import DAMAGES, damage
from tests.modelfile.examples import content, fitted, measured, table_for

CASES = [
    "no names",
    "periodic",
    "loss: mse, 2 outputs",
    "labels: several targets",
    "variant: gated",
    "pack of regressors",
    "path of a classifier",
]
MAX_MEGABYTES = 250


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


MUTATIONS = [*DAMAGES, mix, strike_headers]


@pytest.mark.parametrize("n_mutations", [600, pytest.param(10_000, marks=pytest.mark.slow)])
def test_damaged_files_are_refused_or_the_same_model(n_mutations: int) -> None:
    rng = random.Random(2024)
    expected = {case: fitted(case).predict(table_for(fitted(case))) for case in CASES}
    contents = {case: content(case) for case in CASES}
    refused, slowest = 0, 0.0
    with measured() as cost:
        for number in range(n_mutations):
            case = CASES[number % len(CASES)]
            data = bytearray(contents[case])
            damage(data, rng, MUTATIONS)
            begun = time.process_time()
            try:
                model = from_bytes(bytes(data))
            except ModelFileError:
                refused += 1
            else:
                known = [own for own in CASES if contents[own] == data]  # a mixture may be another file, whole
                of = known[0] if known else case
                np.testing.assert_array_equal(model.predict(table_for(fitted(of))), expected[of])
            slowest = max(slowest, time.process_time() - begun)
    print(f"{refused} of {n_mutations} refused; {cost.megabytes:.0f} MB; slowest {slowest:.2f} s")  # noqa: T201
    assert refused > 0.95 * n_mutations
    assert cost.megabytes < MAX_MEGABYTES


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
