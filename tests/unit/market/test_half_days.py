"""On days on which an exchange closes early, nothing after that close is known at it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import numpy as np
import pandas as pd
import pytest

from ktdeval.market import Close, Document, Documents, Instrument, MarketSnapshot, MinuteBars
from ktdeval.market.venues.exchange_hours import close_instants
from ktdeval.market.venues.venue import find_venue
from ktdeval.testing import snapshot_of_days

STOCK = Instrument("stock", "USD", "us_equity")
COIN = Instrument("crypto", "USD", "crypto_spot")


def market_of(first: str, instrument: Instrument = STOCK, days: int = 4) -> MarketSnapshot:
    code = "AVLN"
    return snapshot_of_days([code], [[10.0]] * days, first=first, instruments=(instrument,))


def news(market: MarketSnapshot, *moments: str, close: str) -> MarketSnapshot:
    """The market with an item known at each moment."""
    items = []
    for text in moments:
        moment = datetime.fromisoformat(text)
        items.append(Document(moment, moment, "wire", "news", (), text, "words"))

    return replace(market, documents=Documents.of(items, Close.parse(close)))


def known_on(market: MarketSnapshot, day: str) -> list[str]:
    """Titles of the items known at the close of a day, newest last."""
    return [item.title for item in market.as_of(market.day_index(day)).documents]


@pytest.mark.parametrize(
    ("day", "close"),
    [
        ("2025-07-03", "2025-07-03T17:00"),  # the eve of Independence Day: 13:00 in New York
        ("2024-11-29", "2024-11-29T18:00"),  # the day after Thanksgiving
        ("2024-12-24", "2024-12-24T18:00"),
        ("2025-07-02", "2025-07-02T20:00"),
        ("2025-07-04", "2025-07-04T20:00"),  # no session
    ],
)
def test_the_close_in_new_york_is_at_13_on_half_days(day: str, close: str) -> None:
    (instant,) = close_instants(find_venue("us_equity"), np.array([day], "M8[D]"))
    assert np.datetime64(int(instant), "us") == np.datetime64(close)


def test_news_after_an_early_close_are_known_at_the_next_close() -> None:
    before = "2025-07-03T12:59:00-04:00"
    after = "2025-07-03T14:00:00-04:00"
    market = news(market_of("2025-07-02"), before, after, close="16:00 America/New_York")

    assert known_on(market, "2025-07-03") == [before]
    assert known_on(market, "2025-07-04") == [before, after]
    view = market.as_of(3).documents
    assert [view.day_of(row) for row in range(2)] == [1, 2]


def test_an_option_before_the_early_close_stays() -> None:
    moment = "2025-07-03T11:00:00-04:00"
    market = news(market_of("2025-07-02"), moment, close="10:00 America/New_York")
    assert known_on(market, "2025-07-03") == []


def test_on_a_usual_day_the_option_decides() -> None:
    evening = "2025-07-02T18:00:00-04:00"
    market = news(market_of("2025-07-02"), evening, close="20:00 America/New_York")
    assert known_on(market, "2025-07-02") == [evening]


def test_coins_and_shanghai_have_no_half_days() -> None:
    moment = "2025-07-03T23:00:00+00:00"
    coins = news(market_of("2025-07-02", COIN), moment, close="24:00 UTC")
    assert known_on(coins, "2025-07-03") == [moment]

    days = np.arange("2024-01-01", "2025-01-01", dtype="M8[D]")
    close = Close.parse("15:00 Asia/Shanghai")
    usual = [close.instant(day) for day in days]
    assert close_instants(find_venue("a_share"), days).tolist() == usual


def test_where_stocks_and_coins_are_one_market_the_early_close_counts() -> None:
    moment = "2025-07-03T14:00:00-04:00"
    mixed = snapshot_of_days(
        ["AVLN", "BTC"], [[10.0, 20.0]] * 4, first="2025-07-02", instruments=(STOCK, COIN)
    )
    market = news(mixed, moment, close="16:00 America/New_York")
    assert known_on(market, "2025-07-03") == []


def test_minute_bars_after_an_early_close_are_not_shown_at_it() -> None:
    ends_at = ["2025-07-03T16:59", "2025-07-03T17:00", "2025-07-03T18:00"]
    prices = dict.fromkeys(("open", "high", "low", "close", "volume"), 10.0)
    table = pd.DataFrame({"code": "AVLN", "ends_at": np.array(ends_at, "M8[m]"), **prices})
    market = replace(market_of("2025-07-02"), minutes=MinuteBars.of(table))

    at_close = market.as_of(1).minutes("AVLN", 1)
    assert at_close["ends_at"].tolist() == np.array(ends_at[:2], "M8[m]").tolist()
    assert len(market.as_of(2).minutes("AVLN", 1)) == 3
