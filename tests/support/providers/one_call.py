"""An answer of one call on each vendor's API, as its server sends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ABSENT = "absent"  #: in place of arguments: the field is left out


def of_chat(name: str, arguments: Any, finish: Any = "tool_calls") -> dict[str, Any]:
    function = {"name": name, **_field("arguments", arguments)}
    message = {"role": "assistant", "tool_calls": [{"id": "a", "function": function}]}
    usage = {"prompt_tokens": 9, "completion_tokens": 4}
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}


def of_responses(name: str, arguments: Any) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": "a", "name": name}
    output = [{**call, **_field("arguments", arguments)}]
    usage = {"input_tokens": 9, "output_tokens": 4}
    return {"status": "completed", "output": output, "usage": usage}


def of_anthropic(name: str, arguments: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": "a", "name": name, **_field("input", arguments)}
    usage = {"input_tokens": 9, "output_tokens": 4}
    return {"type": "message", "content": [block], "stop_reason": "tool_use", "usage": usage}


def of_google(name: str, arguments: Any) -> dict[str, Any]:
    call = {"name": name, **_field("args", arguments)}
    content = {"role": "model", "parts": [{"functionCall": call}]}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 4}
    return {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}


def _field(name: str, arguments: Any) -> dict[str, Any]:
    return {} if arguments == ABSENT else {name: arguments}


#: By wire: a provider that speaks it, and its answer
ONE_CALL: dict[str, tuple[str, Callable[[str, Any], dict[str, Any]]]] = {
    "chat": ("openai_compatible", of_chat),
    "responses": ("openai", of_responses),
    "anthropic": ("anthropic", of_anthropic),
    "google": ("google", of_google),
}
