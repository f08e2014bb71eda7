"""The identity of a model call: equal keys mean that the provider was asked the very same thing."""

from __future__ import annotations

from dataclasses import fields

from ktdeval.harness.messages import CallParams, ModelRequest
from ktdeval.harness.provider import RemoteModel
from ktdeval.jsonio import JsonValue, dumps_canonical, sha256_hex

_VERSION = 1
"""Counts up whenever equal keys would no longer mean equal calls: replies kept under older keys are then not found."""

_TRANSPORT = frozenset({"timeout_s"})
"""Fields of `CallParams` that say how long to wait, not what to ask."""

_PARAMS = tuple(field.name for field in fields(CallParams) if field.name not in _TRANSPORT)


def request_key(model: RemoteModel, request: ModelRequest) -> str:
    """SHA-256, as 64 hexadecimal digits, of everything that can change a reply.

    That is who is asked (provider, endpoint, model name, the adapter's settings) and what (messages, tools, tool choice, response
    schema, call parameters with the seed, but without the timeout). Parameters that are left to the provider (None) do not
    count, so a version of ktdeval that adds such a parameter finds what earlier ones kept.

    Args:
        model: the model that is asked; it need not be connected.
        request: what it is asked, in the form in which it reaches the adapter.

    Raises:
        ValueError: a number in it is NaN or infinite, which no provider can be sent.
    """
    params = {name: value for name in _PARAMS if (value := getattr(request.params, name)) is not None}
    asked: dict[str, JsonValue] = {
        "version": _VERSION,
        "provider": model.provider,
        "endpoint": model.endpoint,
        "model": model.name,
        "settings": model.settings(),
        "messages": [message.to_json() for message in request.messages],
        "tools": [[tool.name, tool.description, tool.parameters] for tool in request.tools],
        "tool_choice": request.tool_choice,
        "response_schema": request.response_schema,
        "params": params,
    }
    # A lone surrogate, which JSON may spell and an agent may quote, must neither fail here nor be taken for another text.
    return sha256_hex(dumps_canonical(asked).encode("utf-8", "surrogatepass"))
