"""Shortening of text, the one place where text that a model or a reader sees is cut.

A cut can make an identity: `Investment Decisions` cut inside a word may end on `Dec`, and `2024 shares` cut before
its unit ends on a year. So text is cut only between words (in Chinese and Japanese: between characters that are no
numerals), never behind a number, and never where the leak guard would find a date that the whole text does not have
there. A mark shows where text is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktdeval.masking.dates import WORD_HINTS, Span, find_dates
from ktdeval.masking.text import Shape, normalise

CUT_MARK = "…"
_SPACED_MARK = f" {CUT_MARK}"
ROOM_FOR_MARK = len(_SPACED_MARK)
# Ideographs, kana and their punctuation: writing without spaces, in which a line breaks between any two characters.
_UNSPACED = "\u2e80-\u2fdf\u3001-\u303f\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff0f\uff1a-\uff20"
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
# Characters of numbers, dates and their units, next to which no text is cut.
_COUNTING = frozenset(
    "〇零一二三四五六七八九十廿卅百千万萬亿億两兩壹贰貳叁參肆伍陆陸柒捌玖拾年月日号號时時分秒周週星期礼禮拜季半初上下旬元圆圓角股手点點第"
)
_LAST_TOKEN = re.compile(rf"[^\s{_UNSPACED}{{}}\[\],:\"]+\Z")
_HANDLE = re.compile(r"\W*(?:asset|sector|index)_[0-9]+(?:'s)?\W*|\W*day_[+-]?[0-9]+\W*|\W*doc_\w+\W*", re.ASCII)
_BEFORE, _AFTER = 120, 60  # characters around a cut that the guard's rules for dates can depend on


def shorten(text: str, most: int) -> str:
    """Return the text if it has at most `most` characters; else its beginning, cut between words, and a mark, within `most`."""
    if len(text) <= most:
        return text
    kept = text[: cut_position(text, most - ROOM_FOR_MARK)]
    return kept + cut_mark(kept)


def cut_mark(kept: str) -> str:
    """Return the mark behind the part of a text that is kept."""
    is_spaced = bool(kept) and _IS_UNSPACED.match(kept[-1]) is None
    return _SPACED_MARK if is_spaced else CUT_MARK


def cut_position(text: str, most: int) -> int:
    """Return the last offset, up to `most`, at which the text may be cut; 0 if there is none."""
    return next((index for index in _boundaries(text, most) if _is_safe(text, index)), 0)


def _boundaries(text: str, most: int) -> Iterator[int]:
    """Offsets between words, the last one first."""
    for index in range(min(most, len(text) - 1), 0, -1):
        before, after = text[index - 1], text[index]
        if before.isspace():
            continue
        if after.isspace() or _is_break(before, after):
            yield index


def _is_break(before: str, after: str) -> bool:
    """Return whether a line may break between two characters of which neither is a space."""
    if before in _COUNTING or after in _COUNTING:
        return False
    if before in "{[,:" and after in '{["':  # JSON without spaces
        return True
    return _IS_UNSPACED.match(before) is not None and _IS_UNSPACED.match(after) is not None


def _is_safe(text: str, index: int) -> bool:
    """Return whether a cut makes nothing that reads as a date, a code or an amount without its unit."""
    kept = text[max(0, index - _BEFORE) : index]
    if kept[-1] in _COUNTING:
        return False
    token = _LAST_TOKEN.search(kept)
    if token is not None and any(map(str.isnumeric, token[0])) and _HANDLE.fullmatch(token[0]) is None:
        return False
    whole = text[max(0, index - _BEFORE) : index + _AFTER]
    known = _dates_in(whole)
    return all(any(start < last and first < end for first, last in known) for start, end in _dates_in(kept + cut_mark(kept)))


def _dates_in(text: str) -> list[Span]:
    normalised = normalise(text)
    shape = Shape(normalised)
    words = WORD_HINTS.intersection(word.decode() for word in shape.words)
    return list(find_dates(normalised, shape, words))
