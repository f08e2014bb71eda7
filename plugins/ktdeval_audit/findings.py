"""Findings of an audit, and the excerpts that they quote."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Literal

from ktdeval.cards import clean
from ktdeval.secrets import REDACTED, hide_secrets, secret_forms, secrets_of
from ktdeval.values import Finding
from ktdeval_audit.log_types import LoggedDecision, LogText

Rule = Literal[
    "date-after",
    "price-after",
    "event-after",
    "identity",
    "cutoff",
    "hindsight-words",
    "same-bar",
]
RULES: Mapping[Rule, str] = {
    "date-after": "A prompt or tool result names a date after the day of the decision.",
    "price-after": "A prompt or tool result contains prices that were not known on the day.",
    "event-after": "A prompt or tool result quotes a document that appeared after the day.",
    "identity": "A text under a mask names a stock, a company or a date.",
    "cutoff": "The decisions lie within the period of the model's training data.",
    "hindsight-words": "A reason mentions later outcomes.",
    "same-bar": "A decision was filled at a price of a bar that it had already seen.",
}
_AROUND = 50  # number of characters in an excerpt before and after a span
_WIDE = 400  # number of characters searched for a secret
_LONGEST = 60


def path_of(finding: Finding, log: str) -> str:
    """Return the path of the file that contains a finding. `log`: path of the audited log."""
    return f"{log.rstrip('/')}/{finding.path}" if finding.path else log


def excerpt(text: str, start: int, end: int) -> str:
    """Return the text around a span on one line, with secrets replaced."""
    hit = text[start : min(end, start + _LONGEST)]
    first = max(0, start - _WIDE)
    wide = text[first : end + _WIDE]
    hidden = hide(wide)
    offset = start - first
    if hidden != wide:
        offset = hidden.find(hit)
        if offset < 0:
            return REDACTED

    begin = max(0, offset - _AROUND)
    stop = offset + len(hit) + _AROUND
    words = " ".join(clean(hidden[begin:stop]).split())
    before = "…" if begin or first else ""
    after = "…" if stop < len(hidden) else ""
    return f"{before}{words}{after}"


def hide(text: str) -> str:
    """Return a text with secrets replaced: those in the environment and those of known forms."""
    hidden = hide_secrets(text, _own_secrets())
    for form in secret_forms():
        hidden = form.pattern.sub(form.replacement, hidden)
    return hidden


@cache
def _own_secrets() -> Mapping[str, str]:
    return secrets_of(os.environ)


def place_of(decision: LoggedDecision, text: LogText) -> str:
    """Return a text's place within its decision, without the decision's name."""
    if text.place.startswith(decision.name):
        return text.place.removeprefix(decision.name).lstrip("/ ") or text.place
    return text.place
