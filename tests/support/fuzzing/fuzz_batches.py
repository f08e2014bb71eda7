"""Parsers of what providers say of batches, and of the file that a run keeps of its own."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from ktdeval.calls.batches.batch_api import batches_of
from support.fuzzing.fuzz_kit import Parser, in_folder


def batch_parsers() -> dict[str, Parser]:
    """Return the parsers by name."""
    from ktdeval.calls.batches.submitted_batches import BATCHES, BatchFile
    from ktdeval_models.remote.vendors.anthropic import AnthropicModel
    from ktdeval_models.remote.vendors.google import GoogleModel
    from ktdeval_models.remote.vendors.openai import make_openai

    request = {"episode": "0a" * 10, "step": 0, "key": "0123456789abcdef", "failed": None}
    entry = {
        "tag": "ktdeval-0",
        "begun_at": "2026-01-01T00:00:00Z",
        "requests": [request],
        "id": None,
        "others": [],
        "is_over": False,
    }
    own = json.dumps({"version": 1, "batches": [entry]}).encode()
    chat = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": {}}
    response = {"status_code": 200, "body": chat}
    openai = {"custom_id": "ktdeval-0-0", "response": response, "error": None}
    message = {"content": [], "stop_reason": "end_turn", "usage": {"input_tokens": 1}}
    anthropic = {
        "custom_id": "ktdeval-0-0",
        "result": {"type": "succeeded", "message": message},
    }
    inlined = [{"response": {"candidates": []}, "metadata": {"key": "ktdeval-0-0"}}]
    metadata = {
        "state": "BATCH_STATE_SUCCEEDED",
        "displayName": "ktdeval-0",
        "output": {"inlinedResponses": {"inlinedResponses": inlined}},
        "batchStats": {"successfulRequestCount": "1"},
    }
    google = {"name": "batches/b", "metadata": metadata}
    module = "ktdeval_models/remote/batch/common.py"

    return {
        "file of batches": Parser(
            in_folder(BATCHES, BatchFile), (own,), ("ktdeval/calls/batches/submitted_batches.py",)
        ),
        "openai batch": Parser(_given(make_openai("x")), _seeds(openai), (module,)),
        "anthropic batch": Parser(_given(AnthropicModel("x")), _seeds(anthropic), ()),
        "google batch": Parser(_given(GoogleModel("x")), _seeds(google), ()),
    }


def _seeds(result: Any) -> tuple[bytes, ...]:
    """A result, a batch, and a list of batches."""
    batch = {
        "id": "b",
        "status": "completed",
        "created_at": "2026-01-01T00:00:00Z",
        "output_file_id": "f",
        "request_counts": {"succeeded": 1, "completed": 1},
        "metadata": {"ktdeval": "ktdeval-0"},
    }
    pages = {"data": [batch], "operations": [result], "has_more": False}

    return tuple(json.dumps(each).encode() for each in (result, batch, pages))


def _given(model: Any) -> Any:
    """Return what takes bytes for all that the provider says of a batch: how far it is, whether it
    is in the list, and its results.
    """
    from ktdeval.calls.batches.batch_api import BatchTag
    from ktdeval.errors import ModelError, ProviderError
    from ktdeval.harness.chat_messages import Message, ModelRequest

    tag = BatchTag("ktdeval-0", datetime(2026, 1, 1, tzinfo=UTC), 1)
    requests = (ModelRequest((Message("user", "x"),)),)

    def parse(data: bytes) -> None:
        batches = batches_of(model)
        batches.load = lambda *_, **__: data
        for ask in (
            lambda: batches.state("b"),
            lambda: batches.find(tag, ()),
            lambda: batches.results("b", tag, requests),
        ):
            try:
                ask()
            except (ModelError, ProviderError):
                continue

    return parse
