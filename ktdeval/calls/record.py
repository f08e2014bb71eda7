"""One attempt of a model call as it is recorded, and sums over such records."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from ktdeval.calls.replies import reply_bytes, reply_of
from ktdeval.harness.messages import USAGE_FIELDS, Reply, Usage
from ktdeval.harness.text import encodable
from ktdeval.typed import from_plain

ANSWERED = "answered"
CACHED = "cached"
REFUSED = "refused"
"""Outcomes of a call next to the kinds of `ModelError`: answered, taken from the cache, or ended in a `ProviderError`."""

NO_EPISODE = ("canary", "check")
"""Labels of calls that a run makes for itself: its fixed questions, and the check how a model takes tools."""
KEY_DIGITS = 16  #: Digits of a request's key in a record: enough to tell the calls of a run apart


class CallRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attempt of a model call, or one reply taken from the cache."""

    at: str  #: when it ended, ISO 8601 in UTC, such as `2026-01-31T23:59:59.123Z`
    episode: str  #: id of the episode that asked; `canary` or `check` where none did
    key: str  #: the first 16 hexadecimal digits of the request's key
    outcome: str  #: `ANSWERED`, `CACHED`, `REFUSED`, or the kind of the `ModelError` that it ended in
    attempt: int  #: number of the attempt at this call, from 1
    latency_s: float  #: seconds from sending the request to the end of the reply; for a cached reply, of finding it
    usage: Usage | None = None  #: tokens of the reply; None where there is none
    cost_usd: float | None = None  #: what the reply cost in US dollars; None where no price is known or there is no reply
    held_usd: float = 0.0  #: US dollars that may have been billed for an attempt without a reply: what was reserved for it
    served_by: str = ""  #: what the provider says it answered with
    reply: Reply | None = None  #: a reply that no cache keeps, so that a resumed run need not pay for it again; else None

    def to_row(self) -> tuple[Any, ...]:
        """Return the values of `CALL_COLUMNS`. Raises ValueError: a number in it is NaN or infinite."""
        if not all(math.isfinite(number) for number in (self.latency_s, self.cost_usd or 0.0, self.held_usd)):
            raise ValueError(f"a number in the record of a call is not finite: {self!r:.200}")
        usage = (None,) * len(USAGE_FIELDS) if self.usage is None else (getattr(self.usage, name) for name in USAGE_FIELDS)
        reply = None if self.reply is None else reply_bytes(self.reply)
        return (*(getattr(self, name) for name in _PLAIN), encodable(self.served_by), *usage, reply)


_PLAIN = ("at", "episode", "key", "outcome", "attempt", "latency_s", "cost_usd", "held_usd")
CALL_COLUMNS = (*_PLAIN, "served_by", *USAGE_FIELDS, "reply")  #: Columns of the table `calls`, in the order of `CallRecord.to_row`


def record_of(row: tuple[Any, ...], where: str) -> CallRecord:
    """Return the record that `CallRecord.to_row` wrote. Raises StoreError: it is not one; names the field."""
    *plain, reply = row
    values = dict(zip(CALL_COLUMNS, plain))
    counts = {name: values.pop(name) for name in USAGE_FIELDS}
    usage = None if all(count is None for count in counts.values()) else counts
    found = from_plain({**values, "usage": usage}, CallRecord, where)
    return found if reply is None else msgspec.structs.replace(found, reply=reply_of(reply, where))


class Spent(msgspec.Struct, frozen=True):
    """Use of a run's calls so far, those before a resume included. Cached replies count nothing."""

    cost_usd: float = 0.0  #: US dollars of the replies; those without a known price count nothing
    possibly_usd: float = 0.0  #: further US dollars that may have been billed for attempts without a reply
    input_tokens: int = 0  #: tokens of the prompts that were answered
    output_tokens: int = 0  #: tokens of the replies

    def plus(self, record: CallRecord) -> Spent:
        """Return these totals and one more call."""
        if record.outcome == CACHED:
            return self
        usage = record.usage or Usage()
        return Spent(
            self.cost_usd + (record.cost_usd or 0.0),
            self.possibly_usd + record.held_usd,
            self.input_tokens + usage.input_tokens,
            self.output_tokens + usage.output_tokens,
        )
