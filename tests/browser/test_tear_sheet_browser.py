"""The tear sheet in a real browser: it fits the screen, follows its scheme, asks for nothing, and
prints a window on one page of A4.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from support.pages.browser_pages import (
    Reader,
    every_screen,
    needs_browser,
    overprinted_texts,
    page_troubles,
)
from support.runs.run_support import ktdeval

pytestmark = [needs_browser, pytest.mark.exhaustive]

LOOK = """() => {
  const root = document.documentElement;
  const wide = [...document.querySelectorAll("body *")].filter((part) =>
    part.getBoundingClientRect().right > root.clientWidth + 1 && !part.closest(".scroll, svg") && !part.matches(".skip"));
  const letters = [...document.querySelectorAll("details[open] svg text, section > .top svg text")];
  return {
    content: root.scrollWidth, width: root.clientWidth, wide: wide.map((part) => part.outerHTML.slice(0, 80)),
    paper: getComputedStyle(document.body).backgroundColor,
    line: getComputedStyle(document.querySelector("svg path.agent")).stroke,
    smallest: Math.min(...letters.map((text) => text.getBoundingClientRect().height)),
    requests: performance.getEntriesByType("resource").length,
    titles: [...document.querySelectorAll("figcaption, tbody th[title]")].every((part) => part.title.length > 20),
  };
}"""


@pytest.fixture(scope="module")
def page(desk: Path) -> Path:
    """A tear sheet of two windows with two seeds each."""
    windows = "2024-01-02:2024-03-08,2024-03-11:2024-04-12"
    words = ("--model", "builtin/random", "--tasks", "bright_open_research", "--data", "market")
    for command in (
        ("run", *words, "--windows", windows, "--seeds", 2, "--out", "run", "--quiet"),
        ("view", "run"),
    ):
        done = ktdeval(*command, cwd=desk)
        assert done.code == 0, done

    return desk / "run" / "view" / "tear-sheet-bright_open_research.html"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a NAV of 300 days."""
    home = tmp_path_factory.mktemp("judged")
    days = pd.bdate_range("2023-01-02", periods=300)
    daily = np.random.default_rng(7).normal(0.0004, 0.01, len(days))
    nav = pd.DataFrame({"date": days.strftime("%Y-%m-%d"), "nav": 100 * np.cumprod(1 + daily)})
    nav.to_csv(home / "nav.csv", index=False)
    done = ktdeval("judge", "nav.csv", "--out", "judged", cwd=home)
    assert done.code == 0, done

    return home / "judged" / "tear-sheet.html"


@every_screen
def test_a_tear_sheet_fits_the_screen_and_follows_its_scheme(
    session: Reader, page: Path, width: int, scheme: str
) -> None:
    tab = session.open(
        page.as_uri(), ready="document.readyState === 'complete'", width=width, color_scheme=scheme
    )
    tab.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    look = tab.evaluate(LOOK)

    assert overprinted_texts(tab) == []
    assert look["wide"] == []
    assert look["content"] == look["width"]
    assert look["requests"] == 0
    assert look["titles"]
    assert look["smallest"] >= 8, "letters in plots are too small to read"
    assert look["paper"] == ("rgb(21, 25, 31)" if scheme == "dark" else "rgb(255, 255, 255)")
    assert look["line"] == ("rgb(104, 176, 247)" if scheme == "dark" else "rgb(29, 99, 168)")
    assert page_troubles(tab) == []


@every_screen
def test_the_page_of_judge_can_be_read_on_every_screen(
    session: Reader, judged: Path, width: int, scheme: str
) -> None:
    tab = session.open(
        judged.as_uri(),
        ready="document.readyState === 'complete'",
        width=width,
        color_scheme=scheme,
    )
    assert tab.locator(".verdict").count() == 1
    assert page_troubles(tab) == []


def test_buttons_save_series_figures_and_charts(
    session: Reader, page: Path, tmp_path: Path
) -> None:
    tab = session.open(page.as_uri(), ready="document.readyState === 'complete'")
    rows = {}
    for name in ("Series by day", "Figures"):
        with tab.expect_download() as saved:
            tab.get_by_role("button", name=name).click()
        path = tmp_path / saved.value.suggested_filename
        saved.value.save_as(path)
        assert path.name.startswith("tear-sheet-bright_open_research")
        rows[name] = pd.read_csv(path)

    assert {"window", "seed", "day", "nav", "benchmark", "net"} <= set(rows["Series by day"])
    assert "Sharpe ratio" in set(rows["Figures"]["figure"])

    with tab.expect_download() as saved:
        tab.get_by_role("button", name="Save as PNG: Underwater").first.click()
    assert saved.value.suggested_filename == "underwater.png"
    saved.value.save_as(tmp_path / "chart.png")
    picture = (tmp_path / "chart.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(set(picture)) > 100, "an empty picture"


def test_a_window_prints_on_one_page_of_a4_and_folded_ones_are_printed(
    session: Reader, page: Path
) -> None:
    tab = session.open(page.as_uri(), ready="document.readyState === 'complete'")
    assert tab.evaluate("document.querySelectorAll('details:not([open])').length") == 2
    printed = tab.pdf(prefer_css_page_size=True, print_background=True)
    boxes = re.findall(rb"/MediaBox ?\[ ?0 0 ([\d.]+) ([\d.]+)", printed)
    assert {(round(float(width)), round(float(height))) for width, height in boxes} == {(595, 842)}
    # all windows on two pages, each of the two on one, definitions on one
    assert len(re.findall(rb"/Type ?/Page\b", printed)) == 5
