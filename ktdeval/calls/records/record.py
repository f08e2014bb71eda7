"""Records of model calls: cached replies, keyed by request, and a record of each attempt."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
import zstandard

from ktdeval.errors import StoreError
from ktdeval.harness.call_params import TRANSPORT
from ktdeval.harness.chat_messages import (
    USAGE_FIELDS,
    CallParams,
    Message,
    ModelRequest,
    RemoteModel,
    Reply,
    Usage,
    encodable,
)
from ktdeval.harness.traits import model_traits
from ktdeval.values.documents.strict_json import JsonValue, dumps_canonical, loads_strict
from ktdeval.values.documents.typed_json import convert_value, from_plain
from ktdeval.values.hashes import sha256_hex

ANSWERED = "answered"
BATCHED = "batched"
CACHED = "cached"
REFUSED = "refused"
"""Outcomes of a call: answered, answered by the provider's batch interface, taken from the cache, or
ended in a `ProviderError`.

Any other outcome is a kind of `ModelError`.
"""
ANSWERS = frozenset({ANSWERED, BATCHED})  #: outcomes of attempts that the provider answered

#: to be increased when equal keys no longer mean equal calls, so that older replies are not found
_KEY_VERSION = 1
_KEY_DIGITS = 64
# what can't change the answer is not part of the key
_PARAMS = tuple(field.name for field in fields(CallParams) if field.name not in TRANSPORT)
# Maximum unpacked size that a stored reply may state, since that much memory is allocated at once.
_MAX_REPLY_BYTES = 1 << 28
_LEVEL = 3


def routing_of(model: object) -> dict[str, str]:
    """Return the fields, taken from a remote model's traits, that the model sends in addition to
    its settings: organisation, project, route. Empty before `connect`.
    """
    routing = model_traits(model).routing
    if routing is None:
        return {}
    return dict(routing())


def tool_texts(request: ModelRequest) -> tuple[str, ...]:
    """Return each tool in a request as canonical JSON. Raises ValueError if a number is NaN or
    infinite.
    """
    return tuple(
        dumps_canonical([tool.name, tool.description, tool.parameters]) for tool in request.tools
    )


def request_key(
    model: RemoteModel, request: ModelRequest, tools: Sequence[str] | None = None
) -> str:
    """Return the cache key: the SHA-256 of model and request as hexadecimal digits.

    Equal keys mean the same question to the same model. The key includes the adapter's `routing`
    (such as an organisation), but never the API key. Parameters left to the provider (None) are not
    part of it, so that a ktdeval version with an additional parameter still finds older replies.
    `tools` is the output of `tool_texts`, if the caller already has it. Raises ValueError if a
    number is NaN or infinite, which JSON can't express.
    """
    if tools is None:
        tools = tool_texts(request)

    params: dict[str, JsonValue] = {}
    for name in _PARAMS:
        value = getattr(request.params, name)
        if value is not None:
            params[name] = value

    who: dict[str, JsonValue] = {"endpoint": model.endpoint}
    routing = routing_of(model)
    if routing:
        who["caller"] = routing

    what: dict[str, JsonValue] = {
        "provider": model.provider,
        "model": model.name,
        "settings": model.settings(),
        "tool_choice": request.tool_choice,
        "response_schema": request.response_schema,
        "params": params,
    }
    if request.predictions is not None:
        what["predictions"] = dict(request.predictions)

    if request.places is not None:
        what["places"] = dict(request.places)

    # no other protocol holds a reply to the step's schema
    if request.submit_schema is not None and request.params.tool_protocol == "json_schema":
        what["submit_schema"] = dict(request.submit_schema)

    if request.own is not None:
        run_params = request.run_params or request.params
        instead: dict[str, JsonValue] = {
            name: getattr(run_params, name) for name in request.own.paths
        }
        what["own"] = {
            "api": request.own.api,
            "fields": request.own.fields,
            "instead": instead,
        }

    # This is the canonical JSON of one object with the fields in `who`, `messages`, `what`, `tools`
    # and `version`, whose names sort in this order. Since the strings are joined, `_message_text`
    # can be cached; most messages were part of the previous call.
    messages = ",".join(map(_message_text, request.messages))
    question = (
        f'{dumps_canonical(who)[:-1]},"messages":[{messages}],{dumps_canonical(what)[1:-1]}'
        f',"tools":[{",".join(tools)}],"version":{_KEY_VERSION}}}'
    )
    # JSON may contain a lone surrogate, and an agent may quote it. It must not fail here, and must
    # not be equal to other text.
    return sha256_hex(question.encode("utf-8", "surrogatepass"))


@lru_cache(maxsize=512)
def _message_text(message: Message) -> str:
    return dumps_canonical(message.to_json())


def is_cacheable(reply: Reply) -> bool:
    """Return whether a reply may be stored in the cache.

    Truncated, refused and empty replies may not be stored, since the next attempt may succeed.
    """
    is_complete = reply.finish_reason in ("stop", "tool_calls")
    has_content = bool(reply.tool_calls or reply.content.strip())
    return is_complete and has_content


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """Reply with its origin and the key of its request.

    The request itself is not stored, since prompts may be proprietary. Raises ValueError if a field
    is malformed.
    """

    key: str  #: key of the request, from `request_key`
    provider: str  #: provider that answered
    model: str  #: the model's name at the provider
    reply: Reply  #: the reply, for which `is_cacheable` is true
    created_at: str  #: creation time, ISO 8601 in UTC, such as `2026-01-31T23:59:59.123Z`

    def __post_init__(self) -> None:
        if not is_cacheable(self.reply):
            raise ValueError(
                f"a reply that ended with {self.reply.finish_reason} or is empty is not kept"
            )
        if len(self.key) != _KEY_DIGITS:
            raise ValueError(f"the key {self.key!r:.80} is not a SHA-256 in hexadecimal digits")
        if datetime.fromisoformat(self.created_at).utcoffset() != timedelta(0):
            raise ValueError(f"the time {self.created_at!r} is not in UTC")


# a tuple: it is a row of the database
class ReplyRow(NamedTuple):
    """A `CacheEntry` in its stored form."""

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
    """A row differs from the one that was stored."""


def reply_bytes(reply: Reply) -> bytes:
    """Return a reply as lossless JSON, including lone surrogates. See `reply_of`."""
    return dumps_canonical(reply.to_json()).encode("utf-8", "surrogatepass")


def reply_of(data: bytes, where: str) -> Reply:
    """Return the reply that `reply_bytes` encoded. Raises StoreError if `data` does not encode a
    reply.
    """
    try:
        return _decode(data)
    except (
        ValueError,
        TypeError,
        AttributeError,
        RecursionError,
        msgspec.ValidationError,
    ) as error:
        raise StoreError(f"{where}: not a stored reply: {error}") from error


def pack(entry: CacheEntry) -> ReplyRow:
    """Return the stored form of an entry."""
    usage = entry.reply.usage
    row = ReplyRow(
        key=entry.key,
        provider=entry.provider,
        model=entry.model,
        created_at=entry.created_at,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        checksum=b"",
        body=_compressor().compress(reply_bytes(entry.reply)),
    )

    return row._replace(checksum=_checksum(row))


def unpack(row: ReplyRow) -> CacheEntry:
    """Return the entry that `pack` stored. Raises DamagedError, with the reason, if the entry has
    changed.
    """
    try:
        if _checksum(row) != row.checksum:
            raise DamagedError("its checksum does not match")
        if not 0 <= zstandard.frame_content_size(row.body) <= _MAX_REPLY_BYTES:
            raise DamagedError("its compressed form states no size, or more than a reply can have")

        reply = _decode(zstandard.ZstdDecompressor().decompress(row.body))
        entry = CacheEntry(row.key, row.provider, row.model, reply, row.created_at)
    except DamagedError:
        raise
    except (
        ValueError,
        TypeError,
        RecursionError,
        msgspec.ValidationError,
        zstandard.ZstdError,
    ) as error:
        raise DamagedError(f"not a stored reply: {error}") from error

    usage = entry.reply.usage
    if (usage.input_tokens, usage.output_tokens) != (row.input_tokens, row.output_tokens):
        raise DamagedError("its token counts differ from those of the reply")

    return entry


def _decode(data: bytes) -> Reply:
    value = loads_strict(data)
    reply = convert_value(value, Reply)
    if reply.to_json() != value:
        raise ValueError("its fields are not those of a reply")
    return reply


def _checksum(row: ReplyRow) -> bytes:
    """Return the SHA-256 of everything else in the row.

    The checksum covers the key, so that a body stored under a wrong key is detected just like a
    changed body.
    """
    return sha256(dumps_canonical(row[:6]).encode() + b"\n" + row.body).digest()


_own = threading.local()


def _compressor() -> Any:
    """Return this thread's compressor. Creating one takes longer than compressing a reply."""
    if not hasattr(_own, "compressor"):
        _own.compressor = zstandard.ZstdCompressor(level=_LEVEL)
    return _own.compressor


NO_EPISODE = ("canary", "check")
"""Labels of calls outside episodes: the fixed questions, and the check of tool protocols."""
#: number of digits of the request key in a record, enough to distinguish the calls of a run
KEY_DIGITS = 16


class CallRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attempt at a model call, or one reply taken from the cache."""

    at: str  #: time at which the attempt ended, ISO 8601 in UTC, such as `2026-01-31T23:59:59.123Z`
    episode: str  #: id of the episode; `canary` or `check` outside episodes
    key: str  #: the first 16 hexadecimal digits of the request's key
    #: `ANSWERED`, `BATCHED`, `CACHED`, `REFUSED`, or the kind of the attempt's `ModelError`
    outcome: str
    attempt: int  #: number of the attempt at this call, from 1
    #: seconds from sending the request to the end of the reply; for a cached reply, the duration of
    #: the look-up
    latency_s: float
    usage: Usage | None = None  #: tokens of the reply; None if there is no reply
    #: cost of the reply in US dollars; None if no price is known or no reply came
    cost_usd: float | None = None
    #: US dollars reserved for an attempt without a reply, which the provider may still charge
    held_usd: float = 0.0
    model: str = ""  #: requested model, PROVIDER/NAME
    served_by: str = ""  #: answering model, as the provider names it
    step: int | None = None  #: number of the step that made the call; None outside episodes
    #: how often the episode had been opened, from 1; an interrupted step runs again at a later
    #: opening
    opening: int = 0
    #: reply that the cache does not store, kept for a resumed run; otherwise None
    reply: Reply | None = None

    @property
    def is_answered(self) -> bool:
        """Return whether the provider answered this attempt."""
        return self.outcome in ANSWERS

    @property
    def is_finite(self) -> bool:
        """Return whether all numbers in the record are finite."""
        numbers = (self.latency_s, self.cost_usd or 0.0, self.held_usd)
        return all(map(math.isfinite, numbers))

    def to_row(self) -> tuple[Any, ...]:
        """Return the values of `CALL_COLUMNS`. Raises ValueError if a number is NaN or infinite."""
        if not self.is_finite:
            raise ValueError(f"a number in the record of a call is not finite: {self!r:.200}")

        plain = [getattr(self, name) for name in _PLAIN]
        usage: list[int | None] = [None] * len(USAGE_FIELDS)
        if self.usage is not None:
            usage = [getattr(self.usage, name) for name in USAGE_FIELDS]

        reply = None
        if self.reply is not None:
            reply = reply_bytes(self.reply)

        asked = (encodable(self.model), encodable(self.served_by))
        return (*plain, *asked, self.step, self.opening, *usage, reply)


_PLAIN = ("at", "episode", "key", "outcome", "attempt", "latency_s", "cost_usd", "held_usd")
CALL_COLUMNS = (*_PLAIN, "model", "served_by", "step", "opening", *USAGE_FIELDS, "reply")
"""Columns of the table `calls`, in the order of `CallRecord.to_row`."""


def record_of(row: tuple[Any, ...], where: str) -> CallRecord:
    """Return the record that `CallRecord.to_row` wrote.

    Raises StoreError, which names the field, if the row is not a record.
    """
    *plain, reply = row
    values = dict(zip(CALL_COLUMNS, plain))
    counts = {name: values.pop(name) for name in USAGE_FIELDS}
    has_usage = any(count is not None for count in counts.values())
    values["usage"] = counts if has_usage else None

    record = from_plain(values, CallRecord, where)
    if not record.is_finite:
        raise StoreError(f"{where}: a number in it is not finite")

    if reply is not None:
        record = msgspec.structs.replace(record, reply=reply_of(reply, where))

    return record


class Spent(msgspec.Struct, frozen=True):
    """Money and tokens used so far by a run's calls, over all sessions. Cached replies are free.

    Replies without a known price do not add to `cost_usd`.
    """

    cost_usd: float = 0.0  #: cost of the replies in US dollars
    #: additional US dollars that may have been billed for attempts without a reply
    possibly_usd: float = 0.0
    input_tokens: int = 0  #: tokens of the answered prompts
    output_tokens: int = 0  #: tokens of the replies

    def plus(self, record: CallRecord) -> Spent:
        """Return these totals plus one more call."""
        if record.outcome == CACHED:
            return self
        usage = record.usage or Usage()
        return Spent(
            self.cost_usd + (record.cost_usd or 0.0),
            self.possibly_usd + record.held_usd,
            self.input_tokens + usage.input_tokens,
            self.output_tokens + usage.output_tokens,
        )
