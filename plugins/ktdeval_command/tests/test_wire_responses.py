"""Responses over the bridge, asked by the `openai` package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest

from bridge_clients import (
    ONE_CALL,
    SCHEMA,
    TEXT,
    TOKEN,
    TWO_CALLS,
    Bridge,
    bridge,
)
from ktdeval.errors import KtdevalError
from ktdeval.harness import NO_TOOL, Message, Opaque, Reply, ToolCall
from ktdeval_command.wire import responses
from ktdeval_command.wire.refusals import WireError

TOOL = {
    "type": "function",
    "name": "look",
    "description": "Look.",
    "parameters": SCHEMA,
    "strict": False,
}
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Patch.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /x/"},
}
SERVER = {"type": "namespace", "name": "mcp__market__", "description": "Tools.", "tools": [TOOL]}


@contextmanager
def asking(*answers: Reply | KtdevalError) -> Iterator[tuple[Any, Bridge]]:
    with (
        bridge(*answers) as running,
        openai.OpenAI(base_url=f"{running.address}/v1", api_key=TOKEN) as client,
    ):
        yield client.responses, running


def read(**fields: Any) -> Any:
    return responses.read(json.dumps({"model": "m", "input": "Hi", **fields}).encode())


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "reply",
    [
        TEXT,
        ONE_CALL,
        TWO_CALLS,
        Reply(),
        Reply("I won't.", finish_reason="refusal"),
    ],
)
def test_a_stream_adds_up_to_the_answer_in_one_piece(reply: Reply) -> None:
    question = {"model": "m", "input": "Hi", "tools": [TOOL]}
    with asking(reply, reply) as (client, _):
        whole = client.create(**question)
        with client.stream(**question) as stream:
            kinds = [event.type for event in stream]
            added = stream.get_final_response()

    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert text_of(added.output) == text_of(whole.output)
    assert added.usage == whole.usage


def text_of(items: Any) -> list[dict[str, Any]]:
    left_out = {"id", "parsed", "parsed_arguments"}
    made = []
    for item in items:
        fields = item.model_dump(exclude_none=True, exclude=left_out)
        for part in fields.get("content", []):
            part.pop("parsed", None)
        made.append(fields)
    return made


@pytest.mark.parametrize(
    ("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
def test_a_reply_that_was_cut_is_incomplete(finish: Any, reason: str) -> None:
    with asking(Reply("half", finish_reason=finish), Reply("half", finish_reason=finish)) as (
        client,
        _,
    ):
        answer = client.create(model="m", input="Hi")
        events = list(client.create(model="m", input="Hi", stream=True))

    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", reason)
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.output_text == "half"


def test_a_tool_of_free_text_is_called_with_one_text() -> None:
    call = ToolCall("call_p", "apply_patch", '{"input": "*** Begin"}')
    with asking(Reply(tool_calls=(call,), finish_reason="tool_calls"), TEXT) as (client, running):
        answer = client.create(model="m", input="Hi", tools=[PATCH])
        (item,) = answer.output
        assert (item.type, item.name, item.input) == (
            "custom_tool_call",
            "apply_patch",
            "*** Begin",
        )

        result = {"type": "custom_tool_call_output", "call_id": "call_p", "output": "done"}
        turn = item.model_dump(exclude_none=True)
        client.create(
            model="m", input=[{"role": "user", "content": "Hi"}, turn, result], tools=[PATCH]
        )

    (tool,) = running.requests[0].tools
    assert tool.parameters["required"] == ["input"]
    assert tool.description == "Patch.\n\nGrammar of the text (lark):\nstart: /x/"
    assert running.requests[1].messages[1:] == (
        Message("assistant", "", (call,)),
        Message("tool", "done", tool_call_id="call_p"),
    )


def test_tools_of_a_namespace_are_called_in_it() -> None:
    call = ToolCall("call_n", "mcp__market__look", "{}")
    with asking(Reply(tool_calls=(call,), finish_reason="tool_calls"), TEXT) as (client, running):
        answer = client.create(model="m", input="Hi", tools=[SERVER])
        (item,) = answer.output
        assert (item.name, item.namespace) == ("look", "mcp__market__")

        result = {"type": "function_call_output", "call_id": "call_n", "output": "done"}
        turn = item.model_dump(exclude_none=True)
        client.create(
            model="m", input=[{"role": "user", "content": "Hi"}, turn, result], tools=[SERVER]
        )

    assert running.requests[1].messages[1] == Message("assistant", "", (call,))


def test_reasoning_keeps_its_mark_and_roles_are_mapped() -> None:
    items = [
        {"role": "developer", "content": "A"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Yo"}],
        },
        {"role": "system", "content": "B"},
        {"role": "user", "content": "On"},
    ]
    request = read(input=items, instructions="I")

    assert request.messages == (
        Message("system", "I\n\nA"),
        Message("user", "Hi"),
        Message("assistant", "Yo", opaque=Opaque("bridge", "x")),
        Message("system", "B"),
        Message("user", "On"),
    )
    assert request.ignored == ()


def test_parameters_are_read_and_harmless_extras_are_named() -> None:
    request = read(
        temperature=0,
        max_output_tokens=50,
        stream=True,
        store=False,
        tools=[TOOL],
        tool_choice="none",
        text={"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}, "verbosity": "low"},
        reasoning={"effort": "low"},
        include=["reasoning.encrypted_content"],
        parallel_tool_calls=True,
        prompt_cache_key="k",
    )

    assert (request.temperature, request.max_output_tokens, request.streams) == (0.0, 50, True)
    assert (request.tool_choice, request.response_schema) == (NO_TOOL, SCHEMA)
    assert request.ignored == ("tools.strict",)
    assert request.own is not None
    assert request.own.fields == {
        "max_output_tokens": 50,
        "parallel_tool_calls": True,
        "prompt_cache_key": "k",
        "reasoning": {"effort": "low"},
        "temperature": 0.0,
        "text.verbosity": "low",
    }


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"background": True}, "background"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"tools": [{"type": "mcp", "server_label": "s"}]}, "tools[0]"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "input[0].content[0]",
        ),
    ],
)
def test_what_can_not_be_carried_is_refused_by_its_field(fields: Any, field: str) -> None:
    with pytest.raises(WireError, match="supported: ") as caught:
        read(**fields)

    assert (caught.value.refusal.kind, caught.value.refusal.field) == ("unsupported", field)


@pytest.mark.slow
def test_what_the_bridge_gave_is_not_named_as_ignored() -> None:
    with asking(TEXT, TEXT) as (client, running):
        items = client.create(model="m", input="Hi").output
        turns = [{"role": "user", "content": "Hi"}, *(item.to_dict() for item in items)]
        client.create(model="m", input=[*turns, {"role": "user", "content": "On"}])

    assert running.requests[1].ignored == ()
