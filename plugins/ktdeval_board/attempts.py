"""Attempts that a board knows of in addition to the declared ones, and drawn keys that were never
used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ktdeval_board.board_entries import BoardEntry, LoadedBoard
from ktdeval_board.look_alike_names import Party
from ktdeval_board.registrations import FiledRegistration, Registrations, State, family_of
from ktdeval_board.rules import Division

OF_ONE = "of this submitter"  #: Phrase in findings for attempts counted per submitter


def known_attempts(
    entry: BoardEntry,
    registrations: Registrations,
    own_keys: Counter[tuple[Party, tuple[str, ...]]],
) -> int:
    """Return the number of attempts by a card's submitter that the board knows of. 0 if the board
    does not count attempts for this card: it counts them only for entrants with keys drawn by the
    board.

    The count includes the submitter's registrations, for any model, and the submitter's cards of
    the same system under own keys. Unused, withdrawn and excused registrations are included: each
    was a draw. Registrations by others are not attempts of this submitter. `own_keys`: from
    `count_own_keys`.
    """
    division = entry.division
    if division is None or not division.is_governed or entry.baseline is not None:
        return 0
    if not entry.card.registration:
        return 0

    party = registrations.party(entry.submission.submitter)
    family = family_of(division.id, entry.model, entry.agent)
    return len(registrations.of_party(division.id, party)) + own_keys[party, family]


def attempts_of(board: LoadedBoard, entry: BoardEntry) -> int:
    """Return a card's number of attempts: the larger of the declared number and the number known to
    the board.
    """
    known = known_attempts(entry, board.registrations, board.own_keys)
    return max(entry.submission.attempts.runs, known)


def state_of(board: LoadedBoard, filed: FiledRegistration) -> State:
    """Return the state of a registration."""
    if filed.drawn is None:
        return "open"

    return "used" if filed.id in board.used_registrations else "drawn"


def unused_keys(
    board: LoadedBoard, entry: BoardEntry, division: Division
) -> Sequence[FiledRegistration]:
    """Return the registrations by a card's submitter in its division that have a key but no checked
    card.

    Anyone can compute the result under a published key, so leaving a key unused is a choice.
    """
    unused = []
    party = board.registrations.party(entry.submission.submitter)
    for filed in board.registrations.of_party(division.id, party):
        if state_of(board, filed) == "drawn" and filed.excuse is None:
            unused.append(filed)

    return unused


def key_reasons(board: LoadedBoard, entry: BoardEntry, division: Division) -> list[str]:
    """Return why a card can't be ranked because of its key, or because its submitter has unused
    keys.
    """
    if not division.is_governed or entry.baseline is not None:
        return []
    if not entry.card.registration:
        return [
            "own key: its mask key was not drawn by the board; this division ranks only keys "
            "drawn by the board"
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
