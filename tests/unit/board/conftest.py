"""A forged board that tests of rankings only read."""

from __future__ import annotations

import pytest

from board_forge import forge_board
from board_ranks import tables_of
from ktdeval_board.entries import load_board


@pytest.fixture(scope="session")
def forged(tmp_path_factory):
    """A board of valid cards with series."""
    path = forge_board(
        tmp_path_factory.mktemp("forged") / "board", 11, divisions=2, windows=3, seed=3, specials=True, decisions=False
    )
    return load_board(path)


@pytest.fixture(scope="session")
def forged_tables(forged):
    """Tables of the forged board."""
    return tables_of(forged)
