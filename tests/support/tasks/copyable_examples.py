"""Examples in a prompt that a model could copy into its answer: a figure or a single word of a choice
next to a field's name, a figure named as an example, and values that a schema suggests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ktdeval.harness import ModelRequest, ToolSpec

_DATA = re.compile(r"^```json\n.*?^```", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r'"(\w+)": *(-?\d[\d.eE+-]*|"(?:[^"\\]|\\.)*")')
_EXAMPLE = re.compile(
    r"\b(?:such as|e\.g\.|for example|for instance)[ ,:]{1,2}(?:\S+ )??[`\"'$]*"
    r"(-?\d[\d,]*(?:\.\d+)?(?:[eE]-?\d+)?|BUY\b|SELL\b|HOLD\b)"
)
_ANSWER = re.compile(
    r'^\{"(?:asset_\d+|OTHERS)":.*\}$', re.MULTILINE
)  # of another role, as it was read
_FORM = re.compile(r"in the form \[[^]<>]*\d[^]]*\]")
_BULLET = re.compile(r"^- `(\w+)`:(.*)$", re.MULTILINE)
_IS = re.compile(r"\b(?:is|are|be|give|say|write|use) (-?\d+(?:\.\d+)?)(?![\d%]| %)")
_PLACEHOLDER = re.compile(r"<[^<>]+>")
_FREE = ("...", "", "NAME")  # names that no field accepts
_SCHEMA = re.compile(r'\{(?=[^{}]*"(?:additionalProperties|properties|type)":)')
_DECODER = json.JSONDecoder()
_SUGGESTIONS = ("default", "example", "examples", "const")


@dataclass(frozen=True)
class Fields:
    """Fields of an answer: the bounds of its figures, and the words of its choices."""

    bounds: list[tuple[float, float]]
    choices: dict[str, set[str]]  #: words by the name of a field

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> Fields:
        """Return the fields of a schema and of all of its parts."""
        fields = cls([], {})
        fields._add(schema)
        return fields

    def _add(self, schema: Any, name: str = "") -> None:
        if isinstance(schema, list):
            for part in schema:
                self._add(part, name)
        if not isinstance(schema, Mapping):
            return

        if schema.get("type") in ("number", "integer"):
            low = schema.get("minimum", schema.get("exclusiveMinimum", float("-inf")))
            self.bounds.append((float(low), float(schema.get("maximum", float("inf")))))
        words = {word for word in schema.get("enum", ()) if isinstance(word, str)}
        if words and name != "stock_id":  # labels are data of the day
            self.choices.setdefault(name, set()).update(words)
        for key, part in schema.items():
            if key == "properties":
                for field, own in part.items():
                    self._add(own, field)
            else:
                self._add(part, name)

    def accepts(self, figure: str) -> bool:
        """Whether a figure is a value of some field."""
        value = float(figure.replace(",", "").rstrip("."))
        return any(low <= value <= high for low, high in self.bounds)


def copyable_of(request: ModelRequest) -> Iterator[str]:
    """Yield what a model could copy from a request's texts and from its submit tool."""
    fields = Fields([(0.0, 1.0)], {})  # shares, as roles without a tool name them to each other
    for tool in request.tools:
        if tool.name == request.submit_tool:
            fields = Fields.of(tool.parameters)
            yield from _suggested(tool, fields)

    for message in request.messages:
        if message.role in ("system", "user"):  # the results of tools are data
            yield from copyable_in(message.content, fields)


def copyable_in(text: str, fields: Fields) -> Iterator[str]:
    """Yield what a model could copy from a text. Data of the day, in blocks of JSON, and schemas of
    research tools are left out.
    """
    told = _without_schemas(_ANSWER.sub("", _DATA.sub("", text)))
    for found in _FIELD.finditer(told):
        name, value = found.groups()
        if value.startswith('"') and _is_open(value.strip('"'), fields.choices.get(name, set())):
            continue
        yield f"an example's value: {found.group()}"

    for found in _EXAMPLE.finditer(told):
        value = found.group(1)
        if value.isalpha() or fields.accepts(value):
            yield f"an example: {found.group()}"

    for found in _FORM.finditer(told):
        yield f"an example: {found.group()}"

    for name, meaning in _BULLET.findall(told):
        for found in _IS.finditer(meaning):
            yield f"a value for {name}: {found.group()}"


def _without_schemas(text: str) -> str:
    """Return a text without the JSON Schemas that stand in it, where tools are called in writing."""
    kept = ""
    end = 0
    for start in _SCHEMA.finditer(text):
        if start.start() < end:
            continue
        kept += text[end : start.start()]
        _, end = _DECODER.raw_decode(text, start.start())

    return kept + text[end:]


def _is_open(value: str, choices: set[str]) -> bool:
    """Whether an example's text leaves the value open, and names all words of a choice."""
    if value in _FREE:
        return not choices
    return bool(_PLACEHOLDER.fullmatch(value)) and all(
        re.search(rf"\b{re.escape(word)}\b", value) for word in choices
    )


def _suggested(tool: ToolSpec, fields: Fields) -> Iterator[str]:
    """Yield the values that the schema of a submit tool suggests."""
    waiting: list[Any] = [tool.parameters]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        if not isinstance(part, Mapping):
            continue

        for name in _SUGGESTIONS:
            if name in part and "properties" not in part:
                yield f"a schema's {name}: {part[name]!r}"
        about = part.get("description")
        if isinstance(about, str):
            yield from copyable_in(about, fields)
        waiting += part.values()

    yield from copyable_in(tool.description, fields)
