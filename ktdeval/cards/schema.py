"""JSON Schemas for cards, generated from their types: `python -m ktdeval.cards.schema` writes the
suite's schemas.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec

from ktdeval.cards.card import Card, ScoringCard, TradingCard
from ktdeval.cards.fields.base_types import Figure
from ktdeval.values.disk.files import write_atomic
from ktdeval.values.documents.strict_json import dumps_pretty
from ktdeval.values.documents.typed_json import json_schema

SCHEMA_FOLDER = Path(__file__).with_name("schema")
# File names under `schema/`, each with the type that it describes and the type's name in the schema
# id.
SCHEMAS: dict[str, tuple[type[Card], str]] = {
    "result-card-v1.json": (TradingCard, "result-card"),
    "scoring-card-v1.json": (ScoringCard, "scoring-card"),
}

# Documentation of a field: a `#:` comment on its line or on the lines above it, or a line `field:
# description` below the first paragraph of the docstring.
_FIELD_COMMENT = re.compile(r"^((?: {4}#: .*\n)*) {4}(\w+): .*?(?: {2}#: (.*))?$", re.MULTILINE)
_FIELD_TEXT = re.compile(r"^( {4}|)(\w+): (.*(?:\n\1 {4}\S.*)*)", re.MULTILINE)


def card_schema(card_type: type[Card], name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a card type, with descriptions taken from its
    source. `name` is, for example, `result-card`.
    """
    schema: dict[str, Any] = json_schema(
        card_type, f"urn:ktdeval:{name}:1", f"ktdeval {' '.join(name.split('-'))}, version 1"
    )
    types = struct_types(card_type)
    definitions = {
        key: _described_schema(_simple(part), types[key])
        for key, part in schema.pop("$defs").items()
    }
    own = definitions.pop(schema.pop("$ref").rpartition("/")[2])
    own.pop("title")

    return {**schema, **own, "$defs": definitions}


def struct_types(root: type) -> dict[str, type]:
    """Return a type and the types of its fields, recursively, keyed by name."""
    types: dict[str, type] = {}
    pending = [root]
    while pending:
        part = pending.pop()
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            if part.__name__ in types:
                continue

            types[part.__name__] = part
            pending += [field.type for field in msgspec.structs.fields(part)]

        pending += get_args(part)

    return types


def _simple(schema: Any) -> Any:
    """Return a schema in which each union of plain types is one list of types, which gives shorter
    errors.
    """
    if isinstance(schema, list):
        return [_simple(part) for part in schema]
    if not isinstance(schema, dict):
        return schema

    schema = {key: _simple(part) for key, part in schema.items()}
    parts = schema.get("anyOf", ())
    if not parts or any(not isinstance(part.get("type"), str) for part in parts):
        return schema

    del schema["anyOf"]
    names = [part["type"] for part in parts]
    for part in parts:
        schema |= part  # each bound belongs to one type

    names = [name for name in names if name != "integer" or "number" not in names]
    return {**schema, "type": names[0] if len(names) == 1 else names}


@cache  # parsing the source takes longer than the rest of a schema
def field_docs(part: type) -> Mapping[str, str]:
    """Return the description of each field in a type's source, as a sentence."""
    comments = _FIELD_COMMENT.findall(inspect.getsource(part))
    below = (inspect.getdoc(part) or "").partition("\n\n")[2]
    docs = {field: tail or above.replace("#: ", "") for above, field, tail in comments}
    docs |= {field: words for _, field, words in _FIELD_TEXT.findall(below)}

    return {
        field: " ".join(words.split()).removesuffix(".") + "."
        for field, words in docs.items()
        if words
    }


def _described_schema(schema: dict[str, Any], part: type) -> dict[str, Any]:
    """Return a schema with descriptions from the type's docstring, and the rule for figures."""
    schema["description"] = " ".join((inspect.getdoc(part) or "").partition("\n\n")[0].split())
    for field, sentence in field_docs(part).items():
        if field in schema["properties"]:
            schema["properties"][field] = {"description": sentence, **schema["properties"][field]}

    if issubclass(part, Figure):
        # Strict validators expect each required field next to the rule that requires it.
        needed: dict[str, Any] = dict.fromkeys(part.NEEDED, True)
        schema["if"] = {"properties": {part.KEY: {"type": "null"}}}
        schema["then"] = {"properties": {"reason": True}, "required": ["reason"]}
        schema["else"] = {"properties": {**needed, "reason": {"not": {}}}, "required": list(needed)}

    return schema


def main() -> None:
    """Write the schemas."""
    for file, (type_, name) in SCHEMAS.items():
        write_atomic(SCHEMA_FOLDER / file, dumps_pretty(card_schema(type_, name)))


if __name__ == "__main__":
    main()
