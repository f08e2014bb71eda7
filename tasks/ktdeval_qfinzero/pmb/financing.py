"""Financing and settlement: debit interest, borrow fees, and when sales settle.

Interest and fees are simple over the calendar days from a close to the next trading day, on actual/360, and are charged to cash at
each close, so they compound from close to close. Amounts are rounded up to a whole ten-thousandth of a dollar, against the trader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import numpy as np

from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.moments import as_datetime64
from ktdeval_qfinzero.pmb.rules import Rules
from ktdeval_qfinzero.pmb.values import Account
from ktdeval_qfinzero.trading_hours import trading_hours

_BPS_YEAR = 10_000 * 360


@dataclass(frozen=True, slots=True)
class Charges:
    """Charges of a close: interest on borrowed cash, and the fee of each borrowed stock (ticker -> amount); all positive."""

    interest_e4: int
    borrow_e4: Mapping[str, int]


def settlement_day(trade_day: date) -> date:
    """T+1 (SEC Rule 15c6-1, since 28 May 2024): the first trading day after that of the trade."""
    hours = trading_hours()
    return hours.day(int(np.searchsorted(hours.days, as_datetime64(trade_day), side="right")))


def debit_e4(account: Account, marks: Mapping[str, int]) -> int:
    """Cash that is borrowed, positive; 0 without a debit.
    What shares sold short are worth is collateral of those who lent them, so it does not pay for purchases: the debit is that of
    cash less the shorts' market value, marked every day. `marks`: `STOCK:X` of short stocks. Raises ServiceError `unavailable`: a
    short stock has no mark.
    """
    return max(0, sum(_short_values(account, marks).values()) - account.cash_e4)


def debit_interest_e4(debit_e4: int, days: int, bps_per_year: int) -> int:
    """Interest on a debit (positive) for calendar days, actual/360, rounded up.
    $10,000 at 7% for the three days of a weekend: 10,000 × 0.07 × 3 / 360 = $5.8334, rounded up.
    """
    return -(-debit_e4 * bps_per_year * days // _BPS_YEAR)


def borrow_fee_e4(short_value_e4: int, days: int, bps_per_year: int) -> int:
    """Fee on a short position's market value (positive) for calendar days, actual/360, rounded up."""
    return debit_interest_e4(short_value_e4, days, bps_per_year)


def daily_charges(account: Account, marks: Mapping[str, int], rules: Rules, borrow_bps: Mapping[str, int], days: int) -> Charges:
    """Charges at a close.
    `account`: after the day's trades; `marks`: `STOCK:X` of short stocks at this close; `rules`: debit rate; `borrow_bps`: ticker
    -> `BorrowRow.fee_bps_per_year`; a short stock that is absent has no rate and is charged none; `days`: calendar days that are
    charged for: until the next trading day, over a weekend 3. Raises ServiceError `unavailable`: a short stock has no mark.
    """
    interest = debit_interest_e4(debit_e4(account, marks), days, rules.margin.debit_interest_bps)
    shorts = _short_values(account, marks)
    fees = {ticker: borrow_fee_e4(value, days, borrow_bps.get(ticker, 0)) for ticker, value in shorts.items()}
    return Charges(interest, {ticker: fee for ticker, fee in fees.items() if fee})


def _short_values(account: Account, marks: Mapping[str, int]) -> dict[str, int]:
    """Market value, positive, of each stock sold short, by ticker in order."""
    values = {}
    for name, position in sorted(account.positions.items()):
        if position.instrument.kind == "STOCK" and position.qty < 0:
            if name not in marks:
                raise ServiceError("unavailable", f"no price of {name} is known, so its borrow fee can't be worked out")
            values[position.instrument.symbol] = -position.qty * marks[name]
    return values
