"""Returns, positions and transactions of a ledger, as libraries of performance take them."""

from __future__ import annotations

import pandas as pd
import pytest

from ktdeval.cli.cards.performance_frames import (
    benchmark_returns,
    daily_returns,
    position_values,
    transactions,
)
from ktdeval.trading.ledger import Ledger
from support.figures.metric_cases import BENCHMARK, CODES, DAYS, ledger, market, order, step


def three_days() -> Ledger:
    """100 shares bought on the second day for 1,000 and 5 of costs, and sold in part on the third."""
    bought = [order(filled=100)]
    sold = [order(side="SELL", filled=40, price_ticks=110_000), order(filled=0)]
    return ledger(
        [
            step(0, 99_500, {CODES[0]: 100_000}, orders=bought),
            step(1, 143_000, {CODES[0]: 66_000}, orders=sold),
            step(2, 143_000, {CODES[0]: 60_000}),
        ]
    )


def test_a_return_stands_at_the_day_whose_close_ends_it() -> None:
    book = three_days()
    returns = daily_returns(book)

    assert list(returns.index) == list(pd.DatetimeIndex(DAYS[1:4]))
    assert returns.iloc[1] == pytest.approx((143_000 + 66_000) / (99_500 + 100_000) - 1)
    assert (1 + returns).prod() == pytest.approx(book.nav[-1] / book.nav[0])


def test_benchmark_returns_are_those_of_the_index_on_the_same_days() -> None:
    returns = benchmark_returns(three_days(), market())

    assert returns.name == "000300.SH"
    assert returns.to_numpy() == pytest.approx(BENCHMARK[1:4] / BENCHMARK[:3] - 1)


def test_positions_and_cash_sum_to_the_nav_and_what_is_not_held_is_zero() -> None:
    book = ledger([step(0, 50_000, {CODES[0]: 40_000}), step(1, 50_000, {CODES[1]: 45_000})])
    positions = position_values(book)

    assert list(positions.columns) == [*CODES, "cash"]
    assert positions[CODES[0]].tolist() == [400.0, 0.0]
    assert positions.sum(axis=1).tolist() == book.nav[1:].tolist()


def test_transactions_are_fills_alone_and_sales_are_negative() -> None:
    fills = transactions(three_days())

    assert list(fills.index) == list(pd.DatetimeIndex(DAYS[1:3]))
    assert fills.symbol.tolist() == [CODES[0], CODES[0]]
    assert fills.amount.tolist() == [100, -40]
    assert fills.price.tolist() == [10.0, 11.0]
    assert fills.commission.tolist() == [5.0, 5.0]


def test_margin_calls_are_transactions() -> None:
    charge = {
        "kind": "margin_call",
        "code": CODES[1],
        "shares": 7,
        "price_ticks": 200_000,
        "cash_minor": -14_100,
        "fee_minor": 100,
    }
    fills = transactions(ledger([step(0, 50_000, charges=[charge])]))

    assert fills.to_dict("records") == [
        {"symbol": CODES[1], "amount": 7.0, "price": 20.0, "commission": 1.0}
    ]


def test_an_episode_without_fills_has_an_empty_table() -> None:
    fills = transactions(ledger([step(0, 50_000)]))

    assert fills.empty
    assert isinstance(fills.index, pd.DatetimeIndex)
