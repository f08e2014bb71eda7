"""Text truncation. All text for a model or a reader is shortened by this module.

A cut can create an identity: `Investment Decisions` cut inside a word may end in `Dec`, and `2024
shares` cut before its unit ends in a year. Therefore text is cut only between words (in Chinese and
Japanese: between characters that are not numerals), and never next to a number. Nor is it cut where
the leak guard would then find a date that is not in the whole text. A mark shows how much text is
missing. Marks and handles are never split.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ktdeval.masking.dates.date_detection import WORD_HINTS, Span, find_dates
from ktdeval.masking.text_normalisation import TextViews, normalise

CUT_MARK = "…"
_SPACED_MARK = f" {CUT_MARK}"
_ROOM_FOR_MARK = len(_SPACED_MARK)
BOTH_ENDS_FROM = 120  #: characters; below this limit, only the beginning of a text is kept
_BEGINNING_SHARE = 2 / 3  # news puts the most important facts first
_COUNTED_MARK = re.compile(r" ?\[… ([\d,]+) characters cut …\] ?", re.ASCII)
# Ideographs, kana and their punctuation: scripts without spaces, in which a line may break between
# any two characters.
_UNSPACED = (
    "\u2e80-\u2fdf\u3001-\u303f\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff01-\uff0f\uff1a-\uff20"
)
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
# Characters in numbers, dates and their units. Text is never cut next to these characters.
_COUNTING = frozenset(
    "〇零一二三四五六七八九十廿卅百千万萬亿億两兩壹贰貳叁參肆伍陆陸柒捌玖拾年月日号號时時分秒周週星期礼禮拜季半初上下旬元圆圓角股手点點第"
)
_TOKEN = rf"[^\s{_UNSPACED}{{}}\[\],:\"]+"
_FIRST_TOKEN = re.compile(_TOKEN)
_LAST_TOKEN = re.compile(rf"{_TOKEN}\Z")
_HANDLE = re.compile(
    r"\W*(?:asset|sector|index)_[0-9]+(?:'s)?\W*|\W*day_[+-]?[0-9]+\W*|\W*doc_\w+\W*", re.ASCII
)
# Up to this many characters on either side of a cut can matter to the guard's date rules.
_KEPT = 120
_CUT = 60


@dataclass(frozen=True, slots=True)
class TextCut:
    """A range that is removed from a text: `text[start:end]`, replaced by the mark."""

    start: int
    end: int
    mark: str

    def apply(self, text: str) -> str:
        """Return the text with the range replaced by the mark."""
        return text[: self.start] + self.mark + text[self.end :]


def shorten(text: str, most: int) -> str:
    """Shorten a text to at most `most` characters. A longer text keeps its beginning and its end,
    cut between words, with a mark between them that counts the characters removed. If `most` is
    below 120, only the beginning is kept (`beginning`).
    """
    cut = cut_of(text, most)
    return text if cut is None else cut.apply(text)


def beginning(text: str, most: int) -> str:
    """Shorten a text to at most `most` characters. Of a longer text, the beginning is kept, cut
    between words and followed by `…`.
    """
    if len(text) <= most:
        return text
    return _cut_of_end(text, most).apply(text)


def cut_of(text: str, most: int) -> TextCut | None:
    """Return what `shorten` removes from a text; None if the text has at most `most` characters."""
    if len(text) <= most:
        return None
    if most < BOTH_ENDS_FROM:
        return _cut_of_end(text, most)

    marks = list(_COUNTED_MARK.finditer(text))
    room = most - len(_counted_mark(len(text) + sum(map(_characters_cut, marks)))) - 2
    kept = int(room * _BEGINNING_SHARE)
    start = _last_cut(text, kept)
    end = _first_cut(text, len(text) - (room - kept))

    # The mark of an earlier cut is removed as a whole, and the number of characters that it reports
    # is added to the new count.
    for mark in marks:
        if mark.start() < start < mark.end():
            start = _last_cut(text, mark.start())
        if mark.start() < end < mark.end():
            end = _first_cut(text, mark.end())

    dropped = [mark for mark in marks if start <= mark.start() and mark.end() <= end]
    count = end - start
    for mark in dropped:
        count += _characters_cut(mark) - len(mark[0])

    space_before = " " if start and not _is_unspaced(text[start - 1]) else ""
    space_after = " " if end < len(text) and not _is_unspaced(text[end]) else ""
    return TextCut(start, end, f"{space_before}{_counted_mark(count)}{space_after}")


def _counted_mark(count: int) -> str:
    return f"[{CUT_MARK} {count:,} characters cut {CUT_MARK}]"


def _characters_cut(mark: re.Match[str]) -> int:
    """Return the number of characters that a mark reports as removed."""
    return int(mark[1].replace(",", "") or 0)


def _cut_of_end(text: str, most: int) -> TextCut:
    start = _last_cut(text, most - _ROOM_FOR_MARK)
    return TextCut(start, len(text), _end_mark(text[:start]))


def _end_mark(kept: str) -> str:
    """Return the mark for a missing end. It has a space before it, except after scripts without
    spaces.
    """
    if kept and not _is_unspaced(kept[-1]):
        return _SPACED_MARK
    return CUT_MARK


def _is_unspaced(character: str) -> bool:
    return _IS_UNSPACED.match(character) is not None


def _last_cut(text: str, most: int) -> int:
    """Return the last offset, up to `most`, at which a text may be cut, or 0."""
    for index in _ends(text, most):
        if _is_safe_end(text, index):
            return index

    return 0


def _first_cut(text: str, least: int) -> int:
    """Return the first offset, from `least` on, from which the text may be kept, or the
    length of the text.
    """
    for index in _starts(text, least):
        if _is_safe_start(text, index):
            return index

    return len(text)


def _ends(text: str, most: int) -> Iterator[int]:
    """Yield offsets after words, from last to first."""
    for index in range(min(most, len(text) - 1), 0, -1):
        if not text[index - 1].isspace() and _is_break(text[index - 1], text[index]):
            yield index


def _starts(text: str, least: int) -> Iterator[int]:
    """Yield offsets before words, from first to last."""
    for index in range(max(least, 1), len(text)):
        if not text[index].isspace() and _is_break(text[index - 1], text[index]):
            yield index


def _is_break(before: str, after: str) -> bool:
    """Return whether a line may break between two characters."""
    if before.isspace() or after.isspace():
        return True
    if before in _COUNTING or after in _COUNTING:
        return False
    if before in "{[,:" and after in '{["':  # JSON without spaces
        return True
    return _is_unspaced(before) and _is_unspaced(after)


def _is_safe_end(text: str, index: int) -> bool:
    """Return whether the text up to `index` may be kept. It must not end in a number, and must have
    no date that the whole text does not have.
    """
    kept = text[max(0, index - _KEPT) : index]
    if kept[-1] in _COUNTING or _is_number(_LAST_TOKEN.search(kept)):
        return False

    whole = text[max(0, index - _KEPT) : index + _CUT]
    known = _dates_in(whole)
    after_cut = _dates_in(kept + _end_mark(kept))
    return all(_overlaps(date, known) for date in after_cut)


def _is_safe_start(text: str, index: int) -> bool:
    """Return whether the text from `index` on may be kept. It must not start with a number, and
    must have no date that the whole text does not have.
    """
    kept = text[index : index + _KEPT]
    if kept[0] in _COUNTING or _is_number(_FIRST_TOKEN.match(kept)):
        return False

    first = max(0, index - _CUT)
    known = _dates_in(text[first : index + _KEPT])
    mark = f"{CUT_MARK}] "
    shift = index - first - len(mark)
    after_cut = [(start + shift, end + shift) for start, end in _dates_in(mark + kept)]
    return all(_overlaps(date, known) for date in after_cut)


def _is_number(token: re.Match[str] | None) -> bool:
    """Return whether a token may be part of a code or of a number that lost its unit. A handle is
    complete, so it is neither.
    """
    if token is None or not any(map(str.isnumeric, token[0])):
        return False
    return _HANDLE.fullmatch(token[0]) is None


def _overlaps(span: Span, others: list[Span]) -> bool:
    start, end = span
    return any(start < last and first < end for first, last in others)


def _dates_in(text: str) -> list[Span]:
    normalised = normalise(text)
    shape = TextViews(normalised)
    words = WORD_HINTS.intersection(word.decode() for word in shape.words)

    return list(find_dates(normalised, shape, words))
