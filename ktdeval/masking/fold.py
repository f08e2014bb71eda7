"""Folding: many ways to write a character brought to one, so that a look-alike can't carry an identity past a guard.

Full-width and other digits become 0-9, every dash a hyphen, every space a space; zero-width characters and accents vanish;
Cyrillic and Greek letters that look Latin become Latin; JSON escapes become what they stand for. Case is kept.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[\s\S]")
_UNIT = re.compile(rf"{_ESCAPE.pattern}|[\s\S]")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")

# Unseen characters that are not of the Unicode category Cf: fillers of the Hangul and Khmer blocks, a Braille blank.
_UNSEEN = frozenset("\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800")
_MINUS = frozenset("\u2212\u02d7\u2796\u30fc\u2500")
_SOLIDUS = frozenset("\u2215\u29f8\u2571")
_LOOKALIKES = dict(
    zip(
        "АВЕКМНОРСТХУЅІЈаеорсухіѕјΑΒΕΖΗΙΚΜΝΟΡΤΥΧο",
        "ABEKMHOPCTXYSIJaeopcyxisjABEZHIKMNOPTYXo",
        strict=True,
    )
)


@lru_cache(maxsize=8192)
def _fold_character(character: str) -> str:
    """What one character looks like in plain characters; empty when it can't be seen."""
    category = unicodedata.category(character)
    if category in ("Cf", "Mn", "Me", "Cs") or character in _UNSEEN:
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category == "Pd" or character in _MINUS:
        return "-"
    if category in ("Zs", "Zl", "Zp"):
        return " "
    if character in _SOLIDUS:
        return "/"
    parts = unicodedata.normalize("NFKD", character)
    if parts != character:
        return "".join(part if part.isascii() else _fold_character(part) for part in parts)
    return _LOOKALIKES.get(character, character)


class _Table(dict[int, str]):
    """Code point -> folded text, filled as characters appear; for `str.translate`."""

    def __missing__(self, point: int) -> str:
        self[point] = folded = _fold_character(chr(point))
        return folded


def _unescape(match: re.Match[str]) -> str:
    r"""The character of `\uXXXX`; other escapes, such as \n, become two spaces so that no letter sticks to a word."""
    text = match[0]
    if len(text) == 12:
        return chr(0x10000 + ((int(text[2:6], 16) - 0xD800) << 10) + (int(text[8:], 16) - 0xDC00))
    return chr(int(text[2:], 16)) if len(text) == 6 else "  "


def fold(text: str) -> str:
    """The folded form of a text. ASCII text without escapes is returned as it is."""
    if "\\" in text:
        text = _ESCAPE.sub(_unescape, text)
    if text.isascii():
        return text
    table = _Table()
    return _FOREIGN.sub(lambda match: match[0].translate(table), text)


def fold_with_places(text: str) -> tuple[str, list[int]]:
    """The folded form, and for each of its characters the place in `text` where its origin starts; one more place for the end.

    A folded span [a, b) comes from `text[places[a] : places[b]]`.
    """
    if text.isascii() and "\\" not in text:
        return text, list(range(len(text) + 1))
    folded: list[str] = []
    places: list[int] = []
    for start, piece in _units(text):
        folded.append(piece)
        places.extend([start] * len(piece))
    places.append(len(text))
    return "".join(folded), places


def _units(text: str) -> Iterator[tuple[int, str]]:
    table = _Table()
    for match in _UNIT.finditer(text):
        unit = match[0]
        plain = _unescape(match) if len(unit) > 1 else unit
        yield match.start(), plain if plain.isascii() else plain.translate(table)
