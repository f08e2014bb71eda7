"""Overnight: locks open, factor changes scale holdings, and no fen is made or lost."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, strategies as st

from ktdeval.trading.account import holdings_fen, nav_fen, open_account, open_day, value_fen
from ktdeval.trading.market_tape import FactorEvent, MarketTape, TradingDay, ex_price_ticks
from ktdeval.trading.types import Account, CorporateAction, Position, TradingConfig
from trading_market import CODES, make_market

CONFIG = TradingConfig()


def day_with(events: dict[int, FactorEvent], ticks: int = 100_000) -> TradingDay:
    """A fill day of two assets on which only factor changes matter."""
    one, zero = b"\x01\x01", b"\x00\x00"
    return TradingDay(1, [ticks, ticks], [ticks, ticks], one, one, zero, zero, (100, 100), events)


def change(previous_ticks: int, ratio_ppb: int) -> dict[int, FactorEvent]:
    return {0: FactorEvent(ratio_ppb, previous_ticks, ex_price_ticks(previous_ticks, ratio_ppb))}


def test_an_episode_starts_with_cash_only() -> None:
    assert open_account(CONFIG) == Account(100_000_000, {})


def test_shares_bought_yesterday_can_be_sold_today() -> None:
    opened, changes = open_day(Account(0, {0: Position(300, 200), 1: Position(100)}), day_with({}))
    assert opened.positions == {0: Position(300, 0), 1: Position(100, 0)}
    assert changes == []


def test_a_split_doubles_the_shares_and_pays_nothing() -> None:
    opened, changes = open_day(Account(700, {0: Position(300)}), day_with(change(100_000, 2_000_000_000)))
    assert opened == Account(700, {0: Position(600)})
    assert changes == [CorporateAction(0, 2.0, 300, 600, 0)]


def test_a_dividend_is_reinvested_at_the_ex_price_and_the_fraction_is_paid() -> None:
    # 1,000 shares at 10.00, ratio 1.0309: 1,030 shares at 9.700262… = 9,991.27; 8.73 in cash, 0.9 of a share.
    opened, changes = open_day(Account(0, {0: Position(1_000)}), day_with(change(100_000, 1_030_900_000)))
    assert opened.positions == {0: Position(1_030)}
    assert changes == [CorporateAction(0, 1.0309, 1_000, 1_030, 873)]
    assert opened.cash_fen == 873


def test_a_split_whose_ex_price_is_no_whole_tick_pays_nothing() -> None:
    opened, _ = open_day(Account(0, {0: Position(10_000)}), day_with(change(100_000, 3_000_000_000)))
    assert opened == Account(0, {0: Position(30_000)})


def test_a_holding_scaled_below_one_share_becomes_cash() -> None:
    opened, _ = open_day(Account(1, {0: Position(9)}), day_with(change(100_000, 100_000_000)))
    assert opened == Account(9_001, {})


def test_names_not_held_and_names_without_a_change_are_left_alone() -> None:
    opened, changes = open_day(Account(5, {1: Position(100)}), day_with(change(100_000, 2_000_000_000)))
    assert (opened, changes) == (Account(5, {1: Position(100)}), [])


def test_the_account_given_is_not_changed() -> None:
    positions = {0: Position(300, 100)}
    open_day(Account(0, positions), day_with(change(100_000, 2_000_000_000)))
    assert positions == {0: Position(300, 100)}


@given(shares=st.integers(1, 10**7), previous=st.integers(1, 10**8), ratio_ppb=st.integers(10**6, 10**11))
@example(shares=1, previous=10**8, ratio_ppb=1_000_010_001)
@example(shares=333_333, previous=7, ratio_ppb=999_989_999)
def test_a_factor_change_makes_and_loses_no_fen(shares: int, previous: int, ratio_ppb: int) -> None:
    events = change(previous, ratio_ppb)
    opened, changes = open_day(Account(0, {0: Position(shares)}), day_with(events))
    after = opened.positions.get(0, Position(0)).shares
    ratio = Fraction(ratio_ppb, 10**9)
    assert after == floor(shares * ratio)
    assert opened.cash_fen >= 0
    assert abs(Fraction(shares * previous, 100) - after * Fraction(previous, 100) / ratio - opened.cash_fen) <= 1
    assert [action.cash_fen for action in changes] == [opened.cash_fen]


def test_a_suspended_holding_is_worth_the_same_across_its_split() -> None:
    market = make_market([CODES["main"]], [[10.01], [None], [None]], factor=[[1.0], [1.0], [1.7]])
    days, account = MarketTape.from_snapshot(market, CONFIG), Account(0, {0: Position(1_100)})
    before = nav_fen(account, days.day(1).close_ticks)
    opened, _ = open_day(account, days.day(2))
    assert nav_fen(opened, days.day(2).open_ticks) == nav_fen(opened, days.day(2).close_ticks) == before == 1_101_100


def test_a_delisted_holding_keeps_its_last_mark() -> None:
    market = make_market([CODES["main"]], [[10.0], [None], [None], [None]], closes=[[10.2], [None], [None], [None]])
    day = MarketTape.from_snapshot(market, CONFIG).day(3)
    assert nav_fen(Account(3, {0: Position(100)}), day.close_ticks) == 102_003


def test_worth_rounds_half_a_fen_up_for_each_position() -> None:
    assert [value_fen(1, ticks) for ticks in (49, 50, 149, 150)] == [0, 1, 1, 2]
    assert holdings_fen({0: Position(1), 1: Position(1)}, [50, 50]) == 2


@pytest.mark.shared_data
def test_every_real_split_and_dividend_of_three_years_keeps_value_to_the_fen(shared_data: Path) -> None:
    bars = pd.read_parquet(shared_data / "a_share" / "csi300_ever_daily.parquet")
    bars = bars[bars["traded"]]
    wide = {name: bars.pivot(index="date", columns="code", values=name) for name in ("raw_open", "raw_close", "factor", "volume")}
    market = make_market(
        list(wide["factor"].columns),
        wide["raw_open"].to_numpy(),
        wide["raw_close"].to_numpy(),
        factor=wide["factor"].ffill().fillna(1.0).to_numpy(),
        volume=wide["volume"].to_numpy(),
    )
    days = MarketTape.from_snapshot(market, CONFIG)
    chance, seen = np.random.default_rng(1), 0
    for row, events in days.events.items():
        held = {asset: Position(int(chance.integers(1, 500)) * 100) for asset in events}
        before = days.day(row - 1)
        opened, changes = open_day(Account(0, held), days.day(row))
        for action in changes:
            assert opened.positions[action.asset].shares == action.shares_after
            if days.tradable[row, action.asset]:
                value = action.shares_after * Fraction(before.close_ticks[action.asset], 100) / Fraction(action.ratio)
            else:
                value = Fraction(value_fen(action.shares_after, days.day(row).close_ticks[action.asset]))
            worth = value_fen(action.shares_before, before.close_ticks[action.asset])
            assert abs(value + action.cash_fen - worth) <= 1
            # What is paid is less than one share: nobody is forced out of a holding.
            lost_ticks = 0 if days.tradable[row, action.asset] else action.shares_after
            assert action.cash_fen * 100 <= before.close_ticks[action.asset] + lost_ticks + 100
        seen += len(changes)
    assert seen > 1_800
