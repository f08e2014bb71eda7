"""Read a card and refuse one that is not valid: strict JSON, the schema, and figures that follow from its own episodes."""

from __future__ import annotations

import functools
import importlib.resources
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from ktdeval.cards.aggregate import DERIVED, derived_fields
from ktdeval.cards.locate import JsonPath, line_of, path_text
from ktdeval.cards.verify import first_difference
from ktdeval.errors import CardError
from ktdeval.fields import near_matches
from ktdeval.jsonio import JsonValue, content_hash, dumps_pretty
from ktdeval.runner.spec import EpisodeSpec, Window

SCHEMA_FILE = "result-card-v1.json"

_MAX_ERRORS = 50
"""Schema errors looked at before the first one, by line, is reported."""

_TYPES: Mapping[type, str] = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


@functools.cache
def load_schema() -> Mapping[str, JsonValue]:
    """The JSON Schema (draft 2020-12) of result cards, version 1."""
    text = importlib.resources.files("ktdeval.cards").joinpath("schema", SCHEMA_FILE).read_text(encoding="utf-8")
    schema: Mapping[str, JsonValue] = json.loads(text)
    return schema


def load_card(path: Path | str) -> dict[str, JsonValue]:
    """Read and check a card file.

    Raises:
        CardError: it can't be read or is not valid; names the file, the line and the field.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise CardError(f"{path}: can't read the card: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CardError(f"{path}: is not UTF-8 text at byte {error.start}; give a result card (JSON)") from error
    return parse_card(text, str(path))


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
    problem = _schema_problem(card, text) or _identity_problem(card, text) or _derived_problem(card, text)
    if problem:
        raise CardError(f"{where}: {problem}")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"field {next(name for name in names if names.count(name) > 1)!r} stands twice in one object")
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


def _schema_problem(card: JsonValue, text: str) -> str | None:
    """The schema error that stands first in the file."""
    validator = Draft202012Validator(load_schema())
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


def _identity_problem(card: Mapping[str, JsonValue], text: str) -> str | None:
    """Hash of the task's config, ids and lengths of the episodes: as the card's own fields give them."""
    task = card["task"]
    if content_hash(task["config"]) != task["hash"]:
        return _at(text, ("task", "hash"), "is not the hash of the task's config")
    windows = {window["name"]: Window(window["name"], window["first"], window["last"]) for window in card["windows"]}
    seen: set[str] = set()
    for field, place, episode in _episodes(card):
        if episode["window"] not in windows:
            return _at(text, (field, place, "window"), f"no window of that name{near_matches(episode['window'], windows)}")
        if episode["id"] != _spec(card, windows[episode["window"]], episode["seed"]).id:
            return _at(text, (field, place, "id"), "is not the hash of the episode's spec")
        if episode["id"] in seen:
            return _at(text, (field, place, "id"), "stands twice")
        seen.add(episode["id"])
    days = {window["name"]: window["days"] for window in card["windows"]}
    for place, episode in enumerate(card["episodes"]):
        expected = min(days[episode["window"]], card["limit"] or days[episode["window"]])
        if episode["steps"] != expected or sum(episode["decisions"].values()) != expected:
            return _at(text, ("episodes", place, "steps"), f"the window and limit give {expected} steps, each with one decision")
        surplus = sorted(set(episode["metrics"]) ^ set(card["metrics"]))
        if surplus:
            return _at(text, ("episodes", place, "metrics"), f"{surplus[0]!r} must be in every episode and under metrics")
    return None


def _episodes(card: Mapping[str, JsonValue]) -> Iterable[tuple[str, int, Mapping[str, JsonValue]]]:
    for field in ("episodes", "missing_episodes"):
        for place, episode in enumerate(card[field]):
            yield field, place, episode


def _spec(card: Mapping[str, JsonValue], window: Window, seed: int) -> EpisodeSpec:
    task, model, agent = card["task"], card["model"], card["agent"]
    return EpisodeSpec(
        task=task["name"],
        task_version=task["version"],
        task_hash=task["hash"],
        snapshot=card["snapshot"]["id"],
        mask=task["mask"],
        mode=task["mode"],
        window=window,
        model=model["name"],
        model_args=model["args"],
        agent=agent["name"],
        agent_args=agent["args"],
        call=card["call"],
        seed=seed,
        limit=card["limit"],
    )


def _derived_problem(card: Mapping[str, JsonValue], text: str) -> str | None:
    recorded = {name: card[name] for name in DERIVED}
    difference = first_difference(recorded, derived_fields(card), text)
    return f"{difference} from the card's own episodes" if difference else None
