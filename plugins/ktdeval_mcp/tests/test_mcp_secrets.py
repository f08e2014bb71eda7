"""What leaves the server has no secret of its environment, wherever in a message it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("mcp")

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse

from ktdeval_mcp.answers import MAX_CHARS, bound_text
from ktdeval_mcp.secret_free_stream import secret_free

SECRET = "sk-2f9c1b7d4e8a6053"


async def sent(result: dict[str, Any]) -> str:
    """The text of a message with a result, as it leaves the server."""
    write, read = anyio.create_memory_object_stream[SessionMessage](1)
    message = SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result=result))
    async with read, secret_free(write) as stream:
        await stream.send(message)
        left = await read.receive()
    return str(left.message.model_dump_json())


@pytest.mark.anyio
@pytest.mark.parametrize(
    "result",
    [
        {"text": f"key {SECRET}"},
        {"texts": ["-", f"key {SECRET}"]},
        {"of": {"of": [{"text": SECRET}]}},
        {f"name {SECRET}": 1},
    ],
)
async def test_a_secret_anywhere_in_a_message_is_hidden(
    result: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    text = await sent(result)
    assert SECRET not in text
    assert "[OPENAI_API_KEY]" in text


@pytest.mark.anyio
async def test_a_message_without_secrets_is_sent_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    result = {"isError": False, "rows": [1, None, {"a": "b"}], "none": None}
    assert json.loads(await sent(result)) == {"jsonrpc": "2.0", "id": 1, "result": result}


def test_a_text_is_cut_only_where_it_is_longer_than_the_limit() -> None:
    assert bound_text("x" * MAX_CHARS) == "x" * MAX_CHARS
    assert bound_text("x" * (MAX_CHARS + 2)) == "x" * MAX_CHARS + "\n… 2 more characters"
