"""Pages of papers' figures in a real browser: the vendored Vega-Lite draws every kind, nothing is
wider than the screen, no text lies on another, and nothing is asked of the network.
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import ktdeval
from ktdeval.cli.main import main
from support.pages.browser_pages import (
    Reader,
    every_screen,
    needs_browser,
    page_troubles,
    wait_until,
)

pytestmark = [needs_browser, pytest.mark.exhaustive]

DRAWN = "document.querySelector('.chart-plot').vega"
OVERLAPS = """() => {
  const texts = [...document.querySelectorAll(".chart-stage text")]
    .filter((one) => one.textContent && one.getAttribute("opacity") !== "0")
    .map((one) => [one.textContent, one.getBoundingClientRect()]);
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
  const pairs = texts.flatMap(([text, box], at) =>
    texts.slice(at + 1).filter(([, other]) => meet(box, other)).map(([other]) => [text, other]));
  return pairs;
}"""
#: figure -> model, tasks, market, words of the command
RUNS: dict[str, tuple[str, str, str | None, tuple[str, ...]]] = {
    "deepfund-3": ("builtin/random", "deepfund_berkshire", "synthetic_deepfund", ()),
    "ama-4": ("builtin/random", "ama_btc", "synthetic_arena", ()),
    "deepfund-7": ("builtin/random", "deepfund_gold", "synthetic_deepfund", ()),
    "ktdfin-3": ("builtin/trivial", "deanon_probe", None, ()),
}


@pytest.fixture(scope="module")
def pages(market: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind of figure."""
    home = tmp_path_factory.mktemp("figures")
    made = {}
    for name, (model, tasks, data, words) in RUNS.items():
        made[name] = draw(home, name, [run(home / f"run-{name}", model, tasks, data)], *words)

    two = [run(home / one, f"builtin/{one}", "ama_btc", "synthetic_arena") for one in SIDES]
    made["ama-3"] = draw(home, "ama-3", two)

    options = {"windows": WINDOWS, "data": str(market)}
    of_windows = ktdeval.evaluate(
        "builtin/random", "bright_open_research", out=str(home / "w"), quiet=True, **options
    )
    made["ktdfin-2"] = draw(home, "ktdfin-2", [Path(of_windows.folder)])
    return made


SIDES = ("random", "buy_and_hold")
WINDOWS = "2024-01-02:2024-02-09,2024-03-11:2024-04-12"


def run(out: Path, model: str, tasks: str, data: str | None) -> Path:
    options: dict[str, Any] = {"limit": 12, "seeds": 3, "rules": "paper", "quiet": True}
    if data is not None:
        options["data"] = data
    return Path(ktdeval.evaluate(model, tasks, out=str(out), **options).folder)


def draw(home: Path, name: str, runs: list[Path], *words: str) -> Path:
    page = home / f"{name}.html"
    assert main(["paper", "figure", name, *map(str, runs), *words, "--out", str(page)]) == 0
    return page


@pytest.mark.parametrize("name", [*RUNS, "ama-3", "ktdfin-2"])
@every_screen
def test_a_figure_is_drawn_and_fits(
    session: Reader, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    tab = session.open(
        pages[name].as_uri(),
        ready="document.readyState === 'complete'",
        width=width,
        color_scheme=scheme,
    )
    wait_until(tab, DRAWN)

    assert tab.evaluate("document.querySelector('.trouble')") is None
    assert tab.evaluate("document.querySelectorAll('.chart-stage svg path').length") > 0
    assert tab.evaluate("document.querySelector('.chart-stage svg').clientWidth") > width / 2
    assert tab.evaluate(OVERLAPS) == []
    assert tab.evaluate("performance.getEntriesByType('resource').length") == 0
    assert page_troubles(tab) == []


LABELS = """() => [...document.querySelectorAll(".chart-stage .role-axis-label text")]
  .map((label) => label.textContent).filter((text) => /^\\d+ [A-Z][a-z]{2}( \\d\\d)?$/.test(text))"""


@pytest.mark.parametrize("name", ["deepfund-3", "ama-3", "ktdfin-2"])
@pytest.mark.parametrize("width", [1280, 390])
def test_an_axis_of_days_names_trading_days_only(
    session: Reader, pages: dict[str, Path], name: str, width: int
) -> None:
    tab = session.open(
        pages[name].as_uri(), ready="document.readyState === 'complete'", width=width
    )
    wait_until(tab, DRAWN)
    labels = tab.evaluate(LABELS)
    tab.locator("button", has_text="Table").click()
    texts = tab.evaluate(
        "[...document.querySelectorAll('.chart-table :is(td, th)')].map((cell) => cell.innerText)"
    )
    days = [date.fromisoformat(text) for text in texts if re.fullmatch(r"\d{4}-\d\d-\d\d", text)]
    names = {f"{day.day} {day:%b}" for day in days} | {f"{day.day} {day:%b %y}" for day in days}

    assert len(labels) >= 2
    assert set(labels) <= names


def test_the_table_below_a_figure_has_its_rows(session: Reader, pages: dict[str, Path]) -> None:
    tab = session.open(pages["ama-3"].as_uri(), ready="document.readyState === 'complete'")
    wait_until(tab, DRAWN)
    tab.locator("button", has_text="Table").click()

    assert tab.evaluate("document.querySelectorAll('.chart-table tbody tr').length") == 13
