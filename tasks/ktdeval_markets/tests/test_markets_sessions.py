"""Figures over n days cover the asset's own sessions, in each task family with an assets table, on
markets with several calendars; each is checked against pandas on that asset's bars only.
"""

from __future__ import annotations

import re
from functools import cache
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from ktdeval.market import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.task_api import Window
from ktdeval.testing import not_empty, scene_on
from support.market.mixed_market import mixed_market, of_each, own_bars, week_of
from support.tasks.markets_scenes import scene_from

PLUGINS = load_plugins()
EMPTY: Any = SimpleNamespace(positions={})
COINS = ("BTC", "ETH")
THREE = of_each({"us_equity": 3, "asia": 3, "crypto_spot": 3})
FIGURE = re.compile(r"(return|volatility|drawdown)_[0-9]+d_pct")
SHOWN = 5e-4  # relative: a figure has four significant digits


def tasks_with_assets() -> list[str]:
    """The first task on any market of each family that shows figures as they are."""
    found = {}
    for name in sorted(PLUGINS.specs("tasks")):
        task = PLUGINS.make_task(name)
        rules = task.describe()
        is_coarse = bool(rules.get("round_digits") or rules.get("noise_pct"))
        if rules.get("mode") == "market" and "shown" in rules and not is_coarse:
            found.setdefault(rules["family"], name)

    return list(found.values())


@cache
def market_with(assets: tuple[str, ...]) -> MarketSnapshot:
    """A market of three calendars with these assets."""
    own = {code: "crypto_spot" if code in COINS else "us_equity" for code in assets}
    return mixed_market({**own, **THREE})


@cache
def expected(assets: tuple[str, ...], asset: int) -> pd.DataFrame:
    """Figures of the table by pandas, on the bars of the asset alone: a row for each day of the
    market, with the figures of the asset's last session.
    """
    market = market_with(assets)
    closes = own_bars(market, asset, len(market.days) - 1)["adjusted"]
    moves = closes.pct_change()
    figures = {f"return_{days}d_pct": closes.pct_change(days) for days in (1, 5, 20, 60)}
    figures["volatility_20d_pct"] = moves.rolling(20).std()
    figures["drawdown_60d_pct"] = closes / closes.rolling(60).max() - 1.0
    return 100.0 * pd.DataFrame(figures).reindex(market.days).ffill()


@pytest.mark.parametrize("name", tasks_with_assets())
def test_every_figure_over_days_is_over_the_sessions_of_its_asset(name: str) -> None:
    task = PLUGINS.make_task(name)
    assets = tuple(task.describe()["assets"] or ())
    market = market_with(assets)
    rows = week_of(market)
    scene = scene_on(task, market, Window("w", str(market.days[rows[0]]), str(market.days[-1])))
    compared = set()
    for step, row in enumerate(rows):
        state = scene.observe(step, market.as_of(row), EMPTY, None).state
        for label, shown in not_empty(state.candidates.items()):
            asset = scene.lens.parse_asset(label)
            for column in filter(FIGURE.fullmatch, shown.cells):
                truth = expected(assets, asset)[column].iloc[row]
                where = f"{market.codes[asset]} {market.days[row]} {column}"
                assert shown.cells[column] == pytest.approx(truth, rel=SHOWN, abs=1e-4), where
                compared.add(column)

    assert len(compared) == 6


def test_a_closed_day_has_the_figures_of_its_last_session() -> None:
    market = market_with(())
    stock = market.asset_index["ZU00"]
    saturday = next(
        row for row in week_of(market) if pd.Timestamp(market.days[row]).day_name() == "Saturday"
    )
    scene = scene_from(saturday - 1, market, "bright")
    shown = []
    for row in (saturday - 1, saturday):
        candidates = scene.observe(0, market.as_of(row), EMPTY, None).state.candidates
        shown.append(candidates[market.codes[stock]].cells)

    friday, weekend = shown
    assert (friday["status"], weekend["status"]) == ("trading", "closed")
    figures = list(filter(FIGURE.fullmatch, friday))
    assert [friday[name] for name in figures] == [weekend[name] for name in figures]
    assert weekend["last_close"] == friday["close"]
