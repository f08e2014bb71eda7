"""Text as guards read it: the many ways to write a character normalised to one, and the shape of a text for fast searches.

Normalising keeps a look-alike from carrying an identity past a guard: full-width and other digits become 0-9, every dash a hyphen,
every space a space; zero-width characters and accents vanish; Cyrillic and Greek letters that look Latin become Latin; traditional
Chinese characters become simplified; escapes of JSON and HTML become what they stand for. Case is kept.

Model-facing text is mostly numbers. Asking "does six digits stand alone anywhere?" of 10 kB of them takes a regular expression half
a millisecond; as a substring search in the shape, one byte a character, it takes a few microseconds.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from html import unescape
from pathlib import Path
from typing import TypeVar

from ktdeval.jsonio import csv_rows

_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[\s\S]|&#?[0-9A-Za-z]{1,8};")
_UNIT = re.compile(rf"{_ESCAPE.pattern}|[^\x00-\x7f]")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
# Unseen characters that are not of the Unicode category Cf: fillers of the Hangul and Khmer blocks, a Braille blank.
_UNSEEN = frozenset("\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800")
_FOREIGN_LETTERS = "АВЕКМНОРСТХУЅІЈаеорсухіѕјΑΒΕΖΗΙΚΜΝΟΡΤΥΧο‘’‛ʼ\u2212\u02d7\u2796\u30fc\u2500\u2215\u29f8\u2571"
_LOOKALIKES = dict(zip(_FOREIGN_LETTERS, "ABEKMHOPCTXYSIJaeopcyxisjABEZHIKMNOPTYXo''''-----///", strict=True))


def _normalise_character(character: str) -> str:
    """Plain characters that one looks like; empty when it can't be seen."""
    category = unicodedata.category(character)
    if category in ("Cf", "Mn", "Me", "Cs") or character in _UNSEEN:
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category == "Pd":
        return "-"
    if category in ("Zs", "Zl", "Zp"):
        return " "
    parts = unicodedata.normalize("NFKD", character)
    if parts != character:
        return "".join(part if part.isascii() else _normalise_character(part) for part in parts)
    return _LOOKALIKES.get(character) or _simplified().get(character, character)


@cache
def _simplified() -> dict[str, str]:
    """Traditional Chinese characters, by the simplified one that stands for each (from OpenCC, Apache License 2.0)."""
    return {row["traditional"]: row["simplified"] for row in csv_rows(Path(__file__).with_name("traditional.csv"))}


class _Table(dict[int, str]):
    """Code point -> normalised text, filled as characters appear; for `str.translate`."""

    def __missing__(self, point: int) -> str:
        return self.setdefault(point, _normalise_character(chr(point)))


_TABLE = _Table()


def _unescape(match: re.Match[str]) -> str:
    r"""The character of `\uXXXX` or `&#39;`; other escapes, such as \n, become two spaces so that no letter sticks to a word."""
    text = match[0]
    if text[0] == "&":
        return unescape(text)
    if len(text) == 12:
        return chr(0x10000 + ((int(text[2:6], 16) - 0xD800) << 10) + (int(text[8:], 16) - 0xDC00))
    return chr(int(text[2:], 16)) if len(text) == 6 else "  "


def normalise(text: str) -> str:
    """Normalised form of a text. ASCII text without escapes is returned as it is."""
    if "\\" in text or "&" in text:
        text = _ESCAPE.sub(_unescape, text)
    return text if text.isascii() else _FOREIGN.sub(lambda match: match[0].translate(_TABLE), text)


def normalise_with_places(text: str) -> tuple[str, Sequence[int]]:
    """Normalised form, and the offsets in `text` where its characters come from, with one for the end."""
    if text.isascii() and "\\" not in text and "&" not in text:
        return text, range(len(text) + 1)
    normalised: list[str] = []
    offsets: list[int] = []
    end = 0
    for match in _UNIT.finditer(text):
        start, unit = match.start(), match[0]
        plain = _unescape(match) if len(unit) > 1 else unit
        plain = plain if plain.isascii() else plain.translate(_TABLE)
        normalised += (text[end:start], plain)
        offsets += range(end, start)
        offsets += range(start, match.end()) if plain == unit else [start] * len(plain)
        end = match.end()
    offsets += range(end, len(text) + 1)
    return "".join((*normalised, text[end:])), offsets


_DIGITS_HERE, _REST_OF_WORD = re.compile("[0-9]+"), re.compile("[0-9A-Za-z]*")
Text = TypeVar("Text", str, bytes)

SPLITTERS = "-_/|~*·•"  #: What may stand between the digits of one code. Nothing of it separates numbers in JSON.
_DASHES = b"-_/|~*?"  # the splitters in ASCII, `?` standing for the rest


def _bytes_table(rule: dict[str, str], other: str) -> bytes:
    return bytes(ord(rule.get(chr(code), other if other else chr(code))) for code in range(256))


_KEEP_DIGITS = {digit: digit for digit in "0123456789"}
_NO_DIGITS = dict.fromkeys("0123456789", "0")
_DIGITS = _bytes_table(_KEEP_DIGITS | {".": ".", "e": "e", "E": "e"}, "x")
_ZEROS = _bytes_table(_NO_DIGITS, "")
_JOINED = _bytes_table(_NO_DIGITS | {".": "."}, "x")
_DASHED = _bytes_table(_NO_DIGITS | {"/": "-"}, "")
_WORDS = _bytes_table({letter: letter.lower() for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"}, " ")


class Shape:
    """Views of one normalised text, made when first asked for. `digits` and `runs` are padded with an `x`, so that a match of `x…`
    at offset p says that the rest begins at offset p of the text.
    """

    def __init__(self, normalised: str) -> None:
        self._data = normalised.encode("ascii", "replace")

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


def lowered(text: str) -> str:
    """Text in lower case, except for letters whose lower case is longer: offsets must not shift."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)


def places_of(text: Text, part: Text) -> Iterator[int]:
    """Every offset at which `part` begins in `text`."""
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + 1)


def around_digits(text: str, reach: int) -> list[tuple[int, int]]:
    """Return disjoint spans that hold every digit of a normalised text with `reach` characters on both sides, and whole words."""
    spans: list[tuple[int, int]] = []
    for match in _DIGITS_HERE.finditer(text):
        start, end = max(0, match.start() - reach), min(len(text), match.end() + reach)
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return [(start, _REST_OF_WORD.match(text, end).end()) for start, end in spans]  # type: ignore[union-attr]


def touches_letter(lower: str, start: int, end: int) -> bool:
    """Whether an ASCII letter stands just before or after [start, end)."""
    before, after = lower[start - 1 : start] if start else "", lower[end : end + 1]
    return (before.isascii() and before.isalpha()) or (after.isascii() and after.isalpha())
