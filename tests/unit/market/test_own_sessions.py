"""Sessions of an asset's own calendar on a market of several, and what counts them: liquidity, price
limits of new listings, regimes, panels, returns that an audit knows, facts, training.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest

from ktdeval.errors import DataError
from ktdeval.market import (
    Instrument,
    MarketSnapshot,
    Quotes,
    bar_rows,
    find_venue,
    session_groups,
    sessions,
)
from ktdeval.market.rules.board_rules import daily_limits
from ktdeval.market.snapshots.vendor_price_limits import PriceLimits
from ktdeval.testing import not_empty
from ktdeval.trading.execution_costs import (
    trailing_half_spread_ppb,
    trailing_sigma_ppb,
    trailing_volume,
)
from ktdeval_audit.later_prices import LaterPrices
from ktdeval_compare.cells.regimes import RULES, regime_of
from ktdeval_models.params import MemoryParams
from ktdeval_models.planted.facts import _returns
from ktdeval_models.remembered_facts import RememberedFacts
from ktdeval_qlib.samples import SegmentDays, Segments, make_split
from ktdeval_raw_markets.daily_panels import panels_of
from ktdeval_raw_markets.stylised_facts import stylised_facts
from support.market.mixed_market import mixed_market, of_each, own_bars, week_of

MARKET = mixed_market(of_each({"us_equity": 3, "asia": 3, "crypto_spot": 3}))
DAYS = pd.DatetimeIndex(MARKET.days)
SESSIONS = [
    len(sessions(MARKET.days[0], MARKET.days[-1], name)) for name in ("24/7", "XNYS", "XSHG")
]
#: assets that were never suspended
PLAIN = [asset for asset, code in enumerate(MARKET.codes) if not code.endswith("01")]


def test_a_group_has_the_days_on_which_one_of_its_assets_trades() -> None:
    groups = session_groups(MARKET)
    assert [len(MARKET.days[group.rows]) for group in groups] == SESSIONS

    for group in groups:
        venues = set(np.array(MARKET.venues)[group.columns])
        closes = group.of(MARKET.close)
        before = group.sessions_before(range(len(MARKET.days) + 1))
        assert len(venues) == 1
        assert np.isfinite(closes).any(axis=1).all()
        # one of its assets was suspended
        assert not np.isfinite(closes).all()
        assert (before[0], before[-1]) == (0, len(closes))
        assert np.flatnonzero(np.diff(before)).tolist() == np.arange(len(DAYS))[group.rows].tolist()


@pytest.mark.parametrize("window", [5, 20])
def test_volatility_and_volume_are_of_the_sessions_before_the_day(window: int) -> None:
    sigma = trailing_sigma_ppb(MARKET, window)
    volume = trailing_volume(MARKET, window)
    for row in not_empty(week_of(MARKET)):
        for asset in not_empty(PLAIN):
            bars = own_bars(MARKET, asset, row - 1)
            deviation = bars["adjusted"].pct_change().tail(window).std()
            in_todays_shares = bars["volume"] / bars["factor"] * MARKET.factor[row, asset]
            mean = in_todays_shares.tail(window).mean()
            where = f"{MARKET.codes[asset]} {MARKET.days[row]}"
            assert sigma[row, asset] == pytest.approx(deviation * 1e9, rel=1e-5), where
            assert volume[row, asset] == pytest.approx(mean, rel=1e-12), where


def test_quoted_spreads_are_of_the_sessions_before_the_day() -> None:
    half = 0.001 * (1.0 + np.arange(len(MARKET.days)) % 7)[:, None]
    quotes = Quotes(bid=MARKET.close * (1 - half), ask=MARKET.close * (1 + half))
    found = trailing_half_spread_ppb(dataclasses.replace(MARKET, quotes=quotes, id=""), 10)
    for row in not_empty(week_of(MARKET)):
        for asset in not_empty(PLAIN):
            latest = bar_rows(MARKET.as_of(row - 1), asset)[-10:]
            assert found[row, asset] == pytest.approx(half[latest].mean() * 1e9, abs=2)


# ---- price limits


def with_new_listing(is_dated: bool) -> MarketSnapshot:
    """An old share, one listed on Friday 2024-03-08, and a coin, from a Saturday on. Where the
    listing is dated, the data have no bar of its first day.
    """
    days = pd.date_range("2024-03-02", "2024-03-20")
    closes = np.full((len(days), 3), 10.0)
    closes[days.day_of_week >= 5, :2] = np.nan
    closes[days < ("2024-03-09" if is_dated else "2024-03-08"), 1] = np.nan
    coins = dataclasses.replace(find_venue("crypto_spot"), name="coins", currency="CNY")
    share = Instrument("stock", "CNY", "a_share")
    codes = ("600001.SH", "600002.SH", "BTC")

    return MarketSnapshot(
        meta=MARKET.meta,
        days=days.to_numpy().astype("datetime64[D]"),
        codes=codes,
        names=codes,
        industries=("unknown",) * 3,
        volume=np.where(np.isnan(closes), np.nan, 1e6),
        amount=closes * 1e6,
        factor=np.ones_like(closes),
        member=np.ones(closes.shape, dtype=bool),
        indices={},
        index_names={},
        instruments=(share, share, Instrument("crypto", "CNY", "coins")),
        rules={"coins": coins},
        price_limits=PriceLimits(listed=("", "2024-03-08", "") if is_dated else ()),
        **dict.fromkeys(("open", "high", "low", "close"), closes),
    )


@pytest.mark.parametrize(("is_dated", "free"), [(False, 5), (True, 4)])
def test_a_listing_counts_days_of_the_assets_exchange(is_dated: bool, free: int) -> None:
    """A new share of the main board has no limit on its first five days. What trades from the
    market's first session on is no new listing, though a coin had days before it.
    """
    market = with_new_listing(is_dated)
    limits = daily_limits(market, [0, 1])
    old, new = (bar_rows(market, asset) for asset in (0, 1))

    assert (limits[old, 0] == 100).all()
    assert limits[new, 1].tolist() == [-1] * free + [100] * (len(new) - free)


# ---- what other parts measure


def test_breadth_is_of_the_last_closes_of_each_member() -> None:
    rule = dataclasses.replace(RULES["breadth"], members=5)
    for row in not_empty(week_of(MARKET)):
        above = []
        for asset in not_empty(PLAIN):
            closes = own_bars(MARKET, asset, row)["adjusted"].tail(rule.days)
            above.append(closes.iloc[-1] > closes.mean())

        assert regime_of(MARKET.as_of(row), rule).figure == pytest.approx(np.mean(above))


def test_each_calendar_of_a_kind_has_facts_of_its_own() -> None:
    panels = {(panel.kind, panel.calendar): panel for panel in panels_of(MARKET)}
    keys = [("crypto", ""), ("stock", "XNYS"), ("stock", "XSHG")]
    assert [len(panels[key].close) for key in keys] == SESSIONS
    assert {fact.kind for fact in stylised_facts(panels["stock", "XSHG"])} == {"stock, XSHG"}


def test_an_audit_knows_the_returns_of_an_assets_sessions() -> None:
    """On a Sunday the changes of a stock over one and five sessions are known, and not later ones."""
    row = next(row for row in week_of(MARKET) if DAYS[row].day_name() == "Sunday")
    asset = MARKET.asset_index["ZU00"]
    closes = own_bars(MARKET, asset, row)["adjusted"]
    found = LaterPrices(MARKET)._returns(asset, row)
    assert found is not None

    for days in (1, 5, 20):
        change = 100.0 * (closes.iloc[-1] / closes.iloc[-1 - days] - 1.0)
        same = found.between(change - 1e-9, change + 1e-9)
        assert same.rows.tolist()[:1] == [row], days

    monday = 100.0 * (MARKET.adjusted_close[row + 1, asset] / closes.iloc[-1] - 1.0)
    same = found.between(monday - 1e-9, monday + 1e-9)
    assert row + 1 in same.rows.tolist()


def test_a_fact_is_the_return_over_sessions_of_its_asset_from_a_fill_on() -> None:
    """An order of Sunday is filled on Monday, one of Friday not at all."""
    asset = MARKET.asset_index["ZU00"]
    week = {DAYS[row].day_name(): row for row in week_of(MARKET)[:7]}
    sunday = week["Sunday"] - 14
    friday = sunday - 2
    opens = pd.Series(MARKET.adjusted_open[:, asset])[sunday + 1 :].dropna()
    found = _returns([(asset, sunday), (asset, friday)], MARKET, 6)

    assert found[0] == pytest.approx(opens.iloc[6] / opens.iloc[0] - 1.0)
    assert np.isnan(found[1])


def test_a_memory_of_an_index_is_over_its_own_sessions() -> None:
    """The index of a closed exchange rises from Friday to Monday; at the weekend it has no level."""
    levels = np.where(DAYS.day_of_week < 5, np.arange(1.0, len(DAYS) + 1), np.nan)
    meta = dataclasses.replace(MARKET.meta, benchmark="UP")
    names = {"UP": "UP"}
    indexed = dataclasses.replace(
        MARKET, meta=meta, indices={"UP": levels}, index_names=names, id=""
    )
    facts = RememberedFacts(indexed, MemoryParams(horizon=2))
    assert [facts.index_rises(row - 14) for row in week_of(MARKET)] == [True] * 8


def test_what_is_said_of_a_stock_holds_until_its_last_session() -> None:
    """A fact of Thursday on two sessions ends with Monday, weekend or not."""
    asset = MARKET.asset_index["ZU00"]
    monday = next(row for row in week_of(MARKET) if DAYS[row].day_name() == "Monday") - 14
    thursday = monday - 4
    facts = RememberedFacts(MARKET, MemoryParams(horizon=2))
    only = np.zeros(len(DAYS), dtype=bool)
    only[thursday] = True
    facts._drawn["ZU00"] = only
    rises = bool(MARKET.adjusted_close[monday, asset] > MARKET.adjusted_close[thursday, asset])

    assert [facts.said_to_rise("ZU00", row) for row in range(thursday, monday)] == [rises] * 4
    assert not facts.said_to_rise("ZU00", monday)


def test_a_model_is_trained_on_a_market_of_one_calendar() -> None:
    wanted = Segments(
        SegmentDays("2025-03-03", "2025-04-30"), SegmentDays("2025-05-05", "2025-06-20")
    )
    with pytest.raises(DataError, match=re.escape("3 calendars (24/7, XNYS, XSHG); train on")):
        make_split(MARKET, wanted)
