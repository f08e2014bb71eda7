"""Submitted cards with what the board knows of them: the one reading of a board that ranking, site and export share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ktdeval.api import CardError, JsonValue, load_card, sha256_hex
from ktdeval_board.documents import check_document, load_own, parse_json, parse_known, read_bytes, read_text
from ktdeval_board.errata import Erratum, load_errata
from ktdeval_board.layout import CARD_ID, BoardFolder, CardFiles
from ktdeval_board.rules import Baseline, Division, Rules, load_rules

Card = Mapping[str, JsonValue]

Tier = Literal["unchecked", "self-reported", "re-executed", "re-run"]
"""How far a card's figures have been confirmed by the board:

    unchecked       no verdict on these very bytes yet; never ranked
    self-reported   valid and complete, but its records or its market are not at hand
    re-executed     every figure follows from the recorded replies, on the board's own market
    re-run          the board's maintainers ran the plan themselves, too
"""


class SubmittedCard:
    """What a card that lies on a board says of itself, however far it has been looked at.

    Attributes:
        card: its content.
        errata: what maintainers said of it since, oldest first.
    """

    card: Card
    errata: tuple[Erratum, ...]

    @property
    def is_withdrawn(self) -> bool:
        """Whether maintainers took it out of the tables."""
        return any(erratum.effect == "withdrawn" for erratum in self.errata)

    @property
    def model(self) -> str:
        """Full name of the model."""
        return str(self.card["model"]["name"])

    @property
    def agent(self) -> str:
        """Name of the agent scaffold."""
        return str(self.card["agent"]["name"])


@dataclass(frozen=True)
class Entry(SubmittedCard):
    """One submitted card.

    Attributes:
        card_id: SHA-256 of the card's file.
        files: where it lies.
        card: its content. Valid: either the board's check said so of these bytes, or it was checked when it was read.
        division: the division that it belongs to; None where the board has none for it.
        submission: who submitted it, and with what claims.
        verdict: what the board's check found; None where it was not checked.
        errata: what maintainers said of it since, oldest first.
        baseline: the baseline that its model is; None where it is an entrant.
    """

    card_id: str
    files: CardFiles
    card: Card
    division: Division | None
    submission: Mapping[str, JsonValue]
    verdict: Mapping[str, JsonValue] | None
    errata: tuple[Erratum, ...] = ()
    baseline: Baseline | None = None

    @property
    def tier(self) -> Tier:
        """How far its figures have been confirmed."""
        return "unchecked" if self.verdict is None else self.verdict["tier"]


@dataclass(frozen=True)
class Board:
    """A board as it lies on disk.

    Attributes:
        folder: its repository.
        rules: its rules.
        entries: its cards, in the order of their paths.
        errata: all errata, also of cards that are no longer there.
    """

    folder: BoardFolder
    rules: Rules
    entries: tuple[Entry, ...] = ()
    errata: tuple[Erratum, ...] = field(default=())

    def of_division(self, division: Division) -> list[Entry]:
        """The cards of a division that were not withdrawn."""
        return [entry for entry in self.entries if entry.division == division and not entry.is_withdrawn]


def load_board(path: Path) -> Board:
    """Read a board.

    A card on which there is a verdict for its very bytes is not validated again, which is what makes large boards quick to build;
    any other is.

    Raises:
        ConfigError: there is no board here, or its rules or errata are not valid.
        CardError: a card, submission or verdict can't be read or is not valid; `check` says everything that is wrong.
    """
    folder, rules, errata = BoardFolder(path), load_rules(path), load_errata(path)
    entries = tuple(_load_entry(folder, rules, errata, files) for files in folder.submitted())
    return Board(folder, rules, entries, errata)


def division_of(rules: Rules, card: Card) -> Division | None:
    """The division that a card belongs to: equal task, version, config, snapshot, rule set, windows and seeds."""
    return next((division for division in rules.divisions if not mismatches(rules, division, card)), None)


def mismatches(rules: Rules, division: Division, card: Card) -> list[str]:
    """Why a card is not of a division, each reason with what was found and what is asked for; empty when it is."""
    task = card["task"]
    facets: list[tuple[str, JsonValue, JsonValue]] = [
        ("task", task["name"], division.task),
        ("task version", task["version"], division.version),
        ("task config", task["hash"], division.hash),
        ("snapshot", card["snapshot"]["id"], rules.snapshot_of(division).id),
        ("seeds", card["seeds"], list(seeds_of(rules, division, str(card["model"]["name"])))),
    ]
    if card["kind"] == "trading":
        facets.append(("metric rules", card["rules"], division.rules))
    found = [f"{name} {_words(given)}, the board asks for {_words(wanted)}" for name, given, wanted in facets if given != wanted]
    windows = {window["name"]: (window["first"], window["last"]) for window in card["windows"]}
    wanted_windows = {window.name: (window.first, window.last) for window in division.windows}
    if windows != wanted_windows:
        found.append(f"windows {_spans(windows)}, the board asks for {_spans(wanted_windows)}")
    return found


def seeds_of(rules: Rules, division: Division, model: str) -> tuple[int, ...]:
    """The seeds that a card of a model must have in a division, ascending: the division's, or a baseline's own."""
    baseline = rules.baseline_of(model)
    return tuple(sorted(baseline.seeds if baseline is not None and baseline.seeds else division.seeds))


def _words(value: JsonValue) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{text[:12]}…{text[-4:]}" if CARD_ID.fullmatch(text) else text


def _spans(windows: Mapping[str, tuple[str, str]]) -> str:
    return ", ".join(f"{name} ({first}…{last})" for name, (first, last) in windows.items())


def _load_entry(folder: BoardFolder, rules: Rules, errata: tuple[Erratum, ...], files: CardFiles) -> Entry:
    data = read_bytes(files.card, rules.limits.bytes_of("card_mb"))
    if sha256_hex(data) != files.card_id:
        raise CardError(f"{files.card}: its SHA-256 is not what its name says; run `ktdeval leaderboard check`")
    verdict_path = folder.verdict(files.card_id)
    verdict = load_own(verdict_path) if verdict_path.is_file() else None
    if verdict is not None and verdict.get("card") != files.card_id:
        raise CardError(f"{verdict_path}: is the verdict on another card")
    card = load_card(files.card) if verdict is None else parse_known(data, str(files.card))
    submission = parse_json(read_text(files.submission, rules.limits.bytes_of("card_mb")), str(files.submission))
    if verdict is None:
        check_document(submission, "submission", str(files.submission))
    return Entry(
        files.card_id,
        files,
        card,
        division_of(rules, card),
        submission,
        verdict,
        tuple(erratum for erratum in errata if erratum.card == files.card_id),
        rules.baseline_of(str(card["model"]["name"])),
    )
