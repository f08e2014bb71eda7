"""Text of a file: the encoding, the first lines, and the line that contains a cell."""

from __future__ import annotations

import codecs
import io
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from ktdeval.values import SIGNATURE_BYTES, open_unpacked, other_kind
from ktdeval_tables.readers.file_kinds import first_bytes as first_bytes

UTF8 = "utf-8-sig"
GB18030 = "gb18030"
_HEAD = 2**17  # bytes at the start of a file that determine its layout
_BOMS = ((codecs.BOM_UTF8, UTF8), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_TEXTS = (".csv", ".txt", ".tsv", ".gz")
_MIN_SHARE = 0.9  # minimum share of zeros at one position in the byte pairs of UTF-16

LONGEST_LINE = 1 << 24  #: maximum characters of a line or cell; a filing has a few million
HAS_NUL = "has a NUL character, so it is not text; write the file again"
_PIECE = 1 << 20  # number of characters that are checked together
_SHOWN = 40  # characters of a cell shown in a message

Open = Callable[[str], TextIO]
"""Opens a text in an encoding."""


class UnreadableError(ValueError):
    """The rest of a file can't be read."""

    def __init__(self, words: str, line: int = 0) -> None:
        """`line` is the line number in the file, from 1; 0 means the whole file."""
        super().__init__(words)
        self.line = line

    def __str__(self) -> str:
        """Return the message with the line number."""
        words = str(self.args[0])
        return f"line {self.line}: {words}" if self.line else words


class LineGuard:
    """Checks the lines of a text piece by piece: no line may be too long or contain a NUL."""

    def __init__(self) -> None:
        self._line = 1
        self._length = 0  # length of the line so far

    def check(self, piece: str) -> None:
        """Check the next piece of the text. Raises UnreadableError."""
        for start in range(0, len(piece), _PIECE):
            self._check(piece[start : start + _PIECE])

    def _check(self, piece: str) -> None:
        """Check a piece that is too short to contain a whole line of more than `LONGEST_LINE`."""
        nul = piece.find("\0")
        if nul >= 0:
            raise UnreadableError(HAS_NUL, self._line + piece.count("\n", 0, nul))

        first = piece.find("\n")
        begun = len(piece) if first < 0 else first
        if self._length + begun > LONGEST_LINE:
            raise too_long(self._line)

        self._line += piece.count("\n")
        self._length = self._length + begun if first < 0 else len(piece) - piece.rfind("\n") - 1


def too_long(line: int) -> UnreadableError:
    """Return the error for a line that exceeds the maximum length."""
    return UnreadableError(f"has more than {LONGEST_LINE} characters; write less", line)


def cell_count(expected: int, found: int) -> str:
    """Return the message that a row has too many or too few cells."""
    return f"expected {expected} cells, was {found}; quote texts with commas or line breaks"


def shown_cell(text: str) -> str:
    """Return a cell as shown in messages: its start, in quotes."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def open_text(file: Path, encoding: str) -> TextIO:
    """Open a text file, compressed or not, with any line endings."""
    return io.TextIOWrapper(open_unpacked(file), encoding=encoding)


def encodings(file: Path) -> tuple[str, ...]:
    """Return the encodings in which a file may be written, most likely first. Raises ValueError if
    the file is not text.
    """
    head = _head(file)
    other = other_kind(head[:SIGNATURE_BYTES])
    if other:
        raise ValueError(f"by its first bytes it is {other}")

    return encodings_of(head)


def encodings_of(data: bytes) -> tuple[str, ...]:
    """Return the encodings that a text may have, judging by its first bytes, most likely first."""
    marked = _read_mark(data)
    if marked:
        return (marked,)

    # Without a byte order mark, ASCII letters in UTF-16 have a zero in every other byte.
    start = data[:400]
    zeros = start.count(0)
    if zeros > len(start) // 4:
        share_before_letters = start[::2].count(0) / zeros
        if share_before_letters > _MIN_SHARE:
            return ("utf-16-be",)
        if share_before_letters < 1.0 - _MIN_SHARE:
            return ("utf-16-le",)

    return (UTF8, GB18030)


def marked_encoding(file: Path) -> str | None:
    """Return the encoding given by a file's byte order mark; None if it has no mark."""
    with open_unpacked(file) as stream:
        return _read_mark(stream.read(len(codecs.BOM_UTF8)))


def _read_mark(head: bytes) -> str | None:
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return encoding
    return None


def first_lines(file: Path, encoding: str) -> list[str]:
    """Return the lines at the start of a file. Raises UnicodeDecodeError if they are not text in
    the given encoding.
    """
    head = _head(file)
    text = codecs.getincrementaldecoder(encoding)().decode(head)
    lines = text.splitlines()
    is_cut = len(head) == _HEAD

    return lines[:-1] if is_cut else lines


def at_line(file: Path | str, cell: str) -> str:
    """Return the file and the first line that contains a cell, as `bars.csv: line 7`; only the file
    if the line can't be found.
    """
    path = Path(file)
    if not str(file).endswith(_TEXTS) or not path.is_file():
        return str(file)

    try:
        for encoding in encodings(path):
            found = _find(path, encoding, cell)
            if found:
                return f"{file}: line {found}"
    except (OSError, EOFError, zlib.error, ValueError):
        return str(file)

    return str(file)


def _find(path: Path, encoding: str, cell: str) -> int:
    """Return the number of the first line that contains a cell; 0 if no line does."""
    with open_text(path, encoding) as lines:
        try:
            for number, line in enumerate(lines, start=1):
                if cell in line and cell in _pieces(line):
                    return number
        except UnicodeDecodeError:
            return 0

    return 0


def _pieces(line: str) -> Sequence[str]:
    """Return the cells of a line for every possible delimiter. Used to find a cell, not to parse
    the line.
    """
    pieces = {line.strip()}
    for delimiter in ",;\t|":
        pieces |= {piece.strip().strip('"') for piece in line.split(delimiter)}

    for quoted in line.split('"')[1::2]:
        pieces.add(quoted.strip())

    return tuple(pieces)


def _head(file: Path) -> bytes:
    with open_unpacked(file) as plain:
        return plain.read(_HEAD)
