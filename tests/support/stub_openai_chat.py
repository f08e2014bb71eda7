"""The Chat Completions wire of the stub provider, as strict as the real one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ktdeval.harness.messages import CallParams, Message, ModelRequest, ToolCall, ToolSpec
from stub_neutral import (
    FINGERPRINT,
    JSON_OBJECT,
    NUMBER,
    SERVED_BY,
    Answer,
    Asked,
    Refused,
    StubOptions,
    asked_of,
    check_model,
    check_range,
    check_strict_schema,
    check_supported,
    check_word,
    offered,
    take,
)
from stub_openai import (
    CREATED,
    NULL,
    OpenAIWire,
    check_json_word,
    check_sampling,
    check_support,
    check_tool_name,
    offer,
    plain_text,
)


class ChatWire(OpenAIWire):
    """POST /v1/chat/completions."""

    name = "chat"

    def read(self, body: Any, _model: str, options: StubOptions, _headers: Mapping[str, str]) -> Asked:
        """A request, or Refused."""
        fields: dict[str, Any] = {
            "temperature": (*NUMBER, NULL), "top_p": (*NUMBER, NULL), "max_tokens": (int, NULL),
            "max_completion_tokens": (int, NULL), "seed": (int, NULL), "tools": list, "tool_choice": (str, dict),
            "parallel_tool_calls": bool, "response_format": dict, "reasoning_effort": str, "n": int, "stream": bool,
            "stop": (str, list, NULL), "user": str, "metadata": dict, "store": bool, "verbosity": str,
            "presence_penalty": NUMBER, "frequency_penalty": NUMBER, "service_tier": str, "prompt_cache_key": str,
            **dict.fromkeys(options.extra, object),
        }  # fmt: skip
        take(body, "", {"model": str, "messages": list}, fields)
        check_model(body["model"], options)
        check_supported(body, options)
        check_sampling(body)
        check_range(body.get("seed"), "seed", -(2**63), 2**63 - 1)
        if "max_tokens" in body and "max_completion_tokens" in body:
            raise Refused("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.", param="max_tokens")
        for name in ("max_tokens", "max_completion_tokens"):
            check_range(body.get(name), name, 1, 10**7)
        tools, choice = _chat_tools(body)
        check_support(body, "tools", options)
        messages = _chat_messages(body["messages"])
        schema = _chat_format(body.get("response_format"), messages)
        request = ModelRequest(messages, tools, choice, CallParams(seed=body.get("seed") or 0), schema)
        return asked_of(self.name, body["model"], request, options)

    def write(self, answer: Answer) -> dict[str, Any]:
        """The reply as a chat completion."""
        reply, refused = answer.reply, answer.reply.finish_reason == "refusal"
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if refused or (reply.tool_calls and not reply.content) else reply.content,
            "refusal": reply.content if refused else None,
            "annotations": [],
        }
        if reply.tool_calls:
            message["tool_calls"] = [
                {"id": id_, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for id_, call in zip(answer.call_ids("call_"), reply.tool_calls, strict=True)
            ]
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        usage = reply.usage
        return {
            "id": f"chatcmpl-{answer.stem}",
            "object": "chat.completion",
            "created": CREATED,
            "model": SERVED_BY,
            "system_fingerprint": FINGERPRINT,
            "service_tier": "default",
            "choices": [
                {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop" if refused else reply.finish_reason}
            ],
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.input_tokens + usage.output_tokens,
                "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens, "audio_tokens": 0},
            },
        }


def _chat_tools(body: Mapping[str, Any]) -> tuple[tuple[ToolSpec, ...], str | None]:
    parts = []
    for place, tool in enumerate(body.get("tools", ())):
        at = f"tools[{place}]"
        take(tool, at, {"type": str, "function": dict})
        function = take(tool["function"], f"{at}.function", {"name": str}, {"description": str, "parameters": dict, "strict": bool})
        check_word(tool["type"], f"{at}.type", ("function",))
        check_tool_name(function["name"], f"{at}.function.name")
        if function.get("strict"):
            check_strict_schema(function["parameters"], f"{at}.function.parameters")
        parts.append((function["name"], function.get("description"), function.get("parameters")))
    if "tools" in body and not parts:
        raise Refused("Invalid 'tools': empty array. Expected an array with minimum length 1.", param="tools")
    tools, choice, named = offered(parts), body.get("tool_choice"), None
    if isinstance(choice, dict):
        take(choice, "tool_choice", {"type": str, "function": dict})
        named = take(choice["function"], "tool_choice.function", {"name": str})["name"]
    return offer(choice, named, tools)


def _chat_messages(items: Sequence[Any]) -> tuple[Message, ...]:
    if not items:
        raise Refused("Invalid 'messages': empty array. Expected an array with minimum length 1.", param="messages")
    messages: list[Message] = []
    open_ids: list[str] = []
    for place, item in enumerate(items):
        at = f"messages[{place}]"
        role = item.get("role") if isinstance(item, dict) else None
        check_word(role, f"{at}.role", ("system", "developer", "user", "assistant", "tool"))
        if open_ids and role != "tool":
            raise Refused(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The "
                f"following tool_call_ids did not have response messages: {', '.join(open_ids)}", param=at
            )  # fmt: skip
        if role == "assistant":
            message = _chat_assistant(item, at)
            open_ids = [call.id for call in message.tool_calls]
        elif role == "tool":
            take(item, at, {"role": str, "content": (str, list), "tool_call_id": str})
            if not open_ids or item["tool_call_id"] != open_ids.pop(0):
                raise Refused("messages with role 'tool' must answer the calls of the preceding message, in their order.", param=at)
            message = Message("tool", plain_text(item["content"], f"{at}.content", ("text",)), tool_call_id=item["tool_call_id"])
        else:
            take(item, at, {"role": str, "content": (str, list)}, {"name": str})
            text = plain_text(item["content"], f"{at}.content", ("text",))
            message = Message("user" if role == "user" else "system", text)
        messages.append(message)
    if open_ids:
        raise Refused(f"No tool messages respond to: {', '.join(open_ids)}", param="messages")
    return tuple(messages)


def _chat_assistant(item: dict[str, Any], at: str) -> Message:
    take(item, at, {"role": str}, {"content": (str, list, NULL), "tool_calls": list, "refusal": (str, NULL), "name": str})
    calls = []
    for place, call in enumerate(item.get("tool_calls", ())):
        here = f"{at}.tool_calls[{place}]"
        take(call, here, {"id": str, "type": str, "function": dict})
        take(call["function"], f"{here}.function", {"name": str, "arguments": str})
        check_tool_name(call["function"]["name"], f"{here}.function.name")
        if not call["id"]:
            raise Refused(f"Invalid '{here}.id': empty string.", param=here)
        calls.append(ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"]))
    if "tool_calls" in item and not calls:
        raise Refused(f"Invalid '{at}.tool_calls': empty array. Expected an array with minimum length 1.", param=at)
    if len({call.id for call in calls}) != len(calls):
        raise Refused(f"Duplicate ids in '{at}.tool_calls'.", param=at)
    if item.get("content") is None and not calls:
        raise Refused(f"Invalid value for 'content': expected a string, got null. ({at})", param=at)
    return Message("assistant", plain_text(item.get("content") or "", f"{at}.content", ("text",)), tuple(calls))


def _chat_format(value: Any, messages: Sequence[Message]) -> dict[str, Any] | None:
    if value is None:
        return None
    take(value, "response_format", {"type": str}, {"json_schema": dict})
    check_word(value["type"], "response_format.type", ("text", "json_object", "json_schema"))
    check_json_word(value["type"], messages, "response_format")
    if value["type"] != "json_schema":
        return dict(JSON_OBJECT) if value["type"] == "json_object" else None
    inner = take(
        value.get("json_schema"), "response_format.json_schema", {"name": str, "schema": dict}, {"strict": bool, "description": str}
    )
    check_tool_name(inner["name"], "response_format.json_schema.name")
    if inner.get("strict"):
        check_strict_schema(inner["schema"], "response_format.json_schema.schema")
    return dict(inner["schema"])
