"""Rules that read one text at a time: dates after the day, identities, words of hindsight."""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

from ktdeval.cards import clean
from ktdeval.market import NO_MARKET, MarketSnapshot
from ktdeval.masking import IdentityIndex, identities_of, normalise
from ktdeval_audit.decision_days import DatedText
from ktdeval_audit.findings import Finding, Level, excerpt, place_of
from ktdeval_audit.named_dates import NamedDate, named_dates

Masked = Literal["names", "dates", "both"]
MASKED: tuple[Masked, ...] = ("names", "dates", "both")

_BEFORE = 70  # characters before a date that may say it is scheduled
_AFTER = 40
_SCHEDULED = re.compile(
    r"\b(?:will|shall|scheduled|upcoming|next|due|expir\w+|matur\w+|forecast\w*|guidance|outlook|"
    r"expect\w*|projected|estimated?|plans? to|planned|calendar|deadline|ex-date|payable|execute\w*|"
    r"until|by the end of|through)(?![a-z])|next_|expir|matur|upcoming|scheduled|预计|将于|即将|到期|截至",
    re.IGNORECASE,
)
_HAPPENED = re.compile(
    r"\b(?:closed|rose|fell|rallied|dropped|gained|lost|jumped|plunged|surged|soared|beat|missed|"
    r"reported|announced|ended|crashed|traded|returned)\b|\"(?:close|open|high|low|price)\w*\" ?:",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?。!?\n](?:\s|$)")
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/]{12,400}={0,2}(?![A-Za-z0-9+/=_-])")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-f]{2}){6,200}(?![0-9A-Za-z])", re.IGNORECASE)
_ESCAPES = re.compile(r"\\u([0-9a-fA-F]{4})")
_PRINTABLE = re.compile(r"[\w\s.,:;/'&()%$#@!?+-]{4,}")
_MOST_HITS = 20  # findings of one rule in one text


# ---- dates


def later_dates(dated: DatedText) -> Iterator[Finding]:
    """Yield a finding for each date after the day of the decision.

    In prompts and tool results a full date, month or quarter is an error, a bare year a warning;
    what is scheduled is a note. A model's own text may plan, so there it is a warning at most.
    """
    seen: set[str] = set()
    for where, text in _readings(dated.text.text):
        for named in named_dates(text):
            spelled = normalise(text[named.start : named.end])
            if named.first <= dated.day or spelled in seen or len(seen) >= _MOST_HITS:
                continue

            seen.add(spelled)
            level = _date_level(dated, text, named)
            if level is not None:
                yield _date_finding(dated, named, level, where)


def _date_level(dated: DatedText, text: str, named: NamedDate) -> Level | None:
    scheduled = _is_scheduled(text, named)
    if dated.text.role == "reply":
        return None if scheduled else "warning"
    if scheduled:
        return "note"
    return "warning" if named.unit == "year" else "error"


def _is_scheduled(text: str, named: NamedDate) -> bool:
    """Whether words around a date say that it is planned, and none that it has happened."""
    before = text[max(0, named.start - _BEFORE) : named.start]
    ends = list(_SENTENCE_END.finditer(before))
    if ends:
        before = before[ends[-1].end() :]

    after = text[named.end : named.end + _AFTER]
    end = _SENTENCE_END.search(after)
    if end is not None:
        after = after[: end.start()]

    if _HAPPENED.search(before) or _HAPPENED.search(after):
        return False
    return bool(_SCHEDULED.search(before) or _SCHEDULED.search(after))


def _date_finding(
    dated: DatedText, named: NamedDate, level: Level, where: tuple[int, int] | None
) -> Finding:
    whose = {"prompt": "the prompt", "tool": "a tool result", "reply": "the model's text"}
    days = (named.first - dated.day).days
    period = f"the day {named.first}"
    if named.unit != "day":
        period = f"a {named.unit} that begins {named.first}"

    what = f"{whose[dated.text.role]} names {period}"
    why = f"{what}, {days} days after the day of the decision, {dated.day}"
    if level == "note":
        why += "; the words around it say that it was scheduled"
    return finding_at(
        dated,
        where or (named.start, named.end),
        ("date-after", level),
        (why, "cut what the agent is shown at the day of the decision"),
    )


def finding_at(
    dated: DatedText, span: tuple[int, int], kind: tuple[str, Level], words: tuple[str, str]
) -> Finding:
    """Return a finding on a span of a text. `kind`: rule and level; `words`: why and fix."""
    return Finding(
        rule=kind[0],  # type: ignore[arg-type]  # callers name a rule
        level=kind[1],
        decision=clean(dated.decision.name),
        place=clean(place_of(dated.decision, dated.text)),
        line=dated.text.line,
        day=str(dated.day),
        excerpt=excerpt(dated.text.text, *span),
        why=words[0],
        fix=words[1],
    )


# ---- identities


def mask_index(market: MarketSnapshot | None, masked: Masked) -> IdentityIndex:
    """Return the index of what a claimed mask hides."""
    return identities_of(
        market or NO_MARKET, assets=masked in ("names", "both"), dates=masked in ("dates", "both")
    )


def identities(dated: DatedText, index: IdentityIndex) -> Iterator[Finding]:
    """Yield a finding for each hidden identity in a text, also in base64, hex and escapes."""
    scope: Literal["prompt", "answer"] = "answer" if dated.text.role == "reply" else "prompt"
    seen: set[str] = set()
    for where, text in _readings(dated.text.text):
        for hit in index.find(text, scope):
            word = text[hit.start : hit.end]
            if word in seen or len(seen) >= _MOST_HITS:
                continue

            seen.add(word)
            span = where or (hit.start, hit.end)
            encoded = f" (encoded: {clean(word)[:40]!r})" if where else ""
            yield finding_at(
                dated,
                span,
                ("identity", "error"),
                (
                    f"holds a {hit.kind}{encoded}, which the mask hides",
                    "replace it by its handle before the text is sent",
                ),
            )


def _readings(text: str) -> Iterator[tuple[tuple[int, int] | None, str]]:
    """Yield a text, and what it holds in encodings, each with its span."""
    yield None, text
    for match in _BASE64.finditer(text):
        decoded = _decoded(match[0])
        if decoded:
            yield match.span(), decoded

    for match in _HEX.finditer(text):
        decoded = _as_words(bytes.fromhex(match[0]))
        if decoded:
            yield match.span(), decoded

    respelled = html.unescape(_ESCAPES.sub(lambda each: chr(int(each[1], 16)), text))
    if respelled != text:
        yield (0, min(len(text), 1)), respelled


def _decoded(spelled: str) -> str:
    try:
        return _as_words(base64.b64decode(spelled + "=" * (-len(spelled) % 4)))
    except (binascii.Error, ValueError):
        return ""


def _as_words(data: bytes) -> str:
    """Return bytes as text where they are one; empty for others."""
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
    """Yield a finding for each phrase in a model's text that speaks of later outcomes."""
    if dated.text.role != "reply":
        return

    for match in _hindsight_pattern().finditer(dated.text.text):
        yield finding_at(
            dated,
            match.span(),
            ("hindsight-words", "warning"),
            (
                "the reason mentions what happened later, which the model can only remember",
                "test the model on days after its training data, or behind a mask",
            ),
        )
