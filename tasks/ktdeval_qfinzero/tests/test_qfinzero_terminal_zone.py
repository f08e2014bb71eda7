"""The terminal's page writes moments in the zone of its market, and knows its closed days."""

from __future__ import annotations

from datetime import date

import pytest

from ktdeval_qfinzero.access.terminal.market_calendar import (
    closed_days,
    market_zone,
    session_moment,
)
from ktdeval_qfinzero.timestamps import moment_text, parse_moment
from ktdeval_qfinzero.trading_hours import trading_hours


@pytest.mark.parametrize(
    ("calendar", "zone"),
    [("XNYS", "America/New_York"), ("XSHG", "Asia/Shanghai"), ("24/7", "UTC")],
)
def test_a_zone_is_that_of_the_markets_calendar(calendar: str, zone: str) -> None:
    assert market_zone(calendar) == zone


@pytest.mark.parametrize(
    ("calendar", "closed"),
    [
        # A weekend, and Monday, Martin Luther King's day.
        ("XNYS", ["2025-01-18", "2025-01-19", "2025-01-20"]),
        ("24/7", []),
    ],
)
def test_days_without_a_session_are_closed(calendar: str, closed: list[str]) -> None:
    hours = trading_hours(calendar)

    assert closed_days(hours, date(2025, 1, 17), date(2025, 1, 21)) == closed


@pytest.mark.parametrize(
    ("latest", "start"),
    [
        (
            "2025-01-06T21:00:00Z",
            "2025-01-06T15:00:00Z",
        ),  # at the close: half an hour after the open
        ("2025-01-06T16:10:00Z", "2025-01-06T16:10:00Z"),  # the market trades
        ("2025-01-06T14:30:00Z", "2025-01-06T14:30:00Z"),  # its first moment
        ("2025-01-06T13:00:00Z", "2025-01-03T15:00:00Z"),  # before the open: the day before
        ("2025-01-05T12:00:00Z", "2025-01-03T15:00:00Z"),  # a Sunday
    ],
)
def test_the_clock_starts_while_the_market_trades(latest: str, start: str) -> None:
    moment_ns = parse_moment(latest, "latest")
    assert moment_text(session_moment(trading_hours(), moment_ns)) == start
