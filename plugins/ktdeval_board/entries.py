"""Submitted cards with what the board knows of them: the one reading of a board that ranking, site and export share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, UnsetType

from ktdeval.cards import MetricLine, ScoreLine, ScoringCard, TradingCard, load_evaluation
from ktdeval.errors import CardError
from ktdeval.jsonio import JsonValue, dumps_canonical, sha256_hex
from ktdeval_board.documents import Certified, Records, Submission, Tier, Verdict
from ktdeval_board.layout import CARD_ID, BoardFolder, CardFiles
from ktdeval_board.reading import decode_own, read_bytes, read_own, read_untrusted
from ktdeval_board.registrations import NONE_FILED, Registrations, family_of, load_registrations
from ktdeval_board.rules import Baseline, Division, Erratum, Rules, load_errata, load_excuses, load_rules

T = TypeVar("T")
Card = TradingCard | ScoringCard

OWN_KEY = "own key"  #: Label of a card whose mask key the board did not draw, where it draws the others
VERDICT = "verdict.json"  #: Verdict on a certificate, in its folder

_SETTING_PREFIX = "reasoning_"


@dataclass(frozen=True)
class Entry:
    """One submitted card."""

    card_id: str  #: SHA-256 of the card's file
    files: CardFiles
    card: Card  #: its content. Valid: by the board's check of these very bytes, or checked when it was read
    division: Division | None  #: the division that it belongs to; None where the board has none for it
    submission: Submission  #: who submitted it, and with what claims
    verdict: Verdict | None  #: result of the board's check of these very bytes; None where it was not checked
    errata: tuple[Erratum, ...] = ()  #: statements of maintainers on it since, oldest first
    baseline: Baseline | None = None  #: the baseline that its model is; None where it is an entrant
    is_certified: bool = False  #: whether this board has verified the certificate of its mask

    @property
    def tier(self) -> Tier:
        """How far its figures have been confirmed."""
        return "unchecked" if self.verdict is None else self.verdict.tier

    @property
    def labels(self) -> list[str]:
        """Labels of its card; whether the board has verified the certificate that it claims; and whether its price of tokens is the
        submitter's word, which no record confirms.
        """
        verified = {"certificate claimed": "certificate verified"} if self.is_certified else {}
        price = unset_to_none(self.card.cost.price)
        is_claimed = price is not None and ("tool_protocol" in self.card.call or price.input > 0 or price.output > 0)
        labels = [verified.get(label, label) for label in self.card.labels] + ["price claimed"] * is_claimed
        return labels + [OWN_KEY] * self.has_own_key

    @property
    def has_own_key(self) -> bool:
        """Whether its mask key is its submitter's choice, in a division whose keys the board draws."""
        return self.division is not None and self.division.is_governed and not self.card.registration

    @property
    def is_withdrawn(self) -> bool:
        """Whether maintainers took it out of the tables."""
        return any(erratum.effect == "withdrawn" for erratum in self.errata)

    @property
    def is_trading(self) -> bool:
        """Whether it is a card of a trading task."""
        return isinstance(self.card, TradingCard)

    @property
    def trading(self) -> TradingCard:
        """Card of a trading task, where the division is of one."""
        assert isinstance(self.card, TradingCard)
        return self.card

    @property
    def model(self) -> str:
        """Full name of the model."""
        return self.card.model.name

    @property
    def agent(self) -> str:
        """Name of the agent scaffold."""
        return self.card.agent.name

    def facts(self, label: str) -> dict[str, JsonValue]:
        """Return what tables and pages of models say of it in one way; `label`: what its system is called."""
        by, model = self.submission.submitter, self.submission.model
        claims = {"submitter": by.name, "submitted_on": self.submission.submitted_on, "cutoff": model.cutoff_date}
        who = {"card": self.card_id, "agent": self.agent, "label": label, "settings": settings_of(self.card)}
        return {**who, **claims, "baseline": self.baseline_kind, "tier": self.tier, "labels": self.labels}

    @property
    def baseline_kind(self) -> str | None:
        """Kind of baseline; None for an entrant."""
        return None if self.baseline is None else self.baseline.kind


@dataclass(frozen=True)
class Candidate(Entry):
    """One card whose file, texts, schema and content passed the check; it has a division."""

    division: Division
    where: str = ""
    records: Records | None = None


@dataclass(frozen=True)
class Board:
    """A board as it lies on disk."""

    folder: BoardFolder
    rules: Rules
    entries: tuple[Entry, ...] = ()
    errata: tuple[Erratum, ...] = ()
    registrations: Registrations = NONE_FILED

    @cached_property
    def used_registrations(self) -> frozenset[str]:
        """Ids of the registrations that have a card which the board checked, withdrawn ones included."""
        checked = (entry for entry in self.entries if entry.verdict is not None and entry.division is not None)
        return frozenset(entry.card.registration for entry in checked if entry.card.registration)

    @cached_property
    def own_key_families(self) -> Counter[tuple[str, ...]]:
        """How many cards of each family of systems have keys of their own in divisions whose keys the board draws."""
        return count_own_keys(self.entries)

    def of_division(self, division: Division) -> list[Entry]:
        """Return the cards of a division that were not withdrawn."""
        return [entry for entry in self.entries if entry.division == division and not entry.is_withdrawn]


def count_own_keys(entries: Iterable[Entry]) -> Counter[tuple[str, ...]]:
    """Count the cards under keys of their own, where the board draws them, by family of their systems; withdrawn ones included."""
    own = ((entry.division, entry) for entry in entries if entry.has_own_key and entry.division is not None)
    return Counter(family_of(division.id, entry.model, entry.agent) for division, entry in own)


def load_board(path: Path) -> Board:
    """Read a board.

    A card on which there is a verdict for its very bytes is not validated again, which is what makes large boards quick to build;
    any other is. Raises ConfigError: there is no board here, or its rules or errata are not valid; CardError: a card, submission or
    verdict can't be read or is not valid; `check` says everything that is wrong.
    """
    folder, rules, errata = BoardFolder(path), load_rules(path), load_errata(path)
    entries = tuple(_load_entry(folder, rules, errata, files) for files in folder.submitted())
    registrations = load_registrations(folder, rules, load_excuses(path))
    return Board(folder, rules, entries, errata, registrations)


def _load_entry(folder: BoardFolder, rules: Rules, errata: tuple[Erratum, ...], files: CardFiles) -> Entry:
    most = rules.limits.bytes_of("card_mb")
    data = read_bytes(files.card, most)
    if sha256_hex(data) != files.card_id:
        raise CardError(f"{files.card}: its SHA-256 is not what its name says; run `ktdeval leaderboard check`")
    path = folder.verdict(files.card_id)
    verdict = read_own(path, Verdict) if path.is_file() else None
    if verdict is not None and verdict.card != files.card_id:
        raise CardError(f"{path}: is the verdict on another card")
    card = load_evaluation(files.card) if verdict is None else _checked_card(data, files.card)
    submission = read_untrusted(files.submission, Submission, most)
    own = tuple(erratum for erratum in errata if erratum.card == files.card_id)
    baseline = rules.baseline_of(card.model.name)
    division, certified = division_of(rules, card), is_certified(folder, card)
    return Entry(files.card_id, files, card, division, submission, verdict, own, baseline, certified)


def is_certified(folder: BoardFolder, card: Card) -> bool:
    """Return whether the board has verified the runs of the attacks that the certificate of a card rests on."""
    sha256 = str(card.certificate.value.get("sha256")) if isinstance(card, TradingCard) and card.certificate.value else ""
    path = folder.certificate(sha256) / VERDICT
    return bool(CARD_ID.fullmatch(sha256)) and path.is_file() and read_own(path, Certified).certificate == sha256


class _Kind(Struct):
    kind: str


def _checked_card(data: bytes, path: Path) -> Card:
    advice = "though it has a verdict; run `ktdeval leaderboard check`"
    if decode_own(data, _Kind, path, advice).kind == "trading":
        return decode_own(data, TradingCard, path, advice)
    return decode_own(data, ScoringCard, path, advice)


def figures_of(card: Card) -> Mapping[str, MetricLine | ScoreLine]:
    """Return the metrics of a trading card, the scores of a scoring one."""
    return card.metrics if isinstance(card, TradingCard) else card.scores


def names_of(card: Card) -> tuple[str, str, str]:
    """Return the names of task, model and agent."""
    return card.task.name, card.model.name, card.agent.name


def unset_to_none(value: T | UnsetType | None) -> T | None:
    """Return a value of a card, None where its field is left out."""
    return None if isinstance(value, UnsetType) else value


# -- divisions


def division_of(rules: Rules, card: Card) -> Division | None:
    """Return the division of a card: equal task, version, config, snapshot, rule set, windows and seeds."""
    return next((division for division in rules.divisions if not facets(rules, division, card)), None)


def nearest_division(rules: Rules, card: Card) -> Division | None:
    """Return the division that a card differs least from, one of its task before any other; None on a board without divisions."""
    task = card.task.name
    return min(rules.divisions, key=lambda each: (each.task != task, len(facets(rules, each, card))), default=None)


def facets(rules: Rules, division: Division, card: Card) -> dict[str, str]:
    """Return why a card is not of a division: by rule of the check, what it has and what is asked for; empty when it is."""
    task, market, snapshot = card.task, rules.snapshot_of(division), card.snapshot
    facts: dict[str, tuple[str, JsonValue, JsonValue]] = {
        "task": ("task", task.name, division.task),
        "task-version": ("task version", task.version, division.version),
        "task-config": ("task config", task.hash, division.hash),
        "snapshot": ("snapshot", snapshot.id if snapshot else "none", market.id if market else "none"),
        "seeds": ("seeds", card.seeds, list(seeds_of(rules, division, card.model.name))),
    }
    if isinstance(card, TradingCard):
        facts["rules"] = ("metric rules", card.rules, division.rules)
    reasons = {
        rule: f"{name} {_words(is_)}, the board asks for {_words(asked)}"
        for rule, (name, is_, asked) in facts.items()
        if is_ != asked
    }
    windows, wanted = spans_of(card), {window.name: (window.first, window.last) for window in division.windows}
    if windows != wanted:
        reasons["windows"] = f"windows {_spans(windows)}, the board asks for {_spans(wanted)}"
    return reasons


def spans_of(card: Card) -> dict[str, tuple[str, str]]:
    """Return first and last day of each window of a card."""
    return {window.name: (window.first, window.last) for window in card.windows}


def seeds_of(rules: Rules, division: Division, model: str) -> tuple[int, ...]:
    """Return the seeds that a card of a model must have in a division, ascending: the division's, or a baseline's own."""
    baseline = rules.baseline_of(model)
    return tuple(sorted(baseline.seeds if baseline is not None and baseline.seeds else division.seeds))


def _words(value: JsonValue) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{text[:12]}…{text[-4:]}" if CARD_ID.fullmatch(text) else text


def _spans(windows: Mapping[str, tuple[str, str]]) -> str:
    return ", ".join(f"{name} ({first}…{last})" for name, (first, last) in windows.items())


# -- systems


def reasoning_settings(card: Card) -> dict[str, JsonValue]:
    """Return the set fields of `card.call` that begin with `reasoning_`; null leaves a field to the provider."""
    return {name: value for name, value in sorted(card.call.items()) if name.startswith(_SETTING_PREFIX) and value is not None}


def settings_of(card: Card) -> str:
    """Return the reasoning settings in words, such as `reasoning effort high`; empty where there are none."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in reasoning_settings(card).items())


def identity(card: Card, division: Division) -> tuple[str, ...]:
    """Return what a second card must not share with a first one: division, model, reasoning settings and agent.

    Arguments of model and agent, temperature and limits of a call do not count: with them one could try until luck helps. Where the
    board draws the keys, a card under a key of its own takes no place from one under a drawn key.
    """
    drawn = str(division.is_governed and bool(card.registration))
    return division.id, card.model.name, dumps_canonical(reasoning_settings(card)), card.agent.name, drawn


def identity_words(card: Card) -> str:
    """Return the system in words, without its division: `openai/gpt-4.1 with agent react (reasoning_effort high)`."""
    settings = ", ".join(f"{name} {value}" for name, value in reasoning_settings(card).items())
    return f"{card.model.name} with agent {card.agent.name}" + (f" ({settings})" if settings else "")
