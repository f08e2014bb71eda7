"""Reading and writing JSON of a given shape, for the adapters of OpenAI's wire formats."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from ktdeval.calls import Caller, bad_response
from ktdeval.harness import Usage
from ktdeval.jsonio import JsonValue, loads_strict

T = TypeVar("T")

MOST_SEED = 2**31
"""Seeds are sent modulo this: the smallest range that a server documents."""

_NO_NAME_SIGN = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64


def part(mapping: Mapping[str, Any], name: str, kind: type[T], caller: Caller) -> T:
    """A field that must be there. Raises ModelError: `bad_response`, it is missing or of another type."""
    value = mapping.get(name)
    if not isinstance(value, kind):
        raise bad_response(caller, f"the reply's {name!r} is {'missing' if value is None else f'a {type(value).__name__}'}")
    return value


def text_of(value: JsonValue) -> str:
    """Return the text of a field that may be missing, text, or a list of parts with text."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    return "".join(item["text"] for item in value if isinstance(item, dict) and isinstance(item.get("text"), str))


def sent_name(name: str) -> str:
    """A tool's name as every server takes it in an earlier turn: a model may have called what has no such name."""
    return _NO_NAME_SIGN.sub("_", name)[:_LONGEST_NAME] or "_"


def sent_arguments(text: str) -> str:
    """A call's arguments as every server takes them in an earlier turn: some refuse, or fail on, what is no JSON object."""
    try:
        is_object = isinstance(loads_strict(text), dict)
    except ValueError:
        is_object = False
    return text if is_object else json.dumps({"malformed_arguments": text}, ensure_ascii=False)


def written_arguments(value: JsonValue, caller: Caller) -> str:
    """Return the raw arguments of a call in a reply; some servers send them as an object instead of its text. Raises ModelError:
    `bad_response`, they are neither.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    raise bad_response(caller, "a tool call's arguments are neither text nor an object")


def count(usage: Mapping[str, Any], *path: str) -> int:
    """A count of tokens, 0 where there is none, or none that makes sense."""
    value: Any = usage
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def whole_usage(total: int, found: Usage) -> Usage:
    """Counts made consistent: a part is never more than its whole, and the output has the reasoning in it. `total`: of input and
    output, as the provider says; 0 where it does not. Some leave reasoning out of the output, not of it.
    """
    output = max(found.output_tokens, total - found.input_tokens)
    read = min(found.cache_read_tokens, found.input_tokens)
    return Usage(
        input_tokens=found.input_tokens,
        output_tokens=output,
        reasoning_tokens=min(found.reasoning_tokens, output),
        cache_read_tokens=read,
        cache_write_tokens=min(found.cache_write_tokens, found.input_tokens - read),
    )
