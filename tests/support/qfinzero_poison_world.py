"""The small market with more to come than its own future: what a poisoned future can take away, alter and add to."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from functools import cache

import numpy as np

from ktdeval_qfinzero.data.rows import BorrowRow, ContractRow, Dataset, DividendRow, EventRow, Release, SplitRow
from ktdeval_qfinzero.instruments import read_contract
from ktdeval_qfinzero.moments import day_start
from qfinzero_memory import MemoryCalendars
from qfinzero_poison import in_memory
from qfinzero_upq import MINUTE_OPTION, market
from qfinzero_world import at, bars_of, with_prices

NEAR, FAR, PUT = MINUTE_OPTION, "O:AVLN250117C00105000", "O:AVLN250221P00100000"
LATER, NEVER = "O:AVLN250221C00115000", "O:AVLN250221C00116000"
"""Contracts on AVLN: two calls that expire soon, a put that expires later, one that is listed late, and one that never is."""


@cache
def small_world() -> Dataset:
    """The small market with more to come: an option with minutes, one that is listed late, actions, locates, estimates."""
    prices, calendars, _ = in_memory(market())
    days = prices.bar_table["stock", "AVLN", "day"].start_ns
    late = days[(days >= day_start(date(2025, 1, 10))) & (days <= day_start(date(2025, 2, 21)))]
    later = read_contract(LATER)
    assert later is not None
    listed = ContractRow(LATER, "AVLN", later.expiry, later.strike_e4, later.right, at("2025-01-08T21:00:00Z"))
    dividends = [
        DividendRow("BRKT", date(2025, 1, 8), date(2025, 1, 20), 4_000, at("2025-01-06T22:00:00Z")),
        DividendRow("CSTL", date(2025, 1, 22), date(2025, 2, 3), 12_345, at("2025-01-15T12:00:00Z")),
        DividendRow("AVLN", date(2025, 2, 10), date(2025, 2, 20), 2_600, at("2025-02-03T12:00:00Z")),
    ]
    splits = [
        SplitRow("BRKT", date(2025, 1, 29), 1, 10, at("2025-01-27T12:00:00Z")),
        SplitRow("AVLN", date(2025, 2, 5), 3, 2, at("2025-02-04T22:00:00Z")),
    ]
    borrow = [BorrowRow("BRKT", at("2025-01-08T12:00:00Z"), 50, 3_000), BorrowRow("AVLN", at("2025-01-15T12:00:00Z"), 0, 9_000)]
    estimated = EventRow(
        "econ_estimated", "macro_calendar", "Estimated anew", at("2025-01-09T15:00:00Z"), at("2025-01-02T12:00:00Z"), "high",
        expected={"consensus": 1.0}, releases=(Release(at("2025-01-08T12:00:00Z"), {"consensus": 1.5}),
                                               Release(at("2025-01-09T15:00:00Z"), {"actual": [1.4, {"core": 1.3}]}))
    )  # fmt: skip
    further = with_prices(
        market(),
        {("option", LATER, "day"): bars_of(late, np.full(len(late), 20_000), 300.0)},
        contract_rows=[*prices.contract_rows, listed],
        dividend_rows=[*prices.dividend_rows, *dividends],
        split_rows=[*prices.split_rows, *splits],
        borrow_rows=[*prices.borrow_rows, *borrow],
    )
    return replace(further, calendars=MemoryCalendars([*calendars.rows, estimated]))
