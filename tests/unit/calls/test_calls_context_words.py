"""Refusals of prompts that are longer than the context, in the words of each server."""

from __future__ import annotations

import json
from typing import Any

from ktdeval.calls import Caller, http_error, is_retryable
from ktdeval.calls.context_window import Context, ContextExceeded
from ktdeval.errors import ModelError, ProviderError
from support.tables import on_each_row

CALLER = Caller("openai", "m", "http://localhost:8000/v1", ("OPENAI_API_KEY",))


def refusal(status: int, body: Any) -> ModelError | ProviderError:
    return http_error(
        status, json.dumps(body).encode(), {}, CALLER, ("model", "messages", "max_tokens", "tools")
    )


@on_each_row
def test_a_refusal_of_a_long_prompt_is_known_by_each_servers_words(
    server: str,
    status: int,
    body: Any,
    tokens: int | None,
    holds_reply: bool | None,
    counted: int | None,
) -> None:
    error = refusal(status, body)
    assert isinstance(error, ContextExceeded), server
    assert error.kind == "context_exceeded"
    assert not is_retryable(error)
    assert not error.may_be_billed
    assert error.prompt_tokens == counted

    if tokens is None:
        assert error.context is None
    else:
        assert isinstance(error.context, Context)
        assert (error.context.tokens, error.context.holds_reply) == (tokens, holds_reply)


@on_each_row
def test_another_refusal_is_none_of_a_long_prompt(
    server: str, status: int, body: Any, kind: str
) -> None:
    error = refusal(status, body)
    assert isinstance(error, ModelError), server
    assert error.kind == kind
