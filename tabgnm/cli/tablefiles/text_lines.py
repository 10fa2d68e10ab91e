"""The text of a file as UTF-8, in pieces of whole rows whose first line is known."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tabgnm.cli.tablefiles.errors import TableFileError, TableOptionError, quoted
from tabgnm.cli.tablefiles.input_bytes import InputBytes

PIECE_BYTES = 4 * 2**20
LONGEST_ROW = 16 * 2**20

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True)
class Piece:
    """Whole rows of text.

    Attributes
    ----------
    text : bytes
        In UTF-8.
    line : int
        The line of the file in which it begins, from 1 on.
    """

    text: bytes
    line: int

    def line_at(self, position: int) -> int:
        """Return the line of the file in which a byte stands."""
        return self.line + n_lines(self.text[:position])


def n_lines(text: bytes) -> int:
    r"""Return the number of line ends: \n, \r\n or \r."""
    if b"\r" not in text:
        return text.count(b"\n")
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def end_of_lines(text: bytes) -> int:
    """Return where the last complete line ends."""
    end = text.rfind(b"\n") + 1
    # A \r at the very end may be half of \r\n.
    return end or text.rfind(b"\r", 0, len(text) - 1) + 1


class TextLines:
    """Reads text piece by piece.

    Parameters
    ----------
    source : InputBytes
    encoding : str or None
        None is UTF-8, or what a byte order mark says.
    """

    def __init__(self, source: InputBytes, encoding: str | None) -> None:
        self.name = source.name
        self._source = source
        self._encoding = encoding
        self._line = 1
        self._rest = b""
        self._blocks = self._decoded()

    def start(self) -> Piece:
        """Return the first lines, about a piece of them, which are still to be read; empty if there is no text."""
        for block in self._blocks:
            self._add(block)
            end = end_of_lines(self._rest) if len(self._rest) >= PIECE_BYTES else 0
            if end:
                return self._checked(self._rest[:end])
            self._refuse_longest()
        return self._checked(self._rest)

    def pieces(self, end_of_rows: Callable[[bytes], int]) -> Iterator[Piece]:
        """Yield all text; `end_of_rows` returns where the last complete row of a text ends, 0 if there is none."""
        wanted = PIECE_BYTES
        while True:
            block = next(self._blocks, None) if len(self._rest) < wanted else b""
            if block:
                self._add(block)
                continue
            end = len(self._rest) if block is None else end_of_rows(self._rest)
            if end:
                piece = self._checked(self._rest[:end])
                self._rest = self._rest[end:]
                self._line += n_lines(piece.text)
                yield piece
            if block is None:
                return
            if end == 0:
                self._refuse_longest()
            wanted = PIECE_BYTES if end else len(self._rest) + PIECE_BYTES

    def _refuse_longest(self) -> None:
        if len(self._rest) > LONGEST_ROW:
            raise TableFileError(
                f"{self.name}: the row that begins in line {self._line:,} is longer than {LONGEST_ROW // 2**20} MiB; "
                "look for a quote that is not closed, or for missing line ends"
            )

    def _add(self, block: bytes) -> None:
        self._refuse_nul(block)
        self._rest += block

    def _checked(self, text: bytes) -> Piece:
        piece = Piece(text, self._line)
        if not text.isascii():
            try:
                text.decode("utf-8")
            except UnicodeDecodeError as error:
                raise self._not_utf8(piece, error) from None
        return piece

    def _not_utf8(self, piece: Piece, error: UnicodeDecodeError) -> TableFileError:
        line = piece.line_at(error.start)
        return TableFileError(
            f"{self.name} is not UTF-8: byte 0x{piece.text[error.start]:02x} in line {line:,}; "
            "save it as UTF-8, or say how it is encoded, for instance --encoding latin-1 or --encoding cp1252"
        )

    def _refuse_nul(self, block: bytes) -> None:
        place = block.find(b"\0")
        if place < 0:
            return
        line = self._line + n_lines(self._rest + block[:place])
        sample = block[:1000]
        if not self._rest and sample.count(0) * 3 > len(sample):
            guess = "utf-16-be" if place % 2 == 0 else "utf-16-le"
            raise TableFileError(f"{self.name} looks like UTF-16 without a byte order mark; add --encoding {guess}")
        raise TableFileError(
            f"{self.name} has a NUL byte in line {line:,}; it is damaged or not a text file: export it again"
        )

    def _decoded(self) -> Iterator[bytes]:
        """Yield the text in UTF-8, which is not checked where the file is said to be in UTF-8 itself."""
        block = self._source.read(PIECE_BYTES)
        marked = next((own for mark, own in _BYTE_ORDER_MARKS if block.startswith(mark)), "utf-8")
        encoding = checked_encoding(self._encoding or marked)
        if encoding == "utf-8":
            block = block.removeprefix(codecs.BOM_UTF8)
            while block:
                yield block
                block = self._source.read(PIECE_BYTES)
            return
        decoder = codecs.getincrementaldecoder(encoding)()
        line, mark = 1, "\N{ZERO WIDTH NO-BREAK SPACE}"
        while True:
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeError as error:
                raise self._undecodable(encoding, line, error) from None
            if text:
                line += text.count("\n")
                yield text.removeprefix(mark).encode("utf-8", "surrogatepass")
                mark = ""
            if not block:
                return
            block = self._source.read(PIECE_BYTES)

    def _undecodable(self, encoding: str, line: int, error: UnicodeError) -> TableFileError:
        where = f"line {line:,}"
        if isinstance(error, UnicodeDecodeError):
            before = error.object[: error.start].decode(encoding, "replace")
            where = f"byte 0x{error.object[error.start]:02x} in line {line + before.count(chr(10)):,}"
        return TableFileError(f"{self.name} is not encoded as {quoted(encoding)}: {where}; give another --encoding")


def checked_encoding(encoding: str) -> str:
    """Return the name that Python has for an encoding of text; raise if it has none."""
    try:
        b"    ".decode(encoding, "replace")  # raises for those that are not of text, such as base64
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):
        raise TableOptionError(
            f"--encoding: unknown encoding {quoted(encoding)}; expected a name that Python knows, such as utf-8, "
            "latin-1, cp1252 or utf-16"
        ) from None
