"""Schemas for servers whose grammar constrains a reply too loosely.

llama-cpp-python turns a schema into a grammar in which a string may contain line breaks, which JSON
forbids, and may never end. If a length limit is too large for the grammar to repeat, the server
crashes. So each string is sent with a pattern that bounds both its characters and its length. The
string then has no quotes or backslashes, since the grammar applies a pattern to the characters of
the JSON. A list may also get a limit, so that every reply can end.

llama.cpp ignores bounds on decimal numbers: a confidence limited to 0..1 came back as 2. Such a
number is sent as an enumeration of hundredths. A schema can't require unique labels, either: small
models decide on one asset twice and omit another. If a list has as many items as there are labels,
it is sent with one fixed item for each label, in the order shown.

These schemas are stricter than the original ones. They only constrain generation: a reply is
checked against the original schema.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from jsonschema import Draft202012Validator

from ktdeval.harness import ModelRequest
from ktdeval.values import JsonValue
from ktdeval_models.remote.params import GrammarName

Schema = Mapping[str, JsonValue]

_PLAIN_SIGN = r'[^"\\\x00-\x1F\x7F]'
_LENGTHS = ("minLength", "maxLength")
_CHOICES = frozenset({"enum", "const"})
# keywords that hold one schema, a list of schemas, and schemas keyed by name
_ONE = ("items", "additionalProperties")
_LIST = ("anyOf", "oneOf", "allOf")
_NAMED = ("properties", "$defs", "definitions")
_LOWER, _UPPER = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
_RANGE_WORDS = (*_LOWER, *_UPPER)
# providers limit enumerations to 1,000 values; a grammar gets slow before that
_MAX_VALUES = 250
# each label adds a rule with all hundredths to the grammar
_MAX_LABELS = 50


@dataclass(frozen=True)
class SchemaBounds:
    """Bounds on what a server may write; None: no bound beyond the schema's own.

    Attributes:
        longest_text: maximum characters of a string that has neither choices nor its own pattern. If
            set, such a string may contain no control character, quote or backslash.
        longest_list: maximum number of items in a list.
        grammar: engine of the server, if it enforces too little of a schema.
    """

    longest_text: int | None = None
    longest_list: int | None = None
    grammar: GrammarName | None = None

    def request(self, request: ModelRequest) -> ModelRequest:
        """Return a request with these bounds applied to its schemas."""
        if self == SchemaBounds():
            return request

        tools = []
        for tool in request.tools:
            tools.append(replace(tool, parameters=self.schema(tool.parameters)))

        schema = request.response_schema
        if schema is not None:
            schema = self.schema(schema)

        return replace(request, tools=tuple(tools), response_schema=schema)

    def schema(self, schema: Schema) -> Schema:
        """Return a schema with these bounds. A string or list that must be longer than its bound
        gets no limit.
        """
        held: dict[str, JsonValue] = {}
        for word, value in schema.items():
            held[word] = self._of_word(word, value)

        kind = schema.get("type")
        if kind == "array":
            return self._list(held)
        if kind == "string":
            return self._text(held)
        if kind == "number":
            return self._number(held)
        if isinstance(kind, list) and self._holds_one_of(kind):
            return self._alternatives(held, kind)
        return held

    def _holds_one_of(self, kinds: list[JsonValue]) -> bool:
        """Return whether any of several types has a bound."""
        if "string" in kinds and self.longest_text is not None:
            return True
        return "number" in kinds and self.grammar is not None

    def _of_word(self, word: str, value: JsonValue) -> JsonValue:
        """Return the value of a keyword, with bounds applied to the schemas inside it."""
        if word in _ONE and isinstance(value, Mapping):
            return self.schema(value)

        if word in _LIST and isinstance(value, list):
            return [self.schema(part) for part in value if isinstance(part, Mapping)]

        if word in _NAMED and isinstance(value, Mapping):
            named: dict[str, JsonValue] = {}
            for name, part in value.items():
                named[name] = part
                if isinstance(part, Mapping):
                    named[name] = self.schema(part)

            return named

        return value

    def _list(self, schema: Schema) -> Schema:
        if self.grammar is not None:
            each = _one_for_each_label(schema)
            if each:
                others = {word: value for word, value in schema.items() if word != "items"}
                return {**others, "prefixItems": each}

        if self.longest_list is None:
            return schema

        least = _keyword_count(schema, "minItems", 0)
        most = min(_keyword_count(schema, "maxItems", self.longest_list), self.longest_list)
        return {**schema, "maxItems": max(least, most)}

    def _text(self, schema: Schema) -> Schema:
        if self.longest_text is None or schema.keys() & {"pattern", *_CHOICES}:
            return schema

        least = _keyword_count(schema, "minLength", 0)
        most = min(_keyword_count(schema, "maxLength", self.longest_text), self.longest_text)
        limit = "" if least > most else str(most)

        held = {word: value for word, value in schema.items() if word not in _LENGTHS}
        held["pattern"] = f"^{_PLAIN_SIGN}{{{least},{limit}}}$"
        return held

    def _number(self, schema: Schema) -> Schema:
        if self.grammar is None or schema.keys() & _CHOICES:
            return schema

        values = _hundredths(schema)
        if not 0 < len(values) <= _MAX_VALUES:
            return schema

        held = {word: value for word, value in schema.items() if word not in _RANGE_WORDS}
        held["enum"] = list(values)
        return held

    def _alternatives(self, schema: Schema, kinds: list[JsonValue]) -> Schema:
        """Return a schema with several types as alternatives, because for a list of types
        llama-cpp-python's grammar ignores all other keywords.
        """
        if schema.keys() & _CHOICES:
            return schema

        outside = {word: schema[word] for word in ("title", "description") if word in schema}
        inside = {word: value for word, value in schema.items() if word not in outside}
        alternatives: list[JsonValue] = []
        for kind in kinds:
            alternatives.append(self.schema({**inside, "type": kind}))

        return {**outside, "anyOf": alternatives}


def _keyword_count(schema: Schema, word: str, default: int) -> int:
    value = schema.get(word)
    return value if isinstance(value, int) else default


def _one_for_each_label(schema: Schema) -> list[JsonValue]:
    """Return one item schema for each label, in label order, if a list has exactly as many items as
    there are labels; empty for other lists. The label is the first field of an item.
    """
    item = schema.get("items")
    if not isinstance(item, Mapping):
        return []

    fields = item.get("properties")
    if not isinstance(fields, Mapping) or not fields:
        return []

    name, label = next(iter(fields.items()))
    if not isinstance(label, Mapping):
        return []

    labels = label.get("enum")
    if not isinstance(labels, list) or not 1 < len(labels) <= _MAX_LABELS:
        return []
    if {schema.get("minItems"), schema.get("maxItems")} != {len(labels)}:
        return []

    items: list[JsonValue] = []
    for value in labels:
        own: dict[str, JsonValue] = {**fields, name: {**label, "enum": [value]}}
        items.append({**item, "properties": own})

    return items


def _hundredths(schema: Schema) -> Sequence[float]:
    """Return the hundredths within a number's bounds, together with the bounds; empty if a bound is
    missing.
    """
    low = _tighter_bound(schema, _LOWER, max)
    high = _tighter_bound(schema, _UPPER, min)
    if low is None or high is None or (high - low) * 100 > _MAX_VALUES:
        return ()

    values = {low, high}
    for hundredth in range(math.ceil(low * 100), math.floor(high * 100) + 1):
        values.add(hundredth / 100)

    allowed = Draft202012Validator(schema)
    return sorted(value for value in values if allowed.is_valid(value))


def _tighter_bound(
    schema: Schema, words: tuple[str, str], tighter: Callable[[Iterable[float]], float]
) -> float | None:
    """Return the tighter of a number's lower or upper bounds; None without such a bound."""
    bounds = []
    for word in words:
        value = schema.get(word)
        if isinstance(value, (int, float)):
            bounds.append(float(value))

    if not bounds:
        return None
    return tighter(bounds)
