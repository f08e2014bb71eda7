"""Read a card and refuse one that is not valid: strict JSON, the schema, and figures that follow from its own episodes.

Cards of trading tasks and of scoring tasks are told apart by their field `kind`; each has a schema of its own.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from ktdeval.cards import aggregate, certificate, scoring
from ktdeval.cards.identity import Problem, identity_problem
from ktdeval.cards.locate import JsonPath, line_of, path_text
from ktdeval.cards.scoring_check import scoring_problem
from ktdeval.cards.verify import first_difference
from ktdeval.errors import CardError
from ktdeval.fields import near_matches
from ktdeval.jsonio import JsonValue, dumps_pretty

_MAX_ERRORS = 50
"""Schema errors looked at before the first one, by line, is reported."""

_TYPES: Mapping[type, str] = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


@functools.cache
def load_schema(kind: str = "trading") -> Mapping[str, JsonValue]:
    """The JSON Schema (draft 2020-12) of the cards of a kind, version 1.

    Args:
        kind: one of `KINDS`.
    """
    text = importlib.resources.files("ktdeval.cards").joinpath("schema", KINDS[kind].schema).read_text(encoding="utf-8")
    schema: Mapping[str, JsonValue] = json.loads(text)
    return schema


def load_card(path: Path | str, kind: str | None = None) -> dict[str, JsonValue]:
    """Read and check a card file.

    Args:
        path: the file.
        kind: the kind that is wanted, `trading` or `scoring`; any by default.

    Raises:
        CardError: it can't be read, is not valid, or of another kind; names the file, the line and the field.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise CardError(f"{path}: can't read the card: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CardError(f"{path}: is not UTF-8 text at byte {error.start}; give a result card (JSON)") from error
    card = parse_card(text, str(path))
    if kind is not None and card["kind"] != kind:
        raise CardError(f"{path}: is a {card['kind']} card; this command takes {kind} cards")
    return card


def parse_card(text: str, where: str) -> dict[str, JsonValue]:
    """Parse and check the text of a card; `where` starts the error messages.

    Raises:
        CardError: it is not valid; names the line and the field.
    """
    try:
        card = json.loads(
            text, object_pairs_hook=_unique_keys, parse_constant=_no_constant, parse_float=_finite, parse_int=_bounded
        )
    except json.JSONDecodeError as error:
        raise CardError(f"{where}: line {error.lineno}: is not JSON: {error.msg}") from error
    except ValueError as error:
        raise CardError(f"{where}: is not strict JSON: {error}") from error
    except RecursionError as error:
        raise CardError(f"{where}: is nested too deeply to be a result card") from error
    validate_card(card, where, text)
    result: dict[str, JsonValue] = card
    return result


def validate_card(card: JsonValue, where: str = "card", text: str | None = None) -> None:
    """Check a parsed card against the schema and against itself: ids, totals, medians and labels must follow from its episodes.

    Args:
        card: a JSON value.
        where: start of the error messages.
        text: what the card was parsed from, for line numbers; by default the form in which cards are written.

    Raises:
        CardError: one line with file, line, field and what is wrong.
    """
    try:
        # Also settles that the card can be hashed: no NaN, no lone surrogate, no foreign type.
        written = dumps_pretty(card)
        written.encode()
    except (TypeError, ValueError) as error:
        raise CardError(f"{where}: is not strict JSON: {error}") from error
    text = written if text is None else text
    kind = _kind_of(card)
    if kind not in KINDS:
        problem: str | None = _at(text, ("kind",), f"expected {' or '.join(KINDS)}, was {_short(kind)}")
    else:
        problem = _schema_problem(card, kind, text) or _own_problem(card, KINDS[kind], text)
    if problem:
        raise CardError(f"{where}: {problem}")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        doubled = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"field {doubled!r} stands twice in one object")
    return members


def _no_constant(token: str) -> NoReturn:
    raise ValueError(f"{token} is no JSON number")


def _finite(token: str) -> float:
    number = float(token)
    if not math.isfinite(number):
        raise ValueError(f"{token} is too large for a number")
    return number


def _bounded(token: str) -> int:
    number = int(token)
    if abs(number) >= 1 << 63:
        raise ValueError(f"an integer of {len(token)} digits does not fit 64 bits")
    return number


def _at(text: str, path: JsonPath, problem: str) -> str:
    return f"line {line_of(text, path)}: {path_text(path)}: {problem}"


def _schema_problem(card: JsonValue, kind: str, text: str) -> str | None:
    """The schema error that stands first in the file."""
    validator = Draft202012Validator(load_schema(kind))
    errors = [error for error, _ in zip(validator.iter_errors(card), range(_MAX_ERRORS), strict=False)]
    if not errors:
        return None
    first = min(errors, key=lambda error: (line_of(text, error.absolute_path), path_text(error.absolute_path)))
    path = list(first.absolute_path)
    if first.validator == "additionalProperties":
        known = first.schema.get("properties", {})
        unknown = sorted(set(first.instance) - set(known))[0]
        return _at(text, [*path, unknown], f"unknown field{near_matches(unknown, known)}")
    return _at(text, path, _schema_message(first))


def _schema_message(error: ValidationError) -> str:
    expected: Any = error.validator_value
    given: Any = error.instance
    if error.validator == "type":
        wanted = expected if isinstance(expected, str) else " or ".join(expected)
        return f"expected {wanted}, was {_TYPES.get(type(given), 'null')}"
    if error.validator == "required":
        missing = [name for name in expected if name not in given]
        return f"field {missing[0]!r} is missing"
    if error.validator == "pattern":
        return f"{_short(given)} does not have the form {expected}"
    if error.validator in ("enum", "const"):
        allowed = expected if isinstance(expected, list) else [expected]
        return f"expected {' or '.join(map(str, allowed))}, was {_short(given)}"
    if error.validator == "not":
        return "has a reason though it has a value"
    return error.message if len(error.message) <= 160 else f"{error.message[:157]}…"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _trading_problem(card: Mapping[str, JsonValue]) -> Problem | None:
    """Lengths and metrics of the episodes of a trading card."""
    days = {window["name"]: window["days"] for window in card["windows"]}
    for place, episode in enumerate(card["episodes"]):
        expected = min(days[episode["window"]], card["limit"] or days[episode["window"]])
        if episode["steps"] != expected or sum(episode["decisions"].values()) != expected:
            return ("episodes", place, "steps"), f"the window and limit give {expected} steps, each with one decision"
        surplus = sorted(set(episode["metrics"]) ^ set(card["metrics"]))
        if surplus:
            return ("episodes", place, "metrics"), f"{surplus[0]!r} must be in every episode and under metrics"
    return None


@dataclass(frozen=True)
class Kind:
    """How the cards of one kind are checked.

    Attributes:
        schema: file under `schema/`.
        problems: each gives the first place where a card that follows the schema contradicts itself.
        derived: fields that follow from the others.
        derive: gives them.
    """

    schema: str
    problems: tuple[Callable[[Mapping[str, JsonValue]], Problem | None], ...]
    derived: tuple[str, ...]
    derive: Callable[[Mapping[str, JsonValue]], Mapping[str, JsonValue]]


KINDS: Mapping[str, Kind] = {
    "trading": Kind("result-card-v1.json", (identity_problem, _trading_problem), aggregate.DERIVED, aggregate.derived_fields),
    "scoring": Kind("scoring-card-v1.json", (identity_problem, scoring_problem), scoring.DERIVED, scoring.derived_fields),
    certificate.KIND: Kind(
        certificate.SCHEMA_FILE, (certificate.certificate_problem,), certificate.DERIVED, certificate.derived_fields
    ),
}
"""The kinds of cards, by their field `kind`."""


def _kind_of(card: JsonValue) -> str:
    """The kind that a JSON value says it is. What says nothing is held against the schema of trading cards, which asks for it."""
    kind = card.get("kind", "trading") if isinstance(card, Mapping) else "trading"
    return kind if isinstance(kind, str) else "trading"


def _own_problem(card: Mapping[str, JsonValue], kind: Kind, text: str) -> str | None:
    """The first place where a card that follows its schema contradicts itself."""
    for find in kind.problems:
        if (problem := find(card)) is not None:
            return _at(text, *problem)
    difference = first_difference({name: card[name] for name in kind.derived}, kind.derive(card), text)
    return f"{difference} from the card's own episodes" if difference else None
