"""The other direction of `tabgnm.datasets.lzw`: what the Unix program ``compress`` writes."""

from __future__ import annotations

CLEAR = 256


def compress(data: bytes, max_width: int = 16, block_mode: bool = True, clear_when_full: bool = False) -> bytes:
    out = bytearray([0x1F, 0x9D, max_width | (0x80 if block_mode else 0)])
    first = 257 if block_mode else 256
    table = {bytes([value]): value for value in range(256)}
    next_code, width, codes = first, 9, list[int]()

    def flush() -> None:
        """Write the codes of a group, padded to whole bytes: to eight codes but for the last group."""
        packed = sum(code << (width * index) for index, code in enumerate(codes))
        out.extend(packed.to_bytes((len(codes) * width + 7) // 8, "little"))
        codes.clear()

    def emit(code: int) -> None:
        codes.append(code)
        if len(codes) == 8:
            flush()

    def pad_group() -> None:
        while codes:
            emit(0)

    word = b""
    known = 0  # how many codes the reader knows: it learns each entry one code later than it is made here
    for value in data:
        longer = word + bytes([value])
        if longer in table:
            word = longer
            continue
        emit(table[word])
        known = min(known + 1, 1 << max_width)
        if next_code < 1 << max_width:
            table[longer] = next_code
            next_code += 1
        reader_knows = first + known - 1
        if reader_knows >= 1 << width and width < max_width:
            pad_group()
            width += 1
        elif clear_when_full and next_code == 1 << max_width:
            emit(CLEAR)
            pad_group()
            table = {bytes([each]): each for each in range(256)}
            next_code, width, known = first, 9, 0
        word = bytes([value])
    if word:
        emit(table[word])
    flush()
    return bytes(out)


def bomb(n_codes: int) -> bytes:
    """A file whose n-th code stands for n letters: 80 kB for 2 GB."""
    out = bytearray([0x1F, 0x9D, 16 | 0x80])
    width, codes = 9, list[int]()

    def flush(n_slots: int) -> None:
        packed = sum(code << (width * index) for index, code in enumerate(codes))
        out.extend(packed.to_bytes((n_slots * width + 7) // 8, "little"))
        codes.clear()

    for number in range(n_codes):
        codes.append(ord("a") if number == 0 else 256 + number)
        is_wider = 257 + number >= 1 << width and width < 16  # what the reader knows by now
        if len(codes) == 8 or is_wider:
            flush(8)
        width += is_wider
    flush(len(codes))
    return bytes(out)
