"""A submitted card that is sound as far as it can be without its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ktdeval.api import JsonValue
from ktdeval_board.entries import Card, SubmittedCard
from ktdeval_board.errata import Erratum
from ktdeval_board.layout import CardFiles
from ktdeval_board.rules import Baseline, Division


@dataclass(frozen=True)
class Candidate(SubmittedCard):
    """One card whose file, texts, schema and content were found in order.

    Attributes:
        card_id: SHA-256 of the card's file.
        files: where card, submission and list of records lie.
        where: the card's path relative to the board.
        card: its content.
        division: the division that it belongs to.
        submission: who submitted it; follows its schema and agrees with the card.
        records: the list of its records; follows its schema and agrees with the card.
        verdict: what the board's check said of these very bytes before; None where it said nothing.
        errata: what maintainers said of it since, oldest first.
        baseline: the baseline that its model is; None where it is an entrant.
    """

    card_id: str
    files: CardFiles
    where: str
    card: Card
    division: Division
    submission: Mapping[str, JsonValue]
    records: Mapping[str, JsonValue]
    verdict: Mapping[str, JsonValue] | None = None
    errata: tuple[Erratum, ...] = ()
    baseline: Baseline | None = None

    @property
    def submission_where(self) -> str:
        """Path of the submission relative to the board."""
        return f"{self.where.removesuffix('.json')}.submission.json"
