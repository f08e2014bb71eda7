"""The terminal's page writes moments in the zone of its market, and knows its closed days."""

from __future__ import annotations

from datetime import date

import pytest

from ktdeval_qfinzero.access.terminal.market_calendar import closed_days, market_zone
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
