"""Attempts that a board knows of, whatever their submitters declare; and drawn keys that nobody used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ktdeval.contracts import Registrant
from ktdeval_board.entries import Board, Card, Entry
from ktdeval_board.registrations import Filed, Registrations, State, family_of
from ktdeval_board.rules import Division, Rules

OF_ONE = "of this submitter or this system"  #: What is counted together, in findings


def known_attempts(
    registrations: Registrations, own_keys: Counter[tuple[str, ...]], registrant: Registrant, family: tuple[str, ...]
) -> int:
    """Return how many attempts of a submitter and of a system a board knows of in a division whose keys it draws.

    These are the registrations of the submitter, of whatever model, and of the system, by whomever; and cards of the system under
    keys of their own. Used or not, withdrawn or excused: each registration was a draw. `own_keys`: as of `count_own_keys`.
    """
    return registrations.attempts(registrant, family) + own_keys[family]


def is_counted(card: Card, division: Division, rules: Rules) -> bool:
    """Return whether a board counts the attempts of a card itself: one that can be ranked under a key that the board drew."""
    return division.is_governed and bool(card.registration) and rules.baseline_of(card.model.name) is None


def attempts_of(board: Board, entry: Entry) -> int:
    """Return the attempts of a card: those declared, or those that the board knows of where these are more."""
    declared, division = entry.submission.attempts.runs, entry.division
    if division is None or not is_counted(entry.card, division, board.rules):
        return declared
    who = (registrant_of(entry), family_of(division.id, entry.model, entry.agent))
    return max(declared, known_attempts(board.registrations, board.own_key_families, *who))


def registrant_of(entry: Entry) -> Registrant:
    """Return who submitted a card, as registrations know submitters."""
    submitter = entry.submission.submitter
    return Registrant(name=submitter.name, contact=submitter.contact)


def state_of(board: Board, filed: Filed) -> State:
    """Return what became of a registration."""
    if filed.drawn is None:
        return "open"
    return "used" if filed.id in board.used_registrations else "drawn"


def unused_keys(board: Board, entry: Entry, division: Division) -> Sequence[Filed]:
    """Return the registrations of a card's submitter in its division whose keys were drawn and have no checked card.

    Anybody can compute what a published key is worth, so that one that is passed over was a choice.
    """
    own = board.registrations.of_party(division.id, registrant_of(entry))
    return [each for each in own if state_of(board, each) == "drawn" and each.excuse is None]


def key_reasons(board: Board, entry: Entry, division: Division) -> list[str]:
    """Return why the keys of a card and of its submitter keep it from being ranked; empty where they do not."""
    if not division.is_governed or entry.baseline is not None:
        return []
    if not entry.card.registration:
        return ["own key: its mask key was not drawn by the board, which ranks drawn keys alone in this division"]
    filed = board.registrations.by_id.get(entry.card.registration)
    if filed is None or filed.drawn is None:
        return ["its registration is not on the board, or has no key"]
    return [
        f"registration {each.words} of the same submitter has a key since {_drawn_on(each)} that was never used"
        for each in unused_keys(board, entry, division)
    ]


def _drawn_on(filed: Filed) -> str:
    return filed.drawn.drawn_on if filed.drawn is not None else ""
