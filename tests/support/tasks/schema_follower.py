"""Model that does what a schema asks and nothing else: it knows no prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ktdeval.harness.chat_messages import ModelRequest, Reply, ToolCall

Schema = Mapping[str, Any]

_OFFER = re.compile(r"^## (\S+)\n\n.*?\n\nArguments: (.*)$", re.MULTILINE | re.DOTALL)


def obeyed(schema: Schema, min_items: int = 0, number: int = 0) -> Any:
    """The first value that a schema admits: the greatest number, the shortest text, a list as short
    as it may be, of `min_items` if that is allowed; of words the one whose turn it is, which is
    the first in the first item of a list.
    """
    if "enum" in schema:
        return schema["enum"][number % len(schema["enum"])]

    if "anyOf" in schema:
        return obeyed(schema["anyOf"][0], min_items, number)

    kind = schema["type"]
    if kind == "object":
        parts = schema["properties"]
        return {name: obeyed(parts[name], min_items, number) for name in schema["required"]}

    if kind == "array":
        count = max(schema.get("minItems", 0), min(min_items, schema.get("maxItems", 1)))
        return [obeyed(schema["items"], min_items, turn) for turn in range(count)]

    if kind == "string":
        return "x" * schema.get("minLength", 0)

    return schema["maximum"]


class SchemaFollower:
    """Calls the tool that is forced, whatever way it is offered. `plain`: schema that it follows
    instead of the one offered.
    """

    def __init__(self, min_items: int = 0, plain: Schema | None = None) -> None:
        self._min_items = min_items
        self._plain = plain
        self.requests: list[ModelRequest] = []

    def reply(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        if request.tools and request.tool_choice is None:
            return Reply("There is nothing to look up.")

        if request.response_schema is not None:
            return Reply(json.dumps(self._in_envelope(request.response_schema)))

        if request.tools:
            tool = next(tool for tool in request.tools if tool.name == request.tool_choice)
            return Reply(tool_calls=(ToolCall("1", tool.name, self._arguments(tool.parameters)),))

        system = request.messages[0].content
        name, schema = _OFFER.findall(system)[-1]
        schema, _ = json.JSONDecoder().raw_decode(schema)

        return Reply(f'```json\n{{"tool": "{name}", "arguments": {self._arguments(schema)}}}\n```')

    def _in_envelope(self, schema: Schema) -> Any:
        envelope = obeyed(schema, self._min_items)
        if self._plain is not None:
            envelope["calls"][0]["arguments"] = obeyed(self._plain, self._min_items)

        return envelope

    def _arguments(self, schema: Schema) -> str:
        return json.dumps(obeyed(self._plain or schema, self._min_items))
