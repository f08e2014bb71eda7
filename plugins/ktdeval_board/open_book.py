"""Divisions open book: entrants who could know the market that a task hides, because they could look
it up or could have brought it.

Such an entrant is never ranked among the blinded of a division. One exception is made: a program in
a sandbox can't have brought prices of days that came after the board registered the hash of what it
consists of. The day counts on which the board drew the registration's key, since only the board
writes it. On generated markets days mean nothing, so there is no exception.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import structs

from ktdeval.cards import ScoringCard, TradingCard, could_know_reasons, unranked_reasons
from ktdeval.harness import BROUGHT
from ktdeval.values import JsonValue, dumps_canonical
from ktdeval_board.registrations import Registrations
from ktdeval_board.rules import OPEN_BOOK, Division, OpenBook, Rules

Card = TradingCard | ScoringCard

_SANDBOXED = "sandboxed_program"
WHAT_IT_IS = (
    "Open book: the task hides the market, but each entrant of this division could look the market"
    " up or could have brought the market. They are ranked only among each other. A return here does"
    " not show skill."
)
"""Sentences above each table of a division open book."""


def open_book_of(division: Division) -> OpenBook:
    """Return the division open book of a division."""
    fields = structs.asdict(division)
    fields["id"] = f"{division.id}{OPEN_BOOK}"
    fields["summary"] = WHAT_IT_IS
    return OpenBook(**fields, of=division)


@dataclass(frozen=True)
class Place:
    """Division in which a card is ranked."""

    division: Division
    #: day on which the board had registered all that the card's program consists of, if that is why
    #: it is ranked as blinded
    registered_before: str | None = None


def place_of(card: Card, division: Division, rules: Rules, registrations: Registrations) -> Place:
    """Return the place of an entrant's card, given the division that it was submitted to."""
    if not could_know_reasons(card):
        return Place(division)

    day = registered_before(card, division, rules, registrations)
    return Place(open_book_of(division)) if day is None else Place(division, day)


def with_open_books(rules: Rules, used: Iterable[Division | None]) -> Rules:
    """Return the rules with the divisions open book that are used, each after its division."""
    needed = [each.id for each in used if isinstance(each, OpenBook)]
    divisions: list[Division] = []
    for division in rules.divisions:
        divisions.append(division)
        opened = open_book_of(division)
        if opened.id in needed:
            divisions.append(opened)

    return structs.replace(rules, divisions=tuple(divisions))


def registered_before(
    card: Card, division: Division, rules: Rules, registrations: Registrations
) -> str | None:
    """Return the day on which the board had registered all that a card's program consists of, if it
    lies before all windows of the division; None if the program could have brought the market.
    """
    if rules.market != "real" or not division.windows:
        return None  # prices of a generated market can be known before its days
    if not _is_pinned(card):
        return None

    wanted = _contents(card.model.name, card.model.args, card.agent.name, card.agent.args)
    days = []
    for filed in registrations.filed:
        system = filed.registration.system
        own = _contents(system.model, system.model_args, system.agent, system.agent_args)
        if filed.drawn is not None and own == wanted:
            days.append(filed.drawn.drawn_on)

    first = min(window.first for window in division.windows)
    day = min(days, default=None)
    return day if day is not None and day < first else None


def _is_pinned(card: Card) -> bool:
    """Return whether all deciders that could know the market are programs in a sandbox whose
    contents a hash fixes.
    """
    knowing = [each for each in card.deciders if unranked_reasons([each], [])]
    are_sandboxed = all(each.kind == _SANDBOXED for each in knowing)
    return bool(knowing) and are_sandboxed and bool(card.agent.args.get(BROUGHT))


def _contents(*parts: JsonValue) -> str:
    return dumps_canonical(list(parts))
