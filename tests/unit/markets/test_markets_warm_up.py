"""Lessons of a warm-up: each day with what came after it, with the right sign or the opposite one, and nothing later."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest

from ktdeval.contracts import HasLessons, Window
from ktdeval.errors import ConfigError, DataError
from ktdeval.harness import shown_state, table_rows
from ktdeval.market import Instrument, MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval_markets.task import MarketConfig, MarketTask
from market_scene import market_scene
from tables import on_each_row
from trading_market import make_market

PLUGINS = load_plugins()
CODES = ("ADA", "BTC")
#: Of the second asset: up, down, none, from 99 to 108.9 over it, as it was; then the base day and days that nobody may see.
PRICES = [[10, 100], [11, 110], [11, 99], [11, None], [12, 108.9], [6, 108.9], [7, 100], [70, 1000], [1, 5]]
WINDOW = Window("w", "2024-01-08", "2024-01-09")  # decided on from 2024-01-07


def market(prices: Any = PRICES, **changes: Any) -> MarketSnapshot:
    coins = (Instrument("crypto", "USD", "crypto_spot"),) * 2
    made = make_market(CODES, prices, instruments=coins, volume=[[1.0, 1.0]] * len(prices), first="2024-01-01", **changes)
    return dataclasses.replace(made, meta=dataclasses.replace(made.meta, benchmark=""), indices={}, index_names={})


def task_of(**changes: Any) -> MarketTask:
    made = PLUGINS.make_task("market_blinded")
    assert isinstance(made, MarketTask)
    dates = {"w": {"first": WINDOW.first, "last": WINDOW.last}}
    plain = {**made.describe(), "windows": dates, "default_windows": ["w"], "warm_up": {"w": "2024-01-01"}, **changes}
    for name in ("name", "mode", "venue_rules", "prompts"):
        plain.pop(name)
    return MarketTask("t", MarketConfig.load(plain, "t"))


def lessons(snapshot: MarketSnapshot, window: Window = WINDOW, seed: int = 0, **changes: Any) -> list[Any]:
    """The lessons of a task as (day, rows of outcomes by asset, whole text), assets by their true codes."""
    made = task_of(**changes)
    scene = market_scene(made, snapshot, window, seed)
    assert isinstance(scene, HasLessons)
    assert not scene.lens.shown  # an agent that does not ask for them is shown nothing
    days = list(scene.lessons(snapshot.as_of(6)))
    handles = {scene.lens.asset_handle(column): code for column, code in enumerate(snapshot.codes)}
    return [
        (lesson.day, {handles[row["stock_id"]]: (row["next_day"], row["change_pct"], row["label"])
                   for row in table_rows(shown_state(lesson.text)["outcomes"])}, lesson.text)
        for lesson in days
    ]  # fmt: skip


def test_each_day_has_the_next_price_of_each_asset_and_days_without_one_are_skipped() -> None:
    by_day = [(day, outcomes) for day, outcomes, _ in lessons(market(), assets=["BTC"])]
    assert by_day == [
        ("day_-6", {"BTC": ("day_-5", 10.0, "BUY")}),
        ("day_-5", {"BTC": ("day_-4", -10.0, "SELL")}),
        ("day_-4", {"BTC": ("day_-2", 10.0, "BUY")}),  # 108.9 of 99, over a day without a price
        ("day_-2", {"BTC": ("day_-1", 0.0, "HOLD")}),
        ("day_-1", {"BTC": ("day_+0", pytest.approx(-8.172, abs=1e-3), "SELL")}),
    ]
    both = lessons(market())
    assert [sorted(outcomes) for _, outcomes, _ in both] == [["ADA", "BTC"]] * 3 + [["ADA"]] + [["ADA", "BTC"]] * 2
    assert [outcomes["ADA"][2] for _, outcomes, _ in both] == ["BUY", "HOLD", "HOLD", "BUY", "SELL", "BUY"]


def test_inverted_labels_fall_on_the_days_before_the_opposite_move() -> None:
    right, inverted = lessons(market(), assets=["BTC"]), lessons(market(), assets=["BTC"], labels="inverted")
    opposite = {"BUY": "SELL", "SELL": "BUY", "HOLD": "HOLD"}
    for (day, own, text), (other_day, other, other_text) in zip(right, inverted, strict=True):
        assert day == other_day
        assert other["BTC"][2] == opposite[own["BTC"][2]]
        assert (1 + own["BTC"][1] / 100) * (1 + other["BTC"][1] / 100) == pytest.approx(1, abs=1e-4)  # p_t / p_t+1 - 1
        assert text.partition('"outcomes"')[0] == other_text.partition('"outcomes"')[0]  # nothing else differs


def test_nothing_after_the_first_step_is_shown_and_a_warm_up_begins_on_its_day() -> None:
    poisoned = [*PRICES[:7], [9999, 9999], [8888, 8888]]
    assert lessons(market()) == lessons(market(poisoned))
    later = lessons(market(), warm_up={"w": "2024-01-04"})
    assert [day for day, *_ in later] == ["day_-3", "day_-2", "day_-1"]
    assert lessons(market(), Window("other", WINDOW.first, WINDOW.last)) == []  # a window that has none
    with pytest.raises(DataError, match=r"^the warm-up begins 2023-12-30, tiny on 2024-01-01; import earlier days$"):
        lessons(market(), warm_up={"w": "2023-12-30"})


def test_a_split_is_no_move_and_the_mask_holds() -> None:
    split = [[10, 100], [5, 100], [5, 100], [5, 100], [5, 100], [5, 100], [5, 100], [5, 100], [5, 100]]
    factor = [[1.0, 1.0], *([[2.0, 1.0]] * 8)]
    assert {outcomes["ADA"][1:] for _, outcomes, _ in lessons(market(split, factor=factor))} == {(0.0, "HOLD")}
    for mask, hidden in (("blinded", (*CODES, "2024")), ("stock_blind", CODES), ("date_blind", ("2024",))):
        for day, _, text in lessons(market(), mask=mask):
            assert not re.search("|".join(hidden), day + text), mask
    day, outcomes, text = lessons(market(), mask="bright")[0]
    assert (day, outcomes["BTC"][0]) == ("2024-01-01", "2024-01-02")
    assert '"BTC"' in text
    rebased = lessons(market(), rebase_prices=True)  # returns stay what they are
    assert [outcomes for _, outcomes, _ in rebased] == [outcomes for _, outcomes, _ in lessons(market())]


@on_each_row
def test_what_agrees_with_no_window_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(problem)}"):
        task_of(**changes)


def test_a_task_without_a_warm_up_says_nothing_of_one_in_its_config() -> None:
    assert not {"warm_up", "labels"} & PLUGINS.make_task("market_blinded").describe().keys()
    told = json.loads(json.dumps(PLUGINS.make_task("investorbench_btc_inverted_labels").describe()))
    assert (told["warm_up"]["crypto"], told["labels"]) == ("2023-02-11", "inverted")
    assert "prompts/lesson.md" in told["prompts"]
