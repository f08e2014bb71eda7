"""Normalise text for the guards, and reduce it to a shape for fast searches.

Without normalisation, look-alike characters could carry an identity past a guard. Full-width and
other digits become 0-9, every dash becomes a hyphen, and every kind of space becomes a plain space.
Zero-width characters, accents and strokes are removed. Letters of other scripts that look Latin
become Latin, and traditional Chinese characters become simplified. JSON and HTML escapes are
decoded. Case does not change.

Texts for a model consist mostly of numbers. A regular expression needs half a millisecond to find a
separate group of six digits in 10 kB of such text. A substring search in the shape, with one byte
per character, needs only a few microseconds.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence, Set
from functools import cache, cached_property
from html import unescape
from operator import add
from pathlib import Path
from typing import TypeVar

from ktdeval.values.disk.files import csv_rows

_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[\s\S]|&#?[0-9A-Za-z]{1,8};"
)
_UNIT = re.compile(rf"{_ESCAPE.pattern}|[^\x00-\x7f]")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
# Invisible characters outside the Unicode category Cf: Hangul and Khmer fillers and the Braille
# blank. Also includes trademark signs (™, ℠), whose letters would otherwise join a name.
_UNSEEN = frozenset("\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800\u2122\u2120")
_MARKS = dict(
    zip("‘’‛ʼ\u2212\u02d7\u2796\u30fc\u2500\u2215\u29f8\u2571", "''''-----///", strict=True)
)
# Separators like a comma and a space: `240124，240125` are two numbers.
_WIDE_COMMAS = frozenset("，﹐")
# A comma after a Chinese character is also a separator: `涨停,240124`.
_COMMA_BEFORE_NUMBER = re.compile(r"(?<=[^\x00-\x7f]),(?=[0-9])")
# Recognised by their Unicode names: `ı`, `ł`, `ʟ`, `🅰`.
_LATIN_LETTER = re.compile(
    r"LATIN (?P<case>SMALL|CAPITAL)? ?LETTER (?:SMALL CAPITAL )?(?:DOTLESS |SCRIPT )?"
    r"(?P<letter>[A-Z])(?: WITH .+)?\Z"
)


def _normalise_character(character: str) -> str:
    """Return the plain characters that a character looks like; empty if the character is
    invisible.
    """
    category = unicodedata.category(character)
    if category in ("Cf", "Mn", "Me", "Cs") or character in _UNSEEN:
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category == "Pd":
        return "-"
    if category in ("Zs", "Zl", "Zp"):
        return " "
    if character in _WIDE_COMMAS:
        return ", "

    parts = unicodedata.normalize("NFKD", character)
    if parts != character:
        plain = ""
        for part in parts:
            plain += part if part.isascii() else _normalise_character(part)
        return plain

    plain = _MARKS.get(character) or _latin_letter(character)
    return (
        plain
        or _lookalikes().get(character)
        or _load_simplified_characters().get(character, character)
    )


def _latin_letter(character: str) -> str:
    """Return the letter A-Z or a-z of which a Latin letter is a variant; empty if it is
    not a variant.
    """
    named = _LATIN_LETTER.search(unicodedata.name(character, ""))
    if named is None:
        return ""
    if named["case"] == "CAPITAL":
        return named["letter"]
    return named["letter"].lower()


@cache
def _lookalikes() -> dict[str, str]:
    """Return the Latin letters that letters of other scripts look like (from the confusables of
    Unicode Technical Standard 39).
    """
    return _pairs("lookalikes.csv", "letter", "plain")


@cache
def _load_simplified_characters() -> dict[str, str]:
    """Return the simplified form of each traditional Chinese character (from OpenCC, Apache License
    2.0).
    """
    return _pairs("traditional.csv", "traditional", "simplified")


def _pairs(name: str, key: str, value: str) -> dict[str, str]:
    """Return two columns of a table in this package as a mapping."""
    return {row[key]: row[value] for row in csv_rows(Path(__file__).with_name(name))}


class _NormalisedCharacters(dict[int, str]):
    """Maps code points to normalised text for `str.translate`; filled as characters appear."""

    def __missing__(self, point: int) -> str:
        return self.setdefault(point, _normalise_character(chr(point)))


_TABLE = _NormalisedCharacters()


def _unescape(match: re.Match[str]) -> str:
    r"""Decode `\uXXXX` or `&#39;`. Other escapes, such as `\n`, become two spaces, so that their
    letter does not join the next word.
    """
    text = match[0]
    if text[0] == "&":
        return unescape(text)

    if len(text) == 12:  # a surrogate pair: \uD83D\uDE00
        high = int(text[2:6], 16) - 0xD800
        low = int(text[8:], 16) - 0xDC00
        return chr(0x10000 + (high << 10) + low)

    if len(text) == 6:
        return chr(int(text[2:], 16))

    return "  "


def normalise(text: str) -> str:
    """Return the normalised form of a text. ASCII text without escapes is returned unchanged."""
    if "\\" in text or "&" in text:
        text = _ESCAPE.sub(_unescape, text)
    if text.isascii():
        return text
    plain = _FOREIGN.sub(lambda match: match[0].translate(_TABLE), text)
    return _COMMA_BEFORE_NUMBER.sub(", ", plain)


def normalise_with_places(text: str) -> tuple[str, Sequence[int]]:
    """Return the normalised form of a text. For each of its characters, also return the offset of
    its origin in `text`, followed by one offset for the end.
    """
    if text.isascii() and "\\" not in text and "&" not in text:
        return text, range(len(text) + 1)

    normalised: list[str] = []
    offsets: list[int] = []
    end = 0

    for match in _UNIT.finditer(text):
        start = match.start()
        unit = match[0]
        plain = _unescape(match) if len(unit) > 1 else unit
        if not plain.isascii():
            plain = plain.translate(_TABLE)

        normalised += (text[end:start], plain)
        offsets += range(end, start)
        if plain == unit:
            offsets += range(start, match.end())
        else:
            offsets += [start] * len(plain)

        end = match.end()

    offsets += range(end, len(text) + 1)
    plain = "".join((*normalised, text[end:]))
    for comma in reversed(list(_COMMA_BEFORE_NUMBER.finditer(plain))):
        offsets.insert(comma.end(), offsets[comma.start()])  # offset of the added space
    return _COMMA_BEFORE_NUMBER.sub(", ", plain), offsets


_REST_OF_WORD = re.compile("[0-9A-Za-z]*")
Text = TypeVar("Text", str, bytes)

#: Characters that may separate the digits of one code. None of these characters separates numbers
#: in JSON.
SPLITTERS = "-_/|~*·•"
_DASHES = b"-_/|~*?"  # the ASCII separators; `?` represents all others


def _bytes_table(rule: dict[str, str], other: str) -> bytes:
    """Return a table for `bytes.translate`. Characters without a rule become `other`, or stay
    unchanged if `other` is empty.
    """
    table = bytearray()
    for code in range(256):
        character = chr(code)
        table.append(ord(rule.get(character, other or character)))

    return bytes(table)


_KEEP_DIGITS = {digit: digit for digit in "0123456789"}
_NO_DIGITS = dict.fromkeys("0123456789", "0")
_DIGITS = _bytes_table(_KEEP_DIGITS | {".": ".", "e": "e", "E": "e"}, "x")
_ZEROS = _bytes_table(_NO_DIGITS, "")
_JOINED = _bytes_table(_NO_DIGITS | {".": "."}, "x")
_DASHED = _bytes_table(_NO_DIGITS | {"/": "-"}, "")
_WORDS = _bytes_table(
    {letter: letter.lower() for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"},
    " ",
)


class TextViews:
    """Views of one normalised text, computed on first use. `digits` and `runs` are padded with an
    `x`, so that a match of `x…` at offset p means that the rest of the match begins at offset p of
    the text.
    """

    def __init__(self, normalised: str) -> None:
        self._data = normalised.encode("ascii", "replace")

    @cached_property
    def digits(self) -> bytes:
        """Digits and dots unchanged, e and E as `e`, all other characters as `x`."""
        return b"x%bx" % self._data.translate(_DIGITS)

    @cached_property
    def runs(self) -> bytes:
        """Like `digits`, with every digit as `0`."""
        return self.digits.translate(_ZEROS)

    @cached_property
    def joined(self) -> bytes:
        """Digits as `0`, dots unchanged, separators removed, all other characters as `x`, so that
        numbers with separated digits become whole.
        """
        return b"x%bx" % self._data.translate(_JOINED, _DASHES)

    @cached_property
    def joined_over_spaces(self) -> bytes:
        """`joined` with spaces removed as well."""
        return b"x%bx" % self._data.translate(_JOINED, _DASHES + b" \t\n")

    @cached_property
    def dashed(self) -> bytes:
        """Digits as `0`, slashes as hyphens, all other characters unchanged."""
        return self._data.translate(_DASHED)

    @cached_property
    def words(self) -> list[bytes]:
        """All runs of ASCII letters, in lower case."""
        return self._data.translate(_WORDS).split()


def lower_text(text: str) -> str:
    """Return a text in lower case, except for letters whose lower case is longer (such as a Turkish
    dotted I), so that offsets do not shift.
    """
    lower = text.lower()
    if len(lower) == len(text):
        return lower

    letters = []
    for letter in text:
        low = letter.lower()
        letters.append(low if len(low) == 1 else letter)

    return "".join(letters)


def places_of(text: Text, part: Text) -> Iterator[int]:
    """Yield every offset at which `part` begins in `text`; occurrences may overlap."""
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + 1)


def follows_point(text: str, start: int) -> bool:
    """Return whether the digits at `start` are the decimals of a number."""
    return text[start - 1 : start] == "." and text[start - 2 : start - 1].isdigit()


def squash(
    text: str, padding: re.Pattern[str], begins: Set[str]
) -> tuple[str, Set[str], list[int]]:
    """Return a text without padding between its characters. Also return which of `begins`, strings
    of two characters, the text contains. Finally, return the offset in `text` of each of its
    characters; empty if the text contains none of `begins`.
    """
    squashed = padding.sub("", text)
    present = begins & set(map(add, squashed, squashed[1:]))
    letters = enumerate(text if present else "")
    return squashed, present, [index for index, letter in letters if not padding.match(letter)]


def around_digits(text: str, reach: int) -> list[tuple[int, int]]:
    """Return disjoint spans that cover every digit in a normalised text, with `reach` characters on
    both sides. A span always ends after a whole word.
    """
    spans = []
    for match in _numbers_within(2 * reach).finditer(text):
        start = max(0, match.start() - reach)
        end = min(len(text), match.end() + reach)
        spans.append((start, _REST_OF_WORD.match(text, end).end()))  # type: ignore[union-attr]

    return spans


@cache
def _numbers_within(gap: int) -> re.Pattern[str]:
    """Return a pattern of numbers with at most `gap` characters between two groups of digits."""
    return re.compile(rf"[0-9]+(?:[^0-9]{{1,{gap}}}[0-9]+)*")


def touches_letter(lower: str, start: int, end: int) -> bool:
    """Return whether there is an ASCII letter just before or after [start, end)."""
    return follows_letter(lower, start) or precedes_letter(lower, end)


def follows_letter(text: str, start: int) -> bool:
    """Return whether there is an ASCII letter just before an offset."""
    before = text[max(0, start - 1) : start]
    return before.isascii() and before.isalpha()


def precedes_letter(text: str, end: int) -> bool:
    """Return whether there is an ASCII letter at an offset."""
    after = text[end : end + 1]
    return after.isascii() and after.isalpha()
