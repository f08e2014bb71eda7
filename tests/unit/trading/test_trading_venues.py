"""The executor under any venue: worked examples of shorts, fractions and closed days."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from ktdeval.errors import DataError
from ktdeval.fields import to_mapping
from ktdeval.market.snapshot import Instrument, MarketSnapshot
from ktdeval.market.venue import Fees, Shorting, Venue, find_venue
from ktdeval.trading.account import Settlement, open_account
from ktdeval.trading.executor import settle
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import Account, Action, Charge, CorporateAction, Order, Position, TradingConfig
from trading_market import make_market

FREE = TradingConfig(max_positions=50, max_weight=9.0)
PLAIN = dataclasses.replace(
    find_venue("us_equity"),
    name="plain",
    fees=Fees(),
    short=Shorting(borrow_pct_a_year=3.65, initial_margin_pct=50, maintenance_margin_pct=30),
)


def market_of(*venues: str, opens: Any, closes: Any = None, days: list[str] | None = None, **rows: Any) -> MarketSnapshot:
    """Assets A0, A1 … of the venues named, on days of 2024 from rows of prices."""
    codes = [f"A{number}" for number in range(len(venues))]
    instruments = tuple(Instrument("stock", "USD", venue) for venue in venues)
    made = make_market(codes, opens, closes, instruments=instruments, **rows)
    return dataclasses.replace(made, days=np.array(days or made.days, dtype="datetime64[D]"))


def order(asset: int, side: Any, shares: int | None = None, weight: float | None = None) -> Order:
    return Order(asset, side, 0.5, "", weight, shares)


def play(market: MarketSnapshot, *actions: Action, venue: Venue | None = PLAIN, config: TradingConfig = FREE) -> list[Settlement]:
    """Settle one action a day from the second day on, from 10,000 in cash."""
    config = dataclasses.replace(config, venue=venue, initial_cash=10_000)
    tape = MarketTape.from_snapshot(market, config)
    account, settled = open_account(config, tape.rules.minor_per_unit), []
    for row, action in enumerate(actions, start=1):
        settled.append(settle(account, tape.day(row), action, row - 1))
        account = settled[-1].after
    return settled


def ends(settlement: Settlement) -> list[tuple[str, str | None, int]]:
    return [(outcome.status, outcome.rule, outcome.shares) for outcome in settlement.outcomes]


def test_a_short_sale_brings_cash_pays_to_borrow_and_gains_as_the_price_falls() -> None:
    market = market_of(
        "us_equity",
        opens=[[50], [50], [48], [40]],
        closes=[[50], [49], [45], [40]],
        days=["2024-01-04", "2024-01-05", "2024-01-08", "2024-01-09"],
    )
    sold, over, back = play(market, (order(0, "SELL", 1_000_000),), (), (order(0, "BUY", weight=0.0),))
    assert ends(sold) == [("filled", None, 1_000_000)], "100 shares of 10,000 steps"
    assert sold.after == Account(1_500_000, {0: Position(-1_000_000)}), "10,000 and 5,000 of proceeds"
    assert sold.nav_minor == 1_500_000 - 490_000
    # Three nights at 3.65 % of 365 days on 4,900.00: 1.47.
    assert over.charges == (Charge("borrow", 0, -1_000_000, 490_000, -147),)
    assert over.nav_minor == 1_500_000 - 147 - 450_000
    # One night on 4,500.00: 0.45; then 100 shares are bought back at 40.
    assert back.charges == (Charge("borrow", 0, -1_000_000, 450_000, -45),)
    assert back.after == Account(1_500_000 - 147 - 45 - 400_000, {})


def test_a_short_needs_margin_and_a_buy_cannot_spend_it() -> None:
    market = market_of("us_equity", "us_equity", opens=[[50, 10]] * 3)
    first, second = play(
        market,
        (order(0, "SELL", 4_100_000), order(0, "SELL", 2_000_000)),
        (order(1, "BUY", 6_000_000), order(1, "BUY", weight=0.6)),
    )
    # 410 shares ask for 20,500 and 10,250 in cash; there would be 30,500. 200 shares ask for 15,000 of 20,000.
    assert ends(first) == [("rejected", "margin", 0), ("filled", None, 2_000_000)]
    assert ends(second) == [("partially_filled", "cash", 4_999_000), ("rejected", "cash", 0)], (
        "5,000 are free, less a night's interest of 1.00"
    )


def test_a_margin_call_buys_back_at_the_open_and_a_ruined_account_goes_on() -> None:
    market = market_of("us_equity", opens=[[50], [50], [70], [70]], closes=[[50], [50], [70], [70]])
    sold, called, after = play(market, (order(0, "SELL", 4_000_000),), (order(0, "SELL", 100),), (order(0, "BUY", 10_000),))
    assert sold.after.cash_minor == 3_000_000
    # Interest 2.00; 400 shares at 70 are 28,000 and ask for 36,400: they are bought back before the day's order is judged.
    assert called.charges == (
        Charge("borrow", 0, -4_000_000, 500_000, -200),
        Charge("margin_call", 0, 4_000_000, 700_000, -2_800_000),
    )
    assert called.opened == Account(199_800, {})
    assert ends(called) == [("filled", None, 100)]
    assert after.nav_minor > 0
    crash = market_of("us_equity", opens=[[50], [50], [200], [200]], closes=[[50], [50], [200], [200]])
    _, ruined, still = play(crash, (order(0, "SELL", 4_000_000),), (order(0, "SELL", 100),), (order(0, "BUY", 10_000),))
    assert ruined.after == Account(3_000_000 - 200 - 8_000_000, {})
    assert ends(ruined) == [("rejected", "weight_limit", 0)]
    assert ends(still) == [("rejected", "weight_limit", 0)]


def test_a_holding_or_short_has_no_more_steps_than_a_ledger_counts() -> None:
    market = market_of("frictionless", opens=[[1e-8]] * 3)  # 10,000 at 1e-8 are 1e20 steps of 1e-8 coins, of at most 9.2e18
    bought, sold = play(
        market,
        (order(0, "BUY", weight=0.1), order(0, "BUY", weight=0.05), order(0, "BUY", weight=0.1)),
        (order(0, "SELL", weight=-0.1), order(0, "SELL", weight=-0.09)),
        venue=find_venue("frictionless"),
    )
    assert ends(bought) == [("rejected", "weight_limit", 0), ("filled", None, 5 * 10**18), ("rejected", "weight_limit", 0)]
    assert ends(sold)[0] == ("rejected", "weight_limit", 0)
    assert sold.after.positions == {0: Position(-9 * 10**18)}


def test_holdings_are_sold_for_a_debt() -> None:
    market = market_of("us_equity", "us_equity", opens=[[50, 10], [50, 10], [200, 10]])
    _, called = play(market, (order(0, "SELL", 2_000_000), order(1, "BUY", 4_000_000)), ())
    assert [(charge.kind, charge.asset, charge.shares) for charge in called.charges] == [
        ("borrow", 0, -2_000_000),
        ("margin_call", 0, 2_000_000),
        ("margin_call", 1, -4_000_000),
    ]


def test_a_dividend_on_a_short_is_owed_and_a_split_of_a_fraction_keeps_its_value() -> None:
    # A factor of 1.01 is a dividend of about 1 %: as many shares more are owed. Then 3 for 1 on 0.5 of a share.
    market = market_of("us_equity", "us_equity", opens=[[50, 30], [50, 30], [49.5049505, 10]], factor=[[1, 1], [1, 1], [1.01, 3]])
    _, day = play(market, (order(0, "SELL", 10_200), order(1, "BUY", 5_000)), ())
    assert day.corporate_actions == (
        CorporateAction(0, 1.01, -10_200, -10_302, 0),
        CorporateAction(1, 3.0, 5_000, 15_000, 0),
    )
    assert day.after.positions == {0: Position(-10_302), 1: Position(15_000)}
    whole = dataclasses.replace(PLAIN, steps_per_unit=1)
    _, cut = play(market, (order(0, "SELL", 150),), (), venue=whole)
    # 151.5 shares would be owed: 151 are, and half of one at 49.5049… = 24.75 is paid.
    assert cut.corporate_actions == (CorporateAction(0, 1.01, -150, -151, -2475),)


def test_fractions_of_a_coin_and_dust_that_can_be_sold_but_not_bought() -> None:
    coin = find_venue("crypto_spot")
    market = market_of("crypto_spot", opens=[[60_000], [60_000.5], [60_000.5], [61_000]])
    bought, dust, sold = play(
        market,
        (order(0, "BUY", 12_345_678),),
        (order(0, "BUY", 1_000), order(0, "SELL", 12_345_600)),
        (order(0, "SELL", 78),),
        venue=coin,
    )
    # 0.12345678 * 60,000.50 = 7,407.47 (7407.4685…); 10 bps of it are 7.41.
    assert bought.after == Account(1_000_000 - 740_747 - 741, {0: Position(12_345_678)})
    assert ends(dust) == [("rejected", "minimum", 0), ("filled", None, 12_345_600)], "0.60 is less than the smallest order, 5.00"
    assert (sold.outcomes[0].notional_minor, sold.outcomes[0].fee_minor) == (4, 1), "78e-8 * 61,000 = 0.04758: down, and costs up"
    assert sold.after.positions == {}


@pytest.mark.parametrize(("fill", "price"), [("next_open", 11.0), ("next_close", 12.0), ("same_close", 10.5)])
def test_a_fill_is_at_the_price_that_the_venue_says(fill: Any, price: float) -> None:
    market = market_of("us_equity", opens=[[10], [11]], closes=[[10.5], [12]])
    (day,) = play(market, (order(0, "BUY", 10_000),), venue=dataclasses.replace(PLAIN, fill=fill))
    assert day.outcomes[0].price_ticks == price * 10_000
    assert day.nav_minor == 1_000_000 + round((12 - price) * 100)


def test_an_asset_with_closes_alone_trades_at_closes_and_never_at_an_open() -> None:
    market = market_of("us_equity", opens=[[None], [None]], closes=[[10.5], [12]], volume=[[None], [None]])
    got = {
        fill: ends(play(market, (order(0, "BUY", 1),), venue=dataclasses.replace(PLAIN, fill=fill))[0])[0][:2]
        for fill in ("next_open", "next_close", "same_close")
    }
    assert got == {"next_open": ("rejected", "suspended"), "next_close": ("filled", None), "same_close": ("filled", None)}


def test_a_closed_or_halted_day_fills_nothing_and_a_delisted_name_keeps_its_mark() -> None:
    # A stock that rests on the weekend and ends, beside a coin of every day.
    days = ["2024-01-05", "2024-01-06", "2024-01-07", "2024-01-08", "2024-01-09"]
    stock, coin = [100, None, None, 104, None], [40, 41, 42, 43, 44]
    market = market_of(
        "us_equity",
        "crypto_spot",
        opens=[*zip(stock, coin, strict=True)],
        days=days,
        volume=[[5, 5], [None, 5], [None, 5], [5, 5], [None, 5]],
    )
    both = (order(0, "BUY", 10_000), order(1, "BUY", 10**8))
    settled = play(market, both, both, both, (order(0, "SELL", 10_000),), venue=None)
    assert [ends(day)[0][:2] for day in settled] == [("rejected", "suspended")] * 2 + [("filled", None), ("rejected", "suspended")]
    assert [ends(day)[-1][:2] for day in settled[:3]] == [("filled", None)] * 3
    # Stock: 1 share at 104, commission 1 % at most = 1.04 (0.005 and at least 1.00 are 1.00); a coin costs 10 bps, rounded up.
    assert settled[2].outcomes[0].fee_minor == 100
    assert [day.nav_minor for day in settled] == [999_995, 1_000_090, 1_000_285 - 100, 1_000_585 - 100]


def test_accounts_of_one_currency_only() -> None:
    market, euro = market_of("us_equity", "a_share", opens=[[1, 1], [1, 1]]), dataclasses.replace(PLAIN, currency="EUR")
    mills = dataclasses.replace(market, rules={"a_share": dataclasses.replace(PLAIN, minor_per_unit=1000)})
    for made, venue, message in (
        (market, None, "prices are in USD, and venue a_share counts in 1/100 CNY; an account has one currency"),
        (market, euro, "prices are in USD, and venue plain counts in 1/100 EUR"),
        (mills, None, "venue plain counts in 1/1000 USD; an account has one currency: choose a venue of USD"),
    ):
        with pytest.raises(DataError, match=message):
            MarketTape.from_snapshot(made, dataclasses.replace(FREE, venue=venue))


def test_a_config_without_a_venue_of_its_own_is_written_as_before_there_were_venues() -> None:
    assert "venue" not in to_mapping(FREE)
    assert to_mapping(dataclasses.replace(FREE, venue=PLAIN))["venue"]["name"] == "plain"
