"""The browser of a module's tests, and a session in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from browser_pages import Chromium, Reader, open_browser, watching


@pytest.fixture(scope="module")  # a process can drive only one at a time, and with it runs no event loop of its own
def chromium() -> Iterator[Chromium]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def forged_site() -> Path | None:
    """The site whose pages a module's tests open, where it makes one."""
    return None


@pytest.fixture
def session(chromium: Chromium, forged_site: Path | None) -> Iterator[Reader]:
    """Opens pages; nothing may go wrong in any."""
    with watching(chromium, forged_site) as session:
        yield session
