"""The page of a scoring task in a real browser: samples are walked, filtered by kind and outcome, searched, and shown whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("aiohttp")

from chromium import needs_browser
from ktdeval.cli.main import main
from paths import SUPPORT
from view_browser import Browser, Tab
from view_page import pages

pytestmark = needs_browser

PLUGIN, TASK = str(SUPPORT / "qfinzero_suite_plugin.py"), "qfinzero_planning"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Items of a model that never calls anything: right where it should refuse, failed elsewhere."""
    out = tmp_path_factory.mktemp("samples") / "run"
    words = ["--plugin", PLUGIN, "--model", "agent/silent", "--tasks", TASK, "--out", str(out), "--quiet"]
    assert main(words) == 0
    assert main(["view", str(out), "--plugin", PLUGIN]) == 0
    (page,) = pages(out / "view")
    return page


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


def open_sample(browser: Browser, page: Path, place: str = "", **screen: int) -> Tab:
    tab = browser.open(f"{page.as_uri()}#{place}", **screen)
    tab.wait_for("document.querySelector('#day-body')?.children.length > 0")
    return tab


def choose(tab: Tab, selector: str, value: str) -> int:
    """Choose from a list; gives how many samples are left."""
    tab.value(f"(() => {{ const box = document.querySelector('{selector}'); box.value = '{value}';"
              " box.dispatchEvent(new Event('input')); })()")  # fmt: skip
    return int(tab.value("document.querySelectorAll('#list li:not([hidden])').length"))


def test_a_sample_has_prompt_reply_expected_and_score(browser: Browser, page: Path) -> None:
    tab = open_sample(browser, page, "sample=3")
    assert tab.text("#day-title").startswith("Sample 3 · ")
    parts = tab.value("[...document.querySelectorAll('#day-body h3')].map((part) => part.textContent)")
    assert parts == ["Prompt", "Answer", "Expected", "Scores", "What was said"]
    shown = tab.text("#day-body")
    for word in ("expected_steps", "reference_overall", "status", "Call 1"):
        assert word in shown
    assert len(tab.text("#day-body blockquote")) > 40
    tab.press("j")
    tab.wait_for("document.querySelector('#day-title').textContent.startsWith('Sample 4')")
    assert tab.value("location.hash") == "#sample=4"
    assert tab.troubles() == []


def test_samples_are_chosen_by_outcome_kind_and_words(browser: Browser, page: Path) -> None:
    tab = open_sample(browser, page)
    everything = choose(tab, "#outcome", "")
    right, failed = choose(tab, "#outcome", "right"), choose(tab, "#outcome", "failed")
    assert 0 < right < failed < everything == right + failed
    hard = choose(tab, "[data-kind=difficulty]", "hard")
    assert 0 < hard < failed
    assert tab.text("#matches") == f"{hard} of {everything} samples"
    assert choose(tab, "#outcome", "right") < hard
    choose(tab, "[data-kind=difficulty]", "")
    choose(tab, "#outcome", "")
    choose(tab, "#search", "straddle")
    tab.wait_for("document.querySelectorAll('#list li:not([hidden])').length < 125")
    assert tab.value("document.querySelectorAll('#list li:not([hidden])').length") >= 0


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_its_screen(browser: Browser, page: Path, width: int) -> None:
    tab = open_sample(browser, page, "sample=0", width=width)
    assert tab.value("document.documentElement.scrollWidth <= innerWidth")
    if width < 960:
        tab.click("#bar-day")
        tab.wait_for("getComputedStyle(document.querySelector('#days')).position === 'fixed'")
    tab.click("#list li:nth-child(2) a")
    tab.wait_for("document.querySelector('#day-title').textContent.startsWith('Sample 1')")
    assert tab.troubles() == []
