"""A real browser on pages, over HTTP or as files: whatever goes wrong in a page is remembered and
told.

Test modules have these as fixtures: `chromium`, one browser; and `session`:
`session.open("index.html#sort=-sharpe")` opens a page of the module's `forged_site`,
`session.open("file:///…")` and `session.open("http://127.0.0.1:8765/…")` any other; at the end
nothing may have gone wrong.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ktdeval.testing import QuietHandler, running_server, wait_for

_LONGEST_LOAD_MS = 240_000.0  # less than a test may take
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DRAWS = (
    "new Promise(done => { requestAnimationFrame(() => done(true)); setTimeout(() => done(false),"
    " 5000); })"
)
"""Whether a page gets frames: a browser without a screen now and then leaves a new page without any
for good. Such a page can't be photographed either, and no script can wake it; loading it again
helps.
"""

needs_browser = pytest.mark.skipif(
    not CHROMIUM.exists(), reason=f"needs a browser at {CHROMIUM}: apt-get install chromium"
)

every_screen = pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (390, "dark"), (1280, "dark"), (390, "light")]
)
"""A test of a page for everybody: on a laptop and a telephone, in light and in dark colours."""

PAGES = ("index.html", "task.html", "market.html", "history.html", "about.html")
"""Pages that show something without being told what."""

_READY = (
    "document.getElementById('content')?.childElementCount &&"
    " !document.getElementById('content').hasAttribute('aria-busy')"
)


class Chromium:
    """A browser with what tests share: a server of sites, and pages without listeners or storage,
    to be used again.
    """

    def __init__(self, browser: Any, server: _SiteServer) -> None:
        self.browser = browser
        #: pages by width and scheme
        self.free: defaultdict[tuple[Any, ...], list[Any]] = defaultdict(list)
        self._server = server

    def new_context(self, **screen: Any) -> Any:
        """A context whose pages may take long to load, as they do on a busy machine."""
        context = self.browser.new_context(**screen)
        context.set_default_navigation_timeout(_LONGEST_LOAD_MS)
        return context

    def address_of(self, site: Path) -> str:
        """Where a site is served."""
        if site not in self._server.sites:
            self._server.sites.append(site)

        return f"http://127.0.0.1:{self._server.server_port}/{self._server.sites.index(site)}/"


class Reader:
    """Opens pages and remembers what went wrong in them."""

    def __init__(self, chromium: Chromium, site: Path | None) -> None:
        """Pages of `site`, unless another folder or a file's address is named."""
        self._chromium = chromium
        self._site = site
        self._stack = ExitStack()
        self.troubles: list[str] = []

    def open(
        self,
        page: str,
        *,
        folder: Path | None = None,
        as_file: bool = False,
        ready: str = _READY,
        width: int = 1280,
        expected: tuple[str, ...] = (),
        **screen: Any,
    ) -> Any:
        """A page of the site, or a file or a server's page at its address, once it is ready; making
        one takes four times as long as taking another test's. `expected`: beginnings of what may
        stand in the console, such as that of a refused call.
        """
        root = ""
        own = "file:"

        if page.startswith("http:"):
            own = "/".join(page.split("/")[:3])
        elif not page.startswith("file:"):
            site = folder or self._site
            root = f"{site.as_uri()}/" if as_file else self._chromium.address_of(site)
            own = root

        free = (
            None
            if as_file or screen.keys() - {"color_scheme"}
            else self._chromium.free[width, screen.get("color_scheme")]
        )

        if free:
            tab = free.pop()
        else:
            tab = self._chromium.new_context(
                viewport={"width": width, "height": 900}, **screen
            ).new_page()

        listeners = self._listeners(own, expected)
        for event, listener in listeners.items():
            tab.on(event, listener)

        self._stack.callback(_leave, tab, listeners, free)
        tab.goto(root + page)
        keep_drawing(tab, ready)

        return tab

    def close(self) -> None:
        """Leave all that was opened."""
        self._stack.close()

    def _listeners(self, root: str, expected: tuple[str, ...]) -> dict[str, Callable[[Any], Any]]:
        def say(kind: str, what: str) -> None:
            self.troubles.append(f"{kind}: {what}")

        def failed(request: Any) -> None:
            # A page that is left while it still loads something does nothing wrong.
            if request.failure != "net::ERR_ABORTED":
                say("failed", request.url)

        own = (root, "data:", "blob:")

        return {
            "console": lambda message: (
                message.type in ("error", "warning")
                and not message.text.startswith(expected)
                and say(message.type, message.text)
            ),
            "pageerror": lambda error: say("exception", str(error)),
            "requestfailed": failed,
            "dialog": lambda dialog: (say("dialog", dialog.message), dialog.dismiss()),
            "request": lambda request: (
                request.url.startswith(own) or say("left the site", request.url)
            ),
        }


def _leave(tab: Any, listeners: dict[str, Callable[[Any], Any]], free: list[Any] | None) -> None:
    """Make a page what it was when it was new, and put it back to the free ones; close it where
    there is no such place.
    """
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)

    if free is None:
        tab.context.close()
        return

    tab.evaluate("localStorage.clear()")
    tab.emulate_media(media="null")
    tab.mouse.move(0, 0)
    tab.goto("about:blank")
    free.append(tab)


class _SiteServer(ThreadingHTTPServer):
    """A plain static server as a host of pages would be, of several sites: `/0/index.html`. An
    address without a number is of the last one, as if the host had it alone. What is served stays
    as it is.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _SiteHandler)
        self.sites: list[Path] = []


class _SiteHandler(QuietHandler, SimpleHTTPRequestHandler):
    server: _SiteServer

    def translate_path(self, path: str) -> str:
        number, _, rest = path.lstrip("/").partition("/")
        if not number.isdecimal():
            number = "-1"
            rest = path.lstrip("/")

        self.directory = str(self.server.sites[int(number)])

        return super().translate_path(f"/{rest}")


@contextmanager
def open_browser() -> Iterator[Chromium]:
    """A headless Chromium; the test is skipped where playwright is not installed."""
    sync_api = pytest.importorskip("playwright.sync_api")
    server = _SiteServer()

    with running_server(server), sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        yield Chromium(browser, server)
        browser.close()


@contextmanager
def watching(chromium: Chromium, site: Path | None) -> Iterator[Reader]:
    """A session for pages of a site, in none of which anything may go wrong."""
    session = Reader(chromium, site)
    try:
        yield session
    finally:
        session.close()

    if session.troubles:
        # As a message of its own: pytest explains no `assert` of a module that it did not rewrite.
        pytest.fail("in the pages of this test: " + "; ".join(session.troubles))


def wait_until(tab: Any, condition: str) -> None:
    """Wait until an expression in a page is true (the page's policy stops playwright's own waiting,
    which evaluates texts).

    An element that is not there, as while a page fetches data and draws itself anew, makes it not
    true yet.
    """
    wait_for(
        lambda: tab.evaluate(
            f"(() => {{ try {{ return Boolean({condition}) }} catch {{ return false }} }})()"
        )
    )


def keep_drawing(tab: Any, ready: str = _READY) -> None:
    """Wait for a page, and load it again where it gets no frames (`DRAWS`): what it shows is in its
    address, so nothing is lost.
    """
    deadline = time.monotonic() + 240
    wait_until(tab, ready)

    while not tab.evaluate(f"() => {DRAWS}"):
        assert time.monotonic() < deadline, "the browser draws no frame"
        tab.reload()
        wait_until(tab, ready)


def axe_violations(tab: Any) -> list[str]:
    """All violations that axe-core finds in a page as it is shown, best practices among them: rule,
    what is wrong, and the first element.
    """
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    violations = axe.run(tab).response["violations"]

    return [
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]} ({len(one['nodes'])} places)"
        for one in violations
    ]


def page_troubles(tab: Any) -> list[str]:
    """What keeps a page from being read by everybody on its screen: it is wider than the window, its
    folds shut or open, or axe finds something in it with all folds open.
    """
    troubles = ["scrolls sideways"] if scrolls_sideways(tab) else []
    tab.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    if scrolls_sideways(tab):
        troubles.append("scrolls sideways with its folds open")

    return troubles + axe_violations(tab)


def is_in_sight(tab: Any, cell: str) -> bool:
    """Whether a cell of a table that scrolls is seen as the table opens, left of the shade at its
    edge that tells of more columns.
    """
    return bool(
        tab.evaluate(
            """selector => {
              const cell = document.querySelector(selector);
              const region = cell.closest(".scroll");
              const shade = region.classList.contains("cut") ? 24 : 0;
              const edge = region.getBoundingClientRect().right - shade;
              return cell.getBoundingClientRect().right <= edge;
            }""",
            cell,
        )
    )


def axis_troubles(tab: Any) -> list[str]:
    """Axes of charts on a page that name a place twice, or whose labels lie over each other."""
    return list(
        tab.evaluate(
            """() => [...document.querySelectorAll(".chart-plot g.role-axis-label")].flatMap(axis => {
              const texts = [...axis.querySelectorAll("text")].filter(one =>
                getComputedStyle(one).opacity !== "0" && one.textContent);
              const names = texts.map(one => one.textContent);
              const boxes = texts.map(one => one.getBoundingClientRect());
              const collide = boxes.some((one, at) => boxes.slice(at + 1).some(other =>
                one.left < other.right - 1 && other.left < one.right - 1 &&
                one.top < other.bottom - 3 && other.top < one.bottom - 3));
              return new Set(names).size < names.length || collide ? [names.join(" | ")] : [];
            })"""
        )
    )


def overprinted_texts(tab: Any) -> list[str]:
    """Pairs of texts in a chart of a page whose boxes lie over each other, as dates of an axis."""
    return list(
        tab.evaluate(
            """() => [...document.querySelectorAll("svg")].flatMap(chart => {
              const texts = [...chart.querySelectorAll("text")]
                .filter(one => one.textContent.trim() && getComputedStyle(one).opacity !== "0")
                .map(one => [one.textContent.trim(), one.getBoundingClientRect()])
                .filter(([, box]) => box.width > 0);
              return texts.flatMap(([name, box], at) => texts.slice(at + 1).filter(([, other]) =>
                box.left < other.right - 1 && other.left < box.right - 1 &&
                box.top < other.bottom - 3 && other.top < box.bottom - 3,
              ).map(([other]) => `${name} | ${other}`));
            })"""
        )
    )


def is_shown(tab: Any, text: str) -> bool:
    """Whether a text is on the page."""
    return text in tab.inner_text("body")


def tick(tab: Any, menu: str, *choices: str) -> None:
    """Open a list of choices and tick some."""
    tab.click(f"details.many summary:has-text('{menu}')")
    for choice in choices:
        tab.click(f"details.many[open] label:has-text('{choice}') input")

    tab.keyboard.press("Escape")


def press(tab: Any, *keys: str) -> None:
    """Press keys one after the other, as a keyboard does."""
    for key in keys:
        tab.keyboard.press(key)


def scrolls_sideways(tab: Any) -> bool:
    """Whether the page, not a region of it, is wider than the window."""
    return bool(tab.evaluate("document.documentElement.scrollWidth > window.innerWidth"))
