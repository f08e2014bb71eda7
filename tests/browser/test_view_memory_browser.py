"""The panel of an agent's memory in a real browser: by day, unfolded on demand, never markup, and gone where there is none; and the
chart of a stock with its signals.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp")

from msgspec.structs import replace

from chromium import needs_browser
from ktdeval.harness import SIGNAL_FORM
from ktdeval.runner import RunFolder
from ktdeval_view.document import Redactor
from ktdeval_view.pages import Surroundings, make_episode_page
from ktdeval_view.records import read_episode
from run_support import ktdeval
from view_browser import Browser, Tab
from view_plugin import MARKUP

pytestmark = needs_browser

KEY = "stub-secret-key-c0ffee0123"


def one(name: str, text: str, importance: float = 50.0, count: int = 0) -> dict[str, Any]:
    return {"id": name, "text": text, "importance": importance, "age": 1, "count": count}


def asked(answer: str) -> dict[str, Any]:
    """A call of an analyst who is shown one stock."""
    shown = json.dumps({"candidates": {"columns": ["stock_id"], "rows": [["MSFT"]]}})
    sent = [{"role": "system", "content": SIGNAL_FORM}, {"role": "user", "content": f"```json\n{shown}\n```"}]
    return {"role": MARKUP, "kept": 0, "sent": sent, "tools": [], "tool_choice": None, "seed": 1, "reply": {"content": answer}}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four days: layers, layers with changes and markup, a plain tree, none; and an analyst's signals."""
    folder = tmp_path_factory.mktemp("memory")
    words = ("--model", "builtin/random", "--tasks", "investorbench_msft", "--data", "synthetic_investorbench", "--limit", "4")
    assert ktdeval(*words, "--out", "run", "--quiet", cwd=folder).code == 0
    run = RunFolder.load(folder / "run")
    (spec,) = run.manifest.specs
    memories: list[Any] = [
        {"memory": {"layers": {"short": [one("M1", "rain in spring"), one("M2", f"key {KEY}")]}, "made": 2}, "step": 0},
        {
            "memory": {"layers": {"short": [one(MARKUP, MARKUP)], MARKUP: [one("M1", "rain in spring", 62.345, -1)]}, "made": 3},
            "note": MARKUP,
        },
        {"plan": {"next": MARKUP}, "counts": [1, 2]},
        None,
    ]
    whole = read_episode(run, spec)
    said = ['{"MSFT": "Bullish"}', '{"MSFT": "Bearish"}', "", '{"MSFT": "Neutral"}']
    talks = [replace(talk, exchanges=(asked(text),)) for talk, text in zip(whole.talks, said, strict=True)]
    records = dataclasses.replace(whole, memories=memories, talks=talks)
    path = folder / "page.html"
    path.write_text(make_episode_page(records, Surroundings(), Redactor({"TALKER_API_KEY": KEY})))
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


def day(tab: Tab, number: int) -> None:
    tab.value(f"location.hash = '#day={number}'")
    tab.wait_for(f"document.querySelector('#said').textContent.startsWith('Day {number},')")


ROWS = "[...document.querySelectorAll('#part-memory {} tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))"


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_the_memory_of_each_day_is_shown_as_text(browser: Browser, page: Path, width: int, dark: bool) -> None:
    tab = browser.open(f"{page.as_uri()}#day=0", width=width, dark=dark)
    tab.wait_for("document.querySelector('#part-memory') !== null")
    first = tab.value(ROWS.format(".scroll"))
    assert [row[:3] for row in first] == [["short", "M1", "rain in spring"], ["short", "M2", "key [TALKER_API_KEY]"]]
    assert [row[-1] for row in first] == ["new", "new"]
    day(tab, 1)
    rows = {row[1]: row for row in tab.value(ROWS.format(".scroll"))}
    assert rows["M1"] == [MARKUP, "M1", "rain in spring", "62.35", "1", "−1", "", f"credited −1, short → {MARKUP}"]
    assert rows["M2"][-1] == "gone"
    assert rows[MARKUP][:3] == ["short", MARKUP, MARKUP]
    assert tab.value("document.querySelectorAll('#part-memory :is(img, b)').length") == 0
    assert tab.value("document.title") != "owned"
    tab.value("document.querySelectorAll('#part-memory details').forEach((part) => { part.open = true; })")
    tab.wait_for("document.querySelectorAll('#part-memory details table').length === 1")
    assert MARKUP in tab.text("#part-memory details:last-child")
    assert tab.value("document.documentElement.scrollWidth <= innerWidth")
    day(tab, 2)
    assert tab.value("document.querySelector('#part-memory table')") is None
    assert MARKUP in tab.text("#part-memory dl")
    tab.press("m")
    day(tab, 3)
    assert tab.value("document.querySelector('#part-memory')") is None
    tab.press("m")
    assert tab.troubles() == []


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_the_chart_of_a_stock_shows_decisions_positions_and_signals(browser: Browser, page: Path, width: int, dark: bool) -> None:
    tab = browser.open(f"{page.as_uri()}#day=1", width=width, dark=dark)
    tab.wait_for("document.querySelector('#part-memory') !== null")
    tab.press("c")
    tab.wait_for("document.querySelector('#stock').open")
    assert "MSFT" in tab.text("#stock-title")
    count = "(document.querySelectorAll('#stock svg .mark.' + name)[1].getAttribute('d').match(/M/g) || []).length"
    marks = f"['rises', 'falls', 'stays', 'invalid'].map((name) => {count})"
    assert tab.value(marks) == [1, 1, 1, 1]
    rows = tab.value("[...document.querySelectorAll('#stock-body tbody')][0].innerText")
    assert "1 Bullish, 1 Bearish, 1 Neutral, 1 invalid" in rows
    assert MARKUP in rows
    orders = tab.value("[...document.querySelectorAll('#stock-body a')].length")
    told = tab.value("document.querySelector('#stock-body tbody td').textContent.match(/\\d+ (Buy|Sell)/g) || []")
    assert sum(int(one.split()[0]) for one in told) == orders
    assert "No prices are known" in tab.value("document.querySelector('#stock svg').textContent")
    assert tab.value("document.querySelector('#stock').scrollWidth <= document.querySelector('#stock').clientWidth")
    assert tab.value("document.querySelectorAll('#stock-body :is(img, b)').length") == 0
    assert tab.value("document.title") != "owned"
    tab.press("Escape")
    tab.wait_for("!document.querySelector('#stock').open")
    tab.click("#stocks")
    tab.wait_for("document.querySelector('#stock').open")
    assert tab.troubles() == []
