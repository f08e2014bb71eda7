"""Attempts known to the board beyond those that a submitter declares, and drawn keys that were
never used.
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
    """Return the number of attempts by a card's submitter that the board knows of.

    The result is 0 unless the card is an entrant's and has a key drawn by the board. Otherwise, it
    counts all of the submitter's registrations in the division, for any model. Unused, withdrawn
    and excused registrations count too, since a key was at stake in each. It also counts the
    submitter's cards for the same system that have a key of the submitter's own. Registrations by
    other submitters are not counted. `own_keys` comes from `count_own_keys`.
    """
    division = entry.division
    if division is None or not division.is_governed or entry.baseline is not None:
        return 0
    if not entry.card.registration:
        return 0

    party = registrations.party(entry.submission.submitter)
    family = family_of(division.filed_under, entry.model, entry.agent)
    return len(registrations.of_party(division.filed_under, party)) + own_keys[party, family]


def attempts_of(board: LoadedBoard, entry: BoardEntry) -> int:
    """Return the number of attempts behind a card: the declared number or the number known to the
    board, whichever is larger.
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
    """Return the registrations in a card's division, made by the card's submitter, that have a key
    but neither a checked card nor an excuse.

    A key is public, so its submitter can compute the result before deciding whether to submit it.
    """
    unused = []
    party = board.registrations.party(entry.submission.submitter)
    for filed in board.registrations.of_party(division.filed_under, party):
        if state_of(board, filed) == "drawn" and filed.excuse is None:
            unused.append(filed)

    return unused


def key_reasons(board: LoadedBoard, entry: BoardEntry, division: Division) -> list[str]:
    """Return the reasons related to mask keys why a card can't be ranked: the card's own key, or
    other keys that its submitter left unused.
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
