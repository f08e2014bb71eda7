"""Rules that examine one text at a time: later dates, identities, and words of hindsight."""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Literal

from ktdeval.cards import clean, count
from ktdeval.market import NO_MARKET, MarketSnapshot
from ktdeval.masking import IdentityIndex, identities_of, normalise
from ktdeval.values import LEVELS, Finding, Level
from ktdeval_audit.date_evidence import REACH, Evidence, evidence_of, is_completed
from ktdeval_audit.decision_days import DatedText
from ktdeval_audit.findings import excerpt, place_of
from ktdeval_audit.log_types import Role
from ktdeval_audit.named_dates import DayOfYear, NamedDate, Unit, days_of_year, named_dates
from ktdeval_audit.run_days import is_bound, is_refused

Masked = Literal["names", "dates", "both"]
MASKED: tuple[Masked, ...] = ("names", "dates", "both")

_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/]{12,400}={0,2}(?![A-Za-z0-9+/=_-])")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-f]{2}){6,200}(?![0-9A-Za-z])", re.IGNORECASE)
_ESCAPES = re.compile(r"\\u([0-9a-fA-F]{4})")
_PRINTABLE = re.compile(r"[\w\s.,:;/'&()%$#@!?+-]{4,}")
_MAX_HITS = 20  # maximum number of findings per rule and text
_NEAR = 366  # maximum number of days by which a date without evidence can be ahead
# number of characters searched around a month, quarter or year; this is less than for a day,
# because longer periods are often mentioned in plans
_REACH_OF_PERIOD = 40
_CONTEXT = 120  # number of characters searched before a day without a year
_BESIDE = 25
_LAST_YEAR = re.compile(
    r"\b(?:last|previous|prior|that) year|year (?:ago|earlier)|去年|上年|同年", re.I
)
_COMPANY = re.compile(
    r"\b(?:revenues?|earnings|EPS|results?|guidance|outlook|sales|margins?|profits?|net income"
    r"|bookings|orders|deliver(?:y|ies)|shipments|subscribers|dividends?|buybacks?|report(?:s|ed)?"
    r"|Inc|Corp|plc|Ltd|AG|NV|SE)\b|\$[A-Z]{1,5}\b|净利|营收|财报|季报|业绩",
    re.IGNORECASE,
)
_SOON = 31  # within this number of days, a date without a year rarely belongs to a different year


# ---- dates

_WHOSE = {"prompt": "the prompt", "tool": "a tool result", "reply": "the model's text"}


def later_dates(dated: DatedText) -> Iterator[Finding]:
    """Yield a finding for each date after the day of the decision.

    The levels for dates in prompts and tool results are as follows. If the outcome was known, a
    day, a week or a month is an error. A longer period is only a warning, because fiscal years
    differ. A date without a year is an error if it is near, and a warning otherwise. Without
    evidence, a day or a week is an error if it is near; all other dates are notes. A date that was
    only planned is a note.

    A bound in a service's error text says when the agent was run (`run_days.py`): no finding here.
    Another date in such a text is a note.

    A model's own text can contain plans, so it only gets a warning, for dates whose outcome was
    known.
    """
    seen: dict[Level, set[str]] = {level: set() for level in LEVELS}
    for where, text in _readings(dated.text.text):
        for later in _later(text, dated.day):
            level = _date_level(dated.text.role, later, dated.day)
            if level is None:
                continue

            spelled = normalise(text[later.start : later.end])
            if spelled not in seen[level] and len(seen[level]) < _MAX_HITS:
                seen[level].add(spelled)
                yield _date_finding(dated, later, level, where)
            if len(seen["error"]) == _MAX_HITS:
                return


@dataclass(frozen=True)
class _LaterDate:
    """A date in a text that is after the day of the decision."""

    start: int
    end: int
    day: date  #: first day of the period; if the text says that the period is over, its last day
    unit: Unit
    evidence: Evidence
    has_year: bool = True
    is_over: bool = False
    is_refused: bool = False  #: whether it is in a service's error text

    def days_after(self, decided: date) -> int:
        """Return the number of days from the day of the decision to the date."""
        return (self.day - decided).days


def _later(text: str, day: date) -> Iterator[_LaterDate]:
    """Yield the dates in a text that are after a given day."""
    for named in named_dates(text):
        first = named.first
        is_fiscal = named.is_fiscal or _is_of_company(text, named)
        if is_fiscal:
            first = first.replace(year=first.year - 1)

        bounds = (named.start, named.end)
        if first > day:
            if is_bound(text, *bounds):
                continue
            reach = REACH if named.unit in ("day", "week") else _REACH_OF_PERIOD
            evidence = evidence_of(text, *bounds, reach)
            yield _LaterDate(
                *bounds,
                first,
                named.unit,
                evidence,
                is_refused=evidence == "none" and is_refused(text, *bounds),
            )
        elif named.last > day and not is_fiscal and is_completed(text, *bounds):
            yield _LaterDate(*bounds, named.last, named.unit, "known", is_over=True)

    for each in days_of_year(text):
        bounds = (each.start, each.end)
        coming = each.soon_after(day)
        if coming is None or _is_of_other_year(text, each, coming.year):
            continue
        if evidence_of(text, *bounds) == "known":
            yield _LaterDate(*bounds, coming, "day", "known", has_year=False)


def _is_of_company(text: str, named: NamedDate) -> bool:
    """Return whether the words around a quarter or half-year make it a company's, whose years begin
    when it likes: NVIDIA's second quarter of 2026 ended in July 2025.
    """
    if named.unit not in ("quarter", "half"):
        return False

    first = max(0, named.start - _CONTEXT)
    before = text[first : named.start].rpartition("\n")[2]
    after = text[named.end : named.end + _CONTEXT].partition("\n")[0]
    return _COMPANY.search(f"{before} {after}") is not None


def _is_of_other_year(text: str, each: DayOfYear, year: int) -> bool:
    """Return whether the words before or next to a day without a year refer to a different year."""
    first = max(0, each.start - _CONTEXT)
    before = text[first : each.start].rpartition("\n")[2]
    years = [named.first.year for named in named_dates(before)]
    if years and years[-1] != year:
        return True

    around = f"{before[-_BESIDE:]}{text[each.start : each.end + _BESIDE]}"
    return _LAST_YEAR.search(around) is not None


def _date_level(role: Role, later: _LaterDate, decided: date) -> Level | None:
    days = later.days_after(decided)
    if role == "reply":
        return "warning" if later.evidence == "known" else None
    if later.evidence == "planned" or later.is_refused:
        return "note"
    if later.evidence == "none":
        is_near = later.unit in ("day", "week") and days <= _NEAR
        return "error" if is_near else "note"

    is_sure = later.unit in ("day", "week", "month")
    if not later.has_year:
        is_sure = days <= _SOON
    return "error" if is_sure else "warning"


def _date_finding(
    dated: DatedText, later: _LaterDate, level: Level, where: tuple[int, int] | None
) -> Finding:
    period = f"the day {later.day}"
    if later.unit != "day":
        edge = "ends" if later.is_over else "begins"
        period = f"a {later.unit} that {edge} {later.day}"

    what = f"{_WHOSE[dated.text.role]} names {period}"
    days = later.days_after(dated.day)
    why = f"{what}, {count(days, 'day')} after the day of the decision, {dated.day}"
    if not later.has_year:
        why += "; it names no year, so the nearest one is assumed"

    fix = "show the agent nothing later than the day of the decision"
    if later.is_refused:
        why += "; it is in a service's error text"
        fix = "nothing to fix if the service only names what it was asked for"
    elif later.evidence == "planned":
        why += "; the surrounding text says that it was planned"
        fix = "nothing to fix if it was already planned on the day of the decision"

    span = where or (later.start, later.end)
    return finding_at(dated, span, ("date-after", level), (why, fix))


def join_declared(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings, with one note for each later day that the prompts of several decisions name
    as planned: the last day of an episode, say, is in all of them.
    """
    declared: dict[str, list[Finding]] = {}
    for finding in findings:
        what, _, _ = finding.message.partition(", ")
        is_note = finding.rule == "date-after" and finding.level == "note"
        if is_note and what.startswith(f"{_WHOSE['prompt']} names"):
            declared.setdefault(what, []).append(finding)
        else:
            yield finding

    for what, notes in declared.items():
        days = sorted(note.day for note in notes)
        decisions = {(note.path, note.part, note.day) for note in notes}
        if len(decisions) == 1:
            yield from notes
            continue

        message = (
            f"{what}, as planned, in {count(len(decisions), 'decision')} of {days[0]} to {days[-1]}"
        )
        yield replace(notes[0], count=len(decisions), message=message)


def finding_at(
    dated: DatedText, span: tuple[int, int], kind: tuple[str, Level], words: tuple[str, str]
) -> Finding:
    """Return a finding for a span in a text. `kind` has the rule and the level, `words` the message
    and the fix.
    """
    return Finding(
        rule=kind[0],
        level=kind[1],
        path=clean(dated.decision.file),
        line=dated.text.line or 0,
        part=clean(dated.decision.name),
        place=clean(place_of(dated.decision, dated.text)),
        day=str(dated.day),
        examples=(excerpt(dated.text.text, *span),),
        message=words[0],
        fix=words[1],
    )


# ---- identities


def mask_index(market: MarketSnapshot | None, masked: Masked) -> IdentityIndex:
    """Return an index of what a mask is claimed to hide."""
    return identities_of(
        market or NO_MARKET, assets=masked in ("names", "both"), dates=masked in ("dates", "both")
    )


def identities(dated: DatedText, index: IdentityIndex) -> Iterator[Finding]:
    """Yield a finding for each hidden identity in a text, including identities in base64,
    hexadecimal or escapes.
    """
    scope: Literal["prompt", "answer"] = "answer" if dated.text.role == "reply" else "prompt"
    seen: set[str] = set()
    for where, text in _readings(dated.text.text):
        for hit in index.find(text, scope):
            word = text[hit.start : hit.end]
            if word in seen or len(seen) >= _MAX_HITS:
                continue

            seen.add(word)
            span = where or (hit.start, hit.end)
            encoded = f" (encoded: {clean(word)[:40]!r})" if where else ""
            yield finding_at(
                dated,
                span,
                ("identity", "error"),
                (
                    f"contains a {hit.kind}{encoded}, which the mask hides",
                    "replace it with its handle before sending the text",
                ),
            )


def _readings(text: str) -> Iterator[tuple[tuple[int, int] | None, str]]:
    """Yield a text, and the texts decoded from it, each with the span of the encoded part."""
    yield None, text
    for match in _BASE64.finditer(text):
        decoded = _decode_spelling(match[0])
        if decoded:
            yield match.span(), decoded

    for match in _HEX.finditer(text):
        decoded = _as_words(bytes.fromhex(match[0]))
        if decoded:
            yield match.span(), decoded

    respelled = html.unescape(_ESCAPES.sub(lambda each: chr(int(each[1], 16)), text))
    if respelled != text:
        yield (0, min(len(text), 1)), respelled


def _decode_spelling(spelled: str) -> str:
    try:
        return _as_words(base64.b64decode(spelled + "=" * (-len(spelled) % 4)))
    except (binascii.Error, ValueError):
        return ""


def _as_words(data: bytes) -> str:
    """Return bytes as text, or an empty string if they are not printable text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    return text if _PRINTABLE.fullmatch(text) else ""


# ---- words of hindsight


@cache
def _hindsight_pattern() -> re.Pattern[str]:
    lines = Path(__file__).with_name("hindsight.txt").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if not line.startswith("#")]
    return re.compile("|".join(patterns), re.IGNORECASE)


def hindsight(dated: DatedText) -> Iterator[Finding]:
    """Yield a finding for each phrase in a model's text that refers to later outcomes."""
    if dated.text.role != "reply":
        return

    for match in _hindsight_pattern().finditer(dated.text.text):
        yield finding_at(
            dated,
            match.span(),
            ("hindsight-words", "warning"),
            (
                "the reason mentions later events, which the model can only know from memory",
                "test the model on days after its training data, or behind a mask",
            ),
        )
