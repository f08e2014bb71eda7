"""Submitted cards with their submissions, verdicts and errata, read once for the ranking, the site
and the exports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, TypedDict, TypeVar

from msgspec import Struct, UnsetType, structs

from ktdeval.cards import (
    MetricLine,
    ScoreLine,
    ScoringCard,
    TradingCard,
    derive_card,
    knowledge_of,
    load_evaluation,
    with_label_of_task,
)
from ktdeval.errors import CardError
from ktdeval.values import JsonValue, dumps_canonical, sha256_hex
from ktdeval_board.allowed_packages import NOT_ISOLATED, is_isolated_here
from ktdeval_board.anchored_heads import anchored_words
from ktdeval_board.document_types import Certified, Records, Submission, Tier, Verdict
from ktdeval_board.errata import Erratum, load_errata
from ktdeval_board.layout import CARD_ID, BoardFolder, CardFiles
from ktdeval_board.look_alike_names import Party
from ktdeval_board.market_document import Market, in_words_of_board
from ktdeval_board.open_book import place_of, with_open_books
from ktdeval_board.read_documents import decode_own, read_bytes, read_own, read_untrusted
from ktdeval_board.registrations import NONE_FILED, Registrations, family_of, load_registrations
from ktdeval_board.rules import Baseline, Division, Rules, load_rules
from ktdeval_board.signed import card_signers, verdict_signers

T = TypeVar("T")
Card = TradingCard | ScoringCard

#: Label for a card whose mask key was not drawn by the board, in a division with drawn keys
OWN_KEY = "own key"
SUBMITTERS_PRICE = "price by submitter"  #: Label for a card whose costs the board can't compare
#: Name of the file with the verdict on a certificate, in the certificate's folder
VERDICT = "verdict.json"

_SETTING_PREFIX = "reasoning_"
_SUITE = "builtin/"  #: Provider prefix of the suite's own rule-based models


class EntryFacts(TypedDict):
    """Facts about a table row, which shows either a card or a reference without a card."""

    card: str | None
    agent: str
    label: str  #: name of the system on this board
    settings: str  #: reasoning settings as text
    submitter: str
    submitted_on: str
    cutoff: str | None
    baseline: str | None  #: kind of baseline or reference; None for an entrant
    tier: Tier
    labels: list[str]
    knowledge: str  #: how those who decided could know the market (`BoardEntry.knowledge`)
    anchored: str  #: how the run was anchored (`anchored_words`)


class EvidenceFacts(TypedDict):
    """Evidence for a card, as the site and exports show it."""

    kind: Literal["confirmatory", "exploratory"]
    why: list[str]  #: why the card is not confirmatory
    question: str | None  #: the registered question as text
    answer: str | None  #: answer to the question, as text


@dataclass(frozen=True)
class BoardEntry:
    """One submitted card."""

    card_id: str  #: SHA-256 of the card's file
    files: CardFiles
    #: contents of the card, validated either by the board's check of the same bytes or on reading
    card: Card
    #: division of the card; None if the board has no division for it
    division: Division | None
    submission: Submission  #: the submission: its submitter and the submitter's claims
    #: result of the board's check of the card's bytes; None if they were not checked
    verdict: Verdict | None
    errata: tuple[Erratum, ...] = ()  #: maintainers' later statements on the card, oldest first
    baseline: Baseline | None = None  #: baseline that the card belongs to; None for an entrant
    is_certified: bool = False  #: whether this board has verified the mask's certificate
    signed_by: tuple[str, ...] = ()  #: names of the maintainers who signed the verdict
    #: name of the submitter, if the card is signed with a key that the board lists for the
    #: submitter
    card_signed_by: tuple[str, ...] = ()
    #: day on which the board had registered all that the card's program consists of, if that is
    #: why a program that could have brought the market is ranked as blinded
    registered_before: str | None = None
    #: whether the card's costs use the board's prices instead of the card's own
    has_board_prices: bool = False
    #: whether only packages that the board allows keep the card from being isolated
    is_isolated: bool = False
    anchored: str = ""  #: how the run was anchored (`anchored_words`)

    @property
    def tier(self) -> Tier:
        """Verification tier of the card's figures."""
        return "unchecked" if self.verdict is None else self.verdict.tier

    @property
    def labels(self) -> list[str]:
        """Labels of the card, as adjusted by the board. A certificate that the board verified is
        labelled as verified. The board also labels a price that comes only from the submitter, and
        a mask key chosen by the submitter.
        """
        labels = []
        for label in self.card.labels:
            if label == "certificate claimed" and self.is_certified:
                labels.append("certificate verified")
            elif label != NOT_ISOLATED or not self.is_isolated:
                labels.append(label)

        if self.has_submitters_price:
            labels.append(SUBMITTERS_PRICE)

        if self.has_own_key:
            labels.append(OWN_KEY)

        return labels

    @property
    def knowledge(self) -> str:
        """How those who decided could know the market other than from training or memory; empty if
        in no way, or if the task is about no market.
        """
        if self.card.snapshot is None:
            return ""
        return ", ".join(knowledge_of(self.card.deciders, self.card.episodes))

    @property
    def has_submitters_price(self) -> bool:
        """Return whether the price behind the card's costs comes only from the submitter.

        The result is False if the board has its own price for the model, if the card is a
        baseline's, or if all models belong to the suite and are therefore free.
        """
        if self.has_board_prices or self.baseline is not None:
            return False
        if self.model.startswith(_SUITE) and not self.card.further_models:
            return False

        return unset_to_none(self.card.cost.price) is not None

    @property
    def has_own_key(self) -> bool:
        """Return whether the submitter chose the mask key, in a division for which the board draws
        the keys.
        """
        if self.division is None or not self.division.is_governed:
            return False

        return not self.card.registration

    @property
    def is_withdrawn(self) -> bool:
        """Return whether maintainers removed the card from the tables."""
        return any(erratum.effect == "withdrawn" for erratum in self.errata)

    @property
    def is_trading(self) -> bool:
        """Return whether the card belongs to a trading task."""
        return isinstance(self.card, TradingCard)

    @property
    def trading(self) -> TradingCard:
        """The card as a trading card; only valid in a trading division."""
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

    def facts(self, label: str) -> EntryFacts:
        """Return the facts that tables and model pages share. `label` is the name of the card's
        system on the board.
        """
        submission = self.submission
        return EntryFacts(
            card=self.card_id,
            agent=self.agent,
            label=label,
            settings=settings_of(self.card),
            submitter=submission.submitter.name,
            submitted_on=submission.submitted_on,
            cutoff=submission.model.cutoff_date,
            baseline=self.baseline_kind,
            tier=self.tier,
            labels=self.labels,
            knowledge=self.knowledge,
            anchored=self.anchored,
        )

    @property
    def baseline_kind(self) -> str | None:
        """Kind of baseline; None for an entrant."""
        if self.baseline is None:
            return None

        return self.baseline.kind


@dataclass(frozen=True)
class Candidate(BoardEntry):
    """A card whose file, texts, schema and content passed the check; it always has a division."""

    division: Division
    where: str = ""
    records: Records | None = None


@dataclass(frozen=True)
class LoadedBoard:
    """A board as read from its repository."""

    folder: BoardFolder
    rules: Rules
    entries: tuple[BoardEntry, ...] = ()
    errata: tuple[Erratum, ...] = ()
    registrations: Registrations = NONE_FILED

    @cached_property
    def used_registrations(self) -> frozenset[str]:
        """Ids of the registrations that have a checked card, including withdrawn cards."""
        used = set()
        for entry in self.entries:
            if entry.verdict is not None and entry.division is not None and entry.card.registration:
                used.add(entry.card.registration)

        return frozenset(used)

    @cached_property
    def own_keys(self) -> Counter[tuple[Party, tuple[str, ...]]]:
        """Number of cards with keys chosen by the submitter, from `count_own_keys`."""
        return count_own_keys(self.entries, self.registrations)

    def of_division(self, division: Division) -> list[BoardEntry]:
        """Return the cards in a division that were not withdrawn."""
        return [
            entry for entry in self.entries if entry.division == division and not entry.is_withdrawn
        ]


def count_own_keys(
    entries: Iterable[BoardEntry], registrations: Registrations
) -> Counter[tuple[Party, tuple[str, ...]]]:
    """Count the cards with keys chosen by the submitter, in divisions for which the board draws the
    keys. Counts are keyed by submitter and system family, and include withdrawn cards.
    """
    counts = Counter[tuple[Party, tuple[str, ...]]]()
    for entry in entries:
        if entry.division is not None and entry.has_own_key:
            party = registrations.party(entry.submission.submitter)
            counts[party, family_of(entry.division.filed_under, entry.model, entry.agent)] += 1

    return counts


def load_board(path: Path) -> LoadedBoard:
    """Read a board.

    A card with a verdict on its exact bytes is not validated again, so that large boards are quick
    to build. Raises ConfigError if there is no board at `path` or its rules or errata are invalid,
    CardError if a card, submission or verdict can't be read or is invalid, and SignatureError if a
    signature on a verdict or card is invalid. The `check` command lists all faults.
    """
    folder = BoardFolder(path)
    rules = load_rules(path)
    stated = load_errata(path)
    errata = stated.errata
    entries = tuple(_load_entry(folder, rules, errata, files) for files in folder.list_cards())
    registrations = load_registrations(folder, rules, stated.registrations)
    markets = load_markets(folder, rules)
    entries = tuple(
        _with_prices_of_board(_with_words_of_board(entry, rules, markets), rules)
        for entry in entries
    )
    entries = tuple(_placed(entry, rules, registrations) for entry in entries)
    rules = with_open_books(rules, (entry.division for entry in entries))

    return LoadedBoard(folder, rules, entries, errata, registrations)


def _placed(entry: BoardEntry, rules: Rules, registrations: Registrations) -> BoardEntry:
    """Return an entry with the division in which it is ranked."""
    if entry.division is None or entry.baseline is not None:
        return entry

    place = place_of(entry.card, entry.division, rules, registrations)
    return replace(entry, division=place.division, registered_before=place.registered_before)


def load_markets(folder: BoardFolder, rules: Rules) -> dict[str, Market]:
    """Return the markets that the board has opened, keyed by the names that the board gives them.
    Raises CardError if a document is malformed.
    """
    markets = {}
    for rule in rules.snapshots:
        path = folder.market(rule.name)
        if not path.is_file():
            continue

        market = read_own(path, Market)
        # If the ids differ, the rules have changed since the market was opened.
        if market.snapshot.id == rule.id:
            markets[rule.name] = market

    return markets


def _with_words_of_board(
    entry: BoardEntry, rules: Rules, markets: Mapping[str, Market]
) -> BoardEntry:
    """Return an entry whose card uses the board's description of the market."""
    snapshot = entry.card.snapshot
    if snapshot is None:
        return entry

    name = f"market {snapshot.id[:12]}"
    facts = None
    for rule in rules.snapshots:
        if rule.id == snapshot.id:
            name = rule.name
            facts = markets[name].snapshot if name in markets else None

    described = in_words_of_board(snapshot, name, facts)
    return replace(entry, card=structs.replace(entry.card, snapshot=described))


def _with_prices_of_board(entry: BoardEntry, rules: Rules) -> BoardEntry:
    """Return an entry with its costs recomputed at the board's prices, if the board has a price for
    each model.
    """
    if not rules.prices:
        return entry

    card = entry.card
    own = rules.price_of(card.model.name)
    further = [
        structs.replace(each, price=rules.price_of(each.name)) for each in card.further_models
    ]
    if own is None or any(each.price is None for each in further):
        return entry

    cost = structs.replace(card.cost, price=own)
    derived = derive_card(structs.replace(card, cost=cost, further_models=further))
    priced = structs.replace(card, cost=derived.cost, roles=derived.roles, further_models=further)
    return replace(entry, card=priced, has_board_prices=True)


def _load_entry(
    folder: BoardFolder, rules: Rules, errata: tuple[Erratum, ...], files: CardFiles
) -> BoardEntry:
    most = rules.limits.bytes_of("card_mb")
    data = read_bytes(files.card, most)
    if sha256_hex(data) != files.card_id:
        raise CardError(
            f"{files.card}: its SHA-256 does not match its name; run `ktdeval leaderboard check`"
        )

    path = folder.verdict(files.card_id)
    verdict = read_own(path, Verdict) if path.is_file() else None
    if verdict is not None and verdict.card != files.card_id:
        raise CardError(f"{path}: is the verdict on another card")

    signers: tuple[str, ...] = ()
    if verdict is not None:
        signers = verdict_signers(path, rules)
        if rules.verdict_signatures == "required" and not signers:
            verdict = None  # reported by `check`; the card is unchecked until a maintainer signs

    card = load_evaluation(files.card) if verdict is None else _checked_card(data, files.card)
    submission = read_untrusted(files.submission, Submission, most)
    card_signed_by = card_signers(files.card, submission.submitter, rules)
    own = tuple(erratum for erratum in errata if erratum.card == files.card_id)
    baseline = rules.baseline_of(card.model.name, card.model.args)
    division = division_of(rules, card)
    certified = is_certified(folder, card)

    return BoardEntry(
        files.card_id,
        files,
        card,
        division,
        submission,
        verdict,
        own,
        baseline,
        certified,
        signers,
        card_signed_by,
        is_isolated=is_isolated_here(card, rules.packages),
        anchored=anchored_words(card, folder, rules),
    )


def is_certified(folder: BoardFolder, card: Card) -> bool:
    """Return whether the board has verified the attack runs behind a card's certificate."""
    if not isinstance(card, TradingCard) or not card.certificate.value:
        return False

    # The certificate is only the card's claim, so it becomes part of a path only if it is a hash.
    sha256 = str(card.certificate.value.get("sha256"))
    if not CARD_ID.fullmatch(sha256):
        return False

    path = folder.certificate(sha256) / VERDICT
    return path.is_file() and read_own(path, Certified).certificate == sha256


class _Kind(Struct):
    kind: str


def _checked_card(data: bytes, path: Path) -> Card:
    advice = "although it has a verdict; run `ktdeval leaderboard check`"
    if decode_own(data, _Kind, path, advice).kind == "trading":
        return with_label_of_task(decode_own(data, TradingCard, path, advice))
    return decode_own(data, ScoringCard, path, advice)


def figures_of(card: Card) -> Mapping[str, MetricLine | ScoreLine]:
    """Return the metrics of a trading card, or the scores of a scoring card."""
    return card.metrics if isinstance(card, TradingCard) else card.scores


def names_of(card: Card) -> tuple[str, str, str]:
    """Return the names of the task, model and agent."""
    return card.task.name, card.model.name, card.agent.name


def unset_to_none(value: T | UnsetType | None) -> T | None:
    """Return a value from a card; None if the card omits the field."""
    return None if isinstance(value, UnsetType) else value


# -- divisions


def division_of(rules: Rules, card: Card) -> Division | None:
    """Return the division that a card belongs to: the one with the same task, version, config,
    snapshot, rule set, windows and seeds.
    """
    for division in rules.divisions:
        if not facets(rules, division, card):
            return division

    return None


def nearest_division(rules: Rules, card: Card) -> Division | None:
    """Return the division that differs from a card in the fewest respects, preferring divisions for
    the card's task; None on a board without divisions.
    """

    def distance(division: Division) -> tuple[bool, int]:
        return division.task != card.task.name, len(facets(rules, division, card))

    return min(rules.divisions, key=distance, default=None)


def facets(rules: Rules, division: Division, card: Card) -> dict[str, str]:
    """Return why a card does not belong to a division, keyed by check rule; empty if it does
    belong. Each text gives the card's value and the required value.
    """
    task = card.task
    market = rules.snapshot_of(division)
    wanted_snapshot = market.id if market else "none"
    snapshot = card.snapshot.id if card.snapshot else "none"
    seeds = list(seeds_of(rules, division, card.model.name, card.model.args))
    facts: list[tuple[str, str, JsonValue, JsonValue]] = [
        ("task", "task", task.name, division.task),
        ("task-version", "task version", task.version, division.version),
        ("task-config", "task config", task.hash, division.hash),
        ("snapshot", "snapshot", snapshot, wanted_snapshot),
        ("seeds", "seeds", card.seeds, seeds),
    ]
    if isinstance(card, TradingCard):
        facts.append(("rules", "metric rules", card.rules, division.rules))

    reasons = {}
    for rule, name, found, asked in facts:
        if found != asked:
            reasons[rule] = (
                f"{name} {_value_words(found)}, the board requires {_value_words(asked)}"
            )

    windows = spans_of(card)
    wanted = {window.name: (window.first, window.last) for window in division.windows}

    if windows != wanted:
        reasons["windows"] = f"windows {_spans(windows)}, the board requires {_spans(wanted)}"

    return reasons


def spans_of(card: Card) -> dict[str, tuple[str, str]]:
    """Return the first and last day of each window of a card."""
    return {window.name: (window.first, window.last) for window in card.windows}


def seeds_of(
    rules: Rules, division: Division, model: str, args: Mapping[str, JsonValue]
) -> tuple[int, ...]:
    """Return the seeds that a division requires for a model with these parameters, in ascending
    order: the division's seeds, or a baseline's own seeds.
    """
    baseline = rules.baseline_of(model, args)
    if baseline is not None and baseline.seeds:
        return tuple(sorted(baseline.seeds))

    return tuple(sorted(division.seeds))


def _value_words(value: JsonValue) -> str:
    text = str(value)
    if isinstance(value, list):
        text = ", ".join(map(str, value))

    if CARD_ID.fullmatch(text):
        return f"{text[:12]}…{text[-4:]}"

    return text


def _spans(windows: Mapping[str, tuple[str, str]]) -> str:
    return ", ".join(f"{name} ({first}…{last})" for name, (first, last) in windows.items())


# -- systems


def reasoning_settings(card: Card) -> dict[str, JsonValue]:
    """Return the fields of `card.call` that begin with `reasoning_` and are not null; null means
    that the provider's default applies.
    """
    return {
        name: value
        for name, value in sorted(card.call.items())
        if name.startswith(_SETTING_PREFIX) and value is not None
    }


def settings_of(card: Card) -> str:
    """Return the reasoning settings as text, such as `reasoning effort high`; empty if there are no
    settings.
    """
    settings = reasoning_settings(card).items()
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in settings)


def identity(card: Card, division: Division) -> tuple[str, ...]:
    """Return the identity of a card's system in a division: division, model, reasoning settings and
    agent. Each system may have one card.

    Model and agent arguments, temperature and call limits are not part of the identity, as varying
    them would allow repeated attempts. If the board draws the keys, a card with a key chosen by the
    submitter is a different system from a card with a drawn key.
    """
    drawn = str(division.is_governed and bool(card.registration))
    return (
        division.id,
        card.model.name,
        dumps_canonical(reasoning_settings(card)),
        card.agent.name,
        drawn,
    )


def identity_words(card: Card) -> str:
    """Return the system as text, without its division, such as `openai/gpt-4.1 with agent react
    (reasoning_effort high)`.
    """
    words = f"{card.model.name} with agent {card.agent.name}"
    settings = [f"{name} {value}" for name, value in reasoning_settings(card).items()]
    if settings:
        words += f" ({', '.join(settings)})"

    return words
