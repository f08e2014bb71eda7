"""Ledgers as series and data frames for performance libraries: pyfolio, empyrical and
quantstats.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.trading.ledger import ChargeRecord, Ledger, OrderRecord, StepRecord

CASH = "cash"  #: name of the cash column among the positions, as in pyfolio
TRANSACTION_COLUMNS = ("symbol", "amount", "price", "commission")


def daily_returns(ledger: Ledger) -> pd.Series[float]:
    """Return [steps] simple returns of the NAV. Each return is dated by the day at whose close it
    ends.
    """
    return pd.Series(ledger.returns, index=_days(ledger), name="returns")


def benchmark_returns(ledger: Ledger, market: MarketSnapshot) -> pd.Series[float]:
    """Return [steps] close-to-close returns of the market's benchmark index on the ledger's days.

    The first return starts at the close of the first decision day. Raises DataError if the market
    lacks a day.
    """
    days = [ledger.base_day, *ledger.days]
    levels = market.benchmark[[market.day_index(day) for day in days]]
    name = market.meta.benchmark or "benchmark"
    return pd.Series(levels[1:] / levels[:-1] - 1.0, index=_days(ledger), name=name)


def position_values(ledger: Ledger) -> pd.DataFrame:
    """Return the [steps x codes and cash] value of each holding at the close, in currency units.
    Short positions are negative, and assets that are not held are 0.
    """
    rows = []
    codes: set[str] = set()
    for step in ledger.steps:
        values = {}
        for position in step.positions:
            values[position.code] = position.value_minor / ledger.minor_per_unit

        codes.update(values)
        rows.append(values | {CASH: step.cash_minor / ledger.minor_per_unit})

    columns = [*sorted(codes), CASH]
    return pd.DataFrame(rows, index=_days(ledger), columns=columns).fillna(0.0)


def transactions(ledger: Ledger) -> pd.DataFrame:
    """Return one row per fill, including margin calls, indexed by day.

    Columns: symbol, amount (negative for sales), price, and commission (fee and duties).
    """
    days = []
    rows = []
    for step in ledger.steps:
        for row in _fills(step, ledger):
            days.append(step.filled_on)
            rows.append(row)

    index = pd.DatetimeIndex(days, name="day")
    return pd.DataFrame(rows, index=index, columns=list(TRANSACTION_COLUMNS))


def _fills(step: StepRecord, ledger: Ledger) -> list[Mapping[str, Any]]:
    """Return a row for each fill of a step, in chronological order: margin calls come first."""
    rows = []
    for charge in step.charges:
        if charge.kind == "margin_call":
            rows.append(_row(charge, charge.code, charge.shares, ledger))

    for order in step.fills:
        if order.filled_shares and order.code is not None:
            signed = order.filled_shares if order.side == "BUY" else -order.filled_shares
            rows.append(_row(order, order.code, signed, ledger))

    return rows


def _row(
    fill: OrderRecord | ChargeRecord, code: str, signed: int, ledger: Ledger
) -> Mapping[str, Any]:
    scale = ledger.scale(code)
    return {
        "symbol": code,
        "amount": signed / scale.steps_per_unit,
        "price": fill.price_ticks / scale.ticks_per_unit,
        "commission": fill.fee_minor / ledger.minor_per_unit,
    }


def _days(ledger: Ledger) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(ledger.days, name="day")
