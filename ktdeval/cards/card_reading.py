"""Kinds of cards, and how to read them. A valid card is strict JSON of the right type, and its
figures follow from its own episodes.
"""

from __future__ import annotations

import json
import os.path
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from ktdeval.cards.assembly import card_problems, derive_fields, with_label_of_task
from ktdeval.cards.card import Card, ScoringCard, TradingCard
from ktdeval.cards.fields.base_types import Problem, strict_json
from ktdeval.cards.fields.knowledge.certificate import ATTACHED as ATTACHED, NOTHING_HIDDEN
from ktdeval.cards.fields.origin.fact_types import NO_ATTACHMENT, Attachment
from ktdeval.cards.json_paths import JsonPath, line_of, path_text
from ktdeval.cards.recomputation_diff import first_difference, is_same_json
from ktdeval.cards.reports import scoring_report, trading_report
from ktdeval.cards.schema import SCHEMA_FOLDER
from ktdeval.cards.table_types import Report
from ktdeval.errors import CardError, UsageError, wrap_os_error
from ktdeval.registry.plugin_registry import Plugins, load_plugins
from ktdeval.values.disk.file_signatures import SIGNATURE_BYTES, other_kind
from ktdeval.values.disk.files import read_plain
from ktdeval.values.documents.format_versions import check_stated
from ktdeval.values.documents.strict_json import (
    MAX_LEVELS,
    JsonValue,
    dumps_canonical,
    dumps_pretty,
    loads_untrusted,
)
from ktdeval.values.documents.typed_json import from_plain
from ktdeval.values.options.config_options import near_matches, user_path

SomeCard = TypeVar("SomeCard", bound=Card)


@dataclass(frozen=True, kw_only=True)
class CardKind:
    """Functions that read, check and show one kind of card."""

    name: str  #: value of a card's `kind` field
    type: type[Card]  #: type of the cards
    #: JSON Schema file generated from `type`, used to find the line of a value that can't be
    #: decoded
    schema: Path
    problems: Callable[[Any], Iterator[Problem]]  #: yields contradictions in a card, in order
    derive: Callable[[Any], Any]  #: recomputes all derived fields of a card
    report: Callable[[Any], Report]  #: turns a card into text and figures
    #: returns the size of a card's contents, such as `episodes: 1, metrics: 28`
    content: Callable[[Any], str]
    #: for a kind that can be attached to trading cards: returns what the attached card states about
    #: a trading task's description and a snapshot id, as `{"value": …}`, or null with the reason
    attach: Callable[[Mapping[str, Any], str, Any], dict[str, Any]] | None = None
    #: for a kind that can be attached: verifies a card, given its file, the plugins, the location
    #: of the data (`data`, `data_args`), and the runs on which the card depends; returns the first
    #: line that differs, or None
    verify: Callable[[Path, Plugins, Mapping[str, Any], Sequence[Path]], str | None] | None = None
    #: returns the rows that describe the attached card on a trading card
    attached_rows: Callable[[Mapping[str, Any]], Iterator[tuple[str, str]]] | None = None


_BUILT_IN = {
    "trading": CardKind(
        name="trading",
        type=TradingCard,
        schema=SCHEMA_FOLDER / "result-card-v1.json",
        problems=card_problems,
        derive=derive_fields,
        report=trading_report,
        content=lambda card: f"episodes: {len(card.episodes)}, metrics: {len(card.metrics)}",
    ),
    "scoring": CardKind(
        name="scoring",
        type=ScoringCard,
        schema=SCHEMA_FOLDER / "scoring-card-v1.json",
        problems=card_problems,
        derive=derive_fields,
        report=scoring_report,
        content=lambda card: f"episodes: {len(card.episodes)}, scores: {len(card.scores)}",
    ),
}


def attached_block(
    mask: str, task: Mapping[str, Any], snapshot_id: str, attached: Card | None, plugins: Plugins
) -> Attachment:
    """Return the `certificate` field of a trading card with this mask, task description and market.
    `attached` is a valid card of kind `ATTACHED`, or None if no card was given.
    """
    if mask == "bright":
        return Attachment(value=None, reason=NOTHING_HIDDEN)
    if attached is None:
        return NO_ATTACHMENT

    attach = card_kinds(attached.kind, plugins)[attached.kind].attach
    if attach is None:
        return NO_ATTACHMENT

    statement = strict_json("certificate", attach(task, snapshot_id, attached))
    return from_plain(statement, Attachment, "certificate", CardError)


def card_kinds(kind: str | None = None, plugins: Plugins | None = None) -> dict[str, CardKind]:
    """Return the card kinds, keyed by name. Plugins (by default the installed ones) are consulted
    only if `kind` is not built in.
    """
    if kind in _BUILT_IN:
        return _BUILT_IN
    plugins = load_plugins() if plugins is None else plugins
    return {**_BUILT_IN, **{name: plugins.make("cards", name) for name in plugins.specs("cards")}}


# ---- reading

#: maximum number of schema errors collected before the first one by line is reported
_MAX_ERRORS = 50

_TYPES: Mapping[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}


def card_files(paths: Iterable[Path]) -> list[Path]:
    """Return the card files given directly or found in run folders (`RUN/cards/*.json`), in order
    and without duplicates. Raises UsageError if a folder contains no cards.
    """
    files: dict[str, Path] = {}
    for path in paths:
        inside = sorted((path / "cards").glob("*.json")) if path.is_dir() else [path]
        if not inside:
            raise UsageError(
                f"{path}: no cards found; give cards, or runs with finished episodes (`ktdeval"
                " score RUN` writes their cards)"
            )

        for file in inside:
            files.setdefault(os.path.realpath(file), file)

    return list(files.values())


def load_card(path: Path | str, kind: str | None = None) -> Card:
    """Read and check a card file of the given kind, or of any kind if `kind` is None. Raises
    CardError with the file, line and field if the card can't be read, is not valid, or is of
    another kind.
    """
    advice = "give a run folder, or a card in its folder cards"
    with wrap_os_error(f"{path}: can't read the card", advice, CardError):
        content = read_plain(user_path(path))

    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        _refuse_other_kind(content[:SIGNATURE_BYTES], str(path))
        raise CardError(
            f"{path}: is not UTF-8 text at byte {error.start}; give a result card (JSON)"
        ) from error

    card = parse_card(text, str(path))
    if kind is not None and card.kind != kind:
        raise CardError(f"{path}: is a {card.kind} card; this command takes {kind} cards")

    return card


def load_evaluation(path: Path | str) -> TradingCard | ScoringCard:
    """Read and check the card of an evaluation. Raises the same errors as `load_card`."""
    card = load_card(path)
    if not isinstance(card, TradingCard | ScoringCard):
        raise CardError(
            f"{path}: is a {card.kind} card; this command takes trading or scoring cards"
        )
    return card


def _refuse_other_kind(head: bytes, where: str) -> None:
    """Raise CardError if the first bytes of a file belong to a different file format."""
    other = other_kind(head, table=False)
    if other:
        raise CardError(f"{where}: by its first bytes it is {other}; give a result card (JSON)")


def parse_card(text: str, where: str) -> Card:
    """Parse and check the text of a card; error messages start with `where`. Raises CardError with
    the line and field.
    """
    try:
        card = loads_untrusted(text, MAX_LEVELS)
    except json.JSONDecodeError as error:
        _refuse_other_kind(text[:SIGNATURE_BYTES].encode("utf-8", "surrogatepass"), where)
        raise CardError(f"{where}: line {error.lineno}: is not JSON: {error.msg}") from error
    except ValueError as error:
        raise CardError(f"{where}: is not strict JSON: {error}") from error
    return validate_card(card, where, text)


def validate_card(card: JsonValue, where: str = "card", text: str | None = None) -> Card:
    """Decode a parsed card and check its consistency: ids, totals, medians and labels must follow
    from its episodes.

    Error messages start with `where`. `text` is the string from which the card was parsed, used for
    line numbers; by default it is the form in which cards are written. Raises CardError with one
    line: file, line, field and fault.
    """
    try:
        # Also ensures that the card can be hashed: no NaN, lone surrogate or foreign type.
        dumps_canonical(card).encode()
    except (TypeError, ValueError) as error:
        raise CardError(f"{where}: is not strict JSON: {error}") from error

    def at(path: JsonPath, problem: str) -> str:
        return _located_problem(dumps_pretty(card) if text is None else text, path, problem)

    # A card without a kind is checked against the schema of trading cards, which requires it.
    name = card.get("kind") if isinstance(card, Mapping) else None
    name = name if isinstance(name, str) else "trading"
    kinds = card_kinds(name)

    if name not in kinds:
        expected = " or ".join(kinds)
        raise CardError(
            f"{where}: {at(('kind',), f'expected {expected}, was {_shortened_repr(name)}')}"
        )

    line = line_of(text or dumps_pretty(card), ("schema_version",))
    stated_at = f"{where}: line {line}: schema_version"
    check_stated("card", card, stated_at, "read it with the ktdeval that made it", CardError)
    kind = kinds[name]
    try:
        typed = from_plain(card, kind.type, where, CardError)
    except CardError as error:
        problem = _schema_problem(card, kind, text or dumps_pretty(card))
        if problem is None:
            raise

        raise CardError(f"{where}: {problem}") from error

    # Checked lazily, one at a time, because later checks of a kind rely on the identities.
    contradiction = next(iter(kind.problems(typed)), None)
    if contradiction is not None:
        raise CardError(f"{where}: {at(*contradiction)}")

    if isinstance(typed, TradingCard):
        typed = with_label_of_task(typed)

    derived = kind.derive(typed)
    if not is_same_json(typed, derived):
        difference = first_difference(typed.plain, derived.plain, text)
        raise CardError(f"{where}: {difference} from the card's own episodes")

    return typed


def derive_card(card: SomeCard) -> SomeCard:
    """Return the card with all derived fields recomputed."""
    return cast("SomeCard", card_kinds(card.kind)[card.kind].derive(card))


def _located_problem(text: str, path: JsonPath, problem: str) -> str:
    return f"line {line_of(text, path)}: {path_text(path)}: {problem}"


def _schema_problem(card: JsonValue, kind: CardKind, text: str) -> str | None:
    """Return the schema error that comes first in the file. The schema is used because, unlike the
    type, it provides line numbers and similar names.
    """
    validator = Draft202012Validator(json.loads(kind.schema.read_text(encoding="utf-8")))
    errors = [
        error for error, _ in zip(validator.iter_errors(card), range(_MAX_ERRORS), strict=False)
    ]
    if not errors:
        return None

    first = min(
        errors,
        key=lambda error: (line_of(text, error.absolute_path), path_text(error.absolute_path)),
    )
    # in a union, use the branch that is closest to the value
    while first.validator == "anyOf" and first.context:
        first = max(first.context, key=_nearness)

    path = list(first.absolute_path)
    if first.validator == "additionalProperties":
        fields = first.schema.get("properties", {})
        unknown = sorted(set(first.instance) - set(fields))[0]
        return _located_problem(
            text, [*path, unknown], f"unknown field{near_matches(unknown, fields)}"
        )

    return _located_problem(text, path, _schema_message(first))


def _nearness(error: ValidationError) -> tuple[int, bool]:
    """Return how closely a value matches a branch of a union: the depth of the error, then whether
    the value has the type required by the branch.
    """
    return len(error.absolute_path), error.validator not in ("enum", "const", "type")


def _schema_message(error: ValidationError) -> str:
    expected: Any = error.validator_value
    instance: Any = error.instance
    match error.validator:
        case "type":
            types = expected if isinstance(expected, str) else " or ".join(expected)
            return f"expected {types}, was {_TYPES.get(type(instance), 'null')}"
        case "required":
            return f"field {next(name for name in expected if name not in instance)!r} is missing"
        case "pattern":
            return f"{_shortened_repr(instance)} does not have the form {expected}"
        case "enum" | "const":
            allowed = expected if isinstance(expected, list) else [expected]
            return f"expected {' or '.join(map(str, allowed))}, was {_shortened_repr(instance)}"
        case "not":
            return "has a reason though it has a value"

    return error.message if len(error.message) <= 160 else f"{error.message[:157]}…"


def _shortened_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
