"""Forms that a person fills in, derived from the JSON Schema of a tool: text fields, and lists of
rows.

Terminal and page both send strings. The strings are parsed here and checked against the schema
before anything is sent, so that a typing error costs neither a research call nor an attempt to
submit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from ktdeval.harness import in_words
from ktdeval.values import JsonValue, loads_strict

Texts = Mapping[str, str]
_PAIR = re.compile(r"\s*([^=:]+?)\s*[=:]\s*(\S+)\s*\Z")
_YES = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
_NUMBERS = ("number", "integer")


class FormError(ValueError):
    """An entry that is not a valid value of its field, as one line for the person. `place`: the
    name of the field, preceded by its list and the row number (from 1) if it is in a list; empty if
    the whole form is meant.
    """

    def __init__(self, problem: str, place: tuple[str | int, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.place = place

    def __str__(self) -> str:
        names = [f"row {part}" if isinstance(part, int) else part for part in self.place]
        if len(names) > 1:
            names[:2] = [", ".join(names[:2])]
        return ": ".join([*names, self.problem])


@dataclass(frozen=True)
class FormField:
    """One field of a form."""

    name: str
    schema: Mapping[str, Any]
    is_required: bool

    @property
    def choices(self) -> list[str]:
        """Allowed words; empty if the field accepts any."""
        return _words(self.schema)

    @property
    def options(self) -> list[str]:
        """Words among which a page lets a person choose: one, or several if `takes_many`. Empty if
        any text may be typed.
        """
        if self.schema.get("type") == "boolean":
            return ["yes", "no"]
        if self.takes_many:
            return _words(_items(self.schema))
        return self.choices

    @property
    def takes_many(self) -> bool:
        """Whether the field is a list of allowed words, which are typed with commas between."""
        words = _words(_items(self.schema))
        is_list = self.schema.get("type") == "array"
        return is_list and bool(words) and not any("," in word for word in words)

    @property
    def hint(self) -> str:
        """Description of the field and its values, in one line."""
        parts = [in_words(self.schema)]
        if self.schema.get("type") == "array":
            parts = [f"with commas between: {in_words(_items(self.schema))}"]
        elif _takes_pairs(self.schema):
            parts = [f"NAME=VALUE with commas between; a value is {in_words(_values(self.schema))}"]

        about = str(self.schema.get("description") or "").strip()
        if about:
            parts.append(about)
        if "default" in self.schema:
            parts.append(f"left out: {self.schema['default']}")

        return "; ".join(parts)

    def read(self, text: str) -> JsonValue:
        """Return the value of a typed text. Raises FormError."""
        value = _read(text.strip(), self.schema, self.name)
        problem = problem_of(value, self.schema)
        if problem is not None:
            raise FormError(problem, (self.name,))
        return value


@dataclass(frozen=True)
class Rows:
    """Field that is a list of objects, such as the orders of a ticket."""

    name: str
    fields: tuple[FormField, ...]  #: fields of all forms that a row can have
    #: for each form, the names of its fields; a row must fit one form
    forms: tuple[frozenset[str], ...]
    about: str

    @property
    def choices(self) -> tuple[str, ...]:
        """Names of which a row must have one: `target_weight` or `shares`. A name that only
        accompanies one of these, such as a limit, is not included.
        """
        if len(self.forms) < 2:
            return ()
        shared = frozenset.intersection(*self.forms)
        own = [form - shared for form in self.forms]
        alone = frozenset[str]().union(*(names for names in own if len(names) == 1))
        names = alone or frozenset.union(*own)
        return tuple(field.name for field in self.fields if field.name in names)

    def read(self, texts: Texts) -> dict[str, JsonValue]:
        """Return one row; empty strings are omitted. Raises FormError."""
        given = {name: text for name, text in texts.items() if text.strip()}
        known = {field.name: field for field in self.fields}
        for name in given:
            if name not in known:
                raise FormError(f"is not a field of {self.name}", (name,))

        is_of_a_form = any(given.keys() <= form for form in self.forms)
        if not is_of_a_form or (self.choices and not given.keys() & set(self.choices)):
            raise FormError(f"give one of {', '.join(self.choices)}")
        for field in self.fields:
            if field.is_required and field.name not in given:
                raise FormError(f"is missing; {in_words(field.schema)}", (field.name,))

        return {name: known[name].read(given[name]) for name in known if name in given}


@dataclass(frozen=True)
class Form:
    """Form for the arguments of one tool."""

    schema: Mapping[str, Any]
    fields: tuple[FormField, ...]
    rows: tuple[Rows, ...]

    def value(
        self, texts: Texts, rows: Mapping[str, Sequence[Texts]] | None = None
    ) -> dict[str, JsonValue]:
        """Return the arguments.

        Raises FormError if a field is missing, wrong or unknown.
        """
        rows = rows or {}
        names = {field.name for field in self.fields}
        lists = {each.name for each in self.rows}
        unknown = [name for name in texts if name not in names]
        unknown += [name for name in rows if name not in lists]
        if unknown:
            raise FormError("is not a field of this form", (unknown[0],))

        value: dict[str, JsonValue] = {}
        for each in self.rows:
            listed: list[JsonValue] = []
            for number, row in enumerate(rows.get(each.name, ()), start=1):
                try:
                    listed.append(each.read(row))
                except FormError as error:
                    place = (each.name, number, *error.place)
                    raise FormError(error.problem, place) from None

            value[each.name] = listed

        for field in self.fields:
            text = texts.get(field.name, "")
            if text.strip():
                value[field.name] = field.read(text)
            elif field.is_required:
                raise FormError(f"is missing; {in_words(field.schema)}", (field.name,))

        problem = problem_of(value, self.schema)
        if problem is not None:
            raise FormError(problem)
        return value


def form_of(schema: Mapping[str, Any]) -> Form:
    """Return the form for a JSON Schema of an object."""
    required = set(schema.get("required") or ())
    fields = []
    rows = []
    for name, part in (schema.get("properties") or {}).items():
        variants = _row_schemas(part)
        if variants:
            rows.append(_rows_of(name, part, variants))
        else:
            fields.append(FormField(name, part, name in required))

    return Form(schema, tuple(fields), tuple(rows))


def problem_of(value: JsonValue, schema: Mapping[str, Any]) -> str | None:
    """Return why a value does not follow a schema, in one line; None if it does."""
    error = best_match(Draft202012Validator(schema).iter_errors(value))
    if error is None:
        return None

    where = ".".join(map(str, error.absolute_path))
    place = f"{where}: " if where else ""
    if error.validator == "required":
        return f"{place}{error.message}"
    if error.validator in ("type", "enum", "anyOf", "oneOf"):
        return f"{place}expected {in_words(error.schema)}"
    return f"{place}{error.message}"[:300]


def text_problem(text: str, schema: Mapping[str, Any]) -> str | None:
    """Return why a text is not JSON that follows a schema, in one line; None if it is."""
    try:
        value = loads_strict(text)
    except (ValueError, RecursionError):
        return "expected JSON"
    return problem_of(value, schema)


def _row_schemas(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the schemas that an item in a list may follow, if they all describe objects; otherwise
    an empty list.
    """
    if schema.get("type") != "array":
        return []

    items = _items(schema)
    variants = items.get("anyOf") or items.get("oneOf") or [items]
    if all(variant.get("properties") for variant in variants):
        return list(variants)
    return []


def _rows_of(name: str, schema: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]) -> Rows:
    fields: dict[str, FormField] = {}
    forms = [frozenset(variant["properties"]) for variant in variants]
    always = frozenset.intersection(
        *(frozenset(variant.get("required") or ()) for variant in variants)
    )
    for variant in variants:
        for field, part in variant["properties"].items():
            fields.setdefault(field, FormField(field, part, field in always))

    about = str(schema.get("description") or "")
    return Rows(name, tuple(fields.values()), tuple(forms), about)


def _words(schema: Mapping[str, Any]) -> list[str]:
    return [str(word) for word in schema.get("enum") or ()]


def _items(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    items = schema.get("items")
    return items if isinstance(items, Mapping) else {}


def _values(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    values = schema.get("additionalProperties")
    return values if isinstance(values, Mapping) else {}


def _takes_pairs(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object" and not schema.get("properties")


# ---- texts to values


def _read(text: str, schema: Mapping[str, Any], name: str) -> JsonValue:
    if schema.get("enum"):
        return _read_choice(text, schema["enum"])

    kinds = schema.get("type")
    kind = kinds if isinstance(kinds, str) else ""
    if kind == "string" or (isinstance(kinds, list) and "string" in kinds):
        return text
    if kind in _NUMBERS:
        return _read_number(text, kind, name)
    if kind == "boolean":
        if text.lower() not in _YES:
            raise FormError("expected yes or no", (name,))
        return _YES[text.lower()]
    if kind == "array" and not text.startswith("["):
        parts = [part.strip() for part in text.split(",") if part.strip()]
        return [_read(part, _items(schema), name) for part in parts]
    if _takes_pairs(schema) and not text.startswith("{"):
        return _read_pairs(text, _values(schema), name)

    return _read_json(text, schema, name)


def _read_choice(text: str, words: Sequence[Any]) -> JsonValue:
    """Return the allowed word that was typed, in any case. If no word matches, return the text,
    which is then refused with a list of the allowed words.
    """
    for word in words:
        if str(word).lower() == text.lower():
            return word  # type: ignore[no-any-return]
    return text


def _read_number(text: str, kind: str, name: str) -> JsonValue:
    plain = text.replace(",", "").replace("_", "")
    is_percent = plain.endswith("%")
    try:
        number = float(plain.rstrip("% "))
    except ValueError:
        raise FormError(f"{text[:40]!r} is not a number", (name,)) from None

    if is_percent:
        number = round(number / 100, 12)
    if number != number or number in (float("inf"), float("-inf")):
        raise FormError(f"{text[:40]!r} is not a number", (name,))
    if kind == "integer" and number.is_integer():
        return int(number)
    return number


def _read_pairs(text: str, values: Mapping[str, Any], name: str) -> JsonValue:
    pairs: dict[str, JsonValue] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _PAIR.match(part)
        if match is None:
            raise FormError(f"{part[:40]!r} is not NAME=VALUE", (name,))
        if match[1] in pairs:
            raise FormError(f"{match[1][:40]} appears twice", (name,))
        pairs[match[1]] = _read(match[2], values, name)

    return pairs


def _read_json(text: str, schema: Mapping[str, Any], name: str) -> JsonValue:
    try:
        return loads_strict(text)
    except (ValueError, RecursionError):
        raise FormError(f"expected {in_words(schema)}, as JSON", (name,)) from None


def arguments_text(value: Mapping[str, JsonValue]) -> str:
    """Return arguments in the form in which a model writes them."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
