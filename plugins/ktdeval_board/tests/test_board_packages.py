"""Packages outside ktdeval: a card with one has no rank, unless its board allows it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from ktdeval.cards import ForeignPackage, derive_card
from ktdeval_board.allowed_packages import AllowedPackage, is_isolated_here
from ktdeval_board.board_entries import BoardEntry, LoadedBoard, load_board
from ktdeval_board.ranking.column_texts import why_unranked
from support.board.board_forge import forge_board

HITS = ForeignPackage(name="hits", version="1.2", sha256="a" * 64)
OTHER = ForeignPackage(name="other", sha256="b" * 64)
REASON = (
    "hits 1.2 was in the process and is not part of ktdeval, so that it could change"
    " replies or look the market up; a board may allow it by its hash"
)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> LoadedBoard:
    return load_board(
        forge_board(tmp_path_factory.mktemp("packages") / "board", 1, baselines=False)
    )


def entry_with(board: LoadedBoard, *packages: ForeignPackage) -> BoardEntry:
    """The board's entrant with packages in its process, and all that follows made anew."""
    (entry,) = board.entries
    card = derive_card(structs.replace(entry.card, foreign=list(packages)))
    return replace(entry, card=card, is_isolated=is_isolated_here(card, board.rules.packages))


def allowing(board: LoadedBoard, *packages: ForeignPackage) -> LoadedBoard:
    """The board, where the maintainers allow packages."""
    rows = tuple(AllowedPackage(name=each.name, sha256=each.sha256) for each in packages)
    return replace(board, rules=structs.replace(board.rules, packages=rows))


def test_card_with_a_package_has_no_rank(board: LoadedBoard) -> None:
    entry = entry_with(board, HITS)
    assert "not isolated" in entry.labels
    assert why_unranked(entry, board, board.rules.divisions[0]) == [REASON]


def test_board_that_allows_the_package_ranks_the_card(board: LoadedBoard) -> None:
    open_board = allowing(board, HITS)
    entry = entry_with(open_board, HITS)
    assert "not isolated" not in entry.labels
    assert why_unranked(entry, open_board, board.rules.divisions[0]) == []


@pytest.mark.parametrize(
    "allowed",
    [(OTHER,), (structs.replace(HITS, sha256="c" * 64),), (structs.replace(HITS, name="x"),)],
)
def test_package_with_another_name_or_hash_is_not_allowed(
    board: LoadedBoard, allowed: tuple[ForeignPackage, ...]
) -> None:
    other = allowing(board, *allowed)
    assert why_unranked(entry_with(other, HITS), other, board.rules.divisions[0]) == [REASON]


def test_each_package_must_be_allowed(board: LoadedBoard) -> None:
    half = allowing(board, OTHER)
    entry = entry_with(half, HITS, OTHER)
    assert "not isolated" in entry.labels
    assert why_unranked(entry, half, board.rules.divisions[0]) == [REASON]


def test_package_of_the_same_name_is_not_allowed_along_with_it(board: LoadedBoard) -> None:
    """Sessions of a run may have had two packages of one name and version."""
    other = allowing(board, HITS)
    twin = structs.replace(HITS, sha256="d" * 64)
    found = why_unranked(entry_with(other, HITS, twin), other, board.rules.divisions[0])
    assert found == [REASON]
