"""The six research tools: what they answer, and what they must not know."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

from ktdeval.attribution.factors import factor_values
from ktdeval.harness.tools import call
from ktdeval.market.snapshot import NameSpell
from ktdeval.masking.payload import AssetRef
from ktdeval.registry import load_plugins
from ktdeval.trading.types import Account, Position
from ktdeval_ktdfin.step import FACTOR_NAMES, MEASURE_NAMES, Step
from ktdeval_ktdfin.tools import Dim, SignedDim, research_tool
from ktdfin_market import rows, small_market, spec_of
from tables import on_each_row

MARKET = small_market()
TOOLS = {name: research_tool(name) for name in load_plugins().specs("tools")}
TASKS = {mask: load_plugins().make_task(f"{mask}_open_research") for mask in ("bright", "stock_blind", "date_blind", "blinded")}
ACCOUNT = Account(50_000_000, {4: Position(1200, 100), 0: Position(700), 5: Position(300)})
STEP = 4


def scene_of(mask: str, market: Any = MARKET, seed: int = 0) -> Any:
    return TASKS[mask].scene(spec_of(f"{mask}_open_research", mask, "open_research", seed), market)


def context_of(
    mask: str = "bright", market: Any = MARKET, step: int = STEP, account: Account = ACCOUNT, seed: int = 0
) -> tuple[Step, Any]:
    scene = scene_of(mask, market, seed)
    scene.lens.render([AssetRef(asset) for asset in range(len(market.codes))])
    return scene.tool_context(step, market.as_of(scene.lens.base_row + step), account), scene.lens


def ask(name: str, arguments: dict[str, Any], mask: str = "bright", market: Any = MARKET, step: int = STEP, seed: int = 0) -> Any:
    context, lens = context_of(mask, market, step, seed=seed)
    outcome = call(TOOLS[name], context, json.dumps(arguments), lens)
    assert outcome.failure is None, outcome
    return json.loads(lens.render_text(outcome.payload))


def test_the_six_tools_are_offered_in_open_research_only_with_the_attributions_factors_by_name() -> None:
    assert list(TASKS["blinded"].tools) == [
        "get_market_context", "screen_candidates", "get_stock_snapshot", "compare_candidates", "portfolio_state", "risk_check",
    ]  # fmt: skip
    assert load_plugins().make_task("blinded_fixed_candidate").tools == ()
    assert FACTOR_NAMES == ("MOM_12_1", "RV_60", "ILLIQ", "REV_ON", "MOM_ID", "SKEW", "CORR_PV", "HIGH_52W", "CV_VOL")
    assert get_args(Dim) == (*FACTOR_NAMES, *MEASURE_NAMES)
    assert get_args(SignedDim) == (*get_args(Dim), *(f"-{name}" for name in get_args(Dim)))


def test_a_screen_ranks_by_the_factor_and_shows_it_only_buyable_names_and_at_most_the_tasks() -> None:
    context, _ = context_of()
    values = np.where(context.candidates, context.dims["MOM_12_1"], np.nan)
    best = np.argsort(-values)[:5]
    shown = rows(ask("screen_candidates", {"factors": ["MOM_12_1"], "k": 5})["candidates"])
    assert [row["stock_id"] for row in shown] == [MARKET.codes[asset] for asset in best]
    assert [row["MOM_12_1"] for row in shown] == [pytest.approx(values[asset], rel=1e-3) for asset in best]
    assert shown[0]["score"] == 1
    lowest = [row["RV_60"] for row in rows(ask("screen_candidates", {"factors": ["-RV_60"], "k": 10})["candidates"])]
    assert lowest == sorted(lowest), "a leading minus ranks the lowest first"
    result = ask("screen_candidates", {"factors": ["SKEW"], "k": 100})
    assert len(result["candidates"]["rows"]) == 30
    assert result["ranked_of"] == (context.candidates & np.isfinite(context.dims["SKEW"])).sum()
    assert {row["status"] for row in rows(result["candidates"])} <= {"trading", "limit_down"}


def test_several_factors_are_combined_by_mean_percentile_rank() -> None:
    context, _ = context_of()
    pool = context.candidates & np.isfinite(context.dims["MOM_12_1"]) & np.isfinite(context.dims["RV_60"])
    count = pool.sum() - 1
    ranks = [
        np.array([(values[pool] < value).sum() for value in values]) / count
        for values in (context.dims["MOM_12_1"], -context.dims["RV_60"])
    ]
    score = np.where(pool, (ranks[0] + ranks[1]) / 2, -1)
    shown = rows(ask("screen_candidates", {"factors": ["MOM_12_1", "-RV_60"], "k": 3})["candidates"])
    assert [row["score"] for row in shown] == [pytest.approx(value, rel=5e-3) for value in np.sort(score)[::-1][:3]]


def test_ties_in_a_screen_are_broken_by_figures_and_not_by_labels() -> None:
    # All returns of a day alike: the one-day return ties everywhere, and the other factors must decide.
    row = scene_of("bright").lens.base_row + STEP
    close = MARKET.close.copy()
    close[row], close[row - 1] = close[row - 2] * MARKET.factor[row - 2] / MARKET.factor[row], close[row - 2]
    tied = replace(MARKET, close=close)
    orders = []
    for mask, seed in (("bright", 0), ("bright", 1), ("blinded", 2)):
        lens = context_of(mask, tied, seed=seed)[1]
        shown = rows(ask("screen_candidates", {"factors": ["return_1d_pct"], "k": 12}, mask, tied, seed=seed)["candidates"])
        orders.append([lens.parse_asset(row["stock_id"]) for row in shown])
    assert orders[0] == orders[1] == orders[2]


def test_a_snapshot_shows_bars_up_to_today_with_adjusted_returns() -> None:
    context, lens = context_of(step=12)
    split = int(np.flatnonzero(np.diff(MARKET.factor[:, 3]))[0]) + 1
    lookback = context.view.day - split + 3
    result = ask("get_stock_snapshot", {"stock_id": MARKET.codes[3], "lookback": min(lookback, 120)}, step=12)
    bars = rows(result["bars"])
    assert bars[-1]["day"] == lens.day_handle(context.view.day)
    after = next(bar for bar in bars if bar["day"] == str(MARKET.days[split]))
    assert abs(after["return_pct"]) < 21  # a two-for-one split halves the price, but is no loss
    assert result["factors"]["RV_60"] == pytest.approx(factor_values(context.view).values["RV_60"][3] * 100, rel=1e-3)
    assert result["next_open_limits"]["no_buy_from_cny"] > result["last_close_cny"] > result["next_open_limits"]["no_sell_from_cny"]


def test_a_snapshot_leaves_out_days_without_a_bar_and_has_nothing_of_a_name_that_is_not_yet_listed() -> None:
    base = scene_of("bright").lens.base_row
    row = next(day for day in range(base, len(MARKET.days)) if np.isnan(MARKET.close[day, 5]))
    result = ask("get_stock_snapshot", {"stock_id": MARKET.codes[5], "lookback": 20}, step=row - base)
    assert result["status"] == "suspended"
    assert len(result["bars"]["rows"]) == np.isfinite(MARKET.close[row - 19 : row + 1, 5]).sum()
    absent = np.arange(len(MARKET.codes)) == 7
    bars = ("open", "high", "low", "close", "volume", "amount")
    market = replace(MARKET, **{name: np.where(absent, np.nan, getattr(MARKET, name)) for name in bars})
    result = ask("get_stock_snapshot", {"stock_id": MARKET.codes[7]}, market=market)
    assert (result["status"], result["bars"]["rows"], result["last_close_cny"]) == ("not_listed", [], None)
    assert set(result["factors"].values()) == {None}
    before, after = (ask("get_market_context", {}, market=each)["breadth"] for each in (MARKET, market))
    assert MARKET.member[scene_of("bright").lens.base_row, 7]
    assert after["suspended"] == before["suspended"], "a member without any data is not suspended"


@pytest.mark.parametrize("mask", ["bright", "date_blind", "blinded"])
def test_a_name_of_a_later_day_is_shown_by_no_mask(mask: str) -> None:
    base, code = scene_of("bright").lens.base_row, MARKET.codes[3]
    changed = str(MARKET.days[base + 2])
    before = str(MARKET.days[base + 1])
    spells = (
        NameSpell(code, "2000-01-01", before, "Old Name", "609999.SH"),
        NameSpell(code, changed, "2100-01-01", "New Name", code),
    )
    shown = []
    for step in (0, 2):
        scene = scene_of(mask, replace(MARKET, spells=spells))
        scene.lens.move_to(base + step)
        handle = scene.lens.asset_handle(3)
        result = ask("get_stock_snapshot", {"stock_id": handle}, mask, step=step, market=replace(MARKET, spells=spells))
        shown.append((result["stock_id"], result["name"]))
    expected = [("609999.SH", "Old Name"), (code, "New Name")]
    assert shown == (expected if mask != "blinded" else [(handle, None)] * 2)


def test_compare_keeps_the_order_given_and_drops_repetitions() -> None:
    codes = [MARKET.codes[9], MARKET.codes[2], MARKET.codes[9]]
    grid = ask("compare_candidates", {"stock_ids": codes, "dims": ["SKEW", "return_5d_pct"]})["grid"]
    assert grid["columns"] == ["stock_id", "status", "close_cny", "SKEW", "return_5d_pct"]
    assert [row[0] for row in grid["rows"]] == codes[:2]


def test_market_context_hides_dates_index_levels_and_names_where_the_mask_does() -> None:
    bright, blinded = ask("get_market_context", {}), ask("get_market_context", {}, "blinded")
    assert rows(bright["indices"])[1]["index"] == "Orbex Small"
    assert rows(blinded["indices"])[1]["index"] == "index_1"
    assert blinded["calendar"]["last_trading_days"] == ["day_+0", "day_+1", "day_+2", "day_+3", "day_+4"]
    assert abs(rows(blinded["indices"])[0]["level"] - 100) < 50 < 1000 < rows(bright["indices"])[0]["level"]
    assert rows(blinded["sectors"]["strongest_20d"])[0]["sector"].startswith("sector_")
    breadth = bright["breadth"]
    assert breadth["advancing"] + breadth["declining"] <= breadth["members"] - breadth["suspended"]


@on_each_row
def test_bad_arguments_come_back_as_feedback(name: str, arguments: dict[str, Any], failure: str) -> None:
    context, lens = context_of("blinded")
    assert call(TOOLS[name], context, json.dumps(arguments).replace("HANDLE", lens.asset_handle(0)), lens).failure == failure


@on_each_row
def test_a_handle_that_was_never_shown_is_as_unknown_as_one_that_does_not_exist(name: str, arguments: dict[str, Any]) -> None:
    scene, text = scene_of("blinded"), json.dumps(arguments)
    context = scene.tool_context(STEP, MARKET.as_of(scene.lens.base_row + STEP), ACCOUNT)
    handles = (scene_of("blinded").lens.asset_handle(7), "asset_x")
    hidden, nobody = (call(TOOLS[name], context, text.replace("HANDLE", handle), scene.lens) for handle in handles)
    assert hidden == nobody
    assert hidden.failure == "unknown_asset"


def test_what_is_numbered_or_listed_does_not_follow_codes() -> None:
    """Over seeds, each place in a list of indices, sectors or candidates falls to each of them."""
    market = replace(
        MARKET, indices={f"{code:06d}.SH": next(iter(MARKET.indices.values())) for code in (16, 300, 852, 905)} | MARKET.indices
    )
    labels, firsts = set(), set()
    for seed in range(24):
        context, lens = context_of("blinded", market, seed=seed)
        indices = [code for code in lens.indices if code != market.meta.benchmark]
        table = rows(json.loads(lens.render_text(TOOLS["get_market_context"].function(context)))["indices"])
        assert [row["index"] for row in table] == ["benchmark", *(f"index_{n}" for n in range(1, len(indices) + 1))]
        labels.add(indices[0])
        firsts.add(context.stage.sectors[0])
    assert len(labels) == len(market.indices) - 1
    assert len(firsts) > 3
