"""The two OpenAI wires of the stub provider, Chat Completions and Responses, as strict as the real
ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest, ToolCall, ToolSpec
from support.providers.stub_neutral import (
    FINGERPRINT,
    JSON_OBJECT,
    MODEL,
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

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_NULL = type(None)
_CREATED = 1_768_435_200
_TYPES = {
    "rate_limited": "requests",
    "no_quota": "insufficient_quota",
    "server": "server_error",
    "overloaded": "server_error",
}
_CODES = {
    "rate_limited": "rate_limit_exceeded",
    "no_quota": "insufficient_quota",
    "unauthorized": "invalid_api_key",
    "unknown_model": "model_not_found",
    "unsupported": "unsupported_parameter",
    "context": "context_length_exceeded",
    "filtered": "content_filter",
    "no_balance": "insufficient_balance",
}
_BOTH = {
    "temperature": (*NUMBER, _NULL),
    "top_p": (*NUMBER, _NULL),
    "tools": list,
    "tool_choice": (dict, str),
    "parallel_tool_calls": bool,
    "store": bool,
    "stream": bool,
    "stream_options": dict,
    "user": str,
    "metadata": dict,
    "service_tier": str,
    "prompt_cache_key": str,
}
_CHAT = {
    **_BOTH,
    "max_tokens": (int, _NULL),
    "max_completion_tokens": (int, _NULL),
    "seed": (int, _NULL),
    "response_format": dict,
    "reasoning_effort": str,
    "n": int,
    "stop": (str, list, _NULL),
    "verbosity": str,
    "presence_penalty": NUMBER,
    "frequency_penalty": NUMBER,
}
_RESPONSES = {
    **_BOTH,
    "instructions": (str, _NULL),
    "max_output_tokens": (int, _NULL),
    "text": dict,
    "reasoning": (dict, _NULL),
    "include": list,
    "truncation": str,
    "max_tool_calls": int,
}


class OpenAIWire:
    """Common parts of both APIs: keys, the form of errors, and the form of tools."""

    name = ""
    nests = False  # whether a tool stands in a field `function`

    def key(self, headers: Mapping[str, str]) -> str:
        return headers.get("Authorization", "").removeprefix("Bearer ")

    def error(self, problem: Refused) -> dict[str, Any]:
        kind = _TYPES.get(problem.kind, "invalid_request_error")
        return {
            "error": {
                "message": problem.message,
                "type": kind,
                "param": problem.param,
                "code": _CODES.get(problem.kind),
            }
        }

    def begin(
        self, body: Any, required: dict[str, Any], fields: dict[str, Any], options: StubOptions
    ) -> None:
        """Refuse fields that are unknown, of another type, not supported or out of their range."""
        take(body, "", {"model": str, **required}, fields)
        check_model(body["model"], options)
        check_supported(body, options)
        check_range(body.get("temperature"), "temperature", 0, 2)
        check_range(body.get("top_p"), "top_p", 0, 1)

        if "parallel_tool_calls" in body and not body.get("tools"):
            raise Refused(
                "'parallel_tool_calls' is only allowed when 'tools' are specified.",
                param="parallel_tool_calls",
            )

    def tools(
        self, body: Mapping[str, Any], options: StubOptions
    ) -> tuple[tuple[ToolSpec, ...], str | None]:
        nested = self.nests
        parts = []
        for index, tool in enumerate(body.get("tools", ())):
            at = f"tools[{index}]"
            if nested:
                take(tool, at, {"type": str, "function": dict})
                optional: dict[str, Any] = {"description": str, "parameters": dict, "strict": bool}
                function = take(tool["function"], at := f"{at}.function", {"name": str}, optional)
            else:
                optional = {"description": (str, _NULL), "strict": (bool, _NULL)}
                function = take(
                    tool, at, {"type": str, "name": str, "parameters": (dict, _NULL)}, optional
                )

            check_word(tool["type"], f"tools[{index}].type", ("function",))
            check_tool_name(function["name"], f"{at}.name")
            # strict is the default of Responses
            if function.get("strict", not nested) is not False:
                check_strict_schema(function["parameters"], f"{at}.parameters")

            parts.append(
                (function["name"], function.get("description"), function.get("parameters"))
            )

        if nested and "tools" in body and not parts:
            raise Refused(
                "Invalid 'tools': empty array. Expected an array with minimum length 1.",
                param="tools",
            )

        choice = self._choice(body.get("tool_choice"), offered(parts))
        if options.tools == "refused" and body.get("tools"):
            raise Refused(
                "Unsupported parameter: 'tools' is not supported with this model.",
                "unsupported",
                param="tools",
            )

        return choice

    def _choice(
        self, value: Any, tools: tuple[ToolSpec, ...]
    ) -> tuple[tuple[ToolSpec, ...], str | None]:
        """The tools, and the one that a tool choice forces: an object that names it or that allows
        some, or a word.
        """
        named = None
        if value == "none":
            return (), None
        if value == "auto" and tools:
            return tools, None
        if value == "required" and tools:
            return tools, tools[-1].name
        if isinstance(value, dict) and value.get("type") == "allowed_tools":
            return self._allowed(value, tools)

        if isinstance(value, str):
            check_word(value, "tool_choice", ("none", "auto", "required"))
        elif value is not None:
            where = take(
                value,
                "tool_choice",
                {"type": str, **({"function": dict} if self.nests else {"name": str})},
            )
            named = (
                take(where["function"], "tool_choice.function", {"name": str})["name"]
                if "function" in where
                else where["name"]
            )
            check_word(value["type"], "tool_choice.type", ("function",))

        if value is not None and not tools:
            raise Refused(
                "'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice"
            )

        if named is not None and named not in [tool.name for tool in tools]:
            raise Refused(
                f"Tool choice '{named}' not found in 'tools' parameter.", param="tool_choice"
            )

        return tools, named

    def _allowed(
        self, value: Any, tools: tuple[ToolSpec, ...]
    ) -> tuple[tuple[ToolSpec, ...], str | None]:
        """The tools that a choice allows, and the one to call where one must be."""
        where = value["allowed_tools"] if self.nests else value
        check_word(where["mode"], "tool_choice.mode", ("auto", "required"))
        names = [
            tool["function"]["name"] if self.nests else tool["name"] for tool in where["tools"]
        ]
        kept = tuple(tool for tool in tools if tool.name in names)
        if len(kept) < len(names):
            raise Refused("Tool choice not found in 'tools' parameter.", param="tool_choice")
        return kept, kept[-1].name if where["mode"] == "required" else None


def check_tool_name(name: str, at: str) -> None:
    if not _NAME.fullmatch(name):
        raise Refused(
            f"Invalid '{at}': string does not match pattern. Expected a string that matches"
            " '^[a-zA-Z0-9_-]+$'.",
            param=at,
        )


def schema_of(value: Any, at: str, messages: Sequence[Message]) -> dict[str, Any] | None:
    """The schema that a reply must follow, from `response_format` or `text.format`; None for any
    text.
    """
    if value is None:
        return None

    optional: dict[str, Any] = {"strict": (bool, _NULL), "description": str}
    nested = at == "response_format"
    take(
        value,
        at,
        {"type": str},
        {"json_schema": dict} if nested else {"name": str, "schema": dict, **optional},
    )
    check_word(value["type"], f"{at}.type", ("text", "json_object", "json_schema"))

    if value["type"] == "json_object" and not any(
        "json" in message.content.lower() for message in messages
    ):
        raise Refused(
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type"
            " 'json_object'.",
            param=at,
        )

    if value["type"] != "json_schema":
        return dict(JSON_OBJECT) if value["type"] == "json_object" else None

    where = f"{at}.json_schema" if nested else at
    inner = take(
        value.get("json_schema") if nested else value,
        where,
        {"name": str, "schema": dict},
        {"type": str, **optional},
    )
    check_tool_name(inner["name"], f"{where}.name")

    if inner.get("strict"):
        check_strict_schema(inner["schema"], f"{where}.schema")

    return dict(inner["schema"])


# -- Chat Completions


class ChatWire(OpenAIWire):
    """POST /v1/chat/completions."""

    name = "chat"
    nests = True

    def read(
        self, body: Any, _model: str, options: StubOptions, _headers: Mapping[str, str]
    ) -> Asked:
        self.begin(body, {"messages": list}, _CHAT, options)
        check_range(body.get("n"), "n", 1, 1)
        if "reasoning_effort" in body:
            check_word(body["reasoning_effort"], "reasoning_effort", _EFFORTS)

        check_range(body.get("seed"), "seed", -(2**63), 2**63 - 1)
        if "max_tokens" in body and "max_completion_tokens" in body:
            raise Refused(
                "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not"
                " supported.",
                param="max_tokens",
            )

        for name in ("max_tokens", "max_completion_tokens"):
            check_range(body.get(name), name, 1, 10**7)

        tools, choice = self.tools(body, options)
        messages = _chat_messages(body["messages"])
        schema = schema_of(body.get("response_format"), "response_format", messages)
        request = ModelRequest(
            messages, tools, choice, CallParams(seed=body.get("seed") or 0), schema
        )

        return asked_of(self.name, body["model"], request, options)

    def write(self, answer: Answer) -> dict[str, Any]:
        reply = answer.reply
        usage = answer.reply.usage
        refused = answer.reply.finish_reason == "refusal"
        message: dict[str, Any] = {
            "role": "assistant",
            "content": (
                None if refused or (reply.tool_calls and not reply.content) else reply.content
            ),
            "refusal": reply.content if refused else None,
            "annotations": [],
        }

        if reply.tool_calls:
            message["tool_calls"] = [
                {
                    "id": id_,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for id_, call in zip(answer.call_ids("call_"), reply.tool_calls, strict=True)
            ]

        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning

        finish = "stop" if refused else reply.finish_reason

        return {
            "id": f"chatcmpl-{answer.stem}",
            "object": "chat.completion",
            "created": _CREATED,
            "model": f"{answer.asked.model}{SERVED_BY.removeprefix(MODEL)}",
            "system_fingerprint": FINGERPRINT,
            "service_tier": "default",
            "choices": [
                {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
            ],
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.input_tokens + usage.output_tokens,
                "prompt_tokens_details": {
                    "cached_tokens": usage.cache_read_tokens,
                    "audio_tokens": 0,
                },
                "completion_tokens_details": {
                    "reasoning_tokens": usage.reasoning_tokens,
                    "audio_tokens": 0,
                },
            },
        }


def _chat_messages(items: Sequence[Any]) -> tuple[Message, ...]:
    if not items:
        raise Refused(
            "Invalid 'messages': empty array. Expected an array with minimum length 1.",
            param="messages",
        )

    messages: list[Message] = []
    open_ids: list[str] = []
    for index, item in enumerate(items):
        at = f"messages[{index}]"
        role = item.get("role") if isinstance(item, dict) else None
        check_word(role, f"{at}.role", ("system", "developer", "user", "assistant", "tool"))
        if open_ids and role != "tool":
            raise Refused(
                "An assistant message with 'tool_calls' must be followed by tool messages"
                " responding to each 'tool_call_id'. The following tool_call_ids did not have"
                f" response messages: {', '.join(open_ids)}",
                param=at,
            )

        if role == "assistant":
            message = _chat_assistant(item, at)
            open_ids = [call.id for call in message.tool_calls]
        elif role == "tool":
            take(item, at, {"role": str, "content": str, "tool_call_id": str})
            if not open_ids or item["tool_call_id"] != open_ids.pop(0):
                raise Refused(
                    "messages with role 'tool' must answer the calls of the preceding message, in"
                    " their order.",
                    param=at,
                )

            message = Message("tool", item["content"], tool_call_id=item["tool_call_id"])
        else:
            take(item, at, {"role": str, "content": str}, {"name": str})
            message = Message("user" if role == "user" else "system", item["content"])

        messages.append(message)

    if open_ids:
        raise Refused(f"No tool messages respond to: {', '.join(open_ids)}", param="messages")

    return tuple(messages)


def _chat_assistant(item: dict[str, Any], at: str) -> Message:
    take(
        item,
        at,
        {"role": str},
        {"content": (str, _NULL), "tool_calls": list, "refusal": (str, _NULL), "name": str},
    )
    calls = []

    for index, call in enumerate(item.get("tool_calls", ())):
        here = f"{at}.tool_calls[{index}]"
        take(call, here, {"id": str, "type": str, "function": dict})
        take(call["function"], f"{here}.function", {"name": str, "arguments": str})
        check_tool_name(call["function"]["name"], f"{here}.function.name")
        if not call["id"]:
            raise Refused(f"Invalid '{here}.id': empty string.", param=here)

        calls.append(ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"]))

    if "tool_calls" in item and not calls:
        raise Refused(
            f"Invalid '{at}.tool_calls': empty array. Expected an array with minimum length 1.",
            param=at,
        )

    if len({call.id for call in calls}) != len(calls):
        raise Refused(f"Duplicate ids in '{at}.tool_calls'.", param=at)

    if item.get("content") is None and not calls:
        raise Refused(f"Invalid value for 'content': expected a string, got null. ({at})", param=at)

    return Message("assistant", item.get("content") or "", tuple(calls))


# -- Responses


class ResponsesWire(OpenAIWire):
    """POST /v1/responses."""

    name = "responses"

    def read(
        self, body: Any, _model: str, options: StubOptions, _headers: Mapping[str, str]
    ) -> Asked:
        self.begin(body, {"input": list}, _RESPONSES, options)
        check_range(body.get("max_output_tokens"), "max_output_tokens", 16, 10**7)
        reasoning = take(
            body.get("reasoning") or {},
            "reasoning",
            {},
            {"effort": (str, _NULL), "summary": (str, _NULL)},
        )

        for name, words in (("effort", _EFFORTS), ("summary", ("auto", "concise", "detailed"))):
            if reasoning.get(name) is not None:
                check_word(reasoning[name], f"reasoning.{name}", words)

        tools, choice = self.tools(body, options)
        messages = _items(body["input"])
        if body.get("instructions"):
            messages = [Message("system", body["instructions"]), *messages]

        text = take(body.get("text", {}), "text", {}, {"format": dict, "verbosity": str})
        schema = schema_of(text.get("format"), "text.format", messages)

        return asked_of(
            self.name,
            body["model"],
            ModelRequest(tuple(messages), tools, choice, response_schema=schema),
            options,
        )

    def write(self, answer: Answer) -> dict[str, Any]:
        reply = answer.reply
        usage = answer.reply.usage
        incomplete = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(
            reply.finish_reason
        )
        status = "completed" if incomplete is None else "incomplete"

        return {
            "id": f"resp_{answer.stem}",
            "object": "response",
            "created_at": _CREATED,
            "status": status,
            "error": None,
            "incomplete_details": None if incomplete is None else {"reason": incomplete},
            "instructions": None,
            "model": SERVED_BY,
            "output": list(self._output(answer, status)),
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "store": False,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": {
                "input_tokens": usage.input_tokens,
                "input_tokens_details": {
                    "cached_tokens": usage.cache_read_tokens,
                    "cache_write_tokens": 0,
                },
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
                "total_tokens": usage.input_tokens + usage.output_tokens,
            },
            "metadata": {},
        }

    def _output(self, answer: Answer, status: str) -> list[dict[str, Any]]:
        reply = answer.reply
        items = []
        if reply.reasoning:
            summary = [{"type": "summary_text", "text": reply.reasoning}]
            thought = {"type": "reasoning", "id": f"rs_{answer.stem}", "summary": summary}
            items.append({**thought, "encrypted_content": f"sealed {answer.stem}"})

        if reply.finish_reason == "refusal" or reply.content:
            part: dict[str, Any] = {
                "type": "output_text",
                "text": reply.content,
                "annotations": [],
                "logprobs": [],
            }
            if reply.finish_reason == "refusal":
                part = {"type": "refusal", "refusal": reply.content}

            items.append(
                {
                    "type": "message",
                    "id": f"msg_{answer.stem}",
                    "role": "assistant",
                    "status": status,
                    "content": [part],
                }
            )

        for index, (id_, call) in enumerate(
            zip(answer.call_ids("call_"), reply.tool_calls, strict=True)
        ):
            item = {
                "type": "function_call",
                "id": f"fc_{answer.stem}{index}",
                "call_id": id_,
                "name": call.name,
            }
            items.append({**item, "arguments": call.arguments, "status": status})

        return items


def _items(value: Any) -> list[Message]:
    """Input items as messages: consecutive calls, and the text before them, are one assistant
    turn.
    """
    messages: list[Message] = []
    open_ids: list[str] = []

    for index, item in enumerate(value):
        at = f"input[{index}]"
        kind = item.get("type", "message") if isinstance(item, dict) else None
        kinds = ("message", "function_call", "function_call_output", "reasoning")
        check_word(kind, f"{at}.type", kinds)
        if kind == "reasoning":
            given = {"type": str, "id": str, "summary": list}
            take(item, at, given, {"encrypted_content": str, "content": list, "status": str})
        elif kind == "function_call":
            _add_call(messages, item, at)
            open_ids.append(item["call_id"])
        elif kind == "function_call_output":
            take(item, at, {"type": str, "call_id": str, "output": str}, {"id": str, "status": str})
            if not open_ids or item["call_id"] != open_ids.pop(0):
                raise Refused(
                    f"No tool call found for function call output with call_id {item['call_id']}.",
                    param=at,
                )

            messages.append(Message("tool", item["output"], tool_call_id=item["call_id"]))
        else:
            if open_ids:
                raise Refused(f"No tool output found for function call {open_ids[0]}.", param=at)

            messages.append(_response_message(item, at))

    if open_ids:
        raise Refused(f"No tool output found for function call {open_ids[0]}.", param="input")

    return messages


def _add_call(messages: list[Message], item: dict[str, Any], at: str) -> None:
    take(
        item,
        at,
        {"type": str, "call_id": str, "name": str, "arguments": str},
        {"id": str, "status": str},
    )
    check_tool_name(item["name"], f"{at}.name")

    if not 1 <= len(item["call_id"]) <= 64:
        raise Refused(
            f"Invalid '{at}.call_id': string too long or empty. Expected a string with maximum"
            " length 64.",
            param=at,
        )

    call = ToolCall(item["call_id"], item["name"], item["arguments"])
    last = (
        messages.pop()
        if messages and messages[-1].role == "assistant"
        else Message("assistant", "")
    )
    messages.append(Message("assistant", last.content, (*last.tool_calls, call)))


def _response_message(item: dict[str, Any], at: str) -> Message:
    take(
        item,
        at,
        {"role": str, "content": str},
        {"type": str, "id": str, "status": str, "phase": str},
    )
    role = item["role"]
    check_word(role, f"{at}.role", ("user", "assistant", "system", "developer"))

    return Message(role if role in ("user", "assistant") else "system", item["content"])
