"""Records of model calls: replies by their request, packed and checked; a record of each attempt; sums of these."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
import zstandard

from ktdeval.calls.tally import ANSWERED, CACHED, REFUSED, tally_calls
from ktdeval.errors import StoreError
from ktdeval.harness.messages import USAGE_FIELDS, CallParams, Message, ModelRequest, RemoteModel, Reply, Usage, encodable
from ktdeval.jsonio import JsonValue, dumps_canonical, loads_strict, sha256_hex
from ktdeval.typed import converted, from_plain, to_plain

__all__ = [
    "ANSWERED",
    "CACHED",
    "CALL_COLUMNS",
    "KEY_DIGITS",
    "NO_EPISODE",
    "REFUSED",
    "REPLY_COLUMNS",
    "CacheEntry",
    "CallRecord",
    "DamagedError",
    "ReplyRow",
    "Spent",
    "call_figures",
    "is_cacheable",
    "pack",
    "record_of",
    "reply_bytes",
    "reply_of",
    "request_key",
    "summarise_calls",
    "unpack",
]  # fmt: skip

_KEY_VERSION = 1  #: Counts up whenever equal keys would no longer mean equal calls: older replies are then not found
_KEY_DIGITS = 64
_NOT_ASKED = frozenset({"timeout_s"})  #: Fields of `CallParams` that say how long to wait, not what to ask
_PARAMS = tuple(field.name for field in fields(CallParams) if field.name not in _NOT_ASKED)
_MOST_REPLY_BYTES = 1 << 28  # what a stored reply may claim to unpack to: that much memory is taken at once
_LEVEL = 3


def request_key(model: RemoteModel, request: ModelRequest) -> str:
    """Return the SHA-256, in hexadecimal digits, of model and request: equal keys mean the very same question.

    Of who asks, what the adapter's `routing` says counts, never its key: another organisation has another key of the cache.
    Parameters that are left to the provider (None) do not count, so a version of ktdeval that adds such a parameter finds what
    earlier ones kept. Raises ValueError for a number that is NaN or infinite, which no provider can be sent.
    """
    params = {name: value for name in _PARAMS if (value := getattr(request.params, name)) is not None}
    who: dict[str, JsonValue] = {"endpoint": model.endpoint}
    if routing := dict(getattr(model, "routing", dict)()):
        who["caller"] = routing
    what: dict[str, JsonValue] = {
        "version": _KEY_VERSION,
        "provider": model.provider,
        "model": model.name,
        "settings": model.settings(),
        "tools": [[tool.name, tool.description, tool.parameters] for tool in request.tools],
        "tool_choice": request.tool_choice,
        "response_schema": request.response_schema,
        "params": params,
    }
    if request.predictions is not None:
        what["predictions"] = dict(request.predictions)
    if request.places is not None:
        what["places"] = dict(request.places)
    # The canonical JSON of all three: by name, the messages come between the two. Most of them were there at the call before.
    messages = ",".join(map(_message_text, request.messages))
    question = f'{dumps_canonical(who)[:-1]},"messages":[{messages}],{dumps_canonical(what)[1:]}'
    # A lone surrogate, which JSON may spell and an agent may quote, must not fail here, and must not equal another text.
    return sha256_hex(question.encode("utf-8", "surrogatepass"))


@lru_cache(maxsize=512)
def _message_text(message: Message) -> str:
    return dumps_canonical(message.to_json())


def is_cacheable(reply: Reply) -> bool:
    """Whether a reply may be given again: truncations, refusals and empty replies are accidents of one call."""
    return reply.finish_reason in ("stop", "tool_calls") and bool(reply.tool_calls or reply.content.strip())


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """Reply with its origin and the hash of its request: prompts may be proprietary. Raises ValueError for malformed fields."""

    key: str  #: of the request, from `request_key`
    provider: str  #: who was asked
    model: str  #: the model's name there
    reply: Reply  #: what came back; `is_cacheable`
    created_at: str  #: when, ISO 8601 in UTC, such as `2026-01-31T23:59:59.123Z`

    def __post_init__(self) -> None:
        if not is_cacheable(self.reply):
            raise ValueError(f"a reply that ended with {self.reply.finish_reason} or is empty is not kept")
        if len(self.key) != _KEY_DIGITS:
            raise ValueError(f"the key {self.key!r:.80} is not a SHA-256 in hexadecimal digits")
        if datetime.fromisoformat(self.created_at).utcoffset() != timedelta(0):
            raise ValueError(f"the time {self.created_at!r} is not in UTC")


class ReplyRow(NamedTuple):
    """A `CacheEntry` as it is stored."""

    key: str
    provider: str
    model: str
    created_at: str
    input_tokens: int
    output_tokens: int
    checksum: bytes
    body: bytes


REPLY_COLUMNS = ReplyRow._fields


class DamagedError(ValueError):
    """A row is not what was stored."""


def reply_bytes(reply: Reply) -> bytes:
    """Return JSON from which a reply comes back exactly, lone surrogates included."""
    return dumps_canonical(reply.to_json()).encode("utf-8", "surrogatepass")


def reply_of(data: bytes, where: str) -> Reply:
    """Return the reply of `reply_bytes`. Raises StoreError: it is not one."""
    try:
        return _decode(data)
    except (ValueError, TypeError, AttributeError, RecursionError, msgspec.ValidationError) as error:
        raise StoreError(f"{where}: not a stored reply: {error}") from error


def pack(entry: CacheEntry) -> ReplyRow:
    """Return the stored form of an entry."""
    usage = entry.reply.usage
    head = (entry.key, entry.provider, entry.model, entry.created_at, usage.input_tokens, usage.output_tokens)
    row = ReplyRow(*head, b"", _compressor().compress(reply_bytes(entry.reply)))
    return row._replace(checksum=_checksum(row))


def unpack(row: ReplyRow) -> CacheEntry:
    """Return the entry that `pack` stored. Raises DamagedError: it was changed; says how."""
    try:
        if _checksum(row) != row.checksum:
            raise DamagedError("its checksum does not match")
        if not 0 <= zstandard.frame_content_size(row.body) <= _MOST_REPLY_BYTES:
            raise DamagedError("its packed form states no size, or more than a reply can have")
        reply = _decode(zstandard.ZstdDecompressor().decompress(row.body))
        entry = CacheEntry(row.key, row.provider, row.model, reply, row.created_at)
    except (ValueError, TypeError, RecursionError, msgspec.ValidationError, zstandard.ZstdError) as error:
        raise DamagedError(str(error) if isinstance(error, DamagedError) else f"not a stored reply: {error}") from error
    usage = entry.reply.usage
    if (usage.input_tokens, usage.output_tokens) != (row.input_tokens, row.output_tokens):
        raise DamagedError("its counts of tokens are not those of the reply")
    return entry


def _decode(data: bytes) -> Reply:
    value = loads_strict(data)
    reply = converted(value, Reply)
    if reply.to_json() != value:
        raise ValueError("it has other fields")
    return reply


def _checksum(row: ReplyRow) -> bytes:
    """SHA-256 over everything else in the row: a body that got under another key is found as well as one that was changed."""
    return sha256(dumps_canonical(row[:6]).encode() + b"\n" + row.body).digest()


_own = threading.local()


def _compressor() -> Any:
    """One compressor for each thread: making one costs more than compressing a reply."""
    if not hasattr(_own, "compressor"):
        _own.compressor = zstandard.ZstdCompressor(level=_LEVEL)
    return _own.compressor


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
    step: int | None = None  #: number of the step that asked; None of a call of no episode
    opening: int = 0  #: how often its episode had been opened by then, from 1: a step that was cut off runs again at a later one
    reply: Reply | None = None  #: a reply that no cache keeps, so that a resumed run need not pay for it again; else None

    def to_row(self) -> tuple[Any, ...]:
        """Return the values of `CALL_COLUMNS`. Raises ValueError: a number in it is NaN or infinite."""
        if not all(math.isfinite(number) for number in (self.latency_s, self.cost_usd or 0.0, self.held_usd)):
            raise ValueError(f"a number in the record of a call is not finite: {self!r:.200}")
        usage = (None,) * len(USAGE_FIELDS) if self.usage is None else (getattr(self.usage, name) for name in USAGE_FIELDS)
        reply = None if self.reply is None else reply_bytes(self.reply)
        return (*(getattr(self, name) for name in _PLAIN), encodable(self.served_by), self.step, self.opening, *usage, reply)


_PLAIN = ("at", "episode", "key", "outcome", "attempt", "latency_s", "cost_usd", "held_usd")
CALL_COLUMNS = (*_PLAIN, "served_by", "step", "opening", *USAGE_FIELDS, "reply")
"""Columns of the table `calls`, in the order of `CallRecord.to_row`."""


def record_of(row: tuple[Any, ...], where: str) -> CallRecord:
    """Return the record that `CallRecord.to_row` wrote. Raises StoreError: it is not one; names the field."""
    *plain, reply = row
    values = dict(zip(CALL_COLUMNS, plain))
    counts = {name: values.pop(name) for name in USAGE_FIELDS}
    usage = None if all(count is None for count in counts.values()) else counts
    record = from_plain({**values, "usage": usage}, CallRecord, where)
    return record if reply is None else msgspec.structs.replace(record, reply=reply_of(reply, where))


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


def summarise_calls(records: Iterable[CallRecord], episodes: Collection[str]) -> dict[str, JsonValue] | None:
    """Return the figures of `call_figures`; None where there is no call of these episodes."""
    figures = call_figures(records, episodes)
    return figures if figures["requests"] else None


def call_figures(records: Iterable[CallRecord], episodes: Collection[str]) -> dict[str, JsonValue]:
    """Figures of the calls of some episodes, all sessions of a run together, as `provenance.calls` of a card has them.

    `checks` holds the calls that serve the whole run. A request that a resumed run asks again is the same request; its answer is
    then given once more from the record.
    """
    own: list[CallRecord] = []
    checks: list[CallRecord] = []
    served: dict[tuple[str, str], str] = {}  # model that answered by request: "" where there is none, or the provider does not say
    for record in records:
        if record.episode in episodes:
            own.append(record)
            served[record.episode, record.key] = record.served_by or served.get((record.episode, record.key), "")
        elif record.episode in NO_EPISODE:
            checks.append(record)
    tallies = tally_calls(own)
    attempts = [record for record in own if record.outcome != CACHED]
    answers = [record for record in attempts if record.outcome == ANSWERED]
    failed = [record for record in attempts if record.outcome != ANSWERED]
    return {
        "requests": len(served),
        "answered": len(answers),
        **{name: sum(getattr(tally, name) for tally in tallies.values()) for name in ("cached", "repeated", "unused")},
        "failed_attempts": dict(sorted(Counter(record.outcome for record in failed).items())),
        "tokens": sum((record.usage or Usage() for record in answers), Usage()).to_json(),
        **_paid(attempts),
        "latency_s": _latencies(sorted(record.latency_s for record in answers)),
        "lost_s": round(math.fsum(record.latency_s for record in failed), 3),
        "served_by": dict(sorted(Counter(filter(None, served.values())).items())),
        "checks": {
            "requests": len({(record.episode, record.key) for record in checks}),
            **_paid([record for record in checks if record.outcome != CACHED]),
        },
        "episodes": {episode: to_plain(tally) for episode, tally in sorted(tallies.items())},
    }


def _paid(attempts: Sequence[CallRecord]) -> dict[str, JsonValue]:
    """Number and US dollars of attempts; None where one cost is not known, for a sum of the others would look like all."""
    costs = [record.cost_usd for record in attempts if record.outcome == ANSWERED]
    known_costs = [cost for cost in costs if cost is not None]
    return {
        "attempts": len(attempts),
        "paid_usd": math.fsum(known_costs) if len(known_costs) == len(costs) else None,
        "possibly_paid_usd": math.fsum(record.held_usd for record in attempts),
    }


def _latencies(ordered_s: Sequence[float]) -> dict[str, float | None]:
    """Percentiles by nearest rank, so that each is the time of a call that was made."""
    shares = {"median": 50, "p90": 90, "p99": 99, "longest": 100}
    if not ordered_s:
        return dict.fromkeys(shares)
    return {name: round(ordered_s[max(math.ceil(share * len(ordered_s) / 100), 1) - 1], 3) for name, share in shares.items()}
