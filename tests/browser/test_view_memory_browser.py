"""The panel of an agent's memory in a real browser: by day, unfolded on demand, never markup, and gone where there is none; and the
chart of a stock with its signals.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from browser_pages import Reader, needs_browser, press, scrolls_sideways, wait_until
from ktdeval.harness import SIGNAL_FORM
from ktdeval.runner import RunFolder
from ktdeval_view.document import Redactor
from ktdeval_view.pages import Surroundings, make_episode_page
from ktdeval_view.records import read_episode
from run_support import ktdeval
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


def open_day(session: Reader, page: Path, number: int, width: int, scheme: str) -> Any:
    ready = "document.querySelector('#part-memory') !== null"
    return session.open(f"{page.as_uri()}#day={number}", ready=ready, width=width, color_scheme=scheme)


def day(tab: Any, number: int) -> None:
    tab.evaluate(f"location.hash = '#day={number}'")
    wait_until(tab, f"document.querySelector('#said').textContent.startsWith('Day {number},')")


ROWS = "[...document.querySelectorAll('#part-memory {} tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_memory_of_each_day_is_shown_as_text(session: Reader, page: Path, width: int, scheme: str) -> None:
    tab = open_day(session, page, 0, width, scheme)
    first = tab.evaluate(ROWS.format(".scroll"))
    assert [row[:3] for row in first] == [["short", "M1", "rain in spring"], ["short", "M2", "key [TALKER_API_KEY]"]]
    assert [row[-1] for row in first] == ["new", "new"]
    day(tab, 1)
    rows = {row[1]: row for row in tab.evaluate(ROWS.format(".scroll"))}
    assert rows["M1"] == [MARKUP, "M1", "rain in spring", "62.35", "1", "−1", "", f"credited −1, short → {MARKUP}"]
    assert rows["M2"][-1] == "gone"
    assert rows[MARKUP][:3] == ["short", MARKUP, MARKUP]
    assert tab.evaluate("document.querySelectorAll('#part-memory :is(img, b)').length") == 0
    assert tab.evaluate("document.title") != "owned"
    tab.evaluate("document.querySelectorAll('#part-memory details').forEach((part) => { part.open = true; })")
    wait_until(tab, "document.querySelectorAll('#part-memory details table').length === 1")
    assert MARKUP in tab.inner_text("#part-memory details:last-child")
    tab.evaluate("document.documentElement.classList.add('laid-out')")  # all calls, not only those in sight
    assert not scrolls_sideways(tab)
    day(tab, 2)
    assert tab.evaluate("document.querySelector('#part-memory table')") is None
    assert MARKUP in tab.inner_text("#part-memory dl")
    press(tab, "m")
    day(tab, 3)
    assert tab.evaluate("document.querySelector('#part-memory')") is None
    press(tab, "m")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_chart_of_a_stock_shows_decisions_positions_and_signals(session: Reader, page: Path, width: int, scheme: str) -> None:
    tab = open_day(session, page, 1, width, scheme)
    press(tab, "c")
    wait_until(tab, "document.querySelector('#stock').open")
    assert "MSFT" in tab.inner_text("#stock-title")
    count = "(document.querySelectorAll('#stock svg .mark.' + name)[1].getAttribute('d').match(/M/g) || []).length"
    marks = f"['rises', 'falls', 'stays', 'invalid'].map((name) => {count})"
    assert tab.evaluate(marks) == [1, 1, 1, 1]
    rows = tab.evaluate("[...document.querySelectorAll('#stock-body tbody')][0].innerText")
    assert "1 Bullish, 1 Bearish, 1 Neutral, 1 invalid" in rows
    assert MARKUP in rows
    orders = tab.evaluate("[...document.querySelectorAll('#stock-body a')].length")
    told = tab.evaluate("document.querySelector('#stock-body tbody td').textContent.match(/\\d+ (Buy|Sell)/g) || []")
    assert sum(int(one.split()[0]) for one in told) == orders
    assert "No prices are known" in tab.evaluate("document.querySelector('#stock svg').textContent")
    assert tab.evaluate("document.querySelector('#stock').scrollWidth <= document.querySelector('#stock').clientWidth")
    assert tab.evaluate("document.querySelectorAll('#stock-body :is(img, b)').length") == 0
    assert tab.evaluate("document.title") != "owned"
    press(tab, "Escape")
    wait_until(tab, "!document.querySelector('#stock').open")
    tab.click("#stocks")
    wait_until(tab, "document.querySelector('#stock').open")
