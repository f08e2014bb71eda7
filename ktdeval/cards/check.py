"""Kinds of cards, and their reading: strict JSON of its type, with figures that follow from the card's own episodes."""

from __future__ import annotations

import json
import os.path
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeVar, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from ktdeval.cards.call_counts import call_problems
from ktdeval.cards.card import Card, ScoringCard, TradingCard
from ktdeval.cards.compare import JsonPath, first_difference, line_of, path_text
from ktdeval.cards.inputs import Problem, task_problems
from ktdeval.cards.reports import scoring_report, trading_report
from ktdeval.cards.schema import SCHEMA_FOLDER
from ktdeval.cards.scoring import derive_scoring, scoring_problems
from ktdeval.cards.table import Report
from ktdeval.cards.trading import NOT_GIVEN, derive_trading, trading_problems
from ktdeval.contracts.spec import EpisodeSpec, Window
from ktdeval.errors import CardError, UsageError
from ktdeval.fields import near_matches, user_path
from ktdeval.jsonio import MOST_LEVELS, JsonValue, content_hash, dumps_canonical, dumps_pretty, loads_untrusted, read_plain
from ktdeval.registry import Plugins, load_plugins
from ktdeval.typed import from_plain

SomeCard = TypeVar("SomeCard", bound=Card)


@dataclass(frozen=True, kw_only=True)
class CardKind:
    """Reading, checks and display of one kind of cards."""

    name: str  #: `kind` of its cards
    type: type[Card]  #: type of its cards
    schema: Path  #: file of the JSON Schema generated from the type; it gives the line of a value that can't be decoded
    problems: Callable[[Any], Iterator[Problem]]  #: contradictions in a card, in order
    derive: Callable[[Any], Any]  #: recomputes all fields of a card that follow from others
    report: Callable[[Any], Report]  #: turns a card into words and figures
    content: Callable[[Any], str]  #: how much a card holds, such as `episodes: 1, metrics: 28`
    #: for a kind that trading cards may carry: the statement of its card on a trading task's description and a snapshot's id,
    #: as `{"value": …}`, or null with the reason
    attach: Callable[[Mapping[str, Any], str, Any], dict[str, Any]] | None = None
    #: for such a kind: verifies a card, given its file, plugins, where the data are (`data`, `data_args`), and the runs that it
    #: rests on; the first line that differs, or None
    verify: Callable[[Path, Plugins, Mapping[str, Any], Sequence[Path]], str | None] | None = None
    attached_rows: Callable[[Mapping[str, Any]], Iterator[tuple[str, str]]] | None = None  #: shows that block on a trading card


NOTHING_HIDDEN = "nothing is hidden, so there is nothing to certify"

ATTACHED = "certificate"  #: The kind that trading cards carry, under the field of that name


def _attached_rows(card: TradingCard) -> Iterator[tuple[str, str]]:
    """Yield rows on an attached card, where its plugin is installed."""
    if card.certificate.value is not None:
        kind = card_kinds(ATTACHED).get(ATTACHED)
        if kind is not None and kind.attached_rows is not None:
            yield from kind.attached_rows(card.certificate.value)


_BUILT_IN = {
    "trading": CardKind(
        name="trading",
        type=TradingCard,
        schema=SCHEMA_FOLDER / "result-card-v1.json",
        problems=trading_problems,
        derive=derive_trading,
        report=lambda card: trading_report(card, _attached_rows(card)),
        content=lambda card: f"episodes: {len(card.episodes)}, metrics: {len(card.metrics)}",
    ),
    "scoring": CardKind(
        name="scoring",
        type=ScoringCard,
        schema=SCHEMA_FOLDER / "scoring-card-v1.json",
        problems=scoring_problems,
        derive=derive_scoring,
        report=scoring_report,
        content=lambda card: f"episodes: {len(card.episodes)}, scores: {len(card.scores)}",
    ),
}


def attached_block(
    mask: str, task: Mapping[str, Any], snapshot_id: str, attached: Card | None, plugins: Plugins
) -> dict[str, JsonValue]:
    """Return the `certificate` field of a trading card with this mask, task description and market. `attached` is a valid card of
    the kind `ATTACHED`; None where none was given.
    """
    if mask == "bright":
        return {"value": None, "reason": NOTHING_HIDDEN}
    attach = None if attached is None else card_kinds(attached.kind, plugins)[attached.kind].attach
    return {"value": None, "reason": NOT_GIVEN} if attach is None else attach(task, snapshot_id, attached)


def card_kinds(kind: str | None = None, plugins: Plugins | None = None) -> dict[str, CardKind]:
    """Return the kinds of cards by name; plugins (by default the installed ones) are asked only where `kind` is not built in."""
    if kind in _BUILT_IN:
        return _BUILT_IN
    plugins = load_plugins() if plugins is None else plugins
    return {**_BUILT_IN, **{name: plugins.make("cards", name) for name in plugins.specs("cards")}}


# ---- reading

_MAX_ERRORS = 50  #: Schema errors collected before the first one, by line, is reported

_TYPES: Mapping[type, str] = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


def card_files(paths: Iterable[Path]) -> list[Path]:
    """Return the cards of files and run folders (`RUN/cards/*.json`), in order, each once. UsageError: a folder without cards."""
    files: dict[str, Path] = {}
    for path in paths:
        inside = sorted((path / "cards").glob("*.json")) if path.is_dir() else [path]
        if not inside:
            raise UsageError(
                f"{path}: no cards here; give cards, or runs with finished episodes (`ktdeval score RUN` writes theirs)"
            )
        for file in inside:
            files.setdefault(os.path.realpath(file), file)
    return list(files.values())


def load_card(path: Path | str, kind: str | None = None) -> Card:
    """Read and check a card file, of any kind by default. Raises CardError if it can't be read, is not valid, or of another kind;
    names the file, the line and the field.
    """
    try:
        text = read_plain(user_path(path)).decode()
    except OSError as error:
        raise CardError(f"{path}: can't read the card: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CardError(f"{path}: is not UTF-8 text at byte {error.start}; give a result card (JSON)") from error
    card = parse_card(text, str(path))
    if kind is not None and card.kind != kind:
        raise CardError(f"{path}: is a {card.kind} card; this command takes {kind} cards")
    return card


def load_evaluation(path: Path | str) -> TradingCard | ScoringCard:
    """Read and check the card of an evaluation; errors as of `load_card`."""
    card = load_card(path)
    if not isinstance(card, TradingCard | ScoringCard):
        raise CardError(f"{path}: is a {card.kind} card; this command takes trading or scoring cards")
    return card


def parse_card(text: str, where: str) -> Card:
    """Parse and check the text of a card; `where` starts the error messages. Raises CardError that names the line and the field."""
    try:
        card = loads_untrusted(text, MOST_LEVELS)
    except json.JSONDecodeError as error:
        raise CardError(f"{where}: line {error.lineno}: is not JSON: {error.msg}") from error
    except ValueError as error:
        raise CardError(f"{where}: is not strict JSON: {error}") from error
    return validate_card(card, where, text)


def validate_card(card: JsonValue, where: str = "card", text: str | None = None) -> Card:
    """Decode a parsed card and check it against itself: ids, totals, medians and labels must follow from its episodes. `where`
    starts the error messages; `text` is what the card was parsed from, for line numbers, by default the form in which cards are
    written. Raises CardError: one line with file, line, field and what is wrong.
    """
    try:
        # Also settles that the card can be hashed: no NaN, no lone surrogate, no foreign type.
        dumps_canonical(card).encode()
    except (TypeError, ValueError) as error:
        raise CardError(f"{where}: is not strict JSON: {error}") from error

    def at(path: JsonPath, problem: str) -> str:
        return _at(dumps_pretty(card) if text is None else text, path, problem)

    # A card without a kind is checked against the schema of trading cards, which requires it.
    name = card.get("kind") if isinstance(card, Mapping) else None
    name = name if isinstance(name, str) else "trading"
    kinds = card_kinds(name)
    if name not in kinds:
        expected = " or ".join(kinds)
        raise CardError(f"{where}: {at(('kind',), f'expected {expected}, was {_short(name)}')}")
    kind = kinds[name]
    try:
        typed = from_plain(card, kind.type, where, CardError)
    except CardError as error:
        if (problem := _schema_problem(card, kind, text or dumps_pretty(card))) is None:
            raise
        raise CardError(f"{where}: {problem}") from error
    identity_problems = _identity_problems(typed) if isinstance(typed, TradingCard | ScoringCard) else iter(())
    # One after the other: what a kind checks rests on the identities.
    contradiction = next(identity_problems, None) or next(kind.problems(typed), None)
    if contradiction is None and isinstance(typed, TradingCard | ScoringCard):
        contradiction = next(call_problems(typed), None)
    if contradiction is not None:
        raise CardError(f"{where}: {at(*contradiction)}")
    if difference := first_difference(typed.plain, kind.derive(typed).plain, text):
        raise CardError(f"{where}: {difference} from the card's own episodes")
    return typed


def derive_card(card: SomeCard) -> SomeCard:
    """Return the card with all fields recomputed that follow from others."""
    return cast("SomeCard", card_kinds(card.kind)[card.kind].derive(card))


def _at(text: str, path: JsonPath, problem: str) -> str:
    return f"line {line_of(text, path)}: {path_text(path)}: {problem}"


def _schema_problem(card: JsonValue, kind: CardKind, text: str) -> str | None:
    """Return the first schema error in the file; the schema gives lines and near names, which the type does not."""
    validator = Draft202012Validator(json.loads(kind.schema.read_text(encoding="utf-8")))
    errors = [error for error, _ in zip(validator.iter_errors(card), range(_MAX_ERRORS), strict=False)]
    if not errors:
        return None
    first = min(errors, key=lambda error: (line_of(text, error.absolute_path), path_text(error.absolute_path)))
    while first.validator == "anyOf" and first.context:
        first = max(first.context, key=_nearness)
    path = list(first.absolute_path)
    if first.validator == "additionalProperties":
        fields = first.schema.get("properties", {})
        unknown = sorted(set(first.instance) - set(fields))[0]
        return _at(text, [*path, unknown], f"unknown field{near_matches(unknown, fields)}")
    return _at(text, path, _schema_message(first))


def _nearness(error: ValidationError) -> tuple[int, bool]:
    """Return how near a value came to a branch of a union: how deep the error lies, and whether it has the type."""
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
            return f"{_short(instance)} does not have the form {expected}"
        case "enum" | "const":
            allowed = expected if isinstance(expected, list) else [expected]
            return f"expected {' or '.join(map(str, allowed))}, was {_short(instance)}"
        case "not":
            return "has a reason though it has a value"
    return error.message if len(error.message) <= 160 else f"{error.message[:157]}…"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _identity_problems(card: TradingCard | ScoringCard) -> Iterator[Problem]:
    """Yield the hash of the task's config, windows, seeds and ids of episodes that do not follow from the card's own fields."""
    if content_hash(card.task.config) != card.task.hash:
        yield ("task", "hash"), "is not the hash of the task's config"
    yield from task_problems(card.task, card.windows, card.task.config)
    windows: dict[str | None, Window | None] = {each.name: Window(each.name, each.first, each.last) for each in card.windows}
    if (card.snapshot is None) == bool(windows):
        yield ("windows",), "stand without a market" if windows else "are missing"
        return
    if len(windows) < len(card.windows):
        yield ("windows",), "one stands twice"
    windows = windows or {None: None}
    task, market = card.task, None if card.snapshot is None else card.snapshot.id
    spec_of = partial(EpisodeSpec, task.name, task.version, task.hash, market, task.mask, task.mode)
    run_by = (card.model.name, card.model.args, card.agent.name, card.agent.args)
    mask_key = card.mask_key or None
    seen: set[str] = set()
    for field in ("episodes", "missing_episodes"):
        for index, episode in enumerate(getattr(card, field)):
            if episode.window not in windows:
                yield (field, index, "window"), f"no window of that name{near_matches(str(episode.window), map(str, windows))}"
                return
            spec = spec_of(windows[episode.window], *run_by, card.call, episode.seed, card.limit, mask_key)
            if episode.id != spec.id:
                yield (field, index, "id"), "is not the hash of the episode's spec"
            if episode.id in seen:
                yield (field, index, "id"), "stands twice"
            seen.add(episode.id)
    yield from _plan_problems(card, windows)


def _plan_problems(card: TradingCard | ScoringCard, windows: Iterable[str | None]) -> Iterator[Problem]:
    """Yield where the episodes are not a run's plan, each window with each of seeds that follow each other: some were left out."""
    if card.seeds != list(range(card.seeds[0], card.seeds[0] + len(card.seeds))):
        yield ("seeds",), "do not follow each other, as those of a run do"
    planned = {(episode.window, episode.seed): None for episode in (*card.episodes, *card.missing_episodes)}
    lacking = (cell for cell in product(windows, card.seeds) if cell not in planned)
    seeds = set(card.seeds)
    surplus = (cell for cell in planned if cell[1] not in seeds)
    for cells, problem in ((lacking, "is neither finished nor missing"), (surplus, "is not one of the seeds")):
        for window, seed in cells:
            yield ("seeds",), f"seed {seed}{'' if window is None else f' of window {window}'} {problem}"
