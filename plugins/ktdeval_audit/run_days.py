"""Days that a service's error text names: they date the run, and show the agent nothing.

`'start_time' must be on or after 2025-10-30` in a decision of 2 October was answered after that
day: the log was made in a backtest. What the agent was shown is another question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from ktdeval.cards import clean, count
from ktdeval.values import Finding
from ktdeval_audit.date_evidence import sentence_around
from ktdeval_audit.decision_days import DatedText
from ktdeval_audit.findings import excerpt
from ktdeval_audit.named_dates import named_dates
from ktdeval_audit.reported_dates import MARK

_PARAMETER = r"(?:\\?['\"`]\w+\\?['\"`]|\w+_\w+|(?:start|end|from|to|since|until)(?:time|date)?)"
_BOUND = re.compile(
    rf"(?<!\w){_PARAMETER}(?: parameters?| values?| times?)? must be (?:\w+ ){{0,6}}{MARK}",
    re.IGNORECASE,
)
_ERROR = re.compile(r"\\?\"error\w*\\?\"\s?:\s?\\?\"[^\"]*\Z")  # an open string of a key `error`
_ERROR_REACH = 600  # number of characters before a date that are searched for its key
_REFUSED = re.compile(
    rf"\bInvalid \\?['\"`]?\w+\\?['\"`]?[^.]{{0,40}}{MARK}"
    rf"|\b(?:[A-Z]\w+Error|[A-Z]\w+Exception|HTTP [45][0-9]{{2}}|Error code: [45][0-9]{{2}})\b"
    rf"[^.]{{0,120}}{MARK}"
)


def is_bound(text: str, start: int, end: int) -> bool:
    """Return whether a date at [start, end) is the bound that a service sets to a parameter.

    Example: it is in `'start_time' must be on or after 2025-10-30T00:00Z`.
    """
    return "must be" in text and _BOUND.search(sentence_around(text, start, end)) is not None


def is_refused(text: str, start: int, end: int) -> bool:
    """Return whether a date at [start, end) is in a service's error text."""
    if _ERROR.search(text[max(0, start - _ERROR_REACH) : start]) is not None:
        return True
    return _REFUSED.search(sentence_around(text, start, end)) is not None


def later_run(texts: Sequence[DatedText]) -> Finding | None:
    """Return one note on all bounds of services that are after the day of their decision."""
    found: list[tuple[date, DatedText, str]] = []
    for dated in texts:
        text = dated.text.text
        if dated.text.role == "reply" or "must be" not in text:
            continue
        for named in named_dates(text):
            is_later = named.unit == "day" and named.first > dated.day
            if is_later and is_bound(text, named.start, named.end):
                found.append((named.first, dated, excerpt(text, named.start, named.end)))

    if not found:
        return None

    days = sorted(day for day, _, _ in found)
    decisions = {(id(dated.decision), dated.day) for _, dated, _ in found}
    span = str(days[0]) if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    _, first, example = found[0]
    return Finding(
        rule="later-run",
        level="note",
        path=clean(first.decision.file),
        part=clean(first.decision.name),
        day=str(first.day),
        count=len(found),
        examples=(example,),
        message=(
            f"services refused times with bounds of {span}, after the days of "
            f"{count(len(decisions), 'decision')}: they were made later than their days, in a "
            "backtest; this says when the agent was run, not what it was shown"
        ),
        fix="call the run a backtest; a model trained after these days may remember them",
    )
