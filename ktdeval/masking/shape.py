"""The shape of a text: one byte a character, so that a substring search answers what would take a regular expression.

Model-facing text is mostly numbers. Asking "does six digits stand alone anywhere?" of 10 kB of them takes a regular expression
half a millisecond; as a substring search in the shape it takes a few microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TypeVar

Text = TypeVar("Text", str, bytes)

SPLITTERS = "-_/|~*·•"
"""What may stand between the digits of one code. Nothing of it separates numbers in JSON."""

_DASHES = b"-_/|~*?"  # the splitters in ASCII, `?` standing for the rest


def _table(rule: dict[str, str], other: str) -> bytes:
    return bytes(ord(rule.get(chr(code), other if other else chr(code))) for code in range(256))


_KEEP_DIGITS = {digit: digit for digit in "0123456789"}
_NO_DIGITS = dict.fromkeys("0123456789", "0")
_DIGITS = _table(_KEEP_DIGITS | {".": ".", "e": "e", "E": "e"}, "x")
_ZEROS = _table(_NO_DIGITS, "")
_JOINED = _table(_NO_DIGITS | {".": "."}, "x")
_DASHED = _table(_NO_DIGITS | {"/": "-"}, "")
_WORDS = _table({letter: letter.lower() for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"}, " ")


class Shape:
    """Views of one folded text, each made when first asked for.

    `digits`, `runs` have an `x` put before and after the text, so that a match of `x…` at place p says that the rest begins at
    place p of the text.
    """

    def __init__(self, folded: str) -> None:
        self._data = folded.encode("ascii", "replace")

    @cached_property
    def digits(self) -> bytes:
        """Digits and dots as they are, e and E as `e`, all else `x`."""
        return b"x%bx" % self._data.translate(_DIGITS)

    @cached_property
    def runs(self) -> bytes:
        """Like `digits`, with every digit as `0`."""
        return self.digits.translate(_ZEROS)

    @cached_property
    def joined(self) -> bytes:
        """Digits as `0`, dots as they are, splitters left out, all else `x`: what would be there if split numbers were whole."""
        return b"x%bx" % self._data.translate(_JOINED, _DASHES)

    @cached_property
    def joined_over_spaces(self) -> bytes:
        """`joined` with spaces left out as well."""
        return b"x%bx" % self._data.translate(_JOINED, _DASHES + b" \t\n")

    @cached_property
    def dashed(self) -> bytes:
        """Digits as `0`, slashes as hyphens, all else as it is."""
        return self._data.translate(_DASHED)

    @cached_property
    def words(self) -> list[bytes]:
        """All runs of ASCII letters, in lower case."""
        return self._data.translate(_WORDS).split()


def places_of(text: Text, wanted: Text) -> Iterator[int]:
    """Every place where `wanted` begins in `text`."""
    place = text.find(wanted)
    while place >= 0:
        yield place
        place = text.find(wanted, place + 1)
