"""Ranges of stylised facts that ship with the code are those of the real data beside a checkout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ktdeval_raw_markets.fact_ranges import RANGES
from support.market.real_panels import (
    RealMarket,
    a_share,
    coins,
    facts_by_piece,
    measured_ranges,
    nasdaq,
)

pytestmark = pytest.mark.shared_data


@pytest.mark.parametrize("read", [a_share, nasdaq, coins])
def test_measured_ranges_are_those_that_ship(
    read: Callable[[Path], RealMarket], shared_data: Path
) -> None:
    market = read(shared_data)
    facts = facts_by_piece(market)
    measured = {}
    for row in measured_ranges(market, facts):
        most_days = int(row.most_days) if row.most_days else None
        measured[row.fact, most_days] = (row.low, row.high)

    shipped = {}
    for one in RANGES:
        if one.source == market.source:
            shipped[one.fact, one.most_days] = (f"{one.low:.4f}", f"{one.high:.4f}")

    assert measured == shipped


def test_absolute_returns_of_the_csi300_are_correlated_as_noted(shared_data: Path) -> None:
    whole = a_share(shared_data)._replace(pieces=a_share(shared_data).pieces[:1])
    values = {one.fact: one.value for [one] in facts_by_piece(whole)}
    figures = [values[f"volatility_lag_{lag}"] for lag in (1, 5, 20)]
    assert figures == pytest.approx([0.180, 0.104, 0.060], abs=0.001)
