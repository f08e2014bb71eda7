"""The Responses wire of the stub provider, as strict as the real one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ktdeval.harness.messages import Message, ModelRequest, ToolCall, ToolSpec
from stub_neutral import (
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
    EFFORTS,
    NULL,
    OpenAIWire,
    check_json_word,
    check_sampling,
    check_support,
    check_tool_name,
    offer,
    plain_text,
)


class ResponsesWire(OpenAIWire):
    """POST /v1/responses."""

    name = "responses"

    def read(self, body: Any, _model: str, options: StubOptions, _headers: Mapping[str, str]) -> Asked:
        """A request, or Refused."""
        fields: dict[str, Any] = {
            "instructions": (str, NULL), "temperature": (*NUMBER, NULL), "top_p": (*NUMBER, NULL), "max_output_tokens": (int, NULL),
            "tools": list, "tool_choice": (str, dict), "parallel_tool_calls": bool, "text": dict, "reasoning": (dict, NULL),
            "store": bool, "include": list, "stream": bool, "truncation": str, "user": str, "metadata": dict, "service_tier": str,
            "prompt_cache_key": str, "max_tool_calls": int, **dict.fromkeys(options.extra, object),
        }  # fmt: skip
        take(body, "", {"model": str, "input": (str, list)}, fields)
        check_model(body["model"], options)
        check_supported(body, options)
        check_sampling(body)
        check_range(body.get("max_output_tokens"), "max_output_tokens", 16, 10**7)
        _check_reasoning(body.get("reasoning") or {})
        tools, choice = _responses_tools(body)
        check_support(body, "tools", options)
        messages = _items(body["input"])
        if body.get("instructions"):
            messages = [Message("system", body["instructions"]), *messages]
        text = take(body.get("text", {}), "text", {}, {"format": dict, "verbosity": str})
        schema = _responses_format(text.get("format"), messages)
        request = ModelRequest(tuple(messages), tools, choice, response_schema=schema)
        return asked_of(self.name, body["model"], request, options)

    def write(self, answer: Answer) -> dict[str, Any]:
        """The reply as a response object."""
        reply, usage = answer.reply, answer.reply.usage
        incomplete = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(reply.finish_reason)
        status = "completed" if incomplete is None else "incomplete"
        return {
            "id": f"resp_{answer.stem}",
            "object": "response",
            "created_at": CREATED,
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
                "input_tokens_details": {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": 0},
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
                "total_tokens": usage.input_tokens + usage.output_tokens,
            },
            "metadata": {},
        }

    def _output(self, answer: Answer, status: str) -> list[dict[str, Any]]:
        reply, items = answer.reply, []
        if reply.reasoning:
            summary = [{"type": "summary_text", "text": reply.reasoning}]
            items.append({"type": "reasoning", "id": f"rs_{answer.stem}", "summary": summary})
        if reply.finish_reason == "refusal" or reply.content:
            part: dict[str, Any] = {"type": "output_text", "text": reply.content, "annotations": [], "logprobs": []}
            if reply.finish_reason == "refusal":
                part = {"type": "refusal", "refusal": reply.content}
            items.append({"type": "message", "id": f"msg_{answer.stem}", "role": "assistant", "status": status, "content": [part]})
        for place, (id_, call) in enumerate(zip(answer.call_ids("call_"), reply.tool_calls, strict=True)):
            item = {"type": "function_call", "id": f"fc_{answer.stem}{place}", "call_id": id_, "name": call.name}
            items.append({**item, "arguments": call.arguments, "status": status})
        return items


def _check_reasoning(value: Mapping[str, Any]) -> None:
    take(value, "reasoning", {}, {"effort": (str, NULL), "summary": (str, NULL)})
    if value.get("effort") is not None:
        check_word(value["effort"], "reasoning.effort", EFFORTS)
    if value.get("summary") is not None:
        check_word(value["summary"], "reasoning.summary", ("auto", "concise", "detailed"))


def _responses_tools(body: Mapping[str, Any]) -> tuple[tuple[ToolSpec, ...], str | None]:
    parts = []
    for place, tool in enumerate(body.get("tools", ())):
        at = f"tools[{place}]"
        take(tool, at, {"type": str, "name": str, "parameters": (dict, NULL)}, {"description": (str, NULL), "strict": (bool, NULL)})
        check_word(tool["type"], f"{at}.type", ("function",))
        check_tool_name(tool["name"], f"{at}.name")
        if tool.get("strict", True) is not False:  # strict is the default here, other than in chat completions
            check_strict_schema(tool["parameters"], f"{at}.parameters")
        parts.append((tool["name"], tool.get("description"), tool["parameters"]))
    tools, choice, named = offered(parts), body.get("tool_choice"), None
    if isinstance(choice, dict):
        named = take(choice, "tool_choice", {"type": str, "name": str})["name"]
        check_word(choice["type"], "tool_choice.type", ("function",))
    return offer(choice, named, tools)


def _items(value: Any) -> list[Message]:
    """Input items as messages: consecutive calls, and the text before them, are one assistant turn."""
    if isinstance(value, str):
        return [Message("user", value)]
    messages: list[Message] = []
    open_ids: list[str] = []
    for place, item in enumerate(value):
        at = f"input[{place}]"
        kind = item.get("type", "message") if isinstance(item, dict) else None
        check_word(kind, f"{at}.type", ("message", "function_call", "function_call_output", "reasoning"))
        if kind == "reasoning":
            take(
                item,
                at,
                {"type": str, "id": str, "summary": list},
                {"encrypted_content": (str, NULL), "content": list, "status": str},
            )
        elif kind == "function_call":
            _add_call(messages, item, at)
            open_ids.append(item["call_id"])
        elif kind == "function_call_output":
            take(item, at, {"type": str, "call_id": str, "output": (str, list)}, {"id": str, "status": str})
            if not open_ids or item["call_id"] != open_ids.pop(0):
                raise Refused(f"No tool call found for function call output with call_id {item['call_id']}.", param=at)
            text = plain_text(item["output"], f"{at}.output", ("input_text",))
            messages.append(Message("tool", text, tool_call_id=item["call_id"]))
        else:
            if open_ids:
                raise Refused(f"No tool output found for function call {open_ids[0]}.", param=at)
            messages.append(_response_message(item, at))
    if open_ids:
        raise Refused(f"No tool output found for function call {open_ids[0]}.", param="input")
    return messages


def _add_call(messages: list[Message], item: dict[str, Any], at: str) -> None:
    take(item, at, {"type": str, "call_id": str, "name": str, "arguments": str}, {"id": str, "status": str})
    check_tool_name(item["name"], f"{at}.name")
    if not 1 <= len(item["call_id"]) <= 64:
        raise Refused(f"Invalid '{at}.call_id': string too long or empty. Expected a string with maximum length 64.", param=at)
    call = ToolCall(item["call_id"], item["name"], item["arguments"])
    if messages and messages[-1].role == "assistant":
        last = messages.pop()
        messages.append(Message("assistant", last.content, (*last.tool_calls, call)))
    else:
        messages.append(Message("assistant", "", (call,)))


def _response_message(item: dict[str, Any], at: str) -> Message:
    take(item, at, {"role": str, "content": (str, list)}, {"type": str, "id": str, "status": str, "phase": str})
    check_word(item["role"], f"{at}.role", ("user", "assistant", "system", "developer"))
    kinds = ("output_text",) if item["role"] == "assistant" else ("input_text",)
    text = plain_text(item["content"], f"{at}.content", kinds)
    role = item["role"]
    return Message(role if role in ("user", "assistant") else "system", text)


def _responses_format(value: Any, messages: Sequence[Message]) -> dict[str, Any] | None:
    if value is None:
        return None
    take(value, "text.format", {"type": str}, {"name": str, "schema": dict, "strict": (bool, NULL), "description": str})
    check_word(value["type"], "text.format.type", ("text", "json_object", "json_schema"))
    check_json_word(value["type"], messages, "text.format")
    if value["type"] != "json_schema":
        return dict(JSON_OBJECT) if value["type"] == "json_object" else None
    take(value, "text.format", {"type": str, "name": str, "schema": dict}, {"strict": (bool, NULL), "description": str})
    check_tool_name(value["name"], "text.format.name")
    if value.get("strict"):
        check_strict_schema(value["schema"], "text.format.schema")
    return dict(value["schema"])
