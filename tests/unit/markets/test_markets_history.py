"""Table of the last bars: which bars, corrected for what, under which masks, and that nothing after the close is in it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_markets_task import market, state_of

from ktdeval.contracts import Window
from ktdeval.market import MarketSnapshot
from ktdeval.masking.identities import LeakGuard
from ktdeval.registry import load_plugins
from ktdeval.yamlio import load_yaml
from ktdeval_investorbench.params import TwinParams
from ktdeval_investorbench.twin import make_twin
from ktdeval_markets import task as task_module
from ktdeval_markets.task import MarketConfig, MarketTask
from market_scene import market_scene
from trading_market import make_market

ROW, SPLIT = 62, 60
COLUMNS = ["stock_id", "day", "open", "high", "low", "close", "volume"]


def scene_of(snapshot: MarketSnapshot, mask: str = "blinded", **options: Any) -> Any:
    plain = load_yaml(Path(task_module.__file__).parent / "markets.yaml")
    windows = {"w": {"first": str(snapshot.days[ROW]), "last": str(snapshot.days[-1])}}
    head = {"family": "m", "version": "1", "data_card": {}, "sources": [], "windows": windows, "default_windows": ["w"]}
    config = MarketConfig.load({**head, **plain["defaults"], "mask": mask, **options}, "mine")
    return market_scene(MarketTask("mine", config), snapshot, Window("w", **windows["w"]))


def shown(scene: Any, snapshot: MarketSnapshot, row: int = ROW) -> tuple[dict[str, list[list[Any]]], Any]:
    """Rows of the history and the row of the assets' table, by handle."""
    state = state_of(scene.observe(0, snapshot.as_of(row), None, None).user)
    assert state["history"]["columns"] == COLUMNS
    by_handle: dict[str, list[list[Any]]] = {}
    for handle, *rest in state["history"]["rows"]:
        by_handle.setdefault(handle, []).append(rest)
    return by_handle, {row[0]: dict(zip(state["candidates"]["columns"], row, strict=True)) for row in state["candidates"]["rows"]}


def splitting(days: int = 64) -> MarketSnapshot:
    """A share at 100 … 163 whose 2-for-1 split halves its price from row 60 on; row 61 is a holiday, and row 58 is recorded without
    a trade. A second share has closes alone.
    """
    bars = np.arange(100.0, 100 + days) / np.where(np.arange(days) < SPLIT, 1.0, 2.0)
    bars[61] = np.nan
    opens = np.column_stack([bars, np.full(days, np.nan)]).tolist()
    closes = np.column_stack([bars, np.full(days, 7.25)]).tolist()
    volume = np.column_stack([np.where(np.arange(days) < SPLIT, 500.0, 1000.0), np.full(days, np.nan)])
    volume[58, 0], volume[61, 0] = 0.0, np.nan
    factor = np.column_stack([np.where(np.arange(days) < SPLIT, 3.0, 6.0), np.ones(days)]).tolist()
    made = make_market(("600001.SH", "600002.SH"), opens, closes, volume=volume.tolist(), factor=factor)
    return dataclasses.replace(made, high=made.open, low=made.open)


def test_bars_are_the_last_ones_with_trade_in_shares_of_the_decisions_day() -> None:
    snapshot = splitting()
    bars, table = shown(scene_of(snapshot, "bright", history=5), snapshot)
    days = [str(day) for day in snapshot.days]
    # Rows 56, 57 and 59 stood at 156, 157 and 159 before each share became two; 58 saw no trade, and 61 was a holiday.
    expected = [(56, 78.0), (57, 78.5), (59, 79.5), (60, 80.0), (62, 81.0)]
    assert bars["600001.SH"] == [[days[row], *[price] * 4, 1000] for row, price in expected]
    assert bars["600001.SH"][-1][1:] == [table["600001.SH"][name] for name in COLUMNS[2:]]
    assert bars["600002.SH"] == [[day, None, None, None, 7.25, None] for day in days[58:63]]
    # On a day of rest, and before the split, the bars are those known so far.
    assert shown(scene_of(snapshot, "bright", history=1), snapshot, 61)[0]["600001.SH"] == [[days[60], 80, 80, 80, 80, 1000]]
    assert shown(scene_of(snapshot, "bright", history=1), snapshot, 59)[0]["600001.SH"] == [[days[59], 159, 159, 159, 159, 500]]
    assert len(shown(scene_of(snapshot, "bright", history=500), snapshot)[0]["600002.SH"]) == ROW + 1


@pytest.mark.parametrize(
    "options", [{}, {"rebase_prices": True}, {"noise_pct": 2.0}, {"noise_pct": 2.0, "rebase_prices": True}], ids=str
)
def test_masks_hold_and_bars_agree_with_the_assets_table_and_from_step_to_step(options: dict[str, Any]) -> None:
    snapshot = splitting()
    scene = scene_of(snapshot, history=20, **options)
    before, today = (shown(scene, snapshot, row) for row in (ROW - 2, ROW))
    (bars, table), (earlier, _) = today, before
    share, other = (scene.lens.asset_handle(asset) for asset in range(2))
    assert bars[share][-1][1:] == [table[share][name] for name in COLUMNS[2:]]
    assert [row[0] for row in bars[share]][-4:] == [scene.lens.day_handle(row) for row in (57, 59, 60, 62)]
    assert bars[share][:-1] == earlier[share][-19:], "days shown twice are shown alike"
    closes = {row[0]: row[4] for row in bars[share]}
    growth = closes[scene.lens.day_handle(62)] / closes[scene.lens.day_handle(60)]
    assert table[share]["return_1d_pct"] == pytest.approx(100 * growth - 100, abs=0.01), "a day of rest has no noise of its own"
    if options == {"rebase_prices": True}:
        assert closes[scene.lens.day_handle(60)] == 100, "last close known on day_+0, a day of rest"
        assert closes[scene.lens.day_handle(59)] == pytest.approx(100 * 79.5 / 80)
    changes = np.diff(np.log(list(closes.values())))
    assert np.abs(changes).max() < (0.1 if "noise_pct" in options else 0.02), "no jump at the split"
    assert bars[other][0][1] is None
    user = scene.observe(0, snapshot.as_of(ROW), None, None)
    LeakGuard(scene.lens, snapshot).check(user.system + user.user)
    assert "600001" not in user.user + user.system
    assert "1970" not in user.user


@pytest.mark.parametrize("mask", ["blinded", "bright"])
def test_nothing_after_the_close_changes_a_byte(mask: str) -> None:
    for row in (62, 65, 68):
        told = [scene_of(one, mask, history=60).observe(0, one.as_of(row), None, None) for one in (market(), market(row))]
        assert told[0] == told[1]
        assert '"history"' in told[0].user
    split, later = splitting(), splitting()
    later = dataclasses.replace(later, factor=np.where(np.arange(64)[:, None] > 62, 99.0, later.factor))
    told = [scene_of(one, mask, history=60).observe(0, one.as_of(62), None, None) for one in (split, later)]
    assert told[0] == told[1]


def test_it_is_an_option_that_changes_no_other_task_and_is_told_in_the_prompt() -> None:
    plugins, snapshot = load_plugins(), make_twin(TwinParams())
    base, more = (plugins.make_task(f"investorbench_msft{end}") for end in ("", "_history"))
    assert "history" not in base.describe()
    assert (more.describe()["history"], set(more.describe()["prompts"]) - set(base.describe()["prompts"])) == (
        60,
        {"prompts/history.md"},
    )
    described = {name: value for name, value in more.describe().items() if name not in ("history", "prompts", "name", "summary")}
    assert described == {name: value for name, value in base.describe().items() if name in described}
    window, row = Window("stock", "2020-10-02", "2021-05-05"), snapshot.day_index("2020-10-01")
    nothing: Any = SimpleNamespace(positions={})
    told = [market_scene(task, snapshot, window).observe(0, snapshot.as_of(row), nothing, None) for task in (base, more)]
    sentence = (Path(task_module.__file__).parent / "prompts" / "history.md").read_text().rstrip("\n")
    assert told[1].system.replace(sentence, "") == told[0].system
    state = state_of(told[1].user)
    assert len(state["history"]["rows"]) == 60
    assert {key: value for key, value in state.items() if key != "history"} == state_of(told[0].user)
    closes = snapshot.close[: row + 1, snapshot.asset_index["MSFT"]]
    assert [one[5] for one in state["history"]["rows"]] == pytest.approx(closes[np.isfinite(closes)][-60:], rel=1e-5)
    assert {tuple(one[2:5]) for one in state["history"]["rows"]} == {(None, None, None)}
