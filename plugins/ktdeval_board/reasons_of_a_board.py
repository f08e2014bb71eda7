"""Reasons against ranking a card that a board's own run of its plan lifts."""

from __future__ import annotations

from ktdeval.cards import OWN_KEY_ALONE
from ktdeval_board.board_entries import BoardEntry, figures_of
from ktdeval_board.rules import Division


def reached_reasons(entry: BoardEntry, division: Division) -> list[str]:
    """Return the reasons on an entry's card that fall since a run by the board, under a key of its
    own, reached at least the figure by which the entry would be ranked.
    """
    if not _is_reached(entry, division):
        return []
    return [reason for reason in entry.card.rankable.reasons if reason.endswith(OWN_KEY_ALONE)]


def _is_reached(entry: BoardEntry, division: Division) -> bool:
    rerun = None if entry.verdict is None else entry.verdict.rerun
    if rerun is None or not rerun.own_key or division.rank_by not in rerun.figures:
        return False

    if figures_of(entry.card)[division.rank_by].better != "higher":
        return False

    figure = rerun.figures[division.rank_by]
    if figure.submitted is None or figure.rerun is None:
        return False
    return figure.rerun >= figure.submitted
