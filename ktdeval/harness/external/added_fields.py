"""Fields that a program adds to a task's tools for its own use, such as Gemini CLI's
`wait_for_previous`. The program requests these fields from its model and passes them on.

The fields are found by comparing the recorded tools that the program offered its model with the
task's tools. The tool itself and the trace of a decision therefore read a call in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ktdeval.harness.chat_messages import ToolSpec
from ktdeval.observation.state_rows import as_object
from ktdeval.values.documents.strict_json import JsonValue, dumps_compact, loads_untrusted

_BRANCHES = ("anyOf", "oneOf", "allOf")


def without_added(arguments: str, offered: Iterable[ToolSpec], tool: ToolSpec) -> str:
    """Return the arguments of a call of `tool` without the fields that the program added, which are
    those declared in the program's offer of the tool but not by the tool itself. Other unknown
    fields are kept, so that the tool rejects them. A string that is not a JSON object is returned
    unchanged.

    Example:
        form = ToolSpec("look", "", {"type": "object", "properties": {"id": {}}})
        more = ToolSpec("mcp_look", "", {"type": "object", "properties": {"id": {}, "wait": {}}})
        without_added('{"id": "S1", "wait": true}', [more], form)  # '{"id":"S1"}'
    """
    added: set[str] = set()
    for each in offered:
        if _is_offer_of(each.name, tool.name):
            added |= _find_added_fields(each.parameters, tool.parameters)
    if not any(name in arguments for name in added):
        return arguments

    try:
        value = loads_untrusted(arguments)
        if not isinstance(value, Mapping) or not added & value.keys():
            return arguments
        text = dumps_compact({name: value[name] for name in value if name not in added})
        text.encode()
    except ValueError:
        return arguments  # not JSON, or an unpaired surrogate
    return text


def _is_offer_of(name: str, tool: str) -> bool:
    """Return whether `name` refers to `tool`: it is the tool's name, with or without a prefix."""
    return re.search(rf"(?:^|[^A-Za-z0-9]){re.escape(tool)}\Z", name) is not None


def _find_added_fields(offered: Mapping[str, JsonValue], own: Mapping[str, JsonValue]) -> set[str]:
    """Return the fields that the offered schema has but the tool's own schema lacks; empty if the
    tool accepts any field.
    """
    names = _fields(own)
    is_open = own.get("additionalProperties") not in (None, False)
    if is_open or ("properties" not in own and not names):
        return set()
    return _fields(offered) - names


def _fields(schema: Mapping[str, JsonValue]) -> set[str]:
    """Return the names of an object's fields, including those of all its alternatives."""
    names = set(as_object(schema.get("properties")))
    for branch in _BRANCHES:
        forms = schema.get(branch)
        for form in forms if isinstance(forms, list) else ():
            names |= _fields(as_object(form))
    return names
