"""Panels of an agent's memory, the chart of a stock with its signals, and pages of a scoring task,
in a real browser.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ktdeval.cli.main import main
from ktdeval.harness import SIGNAL_FORM
from ktdeval.runner import RunFolder
from ktdeval_view.document import EnvironmentRedactor
from ktdeval_view.episode_pages import PageSurroundings, make_episode_page
from ktdeval_view.episode_records import read_episode
from support.pages.browser_pages import (
    Reader,
    every_screen,
    needs_browser,
    page_troubles,
    press,
    scrolls_sideways,
    wait_until,
)
from support.pages.view_page import pages
from support.pages.view_plugin import MARKUP, SHOWN_MARKUP
from support.paths import SUPPORT
from support.runs.run_support import ktdeval

pytestmark = needs_browser

KEY = "stub-secret-key-c0ffee0123"


def one(name: str, text: str, importance: float = 50.0, count: int = 0) -> dict[str, Any]:
    return {"id": name, "text": text, "importance": importance, "age": 1, "count": count}


def asked(answer: str) -> dict[str, Any]:
    """A call of an analyst who is shown one stock."""
    shown = json.dumps({"candidates": {"columns": ["stock_id"], "rows": [["MSFT"]]}})
    sent = [
        {"role": "system", "content": SIGNAL_FORM},
        {"role": "user", "content": f"```json\n{shown}\n```"},
    ]

    return {
        "role": MARKUP,
        "kept": 0,
        "sent": sent,
        "tools": [],
        "tool_choice": None,
        "seed": 1,
        "reply": {"content": answer},
    }


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four days: layers, layers with changes and markup, a plain tree, none; and an analyst's
    signals.
    """
    folder = tmp_path_factory.mktemp("memory")
    words = (
        "--model",
        "builtin/random",
        "--tasks",
        "investorbench_msft",
        "--data",
        "synthetic_investorbench",
        "--limit",
        "4",
    )

    assert ktdeval(*words, "--out", "run", "--quiet", cwd=folder).code == 0

    run = RunFolder.load(folder / "run")
    (spec,) = run.manifest.specs
    memories: list[Any] = [
        {
            "memory": {
                "layers": {"short": [one("M1", "rain in spring"), one("M2", f"key {KEY}")]},
                "made": 2,
            },
            "step": 0,
        },
        {
            "memory": {
                "layers": {
                    "short": [one(MARKUP, MARKUP)],
                    MARKUP: [one("M1", "rain in spring", 62.345, -1)],
                },
                "made": 3,
            },
            "note": MARKUP,
        },
        {"plan": {"next": MARKUP}, "counts": [1, 2]},
        None,
    ]
    whole = read_episode(run, spec)
    replies = ['{"MSFT": "Bullish"}', '{"MSFT": "Bearish"}', "", '{"MSFT": "Neutral"}']
    talks = [
        replace(talk, exchanges=(asked(text),))
        for talk, text in zip(whole.talks, replies, strict=True)
    ]
    records = dataclasses.replace(whole, memories=memories, talks=talks)
    path = folder / "page.html"
    path.write_text(
        make_episode_page(records, PageSurroundings(), EnvironmentRedactor({"TALKER_API_KEY": KEY}))
    )

    return path


def open_day(session: Reader, page: Path, number: int, width: int, scheme: str) -> Any:
    ready = "document.querySelector('#part-memory') !== null"
    return session.open(
        f"{page.as_uri()}#day={number}", ready=ready, width=width, color_scheme=scheme
    )


def day(tab: Any, number: int) -> None:
    tab.evaluate(f"location.hash = '#day={number}'")
    wait_until(tab, f"document.querySelector('#said').textContent.startsWith('Day {number},')")


ROWS = (
    "[...document.querySelectorAll('#part-memory {} tbody tr')].map((row) =>"
    " [...row.children].map((cell) => cell.textContent))"
)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_memory_of_each_day_is_shown_as_text(
    session: Reader, page: Path, width: int, scheme: str
) -> None:
    tab = open_day(session, page, 0, width, scheme)
    first = tab.evaluate(ROWS.format(".scroll"))

    assert [row[:3] for row in first] == [
        ["short", "M1", "rain in spring"],
        ["short", "M2", "key [TALKER_API_KEY]"],
    ]
    assert [row[-1] for row in first] == ["new", "new"]

    day(tab, 1)
    rows = {row[1]: row for row in tab.evaluate(ROWS.format(".scroll"))}

    assert rows["M1"] == [
        SHOWN_MARKUP,
        "M1",
        "rain in spring",
        "62.35",
        "1",
        "−1",
        "",
        f"credited −1, short → {SHOWN_MARKUP}",
    ]
    assert rows["M2"][-1] == "gone"
    assert rows[SHOWN_MARKUP][:3] == ["short", SHOWN_MARKUP, SHOWN_MARKUP]
    assert tab.evaluate("document.querySelectorAll('#part-memory :is(img, b)').length") == 0
    assert tab.evaluate("document.title") != "owned"

    tab.evaluate(
        "document.querySelectorAll('#part-memory details').forEach((part) => { part.open = true; })"
    )
    wait_until(tab, "document.querySelectorAll('#part-memory details table').length === 1")

    assert SHOWN_MARKUP in tab.inner_text("#part-memory details:last-child")

    # all calls, not only those in sight
    tab.evaluate("document.documentElement.classList.add('laid-out')")
    assert not scrolls_sideways(tab)

    day(tab, 2)
    assert tab.evaluate("document.querySelector('#part-memory table')") is None
    assert SHOWN_MARKUP in tab.inner_text("#part-memory dl")

    press(tab, "m")
    day(tab, 3)

    assert tab.evaluate("document.querySelector('#part-memory')") is None

    press(tab, "m")


@pytest.mark.exhaustive
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_chart_of_a_stock_shows_decisions_positions_and_signals(
    session: Reader, page: Path, width: int, scheme: str
) -> None:
    tab = open_day(session, page, 1, width, scheme)
    press(tab, "c")
    wait_until(tab, "document.querySelector('#stock').open")

    assert "MSFT" in tab.inner_text("#stock-title")

    count = (
        "(document.querySelectorAll('#stock svg .mark.' + name)[1].getAttribute('d').match(/M/g) ||"
        " []).length"
    )
    marks = f"['rises', 'falls', 'stays', 'invalid'].map((name) => {count})"

    assert tab.evaluate(marks) == [1, 1, 1, 1]

    rows = tab.evaluate("[...document.querySelectorAll('#stock-body tbody')][0].innerText")
    assert "1 Bullish, 1 Bearish, 1 Neutral, 1 invalid" in rows
    assert SHOWN_MARKUP in rows

    orders = tab.evaluate("[...document.querySelectorAll('#stock-body a')].length")
    counts = tab.evaluate(
        "document.querySelector('#stock-body tbody td').textContent.match(/\\d+ (Buy|Sell)/g) || []"
    )

    assert sum(int(one.split()[0]) for one in counts) == orders
    assert "No prices are known" in tab.evaluate("document.querySelector('#stock svg').textContent")
    assert tab.evaluate(
        "document.querySelector('#stock').scrollWidth <="
        " document.querySelector('#stock').clientWidth"
    )
    assert tab.evaluate("document.querySelectorAll('#stock-body :is(img, b)').length") == 0
    assert tab.evaluate("document.title") != "owned"

    press(tab, "Escape")
    wait_until(tab, "!document.querySelector('#stock').open")
    tab.click("#stocks")
    wait_until(tab, "document.querySelector('#stock').open")


# ==== samples of a scoring task are walked, filtered by kind and outcome, searched, and shown whole


PLUGIN = str(SUPPORT / "qfinzero" / "qfinzero_suite_plugin.py")
TASK = "qfinzero_planning"


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Items of a model that never calls anything: right where it should refuse, failed
    elsewhere.
    """
    out = tmp_path_factory.mktemp("samples") / "run"
    words = [
        "--plugin",
        PLUGIN,
        "--model",
        "agent/silent",
        "--tasks",
        TASK,
        "--out",
        str(out),
        "--quiet",
    ]

    assert main(words) == 0
    assert main(["view", str(out), "--plugin", PLUGIN]) == 0

    (samples,) = pages(out / "view")

    return samples


def open_sample(session: Reader, samples: Path, address: str = "", **screen: Any) -> Any:
    return session.open(
        f"{samples.as_uri()}#{address}",
        ready="document.querySelector('#day-body')?.children.length > 0",
        **screen,
    )


def choose(tab: Any, selector: str, value: str) -> int:
    """Choose from a list; gives how many samples are left."""
    tab.evaluate(
        f"(() => {{ const box = document.querySelector('{selector}'); box.value = '{value}';"
        " box.dispatchEvent(new Event('input')); })()"
    )
    return int(tab.evaluate("document.querySelectorAll('#list li:not([hidden])').length"))


@pytest.mark.exhaustive
def test_a_sample_has_prompt_reply_expected_and_score(session: Reader, samples: Path) -> None:
    tab = open_sample(session, samples, "sample=3")
    assert tab.inner_text("#day-title").startswith("Sample 3 · ")

    parts = tab.evaluate(
        "[...document.querySelectorAll('#day-body h3')].map((part) => part.textContent)"
    )

    assert parts == ["Prompt", "Answer", "Expected", "Scores", "What was said"]

    shown = tab.inner_text("#day-body")

    for word in ("expected_steps", "reference_overall", "status", "Call 1"):
        assert word in shown

    assert len(tab.inner_text("#day-body blockquote")) > 40

    press(tab, "j")
    wait_until(tab, "document.querySelector('#day-title').textContent.startsWith('Sample 4')")

    assert tab.evaluate("location.hash") == "#sample=4"


@pytest.mark.exhaustive
def test_samples_are_chosen_by_outcome_kind_and_words(session: Reader, samples: Path) -> None:
    tab = open_sample(session, samples)
    everything = choose(tab, "#outcome", "")
    right = choose(tab, "#outcome", "right")
    failed = choose(tab, "#outcome", "failed")

    assert 0 < right < failed < everything == right + failed

    hard = choose(tab, "[data-kind=difficulty]", "hard")
    assert 0 < hard < failed
    assert tab.inner_text("#matches") == f"{hard} of {everything} samples"
    assert choose(tab, "#outcome", "right") < hard

    choose(tab, "[data-kind=difficulty]", "")
    choose(tab, "#outcome", "")
    choose(tab, "#search", "straddle")
    wait_until(tab, "document.querySelectorAll('#list li:not([hidden])').length < 125")

    assert tab.evaluate("document.querySelectorAll('#list li:not([hidden])').length") >= 0


@pytest.mark.exhaustive
@every_screen
def test_the_page_fits_its_screen(session: Reader, samples: Path, width: int, scheme: str) -> None:
    tab = open_sample(session, samples, "sample=0", width=width, color_scheme=scheme)
    assert page_troubles(tab) == []

    if width < 960:
        tab.click("#bar-day")
        wait_until(tab, "getComputedStyle(document.querySelector('#days')).position === 'fixed'")

    tab.click("#list li:nth-child(2) a")
    wait_until(tab, "document.querySelector('#day-title').textContent.startsWith('Sample 1')")
