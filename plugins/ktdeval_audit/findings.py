"""Findings of an audit, and the excerpts quoted in them."""

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
    "later-run",
]
RULES: Mapping[Rule, str] = {
    "date-after": "A prompt or tool result names a date after the day of the decision.",
    "price-after": "A prompt or tool result contains prices that were not known on the day.",
    "event-after": "A prompt or tool result quotes a document that appeared after the day.",
    "identity": "A text under a mask names a stock, a company or a date.",
    "cutoff": "The decisions lie within the period of the model's training data.",
    "hindsight-words": "A reason mentions later outcomes.",
    "same-bar": "A decision was filled at a price of a bar that it had already seen.",
    "later-run": "A service's error text shows that the agent was run after the day.",
}
_AROUND = 50  # number of characters before and after a span in an excerpt
_WIDE = 400  # number of characters before and after a span that are searched for secrets
_LONGEST = 60


def path_of(finding: Finding, log: str) -> str:
    """Return the path of the file that contains a finding. `log` is the path of the audited log."""
    return f"{log.rstrip('/')}/{finding.path}" if finding.path else log


def excerpt(text: str, start: int, end: int) -> str:
    """Return a span with the text around it on one line. Secrets are replaced."""
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
    """Return a text in which secrets are replaced: those in the environment, and those with a known
    format.
    """
    hidden = hide_secrets(text, _own_secrets())
    for form in secret_forms():
        hidden = form.pattern.sub(form.replacement, hidden)
    return hidden


@cache
def _own_secrets() -> Mapping[str, str]:
    return secrets_of(os.environ)


def place_of(decision: LoggedDecision, text: LogText) -> str:
    """Return the place of a text within its decision, without the name of the decision."""
    if text.place.startswith(decision.name):
        return text.place.removeprefix(decision.name).lstrip("/ ") or text.place
    return text.place
