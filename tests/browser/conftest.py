"""The browser of a module's tests, and a session in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ktdeval_board.site.build import build_site
from support.board.board_forge import forge_board
from support.pages.browser_pages import Chromium, Reader, open_browser, watching


# a process can drive only one at a time, and with it runs no event loop of its own
@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def plain_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of two masks of one mode and three windows, with an entrant of each odd kind."""
    home = tmp_path_factory.mktemp("site")
    build_site(
        forge_board(home / "board", entrants=16, divisions=2, windows=3, specials=True),
        home / "site",
        workers=1,
    )

    return home / "site"


@pytest.fixture(scope="session")
def odd_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with six windows, two seeds and a scoring division."""
    home = tmp_path_factory.mktemp("models")
    board = forge_board(
        home / "board", entrants=12, divisions=2, windows=6, seeds=(0, 1), specials=True, scoring=2
    )
    build_site(board, home / "site", workers=1)

    return home / "site"


@pytest.fixture(scope="module")
def forged_site(request: pytest.FixtureRequest) -> Path | None:
    """The site whose pages a module's tests open: that of the fixture it names in `SITE`, if any."""
    name = getattr(request.module, "SITE", None)
    return request.getfixturevalue(name) if name else None


@pytest.fixture
def session(chromium: Chromium, forged_site: Path | None) -> Iterator[Reader]:
    """Opens pages; nothing may go wrong in any."""
    with watching(chromium, forged_site) as session:
        yield session
