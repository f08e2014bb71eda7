"""Costs of the day: what the state, clearing houses and regulators take of fills, by the rows of
`fees.csv`.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ktdeval.market import Instrument, MarketSnapshot
from ktdeval.trading import Account, AccountConfig, MarketTape, Order, Outcome, TradingConfig
from ktdeval.trading.executor import execute
from ktdeval.trading.types import Position
from trading_market import make_market

DATED = AccountConfig(initial_cash=1_000_000, max_weight=1.0).rules("test")
PAPER = AccountConfig(initial_cash=1_000_000, max_weight=1.0, board_rules="paper").rules("test")


def market_on(day: str, code: str = "600001.SH", price: float = 10.0) -> MarketSnapshot:
    """One asset at one price on the day before and on the day."""
    more = {}
    if "." not in code:
        more = {"instruments": (Instrument("stock", "USD", "us_equity"),)}

    market = make_market([code], [[price]] * 2, **more)
    last = np.datetime64(day, "D")
    return dataclasses.replace(market, days=np.array([last - 1, last]))


def filled(
    day: str,
    side: str,
    shares: int,
    code: str = "600001.SH",
    price: float = 10.0,
    config: TradingConfig = DATED,
) -> Outcome:
    """Outcome of an order of so many shares that is filled on a day."""
    tape = MarketTape.from_snapshot(market_on(day, code, price), config)
    steps = shares * tape.rules.scales[0].steps_per_unit
    held = {0: Position(steps)} if side == "SELL" else {}
    order = Order(0, side, 0.5, "test", None, steps)  # type: ignore[arg-type]
    _, (outcome,) = execute(Account(10**10, held), tape.day(1), (order,))
    assert outcome.status == "filled"
    return outcome


@pytest.mark.parametrize(
    ("day", "side", "fee"),
    [
        ("2023-08-25", "SELL", 151_00),  # commission 50, stamp duty 100, transfer fee 1
        ("2023-08-28", "SELL", 101_00),  # stamp duty 50
        ("2023-08-25", "BUY", 51_00),
        ("2023-08-28", "BUY", 51_00),
        ("2022-04-28", "SELL", 152_00),  # transfer fee 2
        ("2022-04-28", "BUY", 52_00),
        ("2015-07-31", "SELL", 150_00),  # the transfer fee of Shanghai was one of face value
        ("2008-09-19", "BUY", 50_00),
        ("2008-09-18", "BUY", 150_00),  # buyers paid stamp duty, too: 10 bps
        ("2008-04-23", "SELL", 350_00),  # 30 bps
    ],
)
def test_an_a_share_pays_the_stamp_duty_and_transfer_fee_of_its_day(
    day: str, side: str, fee: int
) -> None:
    assert filled(day, side, 10_000).fee_minor == fee


@pytest.mark.parametrize(
    ("day", "fee"),
    [
        ("2024-05-21", 5_97),  # commission 5.00, SEC 0.80, FINRA 0.166
        ("2024-05-22", 7_95),  # SEC 2.78
        ("2025-05-13", 7_95),
        ("2025-05-14", 5_17),  # SEC 0
        ("2026-04-02", 5_20),  # FINRA 0.195
        ("2026-04-06", 7_26),  # SEC 2.06
        ("2026-10-01", 7_06),  # no fee of FINRA for three months
    ],
)
def test_a_us_share_pays_the_fees_of_sec_and_finra_of_its_day(day: str, fee: int) -> None:
    assert filled(day, "SELL", 1_000, code="AAPL", price=100.0).fee_minor == fee
