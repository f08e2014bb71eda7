"""Fills within the day: prices and volumes worked out by hand, and beside exact fractions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import DataError
from ktdeval.market.snapshots.minutes import MinuteBars
from ktdeval.market.snapshots.snapshot import Instrument, MarketSnapshot
from ktdeval.market.venues.execution import Execution
from ktdeval.market.venues.venue import FillRule, Venue, find_venue
from ktdeval.stats.calibration import next_return
from ktdeval.testing import snapshot_of_days
from ktdeval.trading.daily_settlement import Settlement, open_account
from ktdeval.trading.executor import settle
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.minute_fills import minute_fills
from ktdeval.trading.types import Order, TradingConfig
from support.searching import examples

DAYS = ["2025-11-26", "2025-11-28", "2025-12-01"]  # XNYS: the second closes at 13:00
Bar = tuple[str, float, float, float, float]  # end (UTC), high, low, close, volume


def market(
    bars: Sequence[Bar],
    venue: str = "us_equity",
    fill: FillRule = "vwap_30m",
    *,
    days: Sequence[str] = DAYS,
    opens: Sequence[Sequence[float]] | None = None,
    **more: Any,
) -> MarketSnapshot:
    """One asset at 10 on each day unless given otherwise, with minute bars."""
    rules = dataclasses.replace(find_venue(venue), fill=fill)
    made = snapshot_of_days(
        ["A"],
        opens or [[10.0]] * len(days),
        instruments=(Instrument("stock", rules.currency, venue),),
        rules={venue: rules},
        **more,
    )
    table = pd.DataFrame(bars, columns=["ends_at", "high", "low", "close", "volume"])
    table["open"] = table["close"]
    table["code"] = "A"
    table["ends_at"] = pd.to_datetime(table["ends_at"]).to_numpy().astype("M8[s]")

    return dataclasses.replace(
        made, days=np.array(days, "datetime64[D]"), minutes=MinuteBars.of(table)
    )


def fills_of(snapshot: MarketSnapshot) -> tuple[list[float], list[int]]:
    """Prices in units of currency and volumes in steps, by day."""
    venues = tuple(snapshot.rules[name] for name in snapshot.venues)
    found = minute_fills(snapshot, venues)[0]
    return (found.ticks / venues[0].ticks_per_unit).tolist(), found.steps.tolist()


# 14:30 UTC is the open of the exchange in November.
FIRST_DAY: list[Bar] = [
    ("2025-11-26 14:30", 99, 99, 99, 1000),  # ends at the open: before the session
    ("2025-11-26 14:31", 11, 10, 10.5, 100),  # typical price 10.5
    ("2025-11-26 14:40", 12, 12, 12, 300),
    ("2025-11-26 15:00", 9, 9, 9, 100),  # the 30th minute
    ("2025-11-26 15:01", 50, 50, 50, 700),  # the 31st
    ("2025-11-26 21:00", 20, 20, 20, 10),  # the close
    ("2025-11-26 21:01", 88, 88, 88, 10),  # after it
]


def test_a_short_session_ends_at_its_own_close() -> None:
    bars: list[Bar] = [
        ("2025-11-28 14:31", 10, 10, 10, 1),
        ("2025-11-28 18:00", 12, 12, 12, 1),
        ("2025-11-28 18:01", 90, 90, 90, 1),  # it closed at 13:00 in New York
    ]
    assert fills_of(market(bars, fill="twap_day"))[0] == [0.0, 11.0, 0.0]


def test_the_session_ends_at_the_venues_close_where_that_is_earlier() -> None:
    snapshot = market(FIRST_DAY, fill="twap_day")
    early = dataclasses.replace(snapshot.rules["us_equity"], close="15:00")
    assert fills_of(dataclasses.replace(snapshot, rules={"us_equity": early}))[0][0] == 20.375


HOURS: list[Bar] = [
    ("2025-11-26 14:00", 99, 99, 99, 1),
    ("2025-11-26 15:00", 99, 99, 99, 1),  # from 14:00 on: it began before the open
    ("2025-11-26 16:00", 12, 12, 12, 1),
    ("2025-11-26 17:00", 14, 14, 14, 1),
]


def test_a_bar_that_began_before_the_open_is_left_out() -> None:
    assert fills_of(market(HOURS, fill="twap_day"))[0][0] == 13.0


def test_bars_that_are_too_long_for_the_rule_are_refused() -> None:
    with pytest.raises(DataError) as refused:
        fills_of(market(HOURS))
    assert str(refused.value) == (
        "tiny: no bar within a session (of 60 minutes, at us_equity) gives a price for vwap_30m;"
        " import shorter bars (--minutes), or choose another fill"
    )


def test_a_market_without_bars_within_days_is_refused() -> None:
    snapshot = dataclasses.replace(market(FIRST_DAY), minutes=MinuteBars())
    with pytest.raises(DataError) as refused:
        MarketTape.from_snapshot(snapshot, TradingConfig())
    assert str(refused.value) == (
        "orders fill at vwap_30m, which needs minute bars, but tiny has none; import some"
        " (--minutes), or choose another fill"
    )


def test_a_volume_beyond_64_bits_is_the_most_that_can_be_counted() -> None:
    snapshot = market([("2025-11-26 00:01", 10, 10, 10, 1e15)], "crypto_spot")
    assert fills_of(snapshot) == ([10.0, 0.0, 0.0], [2**63 - 1, 0, 0])


def test_a_price_that_cant_be_counted_is_refused_by_name() -> None:
    with pytest.raises(DataError, match=r"^A: its minute bars have a price of 1e\+08 or more"):
        fills_of(market([("2025-11-26 14:31", 1e9, 1e9, 1e9, 1)]))


PRICES = st.integers(1, 10**9).map(lambda ticks: ticks / 10_000)
DAY_BARS = st.lists(st.tuples(PRICES, PRICES, PRICES, st.integers(0, 10**9)), max_size=12)


@pytest.mark.exhaustive
@given(DAY_BARS, st.sampled_from(["vwap_30m", "twap_day"]))
@examples(100)
def test_prices_are_the_exact_means_rounded_half_up(
    drawn: list[tuple[float, float, float, int]], fill: FillRule
) -> None:
    start = pd.Timestamp("2025-11-26 14:31")
    bars: list[Bar] = [("2025-11-28 14:31", 1, 1, 1, 1), ("2025-11-28 14:32", 1, 1, 1, 1)]
    value = weight = Fraction(0)
    for index, numbers in enumerate(drawn):
        end = start + pd.Timedelta(minutes=3 * index)
        bars.append((end.strftime("%Y-%m-%d %H:%M"), *numbers))
        parts = [Fraction(round(price * 10_000)) for price in numbers[:3]]
        if fill == "twap_day":
            value += parts[2]
            weight += 1
        elif end <= pd.Timestamp("2025-11-26 15:00"):
            value += sum(parts) / 3 * numbers[3]
            weight += numbers[3]

    expected = math.floor(value / weight + Fraction(1, 2)) if weight else 0
    assert fills_of(market(bars, fill=fill))[0][0] == expected / 10_000


def settle_at(
    snapshot: MarketSnapshot, row: int, fill: FillRule, steps: int = 10_000, **options: Any
) -> Settlement:
    """A buy (of one share) decided at the close before `row`."""
    venue: Venue = dataclasses.replace(snapshot.rules["us_equity"], fill=fill)
    config = TradingConfig(venue=venue, max_weight=1.0, **options)
    tape = MarketTape.from_snapshot(snapshot, config)
    account = open_account(config, tape.rules.minor_per_unit)
    return settle(account, tape.day(row), (Order(0, "BUY", 0.5, "", shares=steps),), row - 1)


SECOND_DAY: list[Bar] = [
    *FIRST_DAY,
    ("2025-11-28 14:31", 10.4, 10.4, 10.4, 100),
    ("2025-11-28 17:00", 10.8, 10.8, 10.8, 100),
]


@pytest.mark.parametrize(("fill", "price"), [("vwap_30m", 10.4), ("twap_day", 10.6)])
def test_orders_fill_at_the_mean_of_the_next_days_bars(fill: FillRule, price: float) -> None:
    settled = settle_at(market(SECOND_DAY), 1, fill)
    assert settled.outcomes[0].status == "filled"
    assert settled.outcomes[0].price_ticks == price * 10_000


@pytest.mark.parametrize("fill", ["vwap_30m", "twap_day"])
def test_bars_of_other_days_change_no_fill(fill: FillRule) -> None:
    others: list[Bar] = [
        (end, *(7 * number for number in numbers))
        for end, *numbers in SECOND_DAY
        if "11-28" not in end
    ]
    later: Bar = ("2025-12-01 14:31", 1, 1, 1, 1)
    changed = market([*others, *SECOND_DAY[len(others) :], later])
    assert settle_at(changed, 1, fill).outcomes == settle_at(market(SECOND_DAY), 1, fill).outcomes


def test_a_day_without_bars_fills_nothing() -> None:
    outcome = settle_at(market(SECOND_DAY), 2, "vwap_30m").outcomes[0]
    assert (outcome.status, outcome.rule) == ("rejected", "suspended")


@pytest.mark.parametrize(
    ("fill", "shares"), [("vwap_30m", 10), ("twap_day", 20), ("next_open", 100_000)]
)
def test_the_cap_is_of_the_volume_of_the_minutes_that_fills_are_in(
    fill: FillRule, shares: int
) -> None:
    days = ["2025-11-18", "2025-11-19", "2025-11-20", "2025-11-21", "2025-11-24", "2025-11-25"]
    rows = [[10.0], [10.1], [10.0], [10.2], [10.0], [10.1], [10.0], [10.0], [10.0]]
    made = market(SECOND_DAY, opens=rows, days=[*days, *DAYS])
    cap = Execution(max_participation=0.1)
    settled = settle_at(made, 7, fill, 10**10, initial_cash=10**9, execution=cap)

    # 100 shares were traded in the first half hour, 200 on the day by the minute bars, and 1,000,000
    # by its daily bar.
    outcome = settled.outcomes[0]
    assert (outcome.rule, outcome.shares) == ("volume", shares * 10_000)


def test_an_outcome_is_the_return_between_adjusted_means() -> None:
    snapshot = market(SECOND_DAY, factor=[[1.0], [2.0], [2.0]])
    assert next_return(snapshot, 0, 0, "vwap_30m") == pytest.approx(2 * 10.4 / 11.1 - 1, rel=1e-12)
    assert next_return(snapshot, 0, 0, "twap_day") == pytest.approx(2 * 10.6 / 20.3 - 1, rel=1e-12)
    assert math.isnan(next_return(snapshot, 1, 0, "vwap_30m"))
