"""The page in a real browser: nothing is wider than the screen, colours follow the system, nothing
is asked of the network.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pages.browser_pages import (
    Reader,
    every_screen,
    needs_browser,
    overprinted_texts,
    page_troubles,
)
from support.pages.report_page import check_page
from support.runs.run_support import ktdeval

pytest.importorskip("vl_convert")

pytestmark = needs_browser

TASKS = (
    "blinded_open_research",
    "bright_open_research",
    "blinded_fixed_candidate",
    "blinded_memory_only",
)

LOOK = """() => {
  const root = document.documentElement, shown = (at) => getComputedStyle(document.querySelector(at));
  const letters = [...document.querySelectorAll("figure svg text")].map((text) => text.getBoundingClientRect().height);
  const wide = [...document.querySelectorAll("body *")].filter((part) =>
    part.getBoundingClientRect().right > root.clientWidth + 1 && !part.closest(".scroll, pre, svg") && !part.matches(".skip"));
  return {
    height: root.scrollHeight, width: root.clientWidth, content: root.scrollWidth,
    wide: wide.map((part) => part.outerHTML.slice(0, 80)),
    paper: shown("body").backgroundColor, ink: shown("h1").color, smallest: Math.min(...letters), plots: letters.length,
    order: [...document.querySelectorAll("main > section")].map((part) => part.querySelector("figure, table").tagName),
    requests: performance.getEntriesByType("resource").length,
  };
}"""


@pytest.fixture(scope="module")
def page(desk: Path) -> Path:
    """A report of four cards, of two masks and three modes, on a small market."""
    words = ("--model", "builtin/random", "--tasks", ",".join(TASKS), "--data", "market")

    for command in (
        ("run", *words, "--windows", "2024-03-01:2024-03-29", "--out", "run", "--quiet"),
        ("view", "report", "run"),
    ):
        done = ktdeval(*command, cwd=desk)
        assert done.code == 0, done

    check_page((desk / "report.html").read_text())

    return desk / "report.html"


@pytest.mark.exhaustive
@every_screen
def test_the_page_fits_the_screen_and_follows_its_scheme(
    session: Reader, page: Path, width: int, scheme: str
) -> None:
    tab = session.open(
        page.as_uri(), ready="document.readyState === 'complete'", width=width, color_scheme=scheme
    )
    look = tab.evaluate(LOOK)

    assert overprinted_texts(tab) == []
    assert page_troubles(tab) == []
    assert look["requests"] == 0
    assert width < 1280 or look["height"] <= (len(TASKS) + 2) * 800, (
        "a screen a card, after what is said of all"
    )
    assert set(look["order"]) == {"FIGURE"}, "plots come before tables"
    assert width - 20 <= look["width"] <= width
    assert look["content"] == look["width"], look["wide"]
    assert look["wide"] == []
    assert look["paper"] == ("rgb(21, 25, 31)" if scheme == "dark" else "rgb(255, 255, 255)")
    assert look["ink"] == ("rgb(230, 233, 237)" if scheme == "dark" else "rgb(28, 33, 40)")
    assert look["plots"] > 50
    assert look["smallest"] >= 8, "letters in plots are too small to read"
