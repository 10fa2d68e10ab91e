import collections
import io
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabgnm.datasets import lzw
from tests.datasets.lzw_writer import bomb, compress


def decompress(data: bytes) -> bytes:
    return b"".join(lzw.decompress(io.BytesIO(data)))


LONG_TEXT = b"".join(b"%d,%d\n" % (number * number % 977, number % 83) for number in range(12_000))


@given(st.binary(max_size=3_000), st.integers(9, 16), st.booleans(), st.booleans())
def test_what_compress_writes_is_read_back(data: bytes, max_width: int, block_mode: bool, clear: bool) -> None:
    assert decompress(compress(data, max_width, block_mode, clear and block_mode)) == data


@pytest.mark.parametrize("max_width", [9, 12, 16])
@pytest.mark.parametrize("clear", [False, True])
def test_a_text_long_enough_to_fill_the_table_is_read_back(max_width: int, clear: bool) -> None:
    assert decompress(compress(LONG_TEXT, max_width, clear_when_full=clear)) == LONG_TEXT


@pytest.mark.skipif(shutil.which("gzip") is None, reason="needs the program gzip, which reads .Z files as well")
@pytest.mark.parametrize("max_width", [10, 16])
@pytest.mark.parametrize("clear", [False, True])
def test_the_files_of_these_tests_are_what_gzip_takes_for_dot_z_files(max_width: int, clear: bool) -> None:
    packed = compress(LONG_TEXT, max_width, clear_when_full=clear)
    done = subprocess.run(["gzip", "-dc"], input=packed, capture_output=True, check=True)
    assert done.stdout == LONG_TEXT


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"PK\x03\x04", "not a .Z file"),
        (b"\x1f\x9d", "not a .Z file"),
        (b"\x1f\x9d\x91", "codes of up to 17 bits"),
        (b"\x1f\x9d\x90\xff\xff", "damaged .Z file"),
        (b"\x1f\x9d\x90" + (65 | 400 << 9).to_bytes(3, "little"), "damaged .Z file: code 400"),
    ],
)
def test_damage_is_told(data: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        decompress(data)


def test_a_long_text_comes_in_pieces() -> None:
    pieces = list(lzw.decompress(io.BytesIO(compress(LONG_TEXT))))
    assert len(pieces) > 1 and max(map(len, pieces)) < 2 * lzw.PIECE_BYTES


def test_a_table_made_to_be_large_is_refused_before_it_is() -> None:
    assert decompress(bomb(300)) == b"a" * (300 * 301 // 2)  # the n-th code gives n bytes
    pieces = lzw.decompress(io.BytesIO(bomb(65_000)))
    with pytest.raises(ValueError, match="whose table has more than 67,108,864 bytes"):
        collections.deque(pieces, maxlen=0)
