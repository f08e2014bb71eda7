"""The worlds of tests, each built once: a market, runs on it, a board.

What a whole session shares is to be read; who changes it asks for the copy of its own. A module may
put another world of a name in its place: `run` copies the module's own `whole`, if it has one.

Any test run imports this module: what builds a world is imported when the world is asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ktdeval.registry import load_plugins

if TYPE_CHECKING:
    from ktdeval.market import MarketSnapshot
    from support.providers.stub_provider import Stub


@pytest.fixture
def stub() -> Iterator[Stub]:
    """A provider without faults, of this test alone."""
    from support.providers.stub_provider import running_stub

    with running_stub() as running:
        yield running


# -- markets and folders


@pytest.fixture
def own_market(market: Path, tmp_path: Path) -> Path:
    """A copy of the small market, to be changed."""
    return Path(shutil.copytree(market, tmp_path / "market"))


@pytest.fixture(scope="session")
def embedded() -> MarketSnapshot:
    """The market that is embedded in the package."""
    from ktdeval.runner import open_snapshot

    return open_snapshot(load_plugins(), "synthetic", {})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the tests of a module share."""
    return tmp_path_factory.mktemp("folder")


@pytest.fixture(scope="module")
def desk(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder, shared by the tests of a module, with the small market in `market`."""
    desk = tmp_path_factory.mktemp("desk")
    shutil.copytree(market, desk / "market")
    return desk


# -- runs


@pytest.fixture(scope="session")
def usual_run(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a keyless model, over one month of the small market: to be read."""
    from support.board.board_checked import make_run

    return make_run(tmp_path_factory.mktemp("usual") / "run", market)


@pytest.fixture(scope="session")
def other_run(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of another model: to be read."""
    from support.board.board_checked import make_run

    return make_run(tmp_path_factory.mktemp("other") / "run", market, "builtin/momentum")


@pytest.fixture(scope="module")
def whole(
    request: pytest.FixtureRequest, market: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The finished run, to be read: on the small market by the words that the module has in
    `WHOLE`, or the usual one.
    """
    words = getattr(request.module, "WHOLE", None)
    if words is None:
        return request.getfixturevalue("usual_run")

    from support.runs.run_support import ktdeval

    folder = tmp_path_factory.mktemp("whole")
    done = ktdeval("--data", market, *words, "--out", folder / "run", cwd=folder)
    assert done.code == 0, done

    return folder / "run"


@pytest.fixture(scope="module")
def finished_run(whole: Path) -> Path:
    """The finished run that `run`, a fixture of `ktdeval.testing`, copies."""
    return whole


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a market and runs of several kinds, shown on pages."""
    from support.pages.view_page import make_runs_folder

    return make_runs_folder(tmp_path_factory.mktemp("desk"))


# -- boards


@pytest.fixture
def board(market: Path, whole: Path, tmp_path: Path) -> Path:
    """A board of one division, that of the finished run, with nothing on it."""
    from support.board.board_checked import make_board

    return make_board(tmp_path / "board", market, whole)


# -- processes


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of whoever runs the tests wait meanwhile: a fork needs none of their locks."""
    from ktdeval.cli import forked_command

    monkeypatch.setattr(forked_command.threading, "active_count", lambda: 1)
