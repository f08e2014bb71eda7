"""The terminal's page writes moments in the zone of its market."""

from __future__ import annotations

import pytest

from ktdeval_qfinzero.access.terminal.zone import market_zone


@pytest.mark.parametrize(
    ("calendar", "zone"),
    [("XNYS", "America/New_York"), ("XSHG", "Asia/Shanghai"), ("24/7", "UTC")],
)
def test_a_zone_is_that_of_the_markets_calendar(calendar: str, zone: str) -> None:
    assert market_zone(calendar) == zone
