"""A real browser on the pages of a board's site, over HTTP or as files: whatever goes wrong in a page is remembered and told.

Test modules make fixtures of these:

    with open_browser() as browser: …            one browser; of module scope, because a process can drive only one at a time
    with watching(browser, site) as session: …      session.open("index.html#sort=-sharpe"); at the end nothing may have gone wrong
    forge_site(home)                             the built site of a forged board: two divisions, three windows, odd entrants
"""

from __future__ import annotations

import functools
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from board_forge import forge_board
from chromium import CHROMIUM, DRAWS, FLAGS, needs_browser as needs_browser
from ktdeval_board.site.build import build_site
from ktdeval_board.site.files import data_file
from local_server import running
from site_data import read_data_file

PAGES = ("index.html", "task.html", "market.html", "history.html", "about.html")
"""Pages that show something without being told what."""

_READY = "document.getElementById('content')?.childElementCount && !document.getElementById('content').hasAttribute('aria-busy')"
_SERIOUS = ("serious", "critical")


class Reader:
    """Opens pages and remembers what went wrong in them."""

    def __init__(self, browser: Any, site: Path) -> None:
        """Pages of `site`, unless another folder is named."""
        self._browser, self._site = browser, site
        self._stack = ExitStack()
        self._addresses: dict[Path, str] = {}
        self.troubles: list[str] = []

    def open(self, page: str, *, folder: Path | None = None, as_file: bool = False, width: int = 1280, **screen: Any) -> Any:
        """A page once it shows its content."""
        site = folder or self._site
        root = f"{site.as_uri()}/" if as_file else self._serve(site)
        context = self._browser.new_context(viewport={"width": width, "height": 900}, **screen)
        self._stack.callback(context.close)
        tab = context.new_page()
        self._watch(tab, root)
        tab.goto(root + page)
        wait_until(tab, _READY)
        keep_drawing(tab)
        return tab

    def close(self) -> None:
        """Close all that was opened."""
        self._stack.close()

    def _serve(self, site: Path) -> str:
        if site not in self._addresses:
            self._addresses[site] = self._stack.enter_context(serving(site))
        return self._addresses[site]

    def _watch(self, tab: Any, root: str) -> None:
        def say(kind: str, what: str) -> None:
            self.troubles.append(f"{kind}: {what}")

        tab.on("console", lambda message: message.type in ("error", "warning") and say(message.type, message.text))
        tab.on("pageerror", lambda error: say("exception", str(error)))
        tab.on("requestfailed", lambda request: say("failed", request.url))
        tab.on("dialog", lambda dialog: (say("dialog", dialog.message), dialog.dismiss()))
        own = (root, "data:", "blob:")
        tab.on("request", lambda request: request.url.startswith(own) or say("left the site", request.url))


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a plain static server of a folder, as a host of pages would be."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_QuietHandler, directory=str(folder)))
    with running(server):
        yield f"http://127.0.0.1:{server.server_port}/"


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""


@contextmanager
def open_browser() -> Iterator[Any]:
    """A headless Chromium; the test is skipped where playwright is not installed."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        yield browser
        browser.close()


@contextmanager
def watching(browser: Any, site: Path) -> Iterator[Reader]:
    """A session for pages of a site, in none of which anything may go wrong."""
    session = Reader(browser, site)
    try:
        yield session
    finally:
        session.close()
    assert session.troubles == []


def forge_site(home: Path) -> Path:
    """Forge a board in a new folder under `home`, build its site beside it and give the site's folder."""
    board = forge_board(home / "board", entrants=16, divisions=2, windows=3, specials=True)
    build_site(board, home / "site", workers=1)
    return home / "site"


def wait_until(tab: Any, condition: str) -> None:
    """Wait until an expression in a page is true (the page's policy stops playwright's own waiting, which evaluates texts).

    An element that is not there, as while a page fetches data and draws itself anew, makes it not true yet.
    """
    deadline = time.monotonic() + 240
    while not tab.evaluate(f"(() => {{ try {{ return Boolean({condition}) }} catch {{ return false }} }})()"):
        assert time.monotonic() < deadline, f"never true: {condition}"
        time.sleep(0.02)


def keep_drawing(tab: Any) -> None:
    """Load a page again that gets no frames (`DRAWS`). What a page shows is in its address, so nothing is lost."""
    deadline = time.monotonic() + 240
    while not tab.evaluate(f"() => {DRAWS}"):
        assert time.monotonic() < deadline, "the browser draws no frame"
        tab.reload()
        wait_until(tab, _READY)


def read_data(site: Path, name: str) -> Any:
    """The value of a data file of a site."""
    return read_data_file((site / "data" / f"{name}.js").read_bytes())


def changed_site(site: Path, folder: Path, changes: dict[str, Callable[[Any], Any]]) -> Path:
    """A copy of a site in which some data files hold other values."""
    shutil.copytree(site, folder)
    for name, change in changes.items():
        value = json.dumps(change(read_data(site, name)), ensure_ascii=False)
        (folder / "data" / f"{name}.js").write_bytes(data_file(name, value.encode()))
    return folder


def axe_violations(tab: Any) -> list[str]:
    """Serious and critical violations that axe-core finds in a page as it is shown: rule, what is wrong, and the first element."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(tab).response["violations"]
    return [
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]} ({len(one['nodes'])} places)"
        for one in found
        if one["impact"] in _SERIOUS
    ]


def scrolls_sideways(tab: Any) -> bool:
    """Whether the page, not a region of it, is wider than the window."""
    return bool(tab.evaluate("document.documentElement.scrollWidth > window.innerWidth"))
