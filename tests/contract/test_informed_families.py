"""`benchmarks/informed_families.py`: whom it attacks, and how its trader chooses what to hold."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from ktdeval.registry import load_plugins
from ktdeval.task_api.scoring import is_scoring
from support.docs.docs_masks import FAMILIES, KTDFIN, SHOWN, percent, read_rows
from support.figures.metric_cases import market
from support.paths import REPOSITORY

pytestmark = pytest.mark.needs("ktdeval_arena", "ktdeval_investorbench", "ktdeval_markets")


@pytest.fixture(scope="module")
def families() -> Iterator[ModuleType]:
    """The script, with its trader."""
    yield from imported("informed_families")


@pytest.fixture(scope="module")
def markets() -> Iterator[ModuleType]:
    """Which tasks it attacks on which markets."""
    yield from imported("family_markets")


def imported(name: str) -> Iterator[ModuleType]:
    sys.path.insert(0, str(REPOSITORY / "benchmarks"))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(REPOSITORY / "benchmarks"))


def test_every_masked_task_of_any_market_has_its_row(markets: ModuleType) -> None:
    measured = {row["task"] for row in read_rows(FAMILIES)}

    assert set(markets.masked_tasks()) <= measured
    assert measured == {run.name for run in markets.runs()}
    assert set(SHOWN) <= measured


@pytest.mark.needs("ktdeval_ktdfin")
def test_no_masked_trading_task_of_the_registry_is_forgotten() -> None:
    plugins = load_plugins()
    masked = set()
    for name in plugins.specs("tasks"):
        task = plugins.make_task(name)
        if not is_scoring(task) and task.mask != "bright":
            masked.add(name)

    measured = {row["task"] for file in (FAMILIES, KTDFIN) for row in read_rows(file)}
    assert masked - measured == set()


def test_each_row_has_three_traders_enough_episodes_and_a_mean_below_its_bound(
    markets: ModuleType,
) -> None:
    rows = read_rows(FAMILIES)
    informed = [row for row in rows if row["trader"] == "informed"]

    assert len(rows) == 3 * len(informed) == 3 * len(markets.runs())
    for row in informed:
        assert int(row["episodes"]) >= 5 or "whole window" in row["task"], row
        assert float(row["mean_pct"]) <= float(row["at_most_pct"]) + 0.05, row


def test_the_page_says_how_often_the_day_was_found() -> None:
    hidden, found, tasks = 0, 0, set()
    for row in read_rows(FAMILIES):
        tasks.add((row["task"], row["market"]))
        if row["trader"] != "informed":
            continue
        assert row["labels_named"] == row["labels"]
        assert int(row["latest_step"]) <= 2
        if "stock_blind" not in row["task"]:
            hidden += int(row["episodes"])
            found += int(row["days_found"])

    assert hidden == found
    page = " ".join((REPOSITORY / "docs/masks.md").read_text(encoding="utf-8").split())
    assert f"The day was found in all {found} episodes that hide it." in page
    assert f"and some variants, {len(tasks)} in all, are in" in page


def test_growth_is_from_the_next_fill_to_the_one_after_it(families: ModuleType) -> None:
    # one asset: opens 10, 11, none, 22, 33; closes 10, 20, none, 30, 60
    bars = market()
    opens, closes = np.full_like(bars.open, np.nan), np.full_like(bars.close, np.nan)
    opens[:5, 0] = [10, 11, np.nan, 22, 33]
    closes[:5, 0] = [10, 20, np.nan, 30, 60]
    ones = np.ones_like(bars.close)
    history = families.PriceHistory(replace(bars, open=opens, close=closes, factor=ones))

    # decided on day 0: bought at 11, the next order fills at 22
    assert history.growth("next_open")[0, 0] == 2.0
    assert history.growth("next_open")[1, 0] == 1.5
    assert history.growth("same_close")[0, 0] == 2.0
    assert history.growth("same_close")[1, 0] == 1.5  # the day without a bar is passed over
    assert history.growth("next_close")[0, 0] == 1.5
    assert np.isnan(history.growth("next_open")[3, 0])


def test_weights_go_to_what_earns_most_and_shorts_take_their_margin(families: ModuleType) -> None:
    rises = {"a": 0.05, "b": 0.03, "c": 0.02, "d": -0.04}
    gains = {label: abs(rise) for label, rise in rises.items()}

    long_only = families._best_weights(rises, gains, 0.5, None)
    assert long_only == {"a": 0.5, "b": 0.5}  # 4 % of the NAV

    # half of a short of 0.5 and 5 % of the NAV stay in cash: 0.7 for longs;
    # 0.02 + 0.025 + 0.006 = 5.1 % instead of 4 %
    both = families._best_weights(rises, gains, 0.5, 0.5)
    assert both == pytest.approx({"d": -0.5, "a": 0.5, "b": 0.2})


def test_calendar_months_cover_a_period_once(markets: ModuleType) -> None:
    spans = [(window.first, window.last) for window in markets.months("2025-01-10", "2025-03-05")]

    assert spans == [
        ("2025-01-10", "2025-01-31"),
        ("2025-02-01", "2025-02-28"),
        ("2025-03-01", "2025-03-05"),
    ]


def test_figures_of_the_page_are_signed_and_lose_their_decimals_from_a_hundred_on() -> None:
    assert percent(3.24, -1.26, 7.74) == "+3.2 % (−1.3 … +7.7)"
    assert percent(1358.7) == "+1,359 %"
    assert percent(325.8, 214.5, 437.1) == "+326 % (+214 … +437)"
    assert percent(0.0, 0.0, 0.0) == "0.0 %"
