"""Date formats that people use in documents and answers, in addition to the formats that the
suite's own prompts may contain (`ktdeval.masking.dates.date_detection`).

These rules recognise a date only by the form of its numbers: `240924`, `24.09.24`, `week 39`, `on
9/24`. In the suite's prompts, such numbers have other meanings. Therefore the rules
(`free_date_rules`) are applied only to text by other authors: documents and text by the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from ktdeval.masking.dates.date_detection import CHINESE_KINDS, Span, is_amount
from ktdeval.masking.dates.date_rules import DateRule, first_letters
from ktdeval.masking.dates.foreign_date_names import find_named, name_hints
from ktdeval.masking.dates.free_date_rules import BEFORE_RATIO, IN_WORDS, RULES, SIX_DIGITS
from ktdeval.masking.dates.reporting_periods import BEFORE_EVENT, EVENT_NAME, EVENT_YEAR
from ktdeval.masking.names.ordinary_words import listed_words
from ktdeval.masking.text_normalisation import TextViews, around_digits

_REACH = 32  # maximum characters by which a date can extend a number on either side
_HINTS = tuple(dict.fromkeys(rule.hints for rule in RULES))
_KINDS = tuple(_HINTS.index(rule.hints) for rule in RULES)


def find_free_dates(
    text: str, shape: TextViews, is_code: Callable[[str], bool], in_document: bool
) -> Iterator[Span]:
    """Return the spans of dates that the rules for free text find in a normalised text of this
    shape; spans may overlap. `is_code`: returns whether six digits are a security code instead.
    `in_document`: whether to include events, and quarters and halves without a year.
    """
    found = set(shape.words)
    yield from _by_rules(text, shape, found, in_document)

    if b"000000" in shape.runs:
        for match in SIX_DIGITS.finditer(text):
            if not is_code(match[0]) and not is_amount(text, *match.span()):
                yield match.span()

    if in_document:
        yield from _events(text)

    yield from _chinese(text, in_document)
    words = (word.decode() for word in found)
    yield from (
        (start, end) for start, end, _ in find_named(text, name_hints().intersection(words))
    )


def _by_rules(
    text: str, shape: TextViews, words: Collection[bytes], in_document: bool
) -> Iterator[Span]:
    rules = [rule for rule in _possible(text, shape, words) if rule.in_answers or in_document]
    spans = around_digits(text, _REACH) if rules else ()
    for start, end in spans:
        for rule in rules:
            for match in rule.pattern.finditer(text, start, end):
                is_number = is_amount(text, *_last_number(match)) or (
                    rule.is_slashed and _is_ratio(text, match.start())
                )
                if not is_number:
                    yield match.span()

    for rule in IN_WORDS:
        is_possible = not rule.hints.words.isdisjoint(words)
        if is_possible and (rule.in_answers or in_document):
            yield from (match.span() for match in rule.pattern.finditer(text))


def _events(text: str) -> Iterator[Span]:
    """Yield words that end in the last two digits of a year (`WWDC25`), unless they are names with
    a number (`COVID19`, `DAX30`).
    """
    for match in EVENT_YEAR.finditer(text):
        name = EVENT_NAME.search(text, max(0, match.start() - _REACH), match.start())
        if name is None or name["word"].lower() in listed_words("with number"):
            continue

        start = name.start()
        is_event = bool(name["tag"]) or not name["word"].isupper()
        if is_event or BEFORE_EVENT.search(text, max(0, start - _REACH), start):
            yield start, match.end()


def _chinese(text: str, in_document: bool) -> Iterator[Span]:
    if text.isascii():
        return

    patterns = CHINESE_KINDS["Chinese text"]
    if in_document:
        patterns = (*patterns, *CHINESE_KINDS["Chinese document"])
    for needed, pattern in patterns:
        if needed in text:
            yield from (match.span() for match in pattern.finditer(text))


def _possible(text: str, shape: TextViews, words: Collection[bytes]) -> Sequence[DateRule]:
    """Return the rules whose patterns may match in a text with these words."""
    if not text.isascii():  # other letters may be normalised to these words
        return RULES

    beginnings = first_letters(words)
    allowed = [hints.allow(words, beginnings, shape) for hints in _HINTS]
    return [rule for kind, rule in zip(_KINDS, RULES, strict=True) if allowed[kind]]


def _is_ratio(text: str, start: int) -> bool:
    """Return whether a word before two numbers separated by a slash shows that they are
    not a day.
    """
    return BEFORE_RATIO.search(text, max(0, start - len("version ") - 1), start) is not None


def _last_number(match: re.Match[str]) -> Span:
    """Return the number at the end of a match. The number is an amount if a unit follows it (`Q1 20
    shares`).
    """
    start = match.end()
    while start > match.start() and match[0][start - match.start() - 1].isdigit():
        start -= 1
    return start, match.end()
