"""Boards and a run that tests only read, and an empty board of one's own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ktdeval_board.board_entries import load_board
from support.board.board_forge import forge_board
from support.board.board_keys import draw, registered, run_under
from support.board.board_ranks import tables_of
from support.board.board_runs import begin, make_run


@pytest.fixture(scope="session")
def forged(tmp_path_factory):
    """A board of valid cards with series."""
    path = forge_board(
        tmp_path_factory.mktemp("forged") / "board",
        11,
        divisions=2,
        windows=3,
        seed=3,
        specials=True,
        decisions=False,
    )
    return load_board(path)


@pytest.fixture(scope="session")
def forged_tables(forged):
    """Tables of the forged board."""
    return tables_of(forged)


@pytest.fixture(scope="session")
def empty_board(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board of the small market without submissions."""
    folder = tmp_path_factory.mktemp("board") / "board"
    begin(folder, market)
    return folder


@pytest.fixture(scope="session")
def run(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that the board takes."""
    return make_run(tmp_path_factory.mktemp("run") / "run", market)


@pytest.fixture
def board(empty_board: Path, tmp_path: Path) -> Path:
    """A board without submissions, to be changed."""
    return Path(shutil.copytree(empty_board, tmp_path / "board"))


@pytest.fixture(scope="session")
def governed(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board that draws keys, with one system registered by `WHO` and its key drawn, and a run of
    it beside, in `runs`.
    """
    home = tmp_path_factory.mktemp("governed")
    begin(home / "board", market)
    registration = registered(home / "board", "builtin/momentum")

    assert draw(home / "board") == [registration.id]

    run_under(home / "board", registration, home / "runs" / "run", market)

    return home
