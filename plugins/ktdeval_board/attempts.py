"""Attempts known to a board besides the declared ones, and drawn keys that were not used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ktdeval_board.board_entries import Board, Card, Entry
from ktdeval_board.document_types import Submitter
from ktdeval_board.look_alike_names import Party
from ktdeval_board.registrations import FiledRegistration, Registrations, State, family_of
from ktdeval_board.rules import Division, Rules

OF_ONE = "of this submitter"  #: Words of findings for attempts counted by submitter


def known_attempts(
    registrations: Registrations,
    own_keys: Counter[tuple[Party, tuple[str, ...]]],
    submitter: Submitter,
    family: tuple[str, ...],
) -> int:
    """Return the number of a submitter's attempts known to a board, in a division whose keys it
    draws.

    Counted are the submitter's registrations, of any model, and the submitter's cards of the system
    under own keys. Unused, withdrawn and excused registrations are included: each was a draw.
    Registrations by others are not attempts of this submitter. `own_keys`: from `count_own_keys`.
    """
    party = registrations.party(submitter)
    division = family[0]
    return len(registrations.of_party(division, party)) + own_keys[party, family]


def is_counted(card: Card, division: Division, rules: Rules) -> bool:
    """Return whether a board itself counts the attempts of a card: an entrant's card under a key
    drawn by the board.
    """
    if not division.is_governed or not card.registration:
        return False

    return rules.baseline_of(card.model.name, card.model.args) is None


def attempts_of(board: Board, entry: Entry) -> int:
    """Return the attempts of a card: the declared number, or the number known to the board if that
    is larger.
    """
    declared = entry.submission.attempts.runs
    division = entry.division
    if division is None or not is_counted(entry.card, division, board.rules):
        return declared

    submitter = entry.submission.submitter
    family = family_of(division.id, entry.model, entry.agent)
    known = known_attempts(board.registrations, board.own_keys, submitter, family)
    return max(declared, known)


def state_of(board: Board, filed: FiledRegistration) -> State:
    """Return the state of a registration."""
    if filed.drawn is None:
        return "open"

    return "used" if filed.id in board.used_registrations else "drawn"


def unused_keys(board: Board, entry: Entry, division: Division) -> Sequence[FiledRegistration]:
    """Return the registrations of a card's submitter in its division that have a key and no checked
    card.

    Anybody can compute the result under a published key, so leaving a key unused is a choice.
    """
    unused = []
    party = board.registrations.party(entry.submission.submitter)
    for filed in board.registrations.of_party(division.id, party):
        if state_of(board, filed) == "drawn" and filed.excuse is None:
            unused.append(filed)

    return unused


def key_reasons(board: Board, entry: Entry, division: Division) -> list[str]:
    """Return why a card can't be ranked because of its key, or of unused keys of its submitter."""
    if not division.is_governed or entry.baseline is not None:
        return []
    if not entry.card.registration:
        return [
            "own key: its mask key was not drawn by the board; this division ranks only keys drawn by"
            " the board"
        ]

    filed = board.registrations.by_id.get(entry.card.registration)
    if filed is None or filed.drawn is None:
        return ["its registration is not on the board, or has no key"]

    reasons = []
    for each in unused_keys(board, entry, division):
        if each.drawn is not None:
            whose = "signed by the same submitter"
            if not each.signed_by:
                whose = "with the same name and contact (not signed)"

            reasons.append(
                f"registration {each.words} {whose} has had a key since {each.drawn.drawn_on} "
                "that was never used"
            )

    return reasons
