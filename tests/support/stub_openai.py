"""What the two OpenAI wires of the stub provider have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ktdeval.harness.messages import Message, ToolSpec
from stub_neutral import Refused, StubOptions, check_range, check_type, check_word, take

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
NULL = type(None)
CREATED = 1_768_435_200


class OpenAIWire:
    """What the two have in common: keys, and how errors look."""

    name = ""

    def key(self, headers: Mapping[str, str]) -> str:
        """The key that came along."""
        return headers.get("Authorization", "").removeprefix("Bearer ")

    def error(self, problem: Refused) -> dict[str, Any]:
        """An error in OpenAI's shape."""
        types = {
            "rate_limited": "requests",
            "no_quota": "insufficient_quota",
            "server": "server_error",
            "overloaded": "server_error",
        }
        codes = {
            "rate_limited": "rate_limit_exceeded", "no_quota": "insufficient_quota", "unauthorized": "invalid_api_key",
            "unknown_model": "model_not_found", "unsupported": "unsupported_parameter", "context": "context_length_exceeded",
            "filtered": "content_filter", "no_balance": "insufficient_balance",
        }  # fmt: skip
        kind = types.get(problem.kind, "invalid_request_error")
        return {"error": {"message": problem.message, "type": kind, "param": problem.param, "code": codes.get(problem.kind)}}


def check_support(body: Mapping[str, Any], name: str, options: StubOptions) -> None:
    if options.tools == "refused" and body.get(name):
        raise Refused("Unsupported parameter: 'tools' is not supported with this model.", "unsupported", param=name)


def check_sampling(body: Mapping[str, Any]) -> None:
    check_range(body.get("temperature"), "temperature", 0, 2)
    check_range(body.get("top_p"), "top_p", 0, 1)
    if body.get("stream"):
        raise Refused("The stub does not stream.", param="stream")
    if "n" in body:
        check_range(body["n"], "n", 1, 1)
    if "reasoning_effort" in body:
        check_word(body["reasoning_effort"], "reasoning_effort", EFFORTS)
    if "parallel_tool_calls" in body and not body.get("tools"):
        raise Refused("'parallel_tool_calls' is only allowed when 'tools' are specified.", param="parallel_tool_calls")


def offer(value: Any, named: str | None, tools: tuple[ToolSpec, ...]) -> tuple[tuple[ToolSpec, ...], str | None]:
    """What a tool choice, a word or an object that names one, leaves of the tools, and the one that it forces."""
    if value is not None and not tools:
        raise Refused("'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice")
    if isinstance(value, str):
        check_word(value, "tool_choice", ("none", "auto", "required"))
        if value == "none":
            return (), None
        return tools, tools[0].name if value == "required" and len(tools) == 1 else None
    if named is not None and named not in [tool.name for tool in tools]:
        raise Refused(f"Tool choice '{named}' not found in 'tools' parameter.", param="tool_choice")
    return tools, named


def check_tool_name(name: str, at: str) -> None:
    if not _NAME.fullmatch(name):
        raise Refused(
            f"Invalid '{at}': string does not match pattern. Expected a string that matches '^[a-zA-Z0-9_-]+$'.", param=at
        )


def plain_text(content: Any, at: str, kinds: Sequence[str]) -> str:
    """Text, or parts of text."""
    if isinstance(content, str):
        return content
    check_type(content, list, at)
    pieces = []
    for place, part in enumerate(content):
        take(part, f"{at}[{place}]", {"type": str, "text": str}, {"annotations": list, "logprobs": list})
        check_word(part["type"], f"{at}[{place}].type", kinds)
        pieces.append(part["text"])
    return "".join(pieces)


def check_json_word(kind: str, messages: Sequence[Message], at: str) -> None:
    if kind == "json_object" and not any("json" in message.content.lower() for message in messages):
        raise Refused(
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.", param=at
        )
