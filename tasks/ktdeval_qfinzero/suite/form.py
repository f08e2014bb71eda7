"""The form that an item is answered with, and calls as they are recorded."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ktdeval.api import JsonValue, ToolSpec, dumps_canonical
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.suite.config import Calls

MAX_CALLS = 40
"""Most calls of a submission in text."""

_LONGEST_SUMMARY = 4_000
_LONGEST_NAME = 200
_DEEPEST = 32
_LONGEST_ARGUMENTS = 20_000

_UNFIT = f"[left out: nested more than {_DEEPEST} levels deep, longer than {_LONGEST_ARGUMENTS} characters, or not UTF-8]"


@cache
def answer_form(calls: Calls) -> ToolSpec:
    """The form; where calls are text, they stand in it."""
    properties: dict[str, JsonValue] = {
        "status": {
            "type": "string",
            "enum": ["done", "refused"],
            "description": "done: you made the calls; refused: it can't be done, and you made none",
        },
        "summary": {
            "type": "string",
            "maxLength": _LONGEST_SUMMARY,
            "description": "what you did, or why it can't be done, in a sentence or two",
        },
    }
    if calls == "text":
        properties["calls"] = {
            "type": "array",
            "maxItems": MAX_CALLS,
            "description": "the calls in order; empty where you refuse",
            "items": {
                "type": "object",
                "properties": {
                    "tool": {"type": "string", "minLength": 1, "maxLength": _LONGEST_NAME, "description": "name of the tool"},
                    "arguments": {"type": "object", "description": "its arguments by name"},
                },
                "required": ["tool", "arguments"],
                "additionalProperties": False,
            },
        }
    return ToolSpec(
        "submit_answer",
        "Say that you are done, or that it can't be done. Call it once.",
        {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False},
    )


def dotted(name: str) -> str:
    """A tool's dotted name, whichever of its names is given; any other name as it is."""
    try:
        return catalogue().find(name).name
    except ServiceError:
        return name


def is_fit(arguments: Mapping[str, JsonValue]) -> bool:
    """Whether arguments can be recorded: not too deep, not too long, and text that UTF-8 has."""
    if not _is_flat(arguments):
        return False
    try:
        text = dumps_canonical(arguments)
        text.encode()
    except ValueError:  # halves of surrogate pairs; numbers of thousands of digits
        return False
    return len(text) <= _LONGEST_ARGUMENTS


def recorded_call(tool: str, arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A call as it is recorded. Arguments that can't be are replaced by a text that says so, which no rule set reads."""
    return {"tool": encodable(dotted(tool)), "arguments": arguments if is_fit(arguments) else _UNFIT}


def encodable(text: str) -> str:
    r"""The text with halves of surrogate pairs (JSON may spell them, `"\ud800"`) replaced by `?`, so that it can be written."""
    return text.encode("utf-8", "replace").decode()


def _is_flat(value: JsonValue) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        containers = [item for item in level if isinstance(item, Mapping | list)]
        level = [inner for item in containers for inner in (item.values() if isinstance(item, Mapping) else item)]
        if not level:
            return True
    return False
