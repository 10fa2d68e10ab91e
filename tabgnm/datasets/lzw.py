"""Decompression of ``.Z`` files, the format of the Unix program ``compress``, which UCI uses for older data sets.

Python's standard library has no reader for it. A file consists of two magic bytes, a byte of flags, and codes of 9 to
16 bits, the lowest bit first. Codes are written in groups of eight; when their width changes or the table is cleared,
the rest of the group is padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

MAGIC = b"\x1f\x9d"
FIRST_WIDTH = 9
CLEAR = 256
PIECE_BYTES = 2**16
# The size of all entries of the table. An entry for text has about ten bytes, but 65,536 malicious ones take 2 GB.
MAX_TABLE_BYTES = 2**26


def decompress(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the decompressed content of a ``.Z`` file, piece by piece.

    Parameters
    ----------
    stream : binary file
        The file. Except at the end, its `read` must return as many bytes as requested.

    Raises
    ------
    ValueError
        If the file is not a ``.Z`` file, or is damaged.
    """
    header = stream.read(3)
    if header[:2] != MAGIC or len(header) < 3:
        raise ValueError("not a .Z file: it does not begin with the bytes 1f 9d")
    flags = header[2]
    max_width, has_clear = flags & 0x1F, bool(flags & 0x80)
    if not FIRST_WIDTH <= max_width <= 16:
        raise ValueError(f"a .Z file with codes of up to {max_width} bits; expected 9 to 16")
    fresh = [bytes([value]) for value in range(256)] + ([b""] if has_clear else [])
    table, width, table_bytes = list(fresh), FIRST_WIDTH, 0
    previous: bytes | None = None
    pieces: list[bytes] = []
    n_waiting = 0
    while data := stream.read(width):
        group = int.from_bytes(data, "little")
        mask, limit = (1 << width) - 1, 1 << width
        for _ in range(len(data) * 8 // width):
            code = group & mask
            group >>= width
            if code == CLEAR and has_clear:
                table, width, previous, table_bytes = list(fresh), FIRST_WIDTH, None, 0
                break
            n_known = len(table)
            if previous is None:
                if code > 255:
                    raise ValueError(f"damaged .Z file: code {code} before any text")
                entry = table[code]
            elif code < n_known:
                entry = table[code]
                if n_known < 1 << max_width:
                    table.append(previous + entry[:1])
                    table_bytes += len(table[-1])
            elif code == n_known < 1 << max_width:
                entry = previous + previous[:1]
                table.append(entry)
                table_bytes += len(entry)
            else:
                raise ValueError(f"damaged .Z file: code {code} in a table of {n_known} entries")
            if table_bytes > MAX_TABLE_BYTES:
                raise ValueError(f"a .Z file whose table has more than {MAX_TABLE_BYTES:,} bytes, which is not text")
            pieces.append(entry)
            n_waiting += len(entry)
            previous = entry
            if len(table) >= limit and width < max_width:
                width += 1
                break
        if n_waiting >= PIECE_BYTES:
            yield b"".join(pieces)
            pieces, n_waiting = [], 0
    yield b"".join(pieces)
