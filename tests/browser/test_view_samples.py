"""The page of a scoring task in a real browser: samples are walked, filtered by kind and outcome, searched, and shown whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from browser_pages import Reader, needs_browser, press, wait_until
from ktdeval.cli.main import main
from paths import SUPPORT
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


def open_sample(session: Reader, page: Path, address: str = "", **screen: int) -> Any:
    return session.open(f"{page.as_uri()}#{address}", ready="document.querySelector('#day-body')?.children.length > 0", **screen)


def choose(tab: Any, selector: str, value: str) -> int:
    """Choose from a list; gives how many samples are left."""
    tab.evaluate(f"(() => {{ const box = document.querySelector('{selector}'); box.value = '{value}';"
              " box.dispatchEvent(new Event('input')); })()")  # fmt: skip
    return int(tab.evaluate("document.querySelectorAll('#list li:not([hidden])').length"))


def test_a_sample_has_prompt_reply_expected_and_score(session: Reader, page: Path) -> None:
    tab = open_sample(session, page, "sample=3")
    assert tab.inner_text("#day-title").startswith("Sample 3 · ")
    parts = tab.evaluate("[...document.querySelectorAll('#day-body h3')].map((part) => part.textContent)")
    assert parts == ["Prompt", "Answer", "Expected", "Scores", "What was said"]
    shown = tab.inner_text("#day-body")
    for word in ("expected_steps", "reference_overall", "status", "Call 1"):
        assert word in shown
    assert len(tab.inner_text("#day-body blockquote")) > 40
    press(tab, "j")
    wait_until(tab, "document.querySelector('#day-title').textContent.startsWith('Sample 4')")
    assert tab.evaluate("location.hash") == "#sample=4"


def test_samples_are_chosen_by_outcome_kind_and_words(session: Reader, page: Path) -> None:
    tab = open_sample(session, page)
    everything = choose(tab, "#outcome", "")
    right, failed = choose(tab, "#outcome", "right"), choose(tab, "#outcome", "failed")
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


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_its_screen(session: Reader, page: Path, width: int) -> None:
    tab = open_sample(session, page, "sample=0", width=width)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if width < 960:
        tab.click("#bar-day")
        wait_until(tab, "getComputedStyle(document.querySelector('#days')).position === 'fixed'")
    tab.click("#list li:nth-child(2) a")
    wait_until(tab, "document.querySelector('#day-title').textContent.startsWith('Sample 1')")
