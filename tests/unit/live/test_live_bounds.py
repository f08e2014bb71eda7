"""Bounds on what missing decisions could have made: by hand, and what holds always."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.market import Instrument, MarketSnapshot
from ktdeval.testing.markets import Details, Rows, tiny_snapshot
from ktdeval.trading import AccountConfig, TradingConfig
from ktdeval_live.bounds import AccountMoves, return_bounds

CLOSES: dict[str, list[float | None]] = {
    "AA": [10.0, 10.0, 11.0, 12.0, 12.0],
    "BB": [20.0, 20.0, 18.0, 18.0, 19.0],
}
OPENS: dict[str, list[float | None]] = {
    "AA": [10.0, 10.0, 10.0, 12.1, 12.0],
    "BB": [20.0, 20.0, 20.0, 17.1, 18.0],
}
NIGHTS = np.array([0.003, 0.010, 0.004, 0.005])  # of an account, until the open
DAYS = np.array([0.001, 0.002, 0.020, 0.004])  # of the account, from the open on
ACCOUNT = AccountMoves((1 + NIGHTS) * (1 + DAYS) - 1, NIGHTS, DAYS)
GAP_ON_SECOND = np.array([False, True, False, False])


def market(
    closes: Rows = CLOSES, opens: Rows = OPENS, factors: Rows | None = None
) -> MarketSnapshot:
    """Return a market of two US stocks."""
    bare = tiny_snapshot(closes, Details(opens=opens, factors=factors or {}))
    return dataclasses.replace(bare, instruments=(Instrument("stock", "USD", "us_equity"),) * 2)


def rules(**account: object) -> TradingConfig:
    """Return the rules of an account that can't sell short and whose largest weight is a half."""
    fields = {"venue": "crypto_spot", "max_weight": 0.5, **account}
    return AccountConfig(**fields).rules("trading")  # type: ignore[arg-type]


def test_bounds_reach_from_the_open_of_a_gap_to_the_next_open() -> None:
    low, high = return_bounds(market(), rules(), 0, ACCOUNT, GAP_ON_SECOND)
    # day 2, from its open on: A + 10 %, B - 10 %; at most half of it in each
    assert low[1] == pytest.approx(1.010 * (1 - 0.05) - 1)
    assert high[1] == pytest.approx(1.010 * (1 + 0.05) - 1)
    # day 3, until its open: A from 11 to 12.1, B from 18 to 17.1; after it the account's 2 %
    assert low[2] == pytest.approx((1 - 0.025) * 1.020 - 1)
    assert high[2] == pytest.approx((1 + 0.050) * 1.020 - 1)
    # days 1 and 4 are the account's
    for bound in (low, high):
        np.testing.assert_array_equal(bound[[0, 3]], ACCOUNT.whole[[0, 3]])


def test_bounds_of_fills_at_closes_begin_with_the_close_of_the_gap() -> None:
    trading = rules(fill="next_close")
    low, high = return_bounds(market(), trading, 0, ACCOUNT, GAP_ON_SECOND)
    # the orders that are missing would have filled at the close of day 2
    assert low[1] == high[1] == ACCOUNT.whole[1]
    # day 3 whole: A + 10 % until the open and 12 / 12.1 - 1 after it, B - 5 % and then + 5.263 %
    best_day = 0.5 * (18 / 17.1 - 1)
    worst_day = -0.5 * (1 - 12 / 12.1)
    assert high[2] == pytest.approx(1.05 * (1 + best_day) - 1)
    assert low[2] == pytest.approx(0.975 * (1 + worst_day) - 1)
    assert low[3] == high[3] == ACCOUNT.whole[3]


def test_shorts_tie_up_their_margin() -> None:
    trading = rules(venue="us_equity")
    margin = trading.venue.short.initial_margin_pct / 100  # type: ignore[union-attr]
    assert margin == 0.5
    low, high = return_bounds(market(), trading, 0, ACCOUNT, GAP_ON_SECOND)
    # the best: half in A earns 5 %, and a short of B of a half, for a quarter in cash, 5 % as well
    assert high[1] == pytest.approx(1.010 * 1.10 - 1)
    assert low[1] == pytest.approx(1.010 * 0.90 - 1)


def test_asset_without_a_bar_has_no_part_until_it_trades_again() -> None:
    halted = {**CLOSES, "AA": [10.0, 10.0, None, 12.0, 12.0]}
    opens = {**OPENS, "AA": [10.0, 10.0, None, 12.1, 12.0]}
    low, high = return_bounds(market(halted, opens), rules(), 0, ACCOUNT, GAP_ON_SECOND)
    assert high[1] == ACCOUNT.whole[1]  # B fell, A did not trade: the account's is the greatest
    assert low[1] == pytest.approx(1.010 * 0.95 - 1)
    assert high[2] == pytest.approx((1 + 0.5 * 0.21) * 1.020 - 1)  # A from 10 to 12.1


def test_split_moves_nothing() -> None:
    closes = {**CLOSES, "AA": [10.0, 10.0, 11.0, 6.0, 6.0]}
    opens = {**OPENS, "AA": [10.0, 10.0, 10.0, 6.05, 6.0]}
    split = market(closes, opens, {"AA": [1.0, 1.0, 1.0, 2.0, 2.0]})
    found = return_bounds(split, rules(), 0, ACCOUNT, GAP_ON_SECOND)
    expected = return_bounds(market(), rules(), 0, ACCOUNT, GAP_ON_SECOND)
    np.testing.assert_allclose(found, expected)


def test_account_lies_within_its_bounds_where_its_weights_have_grown() -> None:
    days = DAYS.copy()
    days[1] = 0.09  # all in A, which no order could have reached
    account = AccountMoves((1 + NIGHTS) * (1 + days) - 1, NIGHTS, days)
    _, high = return_bounds(market(), rules(), 0, account, GAP_ON_SECOND)
    assert high[1] == account.whole[1]


returns = st.lists(st.floats(-0.2, 0.2), min_size=4, max_size=4)


@settings(max_examples=60, deadline=None)
@given(
    nights=returns,
    days=returns,
    missing=st.lists(st.booleans(), min_size=4, max_size=4),
    venue=st.sampled_from(["us_equity", "crypto_spot"]),
    fill=st.sampled_from(["next_open", "next_close"]),
    max_weight=st.sampled_from([0.1, 0.5, 1.0]),
)
def test_account_is_always_within_bounds_and_they_meet_without_gaps(
    nights: list[float],
    days: list[float],
    missing: list[bool],
    venue: str,
    fill: str,
    max_weight: float,
) -> None:
    until_open = np.array(nights)
    after_open = np.array(days)
    account = AccountMoves((1 + until_open) * (1 + after_open) - 1, until_open, after_open)
    trading = rules(venue=venue, fill=fill, max_weight=max_weight)
    low, high = return_bounds(market(), trading, 0, account, np.array(missing))
    assert (low <= account.whole).all()
    assert (account.whole <= high).all()
    assert (low >= -1).all()
    if not any(missing):
        np.testing.assert_array_equal(low, high)
