"""Classify a later date by the words around it: either its outcome was known, or the date was only
planned.

Settlement dates, expiries, scheduled meetings, forecasts and contract names are known in advance.
Closing prices, message timestamps and events in the past tense are not. The word lists are
`known_words.txt`, `planned_words.txt` and `event_words.txt`. The class is determined by the listed
words that are nearest to the date in its sentence. Before that, a verb of `reported_words.txt` with
the date as its adverb decides: `reported on DATE, beating the consensus` was known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from ktdeval_audit.reported_dates import MARK, reported_at

Evidence = Literal["known", "planned", "none"]

_LONGEST = 240  # maximum number of characters of a sentence before the date, and after it
REACH = 250  #: maximum number of characters between a date and the words that describe it
_BREAK_COST = 20  # characters that a clause break adds to the distance
# characters added for a cue after the date, as in `closed on DATE despite the expected`
_BEHIND_COST = 10
_HEADING_REACH = 800  # number of characters before a date that are searched for a heading
_HEADING_LENGTH = 80
_MAX_SENTENCES = 4096
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_ABBREVIATIONS = (
    rf"{_MONTHS}|sept|mon|tues?|wed|thu(?:rs?)?|fri|sat|sun|"
    "vs|inc|corp|co|ltd|no|st|mr|mrs|dr|est|approx|avg|vol|[a-z]"
)
_NEXT_SENTENCE = r"(?-i:[A-Z0-9\"'(\[*$])"
_END = re.compile(
    rf"\b(?:{_ABBREVIATIONS})\."
    rf"|(?P<end>[.!?](?=[\s\"')\]*]+{_NEXT_SENTENCE}|\"\s?[,}}\]])|[。!?{{}}]"
    rf"|;(?!\s?(?:[0-9{MARK}]|{_MONTHS}))| \| |\n(?![a-z]))",
    re.IGNORECASE,
)
_BREAK = re.compile(
    r",\s|[,、|()—–]|\s-\s|:\s|\b(?:and|but|while|which|whose|because|so that|after which)\b",
    re.IGNORECASE,
)
_FUTURE = re.compile(
    r"\b(?:(?:will|shall|would|could|might|must|should|can|won't|cannot|(?-i:may))(?! have\b)"
    r"|(?:going|about|set|due|expected|scheduled|slated|poised|planned|likely|supposed) to"
    r"|(?:is|are|was|were|has|have|needs?) to|to be|set for)\b"
    rf"(?: (?:not|also|then|be|\w+ly))*(?: (?!{MARK})\w+)?",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    rf"{_BREAK.pattern}|\b(?:after|since|when|as|that|who|what|than|given|following)\b"
    r"|(?-i:\n(?=[A-Z]))",
    re.IGNORECASE,
)
_NO_SUBJECT = r"(?<!the )(?<!of )(?<!in )(?<!their )"
_PRESENT = re.compile(  # verb forms
    rf"{_NO_SUBJECT}\b(?!(?:this|its|is|was|has|as|us|news)\b)[a-z]{{2,}}s(?<!ss)"
    r" (?:its|the|a|an|to|on|in|from|for|their|his|her|up|off|out)\b"
    rf"[^.;]*{MARK}"
    r"|\b(?:land|go|vote|meet|fall|come|begin|start|report|settle|expire|follow|return)"
    rf" (?:on|in|from|to)\b[^.;]*{MARK}"
)
_AT_AN_EVENT = re.compile(r"\b(?:at|during|after|following)\b[^.,;]{0,40}\Z", re.IGNORECASE)
_COMPLETED = re.compile(
    rf"\b(?:ended|closed|finished|wrapped up|closed out|capped)(?: out| off)? (?:the )?{MARK}"
    rf"|{MARK} (?:ended|closed|finished) (?:with|up|down|higher|lower|flat|in|at|as)\b"
    rf"|{MARK} turned out\b"
    rf"|\bin review\b.*{MARK}|\bend of {MARK}.*\bhad\b|\bfor all of {MARK}"
    rf"|\b(?:month|quarter|year|half) of {MARK} (?:was|turned out|brought|saw|ended)\b",
    re.IGNORECASE,
)
_PLANNED_HEADING = re.compile(
    r"\b(?:calendar|schedule|upcoming|expir\w+|key dates|timeline|maturit\w+|agenda)\b"
    r"|\b(?:catalysts?|forecasts?)\b|日历|日程|安排|提醒|节点",
    re.IGNORECASE,
)
_LIST_ITEM = re.compile(
    r"[ \t]*[-*+•·0-9.)]{0,3}[ \t]*[*_`]{0,2}\Z"
)  # start of a list item, before a date that begins the sentence


def evidence_of(text: str, start: int, end: int, reach: int = REACH) -> Evidence:
    """Return the evidence in the words around the date at [start, end).

    `reach` is the maximum distance between the words and the date, in characters. A clause break
    adds twenty characters. Example: `evidence_of("due on 2025-08-14", 7, 17)` is `planned`.
    """
    sentence = sentence_around(text, start, end)
    if _is_reported(sentence):
        return "known"

    nearest = _nearest_cue(sentence)
    if nearest is not None and nearest.distance > reach:
        nearest = None

    line = text.rfind("\n", max(0, start - _LONGEST), start) + 1
    is_listed = _LIST_ITEM.match(text, line, start) is not None
    if (nearest is None or is_listed) and _has_planned_heading(text, start):
        return "planned"
    if nearest is None:
        return "planned" if _PRESENT.search(sentence) else "none"
    return "known" if nearest.is_known else "planned"


def is_completed(text: str, start: int, end: int) -> bool:
    """Return whether the words around a period, which has not yet ended, say that the period is
    over.

    Example: `is_completed("The index ended 2024 with a gain", 16, 20)` is True.
    """
    return _COMPLETED.search(sentence_around(text, start, end)) is not None


def sentence_around(text: str, start: int, end: int) -> str:
    """Return the sentence around a date, with a mark in place of the date."""
    before = text[max(0, start - _LONGEST) : start]
    after = text[end : end + _LONGEST]
    for match in _END.finditer(before + MARK):
        if match["end"]:
            cut = match.end()
            before = " " * cut + before[cut:]

    for match in _END.finditer(after):
        if match["end"]:
            after = after[: match.start()]
            break
    return f"{before}{MARK}{after}"


@dataclass(frozen=True, order=True)
class _Cue:
    """Words that classify a date. The smallest cue in sort order determines the class."""

    distance: int  #: 0 if the words include the date
    length: int  #: negative length, so that the longest cue sorts first
    is_known: bool


@lru_cache(_MAX_SENTENCES)
def _nearest_cue(sentence: str) -> _Cue | None:
    return min(_cues_by_distance(sentence), default=None)


def _cues_by_distance(sentence: str) -> Iterator[_Cue]:
    """Yield the cues in a sentence. If cues overlap, yield only the longest."""
    at = sentence.index(MARK)
    futures = [match.span() for match in _FUTURE.finditer(sentence)]
    spans = [(*span, "planned") for span in futures]
    for kind, cue in _cues():
        for match in cue.finditer(sentence):
            if kind != "known" or not _is_governed(sentence, match.start(), futures, at):
                spans.append((*match.span(), kind))

    happens = any(kind == "known" and start > at for start, _, kind in spans)
    for start, end, kind in spans:
        if kind == "event" and (happens or _AT_AN_EVENT.search(sentence, 0, start)):
            continue
        if any(_covers(other, (start, end), at) for other in spans):
            continue

        yield _Cue(_distance(sentence, start, end, at), start - end, kind == "known")


@lru_cache(_MAX_SENTENCES)
def _is_reported(sentence: str) -> bool:
    """Return whether a verb in the past tense, which belongs to no future tense, has the date as
    its adverb.
    """
    at = sentence.index(MARK)
    futures = [match.span() for match in _FUTURE.finditer(sentence)]
    return any(not _is_governed(sentence, start, futures, at) for start in reported_at(sentence))


def _is_governed(sentence: str, start: int, futures: Sequence[tuple[int, int]], at: int) -> bool:
    """Return whether a cue before the date belongs to a verb in the future tense, such as `will be
    released`.
    """
    for first, last in futures:
        is_behind = first <= start <= at
        if is_behind and _CLAUSE.search(sentence, last, max(last, start) + 1) is None:
            return True
    return False


def _distance(sentence: str, start: int, end: int, at: int) -> int:
    """Return the number of characters between a cue and the date. Each clause break between them
    adds to the distance.
    """
    if start <= at < end:
        return 0

    between = sentence[end:at] if end <= at else sentence[at + 1 : start]
    behind = _BEHIND_COST if start > at else 0
    return 1 + len(between) + _BREAK_COST * len(_BREAK.findall(between)) + behind


def _covers(other: tuple[int, int, str], span: tuple[int, int], at: int) -> bool:
    """Return whether another cue overlaps a cue's span and is longer.

    If the span includes the date, the other cue must also include the date.
    """
    if span[0] <= at < span[1] and not other[0] <= at < other[1]:
        return False
    overlaps = other[0] < span[1] and span[0] < other[1]
    return overlaps and other[1] - other[0] > span[1] - span[0]


@cache
def _cues() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the patterns in all word lists, each with the name of its list."""
    cues = []
    for kind in ("planned", "event", "known"):
        path = Path(__file__).with_name(f"{kind}_words.txt")
        for line in path.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                cues.append((kind, re.compile(line.replace("DATE", MARK), re.IGNORECASE)))
    return tuple(cues)


def _has_planned_heading(text: str, start: int) -> bool:
    """Return whether the date is in a calendar. This is the case if a short line above the date, or
    the start of the date's line, is the title of a calendar.
    """
    block = text[max(0, start - _HEADING_REACH) : start].rpartition("\n\n")[2]
    *lines, own = block.split("\n")
    title, colon, _ = own.partition(":")
    if colon:
        lines.append(title)
    return any(
        len(line) <= _HEADING_LENGTH and _PLANNED_HEADING.search(line) is not None for line in lines
    )
