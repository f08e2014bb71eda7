"""Feedback for a submission that violates its schema (path and rule of each problem), and for a
truncated reply.

Feedback never quotes the model's text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from ktdeval.harness.chat_messages import Message, Reply
from ktdeval.values.documents.strict_json import JsonValue, Schema

CUT = "That reply was cut {where}, before its end: be shorter this time."
MAX_PROBLEMS = 5
_CHOICES = ("anyOf", "oneOf")

_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_LENGTHS = (("minLength", "maxLength", "characters"), ("minItems", "maxItems", "items"))

Problem = dict[str, str]


def with_cut(reply: Reply, feedback: str) -> str:
    """Return feedback for a reply. If the reply was truncated at the length limit, the feedback
    says so first, since this explains most other faults. Token counts are given only if the
    provider reports them.
    """
    if reply.finish_reason != "length":
        return feedback

    where = "at the limit of its length"
    if reply.usage.output_tokens:
        where = f"at {reply.usage.output_tokens:,} tokens"

    return "\n".join(filter(None, (CUT.format(where=where), feedback)))


def answer_reply(
    messages: list[Message], reply: Reply, feedback: str, tool: str = "", other: str = ""
) -> None:
    """Append a rejected reply and the feedback to a conversation. Providers require an answer to
    every call. The answer is the feedback or, for calls of a tool other than `tool`, `other` if it
    is given.
    """
    if reply.tool_calls or reply.content.strip():  # several providers reject an empty turn
        messages.append(reply.as_message())
    if not reply.tool_calls:
        messages.append(Message("user", feedback))

    for call in reply.tool_calls:
        text = feedback if call.name == tool or not tool else other
        messages.append(Message("tool", text, tool_call_id=call.id))


def schema_problems(value: JsonValue, validator: Draft202012Validator) -> list[Problem]:
    """Return the path and rule of each of the first errors, without duplicates; empty if the value
    is valid.
    """
    errors = islice(validator.iter_errors(value), MAX_PROBLEMS)
    problems: list[Problem] = []
    for error in errors:
        for problem in _explain_error(error):
            if problem not in problems:
                problems.append(problem)

    return problems[:MAX_PROBLEMS]


def _explain_error(error: ValidationError, parents: Sequence[str | int] = ()) -> Iterator[Problem]:
    """Yield the problems behind an error that the validator reported.

    The error's path starts at an object whose own path is `parents`.
    """
    path = [*parents, *error.absolute_path]
    choice = _choice_of(error)
    if choice is None:
        yield {"at": _path_text(path), "rule": _rule(error)}
        return

    # An error of a choice says only that no alternative matches. To find out which field is wrong,
    # the value is checked against one object with the fields of all alternatives.
    validator = Draft202012Validator(choice.together)
    for inner in validator.iter_errors(error.instance):
        yield from _explain_error(inner, path)

    if not choice.is_made_in(error.instance):
        names = " and ".join(choice.names)
        yield {"at": _path_text(path), "rule": f"must have exactly one of {names}"}


@dataclass(frozen=True, slots=True)
class _ObjectChoice:
    """Choice between alternative objects. Each object has one required field that the others lack;
    variants of an object only add fields.
    """

    names: tuple[str, ...]  #: the distinguishing field of each alternative
    #: schema of one object with the fields of all alternatives; a field is required only if all
    #: alternatives require it
    together: Schema

    def is_made_in(self, value: object) -> bool:
        """Return whether a value matches exactly one alternative.

        Also True for a value that is not an object, which is reported as a separate problem.
        """
        if not isinstance(value, dict):
            return True
        return len(value.keys() & set(self.names)) == 1


def _choice_of(error: ValidationError) -> _ObjectChoice | None:
    """Return the choice between objects that failed; None if the error is of another kind."""
    branches: Any = error.validator_value
    if error.validator not in _CHOICES or not all(map(_is_closed_object, branches)):
        return None

    common = set.intersection(*(set(branch["required"]) for branch in branches))
    names = _distinguishing_fields(branches, common)
    if names is None:
        return None

    properties: Schema = {}
    for branch in branches:
        for name, part in branch["properties"].items():
            properties.setdefault(name, part)

    together: Schema = {
        "type": "object",
        "properties": properties,
        "required": [name for name in branches[0]["required"] if name in common],
        "additionalProperties": False,
    }
    choice = _ObjectChoice(names, together)
    if choice.is_made_in(error.instance) and Draft202012Validator(together).is_valid(
        error.instance
    ):
        # `together` accepts the value, so it can't explain the error.
        return None

    return choice


def _distinguishing_fields(
    branches: Sequence[Mapping[str, Any]], common: Collection[str]
) -> tuple[str, ...] | None:
    """Return the required field that distinguishes each object from the others; None if no such set
    of fields exists. An object that has additional fields next to a distinguishing field is a
    variant of the object that has only that field.
    """
    names: list[str] = []
    variants: list[set[str]] = []
    for branch in branches:
        own = [name for name in branch["required"] if name not in common]
        if len(own) == 1:
            names += own
        else:
            variants.append(set(own))

    is_of_one = all(len(variant & set(names)) == 1 for variant in variants)
    if not is_of_one or len(set(names)) < len(names):
        return None

    return tuple(names)


def _is_closed_object(schema: Any) -> bool:
    """Return whether a schema describes an object with a fixed set of fields."""
    if not isinstance(schema, Mapping):
        return False

    parts = {"type", "properties", "required", "additionalProperties"}
    return parts <= schema.keys() and schema["additionalProperties"] is False


def _path_text(path: Sequence[str | int]) -> str:
    """Return a path as a string, such as `orders[0].lots`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}"

    return text.lstrip(".") or "(whole)"


def _rule(error: ValidationError) -> str:
    """Return the wording of the rule that a value breaks."""
    schema: Any = error.schema
    value: Any = error.validator_value
    instance: Any = error.instance
    if error.validator == "required":
        missing = [name for name in value if name not in instance]
        return f"must have {', '.join(missing)}"
    if error.validator == "additionalProperties" and value is False:
        allowed = schema.get("properties", {})
        return f"must have no fields but {', '.join(allowed)}"

    return f"must be {in_words(schema)}"


# ---- text of rules


def in_words(schema: Mapping[str, Any]) -> str:
    """Return the wording of a schema's requirement: `a whole number from 1 to 100`, `one of BUY,
    SELL`.
    """
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"

    for word in ("anyOf", "oneOf"):
        if word in schema:
            alternatives = [_alternative_in_words(branch) for branch in schema[word]]
            return " or ".join(dict.fromkeys(alternatives))

    words = _kinds_in_words(schema.get("type", "value"))
    words += _bounds_in_words(schema)
    for least, most, unit in _LENGTHS:
        if least in schema or most in schema:
            words += " of" + _span(schema.get(least), schema.get(most), f" {unit}")

    if "pattern" in schema:
        words += f", in the form {schema['pattern']}"

    return words


def _alternative_in_words(schema: Mapping[str, Any]) -> str:
    if "required" in schema:
        return f"an object with {', '.join(schema['required'])}"

    return in_words(schema)


def _kinds_in_words(kinds: str | Sequence[str]) -> str:
    names = [kinds] if isinstance(kinds, str) else kinds
    return " or ".join(_KINDS.get(name, f"a {name}") for name in names)


def _bounds_in_words(schema: Mapping[str, Any]) -> str:
    if "exclusiveMinimum" not in schema:
        return _span(schema.get("minimum"), schema.get("maximum"), "")

    words = f" above {schema['exclusiveMinimum']}"
    if "maximum" in schema:
        words += f" and at most {schema['maximum']}"

    return words


def _span(least: Any, most: Any, unit: str) -> str:
    if least is None and most is None:
        return ""
    if least is None:
        return f" at most {most}{unit}"
    if most is None:
        return f" at least {least}{unit}"

    return f" {least} to {most}{unit}" if unit else f" from {least} to {most}"
