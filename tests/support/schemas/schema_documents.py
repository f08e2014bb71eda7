"""Documents that follow a JSON Schema, and documents that break one rule of it, made from the
schema itself.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from jsonschema import Draft202012Validator

Schema = Mapping[str, Any]
Place = tuple[str | int, ...]

LETTERS = "abcdefghij klmnopqrst"
#: texts that match the patterns of our schemas
MATCHES = {
    "^[A-Za-z0-9._:-]{1,64}$": ["acct-000001", "a", "X.y_z:9"],
    "^[A-Z0-9^][A-Z0-9.^=-]{0,15}$": ["AVLN", "^SPX", "BTC-USD"],
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}$": ["2024-05-06", "1999-12-31"],
    "^asset_[0-9]{4}$": ["asset_0007", "asset_4210"],
}
OF_ANY_TYPE = (None, 7, 2.5, "x", True, [], {}, [1])
_ROUNDS = 400  # drawings before a schema counts as having no further documents


@dataclass(frozen=True)
class Broken:
    """A document that breaks a schema, and the family of the rule that it breaks."""

    family: str
    document: Any

    @property
    def text(self) -> str:
        return json.dumps(self.document)


# --- documents that follow


def followers(schema: Schema, count: int) -> list[Any]:
    """Up to `count` different documents; fewer where the schema has no more."""
    chance = random.Random(0)
    validator = Draft202012Validator(schema)
    found: dict[str, Any] = {}

    for _ in range(_ROUNDS):
        document = drawn(schema, chance)
        if validator.is_valid(document):
            found.setdefault(json.dumps(document), document)

        if len(found) == count:
            break

    return list(found.values())


def drawn(schema: Schema | bool, chance: random.Random) -> Any:
    """A document that follows the words of a schema that say what is there; what takes away is left
    to a validator.
    """
    if isinstance(schema, bool):
        return chance.choice(OF_ANY_TYPE)

    if "enum" in schema:
        return chance.choice(schema["enum"])

    if "const" in schema:
        return schema["const"]

    if branches := schema.get("anyOf") or schema.get("oneOf"):
        rest = {word: value for word, value in schema.items() if word not in ("anyOf", "oneOf")}
        return drawn({**rest, **chance.choice(branches)}, chance)

    kind = schema.get("type")
    if isinstance(kind, list):
        kind = chance.choice(kind)

    draw = _DRAWN.get(kind or "")

    return chance.choice(OF_ANY_TYPE) if draw is None else draw(schema, chance)


def _object(schema: Schema, chance: random.Random) -> Any:
    parts = schema.get("properties", {})
    required = set(schema.get("required", ()))
    more = chance.random()
    members = {
        name: drawn(part, chance)
        for name, part in parts.items()
        if name in required or chance.random() < more
    }

    others = schema.get("additionalProperties", True)

    if others is False and "patternProperties" in schema:
        others = True

    for name in ("m1", "m2"):
        if others is not False and chance.random() < 0.5:
            members[name] = drawn({"type": "integer"} if others is True else others, chance)

    return members


def _array(schema: Schema, chance: random.Random) -> Any:
    least = schema.get("minItems", 0)
    most = min(schema.get("maxItems", least + 2), least + 2)
    first = [drawn(part, chance) for part in schema.get("prefixItems", ())]
    each = schema.get("items", {"type": "string"})
    rest = max(0, chance.randint(least, most) - len(first))

    return [*first, *(drawn(each, chance) for _ in range(rest))]


def _string(schema: Schema, chance: random.Random) -> str:
    if "pattern" in schema:
        return chance.choice(MATCHES.get(schema["pattern"], ["x"]))

    least = schema.get("minLength", 0)
    length = chance.randint(least, min(schema.get("maxLength", least + 12), least + 12))

    return "".join(chance.choice(LETTERS) for _ in range(length))


def _integer(schema: Schema, chance: random.Random) -> int:
    least = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    return chance.randint(int(least), int(min(schema.get("maximum", least + 50), least + 50)))


def _number(schema: Schema, chance: random.Random) -> float:
    least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    most = min(schema.get("maximum", least + 50), least + 50)
    digits = chance.choice((1, 2, 3))
    return chance.choice([abs(round(chance.uniform(least, most), digits)), most])


_DRAWN: dict[str, Callable[[Schema, random.Random], Any]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": lambda _, chance: chance.choice((True, False)),
    "null": lambda *_: None,
}


# --- documents that break a rule


def breakers(schema: Schema, count: int) -> list[Broken]:
    """Up to `count` different documents, of each family of rules as many as there is room for."""
    validator = Draft202012Validator(schema)
    by_family: dict[str, dict[str, Broken]] = {}

    for document in followers(schema, count):
        for broken in _broken(schema, document):
            family = by_family.setdefault(broken.family, {})
            if len(family) < count and not validator.is_valid(broken.document):
                family.setdefault(broken.text, broken)

    in_turn = chain.from_iterable(zip_longest(*(family.values() for family in by_family.values())))
    different = {broken.text: broken for broken in in_turn if broken is not None}

    return list(different.values())[:count]


def _broken(schema: Schema, document: Any) -> Iterator[Broken]:
    for place, part, value in _places(schema, document):
        for family, wrong in _wrong_values(part, value):
            yield Broken(family, _replaced(document, place, wrong))


def _places(schema: Any, value: Any, place: Place = ()) -> Iterator[tuple[Place, Schema, Any]]:
    """Each part of a document with the schema that it follows."""
    if isinstance(schema, bool):
        return

    yield place, schema, value
    for branch in schema.get("anyOf", ()):
        if Draft202012Validator(branch).is_valid(value):
            yield from _places(branch, value, place)
            return

    if isinstance(value, dict):
        for name, member in value.items():
            part = schema.get("properties", {}).get(name, schema.get("additionalProperties", True))
            yield from _places(part, member, (*place, name))

    if isinstance(value, list):
        for index, member in enumerate(value):
            yield from _places(schema.get("items", True), member, (*place, index))


def _wrong_values(schema: Schema, value: Any) -> Iterator[tuple[str, Any]]:
    """Values that break a rule of the part, by family; some may follow it after all."""
    yield from (
        ("type", other) for other in OF_ANY_TYPE if not (other == {} and isinstance(value, dict))
    )

    if "enum" in schema:
        yield "enum", "zz"

    yield from _wrong_choices(schema, value)
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            yield "missing", {key: each for key, each in value.items() if key != name}

        yield "extra", {**value, "zz_extra": 1}
        yield "few_names", {}
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float):
        yield from _wrong_numbers(schema)
    elif isinstance(value, str):
        yield from (
            ("length", "x" * length) for length in _wrong_lengths(schema, "minLength", "maxLength")
        )
        if "pattern" in schema:
            yield "pattern", "é!"
            yield "pattern", "X" * 200
    elif isinstance(value, list):
        yield from (
            ("count", value[:1] * length)
            for length in _wrong_lengths(schema, "minItems", "maxItems")
        )


def _wrong_choices(schema: Schema, value: Any) -> Iterator[tuple[str, Any]]:
    """An object with the fields of two alternatives."""
    for branch in schema.get("anyOf", ()) if isinstance(value, dict) else ():
        merged = (
            {**drawn(branch, random.Random(0)), **value}
            if branch.get("type") == "object"
            else value
        )
        yield "choice", merged


def _wrong_numbers(schema: Schema) -> Iterator[tuple[str, Any]]:
    if schema.get("type") == "integer":
        yield "type", 1.5

    for word, step in (
        ("minimum", -1),
        ("maximum", 1),
        ("exclusiveMinimum", 0),
        ("exclusiveMaximum", 0),
    ):
        if word in schema:
            yield "range", schema[word] + step

    if "minimum" in schema or "exclusiveMinimum" in schema:
        yield "range", -7


def _wrong_lengths(schema: Schema, least: str, most: str) -> Iterator[int]:
    if schema.get(least, 0) > 0:
        yield schema[least] - 1

    if most in schema:
        yield schema[most] + 1


def _replaced(document: Any, place: Place, value: Any) -> Any:
    if not place:
        return value

    changed = copy.deepcopy(document)
    inner = changed
    for step in place[:-1]:
        inner = inner[step]

    inner[place[-1]] = value

    return changed
