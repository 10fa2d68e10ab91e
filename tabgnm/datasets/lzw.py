"""Decompression of ``.Z`` files, the format of the Unix program ``compress``, in which UCI keeps its older data sets.

Python's standard library has no reader for it. The format: two magic bytes, a byte of flags, then codes of 9 bits
growing to at most 16, the lowest bit first. Codes are written in groups of eight; when their width changes or the
table is cleared, the rest of the group is padding.
"""

from __future__ import annotations

MAGIC = b"\x1f\x9d"
FIRST_WIDTH = 9
CLEAR = 256


def decompress(data: bytes) -> bytes:
    """Return the decompressed content of a ``.Z`` file.

    Parameters
    ----------
    data : bytes
        The whole file.

    Raises
    ------
    ValueError
        When the bytes are not such a file, or are damaged.
    """
    if data[:2] != MAGIC or len(data) < 3:
        raise ValueError("not a .Z file: it does not begin with the bytes 1f 9d")
    flags = data[2]
    max_width, has_clear = flags & 0x1F, bool(flags & 0x80)
    if not FIRST_WIDTH <= max_width <= 16:
        raise ValueError(f"a .Z file with codes of {max_width} bits; 9 to 16 are known")
    fresh = [bytes([value]) for value in range(256)] + ([b""] if has_clear else [])
    table, width = list(fresh), FIRST_WIDTH
    previous: bytes | None = None
    pieces: list[bytes] = []
    position = 3
    while position < len(data):
        group = int.from_bytes(data[position : position + width], "little")
        n_codes = min(8, (len(data) - position) * 8 // width)
        position += width
        mask, limit = (1 << width) - 1, 1 << width
        for _ in range(n_codes):
            code = group & mask
            group >>= width
            if code == CLEAR and has_clear:
                table, width, previous = list(fresh), FIRST_WIDTH, None
                break
            if previous is None:
                if code > 255:
                    raise ValueError(f"damaged .Z file: code {code} before any text")
                entry = table[code]
            elif code < len(table):
                entry = table[code]
                if len(table) < 1 << max_width:
                    table.append(previous + entry[:1])
            elif code == len(table) < 1 << max_width:
                entry = previous + previous[:1]
                table.append(entry)
            else:
                raise ValueError(f"damaged .Z file: code {code} where {len(table)} are known")
            pieces.append(entry)
            previous = entry
            if len(table) >= limit and width < max_width:
                width += 1
                break
    return b"".join(pieces)
