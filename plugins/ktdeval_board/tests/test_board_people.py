"""Cards of people: listed, and ranked only where a division says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from msgspec import structs

from ktdeval.testing import on_each_row
from ktdeval_board.board_entries import BoardEntry, LoadedBoard, load_board
from ktdeval_board.ranking.column_texts import why_unranked
from support.board.board_forge import forge_board


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> LoadedBoard:
    return load_board(forge_board(tmp_path_factory.mktemp("people") / "board", 1, baselines=False))


def entry_of(board: LoadedBoard, is_person: bool) -> BoardEntry:
    """The board's entrant, as a person or as the model that it is."""
    (entry,) = board.entries
    if not is_person:
        return entry
    card = structs.replace(entry.card, labels=[*entry.card.labels, "human"])
    return replace(entry, card=card)


@on_each_row(
    "people, is_person, reasons",
    (
        "listed",
        True,
        ["a person decided, but this division ranks only models (people in board.yaml)"],
    ),
    ("listed", False, []),
    ("ranked", True, []),
    ("ranked", False, []),
)
def test_a_person_is_ranked_where_the_division_ranks_people(
    board: LoadedBoard, people: Literal["listed", "ranked"], is_person: bool, reasons: list[str]
) -> None:
    (division,) = board.rules.divisions
    division = structs.replace(division, people=people)

    assert why_unranked(entry_of(board, is_person), board, division) == reasons


def test_a_division_that_says_nothing_ranks_models_alone(board: LoadedBoard) -> None:
    (division,) = board.rules.divisions

    assert division.people == "listed"
