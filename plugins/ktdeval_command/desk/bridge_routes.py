"""The wire format for each address of the bridge."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

from ktdeval.harness import Reply
from ktdeval.values import JsonObject
from ktdeval_command.wire import (
    anthropic_messages,
    chat_completions,
    gemini,
    responses,
)
from ktdeval_command.wire.bridge_request import BridgeRequest
from ktdeval_command.wire.declared_form import declared_form
from ktdeval_command.wire.refusals import WireError

FORMS = (
    "POST /v1/chat/completions",
    "POST /v1/responses",
    "POST /v1/messages",
    "POST /v1/messages/count_tokens",
    "POST /v1beta/models/MODEL:generateContent (or /v1, /v1alpha)",
    "POST /v1beta/models/MODEL:streamGenerateContent?alt=sse",
    "POST /v1beta/models/MODEL:countTokens",
    "GET /v1/models",
    "GET /v1beta/models",
)
"""Kinds of requests that the bridge answers, as named in messages."""

MAX_ADDRESS_CHARS = 2000

Dialect = Literal["openai", "anthropic", "gemini"]
"""Provider whose format is used for errors and listings."""

_MODEL = r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,199}"
# Gemini's API has these versions; `google-genai` 3.6 requests v1 by default.
_LISTED = re.compile(rf"/v1(?:alpha|beta)?/models(?:/({_MODEL}))?")
_GEMINI = re.compile(
    r"/v1(?:alpha|beta)?/(?:models|tunedModels)/"
    rf"({_MODEL}):(generateContent|streamGenerateContent|countTokens)"
)


@dataclass(frozen=True, slots=True)
class Format:
    """Functions that read a request for a reply, and write the answer."""

    read: Callable[[bytes], BridgeRequest]
    write: Callable[[Reply, BridgeRequest, int], JsonObject]
    stream: Callable[[Reply, BridgeRequest, int], list[bytes]]


@dataclass(frozen=True, slots=True)
class Count:
    """Functions that read a request for a token count, and write the answer."""

    read: Callable[[bytes], BridgeRequest]
    write: Callable[[int], JsonObject]


_POSTED: Mapping[str, Format | Count] = {
    "/v1/chat/completions": Format(
        chat_completions.read, chat_completions.write, chat_completions.stream
    ),
    "/v1/responses": Format(responses.read, responses.write, responses.stream),
    "/v1/messages": Format(
        anthropic_messages.read, anthropic_messages.write, anthropic_messages.stream
    ),
    "/v1/messages/count_tokens": Count(
        anthropic_messages.read_count, anthropic_messages.write_count
    ),
}


def dialect_of(target: str, headers: Container[str]) -> Dialect:
    """Return the provider whose format is used for the answer to a request. The address decides. If
    several providers share an address, such as `/v1/models`, the headers that each API's requests
    carry decide. `headers`: header names in lower case.
    """
    if target.startswith(("/v1/chat/", "/v1/responses")):
        return "openai"
    if target.startswith("/v1/messages") or "anthropic-version" in headers:
        return "anthropic"
    is_google = "x-goog-api-key" in headers or "x-goog-api-client" in headers
    if is_google or target.startswith(("/v1beta/", "/v1alpha/")) or _GEMINI.match(target):
        return "gemini"
    return "openai"


def route_post(target: str) -> Format | Count:
    """Return the format of a POST to an address. Raises WireError if the bridge does not serve the
    address.
    """
    path, query = _parts(target)
    known = _POSTED.get(path) or _POSTED.get(f"/v1{path}")  # some clients omit the version prefix
    if known is not None:
        return known

    match = _GEMINI.fullmatch(path)
    if match is None:
        raise _unknown("POST", path)

    model, method = match.groups()
    if method == "countTokens":
        return Count(partial(gemini.read_count, model=model), gemini.write_count)

    streams = method == "streamGenerateContent"
    if streams and query.get("alt") != ["sse"]:
        raise WireError("unsupported", f"{method} is supported with ?alt=sse only", "alt")
    read = partial(gemini.read, model=model, streams=streams)
    return Format(read, gemini.write, gemini.stream)


def answer_get(target: str, model: str, dialect: Dialect) -> JsonObject:
    """Return the answer to a GET. Every model name is accepted, since all names refer to the run's
    model. Raises WireError if the bridge has no such listing.
    """
    path, _ = _parts(target)
    match = _LISTED.fullmatch(path)
    if match is None:
        raise _unknown("GET", path)

    form = declared_form(dialect)
    name = match[1]
    return form.fill("model", name=name) if name else form.models(model)


def _parts(target: str) -> tuple[str, dict[str, list[str]]]:
    """Return the path and query of an address. Raises WireError if the address is too long, or if
    it contains a host, as in requests to a proxy.
    """
    if len(target) > MAX_ADDRESS_CHARS or not target.startswith("/") or target.startswith("//"):
        raise _unknown("request", target)

    try:
        parts = urlsplit(target)
        return unquote(parts.path), parse_qs(parts.query, max_num_fields=20)
    except ValueError:
        raise _unknown("request", target) from None


def _unknown(method: str, path: str) -> WireError:
    return WireError(
        "not_found",
        f"{method} {path[:80]}: not supported by the bridge; supported: {', '.join(FORMS)}",
    )
