"""Texts of chat messages in the forms of OpenAI, Anthropic, LangChain and OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ktdeval.values import JsonValue, dumps_compact
from ktdeval_audit.log_types import LogFill, LogText, Role

_ROLES: Mapping[str, Role] = {
    "system": "prompt",
    "developer": "prompt",
    "user": "prompt",
    "human": "prompt",
    "tool": "tool",
    "function": "tool",
    "ipython": "tool",
    "environment": "tool",
    "assistant": "reply",
    "ai": "reply",
    "model": "reply",
}
_RESULT_TYPES = {
    "tool_result",
    "function_call_output",
    "tool_call_response",
    "custom_tool_call_output",
}
_CALL_TYPES = {"tool_use", "function_call", "tool_call", "server_tool_use"}
_FILL_LISTS = ("fills", "trades", "executions", "filled_orders")
_PRICES = ("price", "fill_price", "avg_price", "executed_price", "filled_price")
_FILL_DAYS = ("day", "date", "filled_on", "fill_date", "filled_at", "timestamp", "time")
_CODES = ("code", "symbol", "ticker", "stock_id", "asset", "instrument")
_NOT_METADATA = {"messages", "content", "prompt", "response", "choices", "output", "outputs"}
_DEEPEST = 4  # levels of metadata that are read
_LONGEST_FIELD = 300


def is_message(value: JsonValue) -> bool:
    """Whether a value is a chat message, in any of the forms."""
    if not isinstance(value, Mapping):
        return False

    inner = _unwrap_message(value)
    has_text = any(key in inner for key in ("content", "parts", "tool_calls", "text", "contents"))
    return has_text and role_of(inner) is not None


def role_of(message: Mapping[str, JsonValue]) -> Role | None:
    """Return who wrote a message; None where it has no known role."""
    for key in ("role", "type"):
        word = message.get(key)
        if isinstance(word, str) and word.lower() in _ROLES:
            return _ROLES[word.lower()]

    kind = message.get("type")
    if kind in _RESULT_TYPES:
        return "tool"
    return "reply" if kind in _CALL_TYPES else None


def message_texts(value: JsonValue, place: str, line: int | None) -> Iterator[LogText]:
    """Yield the texts of a message: its content, the arguments of its calls, its reasoning."""
    if not isinstance(value, Mapping):
        return

    message = _unwrap_message(value)
    role = role_of(message) or "prompt"
    fields = flat_fields(value)
    for part_role, text in _parts(message, role):
        if text.strip():
            yield LogText(role=part_role, text=text, place=place, line=line, fields=fields)


def _unwrap_message(message: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Return the inner message of LangChain's two forms of JSON."""
    for key in ("kwargs", "data", "message"):
        inner = message.get(key)
        if isinstance(inner, Mapping) and "content" in inner and "content" not in message:
            kind = message.get("type")
            if isinstance(kind, str) and kind in _ROLES:
                return {"type": kind, **inner}
            return inner
    return message


def _parts(message: Mapping[str, JsonValue], role: Role) -> Iterator[tuple[Role, str]]:
    for key in ("content", "contents", "parts", "text", "reasoning_content", "reasoning", "output"):
        if key in message:
            yield from _content(message[key], role)

    kind = message.get("type")
    if kind in _CALL_TYPES:
        yield "reply", _as_text(message.get("input", message.get("arguments")))
    if kind == "tool_call_response":
        yield "tool", _as_text(message.get("response", message.get("result")))

    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return

    for call in calls:
        if isinstance(call, Mapping):
            yield "reply", _call_text(call)


def _content(value: JsonValue, role: Role) -> Iterator[tuple[Role, str]]:
    if isinstance(value, str):
        yield role, value
    elif isinstance(value, Mapping):
        yield from _part(value, role)
    elif isinstance(value, list):
        for part in value:
            if isinstance(part, str):
                yield role, part
            elif isinstance(part, Mapping):
                yield from _part(part, role)


def _part(part: Mapping[str, JsonValue], role: Role) -> Iterator[tuple[Role, str]]:
    """Yield the texts of one part of a content: text, call, result, or reasoning."""
    kind = part.get("type")
    if kind in _RESULT_TYPES:
        result = part.get("content", part.get("output", part.get("response", part.get("result"))))
        if isinstance(result, list):
            yield from _content(result, "tool")
        else:
            yield "tool", _as_text(result)
        return

    if kind in _CALL_TYPES:
        yield "reply", _as_text(part.get("input", part.get("arguments")))
        return

    for key in ("text", "content", "thinking", "reasoning", "summary"):
        text = part.get(key)
        if isinstance(text, str):
            yield role, text
        elif isinstance(text, list):
            yield from _content(text, role)


def _call_text(call: Mapping[str, JsonValue]) -> str:
    function = call.get("function")
    inner = function if isinstance(function, Mapping) else call
    for key in ("arguments", "args", "input"):
        if key in inner:
            return _as_text(inner[key])
    return ""


def _as_text(value: JsonValue) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return dumps_compact(value)


# ---- what stands beside the messages


def flat_fields(value: JsonValue, prefix: str = "", level: int = 0) -> dict[str, JsonValue]:
    """Return the short texts and numbers of an object by dotted name, without those of messages."""
    fields: dict[str, JsonValue] = {}
    if not isinstance(value, Mapping) or level >= _DEEPEST:
        return fields

    for key, item in value.items():
        if key in _NOT_METADATA:
            continue

        name = f"{prefix}{key}"
        if isinstance(item, Mapping):
            fields |= flat_fields(item, f"{name}.", level + 1)
        elif isinstance(item, int | float) or (
            isinstance(item, str) and len(item) <= _LONGEST_FIELD
        ):
            fields[name] = item

    return fields


def recorded_fills(value: JsonValue, place: str, line: int | None) -> Iterator[LogFill]:
    """Yield the fills in an object's lists of them: each with a price, perhaps a code and a day."""
    if not isinstance(value, Mapping):
        return

    for name in _FILL_LISTS:
        fills = value.get(name)
        if not isinstance(fills, list):
            continue

        for number, fill in enumerate(fills):
            if isinstance(fill, Mapping):
                yield from _fill(fill, f"{place}.{name}[{number}]", line)


def _fill(fill: Mapping[str, JsonValue], place: str, line: int | None) -> Iterator[LogFill]:
    price = _first(fill, _PRICES)
    if isinstance(price, bool) or not isinstance(price, int | float):
        return

    decimals = repr(float(price)).partition(".")[2]
    day = _first(fill, _FILL_DAYS)
    code = _first(fill, _CODES)
    yield LogFill(
        price=float(price),
        digits=len(decimals.rstrip("0")),
        code=code if isinstance(code, str) else "",
        day=day[:10] if isinstance(day, str) else "",
        place=place,
        line=line,
    )


def _first(fill: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((fill[name] for name in names if name in fill), None)
