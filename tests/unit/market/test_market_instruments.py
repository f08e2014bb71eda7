"""Assets of other markets than A-shares: kinds, calendars, closes without opens, no index; and
venues: what the built-in files say, what a venue may not be, and venues by plugin, kept in the
market whole.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ktdeval.errors import ConfigError, DataError, UsageError
from ktdeval.market import (
    Fees,
    Instrument,
    MarketSnapshot,
    load_snapshot,
    parse_symbol,
    save_snapshot,
    with_id,
)
from ktdeval.market.venues.venue import built_in_venues, find_venue, parse_venue
from ktdeval.registry import load_plugins
from ktdeval.task_api import TaskTraits
from ktdeval.task_api.scoring import market_problem
from ktdeval.testing import on_each_row, tiny_snapshot
from ktdeval.trading.types import TradingConfig
from ktdeval.values import to_mapping
from ktdeval_raw_markets.assembly import assemble
from ktdeval_raw_markets.checks.quality import check, raw_from_snapshot
from ktdeval_raw_markets.sources.raw_tables import RawMarket

STOCK = Instrument("stock", "USD", "us_equity")
COIN = Instrument("crypto", "USD", "crypto_spot")
DAYS = pd.date_range("2025-08-01", "2025-08-05")  # Friday to Tuesday
CLOSES = {
    "TSLA": [302.63, None, None, 309.26, 308.72],
    "BTC": [113_320.57, 112_526.91, 114_217.66, 115_071.88, 114_141.45],
}


def mixed(closes: dict[str, list[float | None]] | None = None, **changes: object) -> RawMarket:
    """TSLA on its sessions and BTC on every day, without an index."""
    cells = [
        (day, code, close)
        for code, row in (closes or CLOSES).items()
        for day, close in zip(DAYS, row, strict=True)
        if close
    ]
    bars = pd.DataFrame(cells, columns=["date", "code", "close"]).assign(
        volume=1.5, amount=np.nan, factor=np.nan
    )
    bars = bars.assign(**dict.fromkeys(("open", "high", "low"), bars["close"]))
    lives = (
        bars.groupby("code")["date"]
        .agg(["min", "max"])
        .reset_index()
        .set_axis(["code", "first", "last"], axis=1)
    )
    whole = RawMarket(
        "mixed",
        "by hand",
        "",
        bars,
        pd.DataFrame({"date": DAYS[:0], "code": [], "close": []}),
        lives,
        pd.DataFrame(columns=["code", "name", "industry"]),
        has_factor=False,
        instruments={"TSLA": STOCK, "BTC": COIN},
    )

    return dataclasses.replace(whole, **changes)


@pytest.fixture(scope="module")
def snapshot() -> MarketSnapshot:
    return with_id(assemble(mixed()))


def kinds(raw: RawMarket) -> dict[str, int]:
    return {finding.rule: finding.count for finding in check(raw)}


def test_the_days_of_a_mixed_market_are_those_of_all_calendars(
    snapshot: MarketSnapshot, tmp_path: Path
) -> None:
    assert snapshot.days.tolist() == [day.date() for day in DAYS]
    assert snapshot.codes == ("BTC", "TSLA")
    assert (snapshot.kinds, snapshot.venues) == (("crypto", "stock"), ("crypto_spot", "us_equity"))
    assert (snapshot.currency, snapshot.days_a_year, snapshot.minor_per_unit) == ("USD", 365, 100)

    # A closed exchange has no bar: no price, and no record of a suspension.
    for grid in (snapshot.open, snapshot.close, snapshot.volume):
        assert np.isfinite(grid).tolist() == [
            [True, True],
            [True, False],
            [True, False],
            [True, True],
            [True, True],
        ]

    assert snapshot.close[0].tolist() == [113_320.57, 302.63]
    assert snapshot.volume[0].tolist() == [1.5, 1.5]
    assert save_snapshot(snapshot, tmp_path / "m").id == snapshot.id

    again = load_snapshot(tmp_path / "m")
    assert (again.instruments, again.rules) == (snapshot.instruments, snapshot.rules)
    assert (
        dataclasses.replace(again, instruments=()).id
        == again.id
        != with_id(dataclasses.replace(again, instruments=())).id
    )
    assert kinds(raw_from_snapshot(again)) == kinds(mixed())


def test_days_count_by_the_venues_that_have_a_close_on_them(snapshot: MarketSnapshot) -> None:
    coin_first = assemble(
        mixed({"BTC": [1.0, 2.0, 3.0, None, None], "TSLA": [None, None, None, 309.26, 308.72]})
    )

    assert [
        coin_first.days_a_year_of(coin_first.days[rows])
        for rows in (slice(3), slice(3, 5), slice(5), slice(0))
    ] == [
        365,
        252,
        365,
        365,
    ]
    assert [snapshot.days_a_year_of(snapshot.days[rows]) for rows in (slice(1), slice(3, 5))] == [
        365,
        365,
    ]


def test_the_rules_of_venues_are_stored_and_part_of_the_identity(tmp_path: Path) -> None:
    # A venue of a plugin: nobody who loads the market needs the plugin.
    own = dataclasses.replace(find_venue("crypto_spot"), name="dex", days_a_year=360, lot_steps=7)
    assert own.fees.buy_bps == 10

    # whole numbers read as the same rules
    changed = dataclasses.replace(own, fees=Fees(buy_bps=10, sell_bps=10))
    markets = [
        assemble(
            mixed(
                instruments={"TSLA": STOCK, "BTC": Instrument("crypto", "USD", "dex")},
                rules={"dex": venue},
            )
        )
        for venue in (own, changed, dataclasses.replace(own, lot_steps=8))
    ]

    assert [market.days_a_year for market in markets] == [360] * 3
    assert with_id(markets[0]).id == with_id(markets[1]).id != with_id(markets[2]).id

    save_snapshot(markets[1], tmp_path / "m")
    again = load_snapshot(tmp_path / "m")

    assert again.rules == {"dex": own, "us_equity": find_venue("us_equity")}

    text = (tmp_path / "m" / "manifest.json").read_text()

    for old, new, message in (
        ('"lot_steps": 7', '"lot_steps": 9', "manifest.json: id differs"),
        ('"lot_steps": 7', '"lot_steps": "x"', "lot_steps"),
        ('"venues": {', '"venues": [], "x": {', "venues are not mappings"),
    ):
        assert old in text
        (tmp_path / "m" / "manifest.json").write_text(text.replace(old, new))
        with pytest.raises(DataError, match=message):
            load_snapshot(tmp_path / "m")


def test_sessions_of_a_stock_at_a_venue_that_never_closes_are_unknown() -> None:
    both = {
        code: Instrument(kind, "USD", "frictionless")
        for code, kind in (("TSLA", "stock"), ("BTC", "crypto"))
    }

    assert {"gaps", "calendar_mismatch"}.isdisjoint(kinds(mixed(instruments=both)))

    alone = mixed({"TSLA": CLOSES["TSLA"]}, instruments=both)
    assert {"gaps", "calendar_mismatch"}.isdisjoint(kinds(alone))
    assert assemble(alone, ["drop_non_sessions"]).meta.repairs == ()


def test_prices_that_a_tick_of_their_venue_moves_are_named() -> None:
    # whole ticks, or under 0.1 %
    fine = {"BTC": [1e-5, 1.0051e-5, 1.0, 1.0, 1.0], "TSLA": [0.0003, None, None, 0.1234, 1.0]}
    assert "coarse_ticks" not in kinds(mixed(fine))
    coarse = {"BTC": [1.4e-8, 1e-9, 1.0, 1.0, 1.0], "TSLA": [0.00034, None, None, 0.0712, 1.0]}
    assert kinds(mixed(coarse))["coarse_ticks"] == 3


def test_a_move_by_a_whole_number_of_times_looks_like_a_split_of_a_stock() -> None:
    # 14.7:1, then -37 %
    like = {"BTC": [1.0, 15.0, 15.0, 15.0, 15.0], "TSLA": [150.0, None, None, 10.2, 6.4]}
    assert kinds(mixed(like))["split_like_moves"] == 1

    table = mixed(like).bars
    factor = np.where((table["code"] == "TSLA") & (table["date"] > DAYS[0]), 15.0, 1.0)

    assert "split_like_moves" not in kinds(
        mixed(like, bars=table.assign(factor=factor), has_factor=True)
    )


def test_closes_alone_are_enough_where_a_venue_fills_at_the_close() -> None:
    bars = mixed().bars
    bars.loc[bars["code"] == "TSLA", ["open", "high", "low"]] = np.nan
    market = assemble(mixed(bars=bars))

    assert market.close_only.tolist() == [False, True]
    assert market.meta.notes == ("closes only, no open, high or low: TSLA",)

    bars.loc[3, "open"] = np.nan  # one missing open is a fault as ever
    assert kinds(mixed(bars=bars))["incomplete_bars"] == 1


def test_symbols_currencies_and_venues_are_checked(snapshot: MarketSnapshot) -> None:
    assert [parse_symbol(text) for text in ("btc-usd", " BRK.B ", "../x", "A" * 25, "", ".A")] == [
        "BTC-USD",
        "BRK.B",
        *[None] * 4,
    ]

    bad = {"TSLA": CLOSES["TSLA"], "../BTC": CLOSES["BTC"]}

    with pytest.raises(DataError, match=r"1 unknown_symbols \(first: '../BTC'\)"):
        assemble(mixed(bad, instruments={"TSLA": STOCK, "../BTC": COIN}))

    for changes, message in (
        ({"codes": ("BTC", "a/b")}, "'a/b' is not a symbol"),
        ({"instruments": (COIN,)}, "1 instruments for 2 assets"),
        (
            {"instruments": (COIN, Instrument("stock", "EUR", "frictionless"))},
            "prices in EUR and USD",
        ),
    ):
        with pytest.raises(DataError, match=message):
            dataclasses.replace(snapshot, **changes)

    with pytest.raises(
        UsageError, match="venue 'us_equities' is unknown; did you mean 'us_equity'"
    ):
        dataclasses.replace(snapshot, instruments=(COIN, Instrument("stock", "USD", "us_equities")))

    with pytest.raises(DataError, match="BTC trades on crypto_spot, which has no boards"):
        _ = snapshot.boards


def test_a_shares_are_what_they_were() -> None:
    plain = tiny_snapshot({"609001.SH": [10.0, 10.5], "309001.SZ": [5.0, 5.1]})
    explicit = dataclasses.replace(plain, instruments=(Instrument(), Instrument()))

    assert (explicit.instruments, with_id(explicit).id) == ((), with_id(plain).id)
    assert (plain.venues, plain.currency, plain.days_a_year) == (("a_share", "a_share"), "CNY", 252)
    assert not plain.close_only.any()


def test_market_without_an_index_has_no_levels_and_suits_no_a_share_task(
    snapshot: MarketSnapshot,
) -> None:
    class About:
        name, traits = "bright_open_research", TaskTraits(needs_a_shares=True)
        trading = TradingConfig()

    plain = tiny_snapshot({"609001.SH": [10.0, 10.5]})
    without = dataclasses.replace(
        plain, meta=dataclasses.replace(plain.meta, benchmark=""), indices={}
    )

    assert np.isnan(without.benchmark).all()

    about = "bright_open_research is about A-shares and their index;"
    assert [market_problem(About, market) for market in (plain, without, snapshot)] == [
        None,
        f"{about} tiny has no index: choose other --data",
        f"{about} mixed has 2 other assets (BTC of crypto_spot): choose other --data",
    ]
    assert market_problem(SimpleNamespace(name="any", trading=TradingConfig()), snapshot) is None


# ---- venues


@on_each_row(
    "name, ticks_per_minor, days, calendar, shorts, fill",
    ("a_share", 100, 252, "XSHG", False, "next_open"),
    ("us_equity", 1_000_000, 252, "XNYS", True, "next_open"),
    ("crypto_spot", 100_000_000_000_000, 365, "24/7", False, "next_open"),
    ("frictionless", 100_000_000_000_000, 252, "24/7", True, "same_close"),
    ("frictionless_long", 100_000_000_000_000, 252, "24/7", False, "same_close"),
)
def test_built_in_venues(
    name: str, ticks_per_minor: int, days: int, calendar: str, shorts: bool, fill: str
) -> None:
    venue = find_venue(name)
    assert venue.name == name
    assert (venue.ticks_per_minor, venue.days_a_year, venue.calendar) == (
        ticks_per_minor,
        days,
        calendar,
    )
    assert (venue.short is not None, venue.fill) == (shorts, fill)


def test_the_a_share_venue_has_the_default_costs_and_lots_of_tasks() -> None:
    venue = find_venue("a_share")
    config = TradingConfig()

    assert (venue.fees.buy_bps, venue.fees.sell_bps, venue.fees.minimum) == (
        config.buy_fee_bps, config.sell_fee_bps, config.min_fee_cny,
    )  # fmt: skip
    assert venue.lot_steps == config.lot_shares


@on_each_row(
    "change, words",
    ({"ticks_per_unit": 1, "minor_per_unit": 100}, "must be a multiple of minor_per_unit"),
    (
        {"short": {"borrow_pct_a_year": 1, "initial_margin_pct": 20, "maintenance_margin_pct": 30}},
        "swap them",
    ),
    ({"close": "25:00"}, "venue a_share: close '25:00 "),
    ({"zone": "Mars/X"}, "time zone 'Mars/X' is unknown"),
    ({"has_boards": True, "steps_per_unit": 100}, "leave steps_per_unit at 1"),
    ({"fees": {"buy_bp": 5}}, "unknown field 'buy_bp'; did you mean 'buy_bps'"),
    ({"fill": "open"}, "expected one of next_open, next_close, same_close"),
    ({"days_a_year": 0}, "expected a value from 1 to 366"),
)
def test_a_venue_whose_rules_do_not_go_together_is_an_error(
    change: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_venue({**to_mapping(find_venue("a_share")), **change}, "mine.yaml")


# ---- venues by plugin


def test_the_built_in_venues_use_the_same_hook_as_plugins() -> None:
    plugins = load_plugins()
    assert plugins.venues().items() >= built_in_venues().items()
    assert plugins.owner("venues", "us_equity") == "ktdeval_data"
