"""Programs in `memory_only`: accepted, and ranked only by what a run of the board itself reached."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from ktdeval.cards import OWN_KEY_ALONE
from ktdeval.cards.fields.knowledge.rank_eligibility import Rankable
from ktdeval_board.board_entries import LoadedBoard, load_board
from ktdeval_board.document_types import Figure, Rerun
from ktdeval_board.ranking.column_texts import why_unranked
from support.board.board_forge import forge_board
from support.board.board_ranks import make_verdict

REASON = f"mine could have brought what the mask key reveals; {OWN_KEY_ALONE}"


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> LoadedBoard:
    return load_board(forge_board(tmp_path_factory.mktemp("keys") / "board", 1, baselines=False))


def reasons(board: LoadedBoard, rerun: Rerun | None) -> list[str]:
    """Why the entrant has no rank, as a program in memory_only whose plan the board ran so."""
    (entry,) = board.entries
    (division,) = board.rules.divisions
    division = structs.replace(division, rank_by="total_return")
    card = structs.replace(entry.card, rankable=Rankable(value=False, reasons=[REASON]))
    entry = replace(entry, card=card, verdict=make_verdict(rerun=rerun))
    return why_unranked(entry, board, division)


def rerun(submitted: float | None, again: float | None, own_key: bool = True) -> Rerun:
    """The board's own run."""
    figures = {"total_return": Figure(submitted, again)}
    return Rerun(by="us", on="2026-01-09", card="c" * 64, figures=figures, own_key=own_key)


def test_card_has_no_rank_by_itself(board: LoadedBoard) -> None:
    assert reasons(board, None) == [REASON]


@pytest.mark.parametrize("again", [0.02, 0.5])
def test_figure_that_the_boards_run_reached_is_ranked(board: LoadedBoard, again: float) -> None:
    assert reasons(board, rerun(0.02, again)) == []


@pytest.mark.parametrize(
    "found",
    [
        rerun(7.08, 0.02),  # what a known key earned
        rerun(0.02, None),
        rerun(0.02, 0.5, own_key=False),
        Rerun(by="us", on="2026-01-09", card="c" * 64, figures={}, own_key=True),
    ],
)
def test_other_run_lifts_nothing(board: LoadedBoard, found: Rerun) -> None:
    assert reasons(board, found) == [REASON]
