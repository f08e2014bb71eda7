"""Alternative forms for parts of a request, and the forms that a server accepts, as learnt from its
refusals.

A server may accept a reply schema only in another form, or not at all. If it refuses one form, the
next form is sent at once. This is not a retry, since nothing was generated. The accepted form is
remembered for the run. The run's own parameters, such as the temperature, are never changed this
way: if a server refuses one, the run stops.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence

from ktdeval.calls import ProviderRefusal, is_reply_limit
from ktdeval.errors import ModelError, ProviderError

SCHEMA = "json_schema"
OBJECT_WITH_SCHEMA = "json_object with schema"
OBJECT = "json_object"
FREE = "left out"
SENT = "sent"
EMPTY = "empty"
SCHEMA_FORMS = (SCHEMA, OBJECT_WITH_SCHEMA, OBJECT, FREE)

_REFUSED = frozenset((400, 404, 415, 422, 500, 501))
_REFUSING_WORDS = re.compile(
    r"support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|not available|not"
    r" implemented|invalid"
    r"|must be|should"
    r" be|expected|only|require|missing|no attribute|undefined|literal_error|extra|deprecated"
    r"|failed|unable|can'?t|cannot",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(r"context|too (long|large|many)|exceed|at most|maximum", re.IGNORECASE)
_NAMES: Mapping[str, re.Pattern[str]] = {
    "strict": re.compile(r"\bstrict\b", re.IGNORECASE),
    "response_format": re.compile(
        r"response[_ ]?format|json[_ ]?(schema|object|mode)|structured[_"
        r" ]?output|guided|grammar|text\.format",
        re.IGNORECASE,
    ),
    "tool_choice": re.compile(r"tool[_ ]?choice", re.IGNORECASE),
    "include": re.compile(r"\binclude\b|encrypted[_ ]content", re.IGNORECASE),
    "parallel_tool_calls": re.compile(r"parallel_tool_calls", re.IGNORECASE),
    "length": re.compile(r"\bmax_(completion_)?tokens\b", re.IGNORECASE),
    # does not match if the fields are reported missing, since the next form has even fewer
    "thoughts": re.compile(
        r"^(?!.*(missing|passed back)).*(\breasoning_(content|details)\b|['\"`]reasoning['\"`])",
        re.IGNORECASE | re.DOTALL,
    ),
    # matches the field, not the word, since refusals by a filter mention content, too
    "content of calls": re.compile(
        r"['\"`]content['\"`]|\bmessages\W{1,4}[0-9]+\W{1,4}content\b", re.IGNORECASE
    ),
}
"""Patterns by which a refusal identifies a part of the request; the smallest part comes first."""


class RequestForms:
    """Forms that one model at one endpoint accepts. Each part of a request has a list of forms,
    best first. Thread-safe.
    """

    def __init__(self, ladders: Mapping[str, Sequence[str]]) -> None:
        self._ladders = ladders
        self._lock = threading.Lock()
        self._known = {part: forms[0] for part, forms in ladders.items() if forms}

    def current(self) -> dict[str, str]:
        """Return the form of each part that the server is known to accept, otherwise the best form."""
        with self._lock:
            return dict(self._known)

    def learn(self, taken: Mapping[str, str]) -> None:
        """Remember the forms of an accepted request."""
        with self._lock:
            self._known |= taken

    def after_refusal(
        self, forms: Mapping[str, str], refusal: ProviderRefusal, sent: Sequence[str]
    ) -> dict[str, str] | None:
        """Return the forms to try next; None if the refusal blames no part, or if the blamed part
        has no other form left.

        `sent`: the parts present in the request.
        """
        part = blamed_part(refusal, sent)
        if part is None:
            return None

        ladder = self._ladders[part]
        index = ladder.index(forms[part]) + 1
        return {**forms, part: ladder[index]} if index < len(ladder) else None

    def notes(self, forms: Mapping[str, str], sent: Sequence[str]) -> tuple[str, ...]:
        """Return notes on the request parts that were not sent in their best form."""
        firsts = {part: self._ladders[part][0] for part in sent}
        changed = [part for part in sent if forms[part] != firsts[part]]
        return tuple(f"{part}: {firsts[part]} was refused, sent {forms[part]}" for part in changed)


def refusing_words(refusal: ProviderRefusal) -> str | None:
    """Return the text with which a server refuses part of the request; None if neither status nor
    text indicates such a refusal.
    """
    if refusal.status not in _REFUSED:
        return None

    words = f"{refusal.parameter or ''} {refusal.message}"
    if _REFUSING_WORDS.search(words) is None:
        return None
    return words


def blamed_part(refusal: ProviderRefusal, sent: Sequence[str]) -> str | None:
    """Return the part of a request that a refusal blames, among the parts sent.

    A server error (500) counts if it names a part and says that the part is not accepted.
    """
    words = refusing_words(refusal)
    if words is None:
        return None

    for part, names in _NAMES.items():
        if part not in sent or names.search(words) is None:
            continue
        if part == "length" and (_TOO_LONG.search(words) or is_reply_limit(words)):
            return None  # the value is refused, and would be refused under another field name, too

        return part

    return None


def with_tried(
    error: ModelError | ProviderError, tried: Sequence[str]
) -> ModelError | ProviderError:
    """Return the error, with the forms that were tried before it added to its message."""
    if not tried:
        return error

    message = f"{error}; tried {', then '.join(tried)}"
    if isinstance(error, ModelError):
        # Every form was refused, so a retry of the same request would be refused as well.
        return ModelError("bad_request", message, error.retry_after_s)

    return ProviderError(message)
