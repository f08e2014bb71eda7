"""Parsers for a model's text: JSON objects, asset labels, sides and tool names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ktdeval.harness.chat_messages import Reply, ToolSpec
from ktdeval.market import parse_code
from ktdeval.masking import normalise
from ktdeval.observation.state_rows import as_object
from ktdeval.values.documents.strict_json import JsonValue, dumps_canonical, loads_strict


def json_object(text: str) -> Mapping[str, Any]:
    """Return a text as a JSON object; empty if the text is not a JSON object."""
    try:
        value = loads_strict(text)
    except ValueError:
        return {}
    return as_object(value)


def canonical_form(arguments: str, plain_numbers: bool = False) -> str:
    """Return arguments in canonical form, in which equal JSON values have equal text. A string that
    is not JSON is returned unchanged. With `plain_numbers`, 0.0 is written as 0, for languages with
    a single number type.
    """
    try:
        value = loads_strict(arguments)
        if plain_numbers:
            value = _with_plain_numbers(value)
        return dumps_canonical(value)
    except (ValueError, RecursionError):
        return arguments


def _with_plain_numbers(value: JsonValue) -> JsonValue:
    """Return a value in which all whole numbers are integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _with_plain_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_plain_numbers(item) for item in value]
    return value


# where a submission contains sides: the list, and the field in its items
SIDE_FIELDS: Mapping[str, str] = {"orders": "side", "decisions": "decision"}
# affixes that models add to a tool's name: `functions.submit_action`, `functions.submit_action:0`
_WRAPPED_NAME = re.compile(r"(?:[A-Za-z_-]+[.:/]+)*(?P<name>[A-Za-z_][A-Za-z0-9_-]*)(?::[0-9]+)?")


def side_word(word: str) -> str:
    """Return a side in the spelling that tasks use: `buy` becomes BUY."""
    return normalise(word).strip().upper()


def with_side_words(value: Any) -> Any:
    """Return the JSON value of a submission with its sides in the spelling that tasks use. Parts
    that do not have the expected form are kept.
    """
    for listed, field in SIDE_FIELDS.items():
        items = as_object(value).get(listed)
        if not isinstance(items, list):
            continue

        for item in items:
            if isinstance(item, dict) and isinstance(item.get(field), str):
                item[field] = side_word(item[field])

    return value


def submission_object(text: str) -> Mapping[str, Any]:
    """Return the JSON object of a submission with its sides in the spelling that tasks use; empty
    if the submission is not an object.
    """
    value: Mapping[str, Any] = with_side_words(json_object(text))
    return value


def with_offered_names(reply: Reply, tools: Sequence[ToolSpec]) -> Reply:
    """Return a reply whose calls use the tool names that were offered. Some models add a namespace
    from their training before the name (`functions.submit_action`), or a number after it.
    """
    offered = {tool.name for tool in tools}
    calls = []
    for call in reply.tool_calls:
        wrapped = _WRAPPED_NAME.fullmatch(call.name)
        is_offered = wrapped is not None and wrapped["name"] in offered
        if wrapped is not None and is_offered and call.name not in offered:
            call = replace(call, name=wrapped["name"])
        calls.append(call)

    return replace(reply, tool_calls=tuple(calls))


def is_no_arguments(text: str) -> bool:
    """Return whether a call has no arguments: blank text, or the JSON that servers write for an
    object without fields (null, or blank text in quotes).
    """
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].strip()
    return text in ("", "null")


def label_key(label: str) -> str:
    """Return a key that is the same for all accepted spellings of an asset's label: `Asset_0042`
    and `asset_0042` have the same key, as do sh600519 and 600519.SH.
    """
    text = normalise(label).strip()
    code = parse_code(text)
    return (code or text).lower()
