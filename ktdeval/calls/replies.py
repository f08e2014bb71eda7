"""Replies of models as they are kept: by the content of what was asked, packed, and checked when they are given again."""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
import zstandard

from ktdeval.errors import StoreError
from ktdeval.harness.messages import CallParams, Message, ModelRequest, Reply
from ktdeval.harness.provider import RemoteModel
from ktdeval.jsonio import JsonValue, dumps_canonical, loads_strict, sha256_hex

_KEY_VERSION = (
    1  #: Counts up whenever equal keys would no longer mean equal calls: replies kept under older keys are then not found
)
_KEY_DIGITS = 64
_NOT_ASKED = frozenset({"timeout_s"})  #: Fields of `CallParams` that say how long to wait, not what to ask
_PARAMS = tuple(field.name for field in fields(CallParams) if field.name not in _NOT_ASKED)
_MOST_REPLY_BYTES = 1 << 28  # what a stored reply may claim to unpack to: that much memory is taken at once
_LEVEL = 3


def request_key(model: RemoteModel, request: ModelRequest) -> str:
    """Return the SHA-256, as 64 hexadecimal digits, of everything that can change a reply: equal keys mean the very same question.
    That is who is asked (provider, endpoint, model name, the adapter's settings) and what (messages, tools, tool choice, response
    schema, call parameters with the seed, but without the timeout). Parameters that are left to the provider (None) do not count,
    so a version of ktdeval that adds such a parameter finds what earlier ones kept. `model`: the model that is asked; it need not
    be connected; `request`: what it is asked, in the form in which it reaches the adapter. Raises ValueError: a number in it is NaN
    or infinite, which no provider can be sent.
    """
    params = {name: value for name in _PARAMS if (value := getattr(request.params, name)) is not None}
    who: dict[str, JsonValue] = {"endpoint": model.endpoint}
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
    # The canonical JSON of all three: by name, the messages come between the two. Most of them were there at the call before.
    messages = ",".join(map(_message_text, request.messages))
    asked = f'{dumps_canonical(who)[:-1]},"messages":[{messages}],{dumps_canonical(what)[1:]}'
    # A lone surrogate, which JSON may spell and an agent may quote, must neither fail here nor be taken for another text.
    return sha256_hex(asked.encode("utf-8", "surrogatepass"))


@lru_cache(maxsize=512)
def _message_text(message: Message) -> str:
    return dumps_canonical(message.to_json())


def is_cacheable(reply: Reply) -> bool:
    """Return whether a reply may be given again: one that ended by itself and holds something. Truncations, refusals and empty
    replies are accidents of one call, which may not happen again.
    """
    return reply.finish_reason in ("stop", "tool_calls") and bool(reply.tool_calls or reply.content.strip())


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A reply and its origin. The question is not kept, only its hash: prompts may be proprietary. Raises ValueError: the reply is
    not one to be kept, or another field is malformed.
    """

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
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise StoreError(f"{where}: not a stored reply: {error}") from error


def pack(entry: CacheEntry) -> ReplyRow:
    """Return the stored form of an entry."""
    usage = entry.reply.usage
    head = (entry.key, entry.provider, entry.model, entry.created_at, usage.input_tokens, usage.output_tokens)
    row = ReplyRow(*head, b"", _compressor().compress(reply_bytes(entry.reply)))
    return row._replace(checksum=_checksum(row))


def unpack(row: ReplyRow) -> CacheEntry:
    """Return the entry that `pack` stored. Raises DamagedError: it is not that any more; says how."""
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
    reply = msgspec.convert(value, Reply)
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
