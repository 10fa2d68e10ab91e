"""Random damage to the bytes of a file."""

import random
from collections.abc import Callable


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


Mutation = Callable[[bytearray, random.Random], None]
DAMAGES: list[Mutation] = [flip, overwrite, truncate, insert, delete, swap, repeat]


def damage(data: bytearray, rng: random.Random, mutations: list[Mutation]) -> None:
    """Apply one of the mutations, or three."""
    for _ in range(rng.choice([1, 1, 1, 3])):
        if len(data) > 600:
            rng.choice(mutations)(data, rng)
