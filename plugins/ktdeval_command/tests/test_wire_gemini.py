"""Gemini over the bridge, asked by the `google-genai` package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from google import genai
from google.genai import errors, types
from inline_snapshot import snapshot

from bridge_clients import (
    LOOK,
    LOOK_AGAIN,
    MODEL,
    ONE_CALL,
    SCHEMA,
    TEXT,
    TOKEN,
    TWO_CALLS,
    Bridge,
    bridge,
    wire_refusals,
)
from ktdeval.errors import BudgetError, KtdevalError, LeakError, ModelError
from ktdeval.harness import NO_TOOL, Message, Opaque, Reply, ToolCall, ToolSpec
from ktdeval_command.wire import gemini

pytestmark = pytest.mark.slow

DECLARED = types.FunctionDeclaration(
    name="look", description="Look.", parameters_json_schema=SCHEMA
)
TOOLS = types.GenerateContentConfig(
    tools=[types.Tool(function_declarations=[DECLARED])],
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)
USER = {"role": "user", "parts": [{"text": "Hi"}]}


@contextmanager
def asking(*answers: Reply | KtdevalError) -> Iterator[tuple[Any, Bridge]]:
    with bridge(*answers) as running:
        options = types.HttpOptions(base_url=running.address)
        with genai.Client(api_key=TOKEN, http_options=options) as client:
            yield client.models, running


def read(**fields: Any) -> Any:
    return gemini.read(json.dumps({"contents": [USER], **fields}).encode(), "m", streams=False)


def test_a_text_comes_with_its_tokens() -> None:
    with asking(TEXT) as (models, running):
        config = types.GenerateContentConfig(system_instruction="Be short.", max_output_tokens=64)
        answer = models.generate_content(model="gemini-x", contents="Hi", config=config)

    assert answer.text == TEXT.content
    assert answer.model_version == "gemini-x"
    assert answer.candidates[0].finish_reason == types.FinishReason.STOP
    usage = answer.usage_metadata
    assert (usage.prompt_token_count, usage.cached_content_token_count) == (100, 30)
    assert (usage.candidates_token_count, usage.thoughts_token_count) == (15, 5)
    assert usage.total_token_count == 120
    assert running.asked.messages == (Message("system", "Be short."), Message("user", "Hi"))
    assert running.asked.max_output_tokens == 64


@pytest.mark.parametrize(("reply", "calls"), [(ONE_CALL, [LOOK]), (TWO_CALLS, [LOOK, LOOK_AGAIN])])
def test_calls_go_back_with_their_results(reply: Reply, calls: list[ToolCall]) -> None:
    with asking(reply, TEXT) as (models, running):
        answer = models.generate_content(model="m", contents="Hi", config=TOOLS)
        results = []
        for call in answer.function_calls:
            made = types.FunctionResponse(
                id=call.id, name=call.name, response={"output": call.name}
            )
            results.append(types.Part(function_response=made))
        turns = [
            types.Content(role="user", parts=[types.Part(text="Hi")]),
            answer.candidates[0].content,
            types.Content(role="user", parts=results),
        ]
        models.generate_content(model="m", contents=turns, config=TOOLS)

    assert running.requests[0].tools == (ToolSpec("look", "Look.", SCHEMA),)
    assert running.requests[1].messages == (
        Message("user", "Hi"),
        Message("assistant", reply.content, tuple(calls)),
        *(Message("tool", "look", tool_call_id=call.id) for call in calls),
    )


@pytest.mark.parametrize(
    "reply", [TEXT, ONE_CALL, TWO_CALLS, Reply(), Reply("cut", finish_reason="length")]
)
def test_a_stream_adds_up_to_the_answer_in_one_piece(reply: Reply) -> None:
    with asking(reply, reply) as (models, running):
        whole = models.generate_content(model="m", contents="Hi", config=TOOLS)
        chunks = list(models.generate_content_stream(model="m", contents="Hi", config=TOOLS))

    assert running.requests[1].streams
    added = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    assert added == whole.candidates[0].content.parts
    reasons = [chunk.candidates[0].finish_reason for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + [whole.candidates[0].finish_reason]
    assert chunks[-1].usage_metadata == whole.usage_metadata


def test_a_signature_is_restored_with_the_call() -> None:
    signed = ToolCall("call_a", "look", '{"id": "S1"}', Opaque("google", "signature"))
    with asking(Reply(tool_calls=(signed,), finish_reason="tool_calls"), TEXT) as (models, running):
        answer = models.generate_content(model="m", contents="Hi", config=TOOLS)
        made = types.FunctionResponse(id="call_a", name="look", response={"result": 1})
        turns = [
            types.Content(role="user", parts=[types.Part(text="Hi")]),
            answer.candidates[0].content,
            types.Content(role="user", parts=[types.Part(function_response=made)]),
        ]
        models.generate_content(model="m", contents=turns, config=TOOLS)

    assert running.requests[1].messages[1:] == (
        Message("assistant", "", (signed,)),
        Message("tool", '{"result":1}', tool_call_id="call_a"),
    )


def test_calls_without_ids_are_matched_by_name_and_order() -> None:
    def call(name: str, **args: Any) -> Any:
        return {"functionCall": {"name": name, "args": args}}

    def result(name: str, output: str) -> Any:
        return {"functionResponse": {"name": name, "response": {"output": output}}}

    turns = [
        USER,
        {"role": "model", "parts": [call("look", id="A"), call("wait"), call("look", id="B")]},
        {
            "role": "function",
            "parts": [result("look", "1"), result("look", "2"), result("wait", "3")],
        },
        {"role": "model", "parts": [{"text": "a", "thought": True}, {"text": "b"}, call("look")]},
        {"parts": [result("look", "4")]},
    ]

    assert read(contents=turns).messages[1:] == (
        Message(
            "assistant",
            "",
            (
                ToolCall("call_1", "look", '{"id":"A"}'),
                ToolCall("call_2", "wait", "{}"),
                ToolCall("call_3", "look", '{"id":"B"}'),
            ),
        ),
        Message("tool", "1", tool_call_id="call_1"),
        Message("tool", "2", tool_call_id="call_3"),
        Message("tool", "3", tool_call_id="call_2"),
        Message("assistant", "b", (ToolCall("call_4", "look", "{}"),)),
        Message("tool", "4", tool_call_id="call_4"),
    )


def test_both_spellings_of_fields_are_read() -> None:
    request = read(
        system_instruction={"parts": [{"text": "S"}]},
        generation_config={"max_output_tokens": 5, "stopSequences": ["END"], "top_k": 3},
        tools=[{"function_declarations": [{"name": "look", "parameters_json_schema": SCHEMA}]}],
        tool_config={"function_calling_config": {"mode": "any"}},
        safety_settings=[{"category": "x"}],
    )

    assert request.messages[0] == Message("system", "S")
    assert (request.max_output_tokens, request.stop) == (5, ("END",))
    assert request.tools == (ToolSpec("look", "", SCHEMA),)
    assert request.tool_choice == "look"
    assert request.ignored == ("safetySettings",)
    assert request.own is not None
    assert request.own.fields == {
        "generationConfig.maxOutputTokens": 5,
        "generationConfig.topK": 3,
    }


@pytest.mark.parametrize(
    ("config", "expected", "offered"),
    [
        ({"mode": "AUTO"}, None, ["look", "wait"]),
        ({"mode": "NONE"}, NO_TOOL, ["look", "wait"]),
        ({"mode": "ANY"}, None, ["look", "wait"]),
        ({"mode": "ANY", "allowedFunctionNames": ["wait"]}, "wait", ["wait"]),
    ],
)
def test_choices_of_tools(config: Any, expected: str | None, offered: list[str]) -> None:
    tools = [{"functionDeclarations": [{"name": "look"}, {"name": "wait"}]}]
    request = read(tools=tools, toolConfig={"functionCallingConfig": config})

    assert request.tool_choice == expected
    assert [tool.name for tool in request.tools] == offered


def test_a_schema_of_the_api_becomes_a_json_schema() -> None:
    schema = {
        "type": "OBJECT",
        "properties": {
            "type": {"type": "STRING", "enum": ["A"], "nullable": True},
            "days": {
                "type": "ARRAY",
                "items": {"type": "INTEGER", "nullable": True},
                "max_items": "9",
            },
            "any": {"anyOf": [{"type": "NUMBER"}, {"type": "TYPE_UNSPECIFIED"}]},
        },
        "required": ["type"],
        "propertyOrdering": ["days", "type"],
    }
    expected = {
        "type": "object",
        "properties": {
            "type": {"anyOf": [{"type": "string", "enum": ["A"]}, {"type": "null"}]},
            "days": {"type": "array", "items": {"type": ["integer", "null"]}, "maxItems": 9},
            "any": {"anyOf": [{"type": "number"}, {}]},
        },
        "required": ["type"],
    }

    request = read(
        generationConfig={"responseMimeType": "application/json", "responseSchema": schema}
    )

    assert request.response_schema == expected


def test_bad_requests_are_refused_by_their_field() -> None:
    assert wire_refusals(
        read,
        {"tools": [{"googleSearch": {}}]},
        {"tools": [{"code_execution": {}}]},
        {"cachedContent": "c"},
        {"generationConfig": {"candidateCount": 2}},
        {"contents": [{"parts": [{"inlineData": {"data": ""}}]}]},
        {"contents": [{"parts": [{"text": "a", "functionResponse": {}}]}]},
        {"contents": []},
        {"systemInstruction": {}, "system_instruction": {}},
    ) == snapshot("""\
unsupported tools[0].googleSearch: tools[0].googleSearch is not supported by this bridge; supported: functionDeclarations; switch other tools off in the program's settings
unsupported tools[0].codeExecution: tools[0].codeExecution is not supported by this bridge; supported: functionDeclarations; switch other tools off in the program's settings
unsupported cachedContent: cachedContent is not supported by this bridge; supported: the whole conversation in `contents`; the bridge caches none
unsupported generationConfig.candidateCount: generationConfig.candidateCount is not supported by this bridge; supported: one candidate a request
unsupported contents[0].parts[0].inlineData: contents[0].parts[0].inlineData is not supported by this bridge; supported: text, functionResponse
bad_request contents[0].parts[0].functionResponse: contents[0].parts[0].functionResponse: expected one kind of part, has text too
bad_request -: the request has no message of a user
bad_request systemInstruction: systemInstruction: expected one spelling of the field, was given in two
""")


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (BudgetError("budget"), 429, "RESOURCE_EXHAUSTED"),
        (LeakError("stopped"), 400, "FAILED_PRECONDITION"),
        (ModelError("overloaded", "busy"), 503, "UNAVAILABLE"),
        (ModelError("timeout", "late"), 504, "DEADLINE_EXCEEDED"),
    ],
)
@pytest.mark.parametrize("method", ["generate_content", "generate_content_stream"])
def test_failures_come_in_the_providers_form(
    error: KtdevalError, code: int, status: str, method: str
) -> None:
    with asking(error) as (models, running), pytest.raises(errors.APIError) as caught:
        list(getattr(models, method)(model="m", contents="Hi"))

    assert (caught.value.code, caught.value.status, caught.value.message) == (
        code,
        status,
        str(error),
    )
    assert len(running.requests) == 1


def test_tokens_are_estimated_without_asking_the_model() -> None:
    with asking() as (models, running):
        assert models.count_tokens(model="m", contents="Hi").total_tokens == 1 + 4

    assert running.requests == []


def test_models_are_listed() -> None:
    with asking() as (models, _):
        assert [model.name for model in models.list()] == [f"models/{MODEL}"]
        assert models.get(model="gemini-any").name == "models/gemini-any"
