"""Prices in several currencies become one account's: by hand, at rate 1, with a poisoned future, by
pandas on real files.
"""

from __future__ import annotations

import dataclasses
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ktdeval.cards import count as count_of
from ktdeval.errors import KtdevalError, LeakError
from ktdeval.market import Instrument, MarketSnapshot, find_venue, with_id
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.registry import load_plugins
from ktdeval.task_api import Window
from ktdeval.testing import Terminal, check_task, on_each_row, scene_on
from ktdeval.trading import AccountConfig, MarketTape
from ktdeval.trading.daily_settlement import open_account
from ktdeval.trading.executor import settle
from ktdeval.trading.types import Order
from ktdeval_data.currency_conversion import convert
from ktdeval_data.long_table import read_long
from ktdeval_data.params import LongParams
from ktdeval_raw_markets.assembly import assemble
from ktdeval_raw_markets.checks.quality import check, raw_from_snapshot
from support.market.raw_market import findings_of
from support.tables import changed

BARS = """date,code,open,high,low,close,volume,amount
2025-03-03,AAPL,240,242,236,238,1000,
2025-03-04,AAPL,238,240,230,236,1000,
2025-03-05,AAPL,236,238,230,235,1000,
2025-03-06,AAPL,235,238,230,237,1000,
2025-03-03,SAP,250,255,249,252,500,125000
2025-03-04,SAP,252,256,251,254,500,125000
2025-03-05,SAP,256,260,255,258,500,125000
2025-03-06,SAP,260,262,250,250,500,125000
"""
ASSETS = "code,currency\nSAP,EUR\n"
RATES = "date,currency,rate\n2025-02-28,EUR,1.04\n2025-03-03,EUR,1.05\n2025-03-04,EUR,1.06\n2025-03-06,EUR,1.1\n2025-03-06,GBP,1.3\n"


def read(
    folder: Path, bars: str = BARS, assets: str = ASSETS, fx: str = RATES, **given: Any
) -> MarketSnapshot:
    """Import the tables; `given` are options, in which a file's name stands for its path."""
    for name, text in (("bars", bars), ("assets", assets), ("fx", fx)):
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")

    options = {"bars": "bars.csv", "industry": "assets.csv", "fx": "fx.csv", **given}
    options |= {
        name: str(folder / text) for name, text in options.items() if str(text).endswith(".csv")
    }
    options["fx"] = options.pop("rates", options["fx"])
    own = {"venue": "us_equity", "currency": "USD", "name": "two", "source": "by hand"}
    return with_id(assemble(read_long(LongParams(**(own | options)))))


def prices(market: MarketSnapshot, code: str) -> np.ndarray:
    """[T, 4] open, high, low, close."""
    bars = np.stack([market.open, market.high, market.low, market.close], axis=2)
    return bars[:, market.asset_index[code]]


@pytest.mark.exhaustive
def test_a_price_is_converted_by_the_rate_that_is_known_when_it_is_made(tmp_path: Path) -> None:
    market = read(tmp_path)
    assert prices(market, "AAPL")[0].tolist() == [240, 242, 236, 238]
    assert prices(market, "SAP") == pytest.approx(
        np.array(
            [
                # Monday's open at Friday's rate, below the low at Monday's
                [250 * 1.04, 255 * 1.05, 250 * 1.04, 252 * 1.05],
                [252 * 1.05, 256 * 1.06, 252 * 1.05, 254 * 1.06],
                # no rate of its own: the last one
                [256 * 1.06, 260 * 1.06, 255 * 1.06, 258 * 1.06],
                [260 * 1.06, 262 * 1.10, 250 * 1.10, 250 * 1.10],
            ]
        ),
        rel=1e-15,
    )
    assert market.amount[:, 1].tolist() == pytest.approx(
        [125000 * rate for rate in (1.05, 1.06, 1.06, 1.1)]
    )
    assert market.volume[:, 1].tolist() == [500] * 4
    assert market.instruments == (Instrument("stock", "USD", "us_equity"),) * 2
    assert (market.indices["EURUSD"].tolist(), market.index_names) == (
        [1.05, 1.06, 1.06, 1.1],
        {"EURUSD": "USD for one EUR"},
    )
    assert market.meta.notes[-2:] == (
        "rates not needed: GBP",
        "prices of 1 asset in EUR are converted to USD by the rates of each day: SAP",
    )
    assert not [finding for finding in check(raw_from_snapshot(market)) if finding.level == "error"]
    assert read(tmp_path, fx=RATES.replace("1.1\n", "1.11\n")).id != market.id


def test_quotes_are_converted_by_the_rate_of_their_close(tmp_path: Path) -> None:
    lines = BARS.splitlines()
    quoted = [f"{lines[0]},bid,ask", *(f"{line},253,254" for line in lines[1:])]
    market = read(tmp_path, bars="\n".join(quoted) + "\n")

    rates = np.array([[1, 1.05], [1, 1.06], [1, 1.06], [1, 1.1]])
    np.testing.assert_allclose(market.quotes.arrays["bid"], 253 * rates, rtol=1e-15)
    np.testing.assert_allclose(market.quotes.arrays["ask"], 254 * rates, rtol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("venue", ["us_equity", "frictionless"])
def test_buy_and_hold_of_two_currencies_ends_in_the_nav_worked_by_hand(
    venue: str, tmp_path: Path
) -> None:
    market = read(tmp_path, venue=venue)
    rules = AccountConfig(initial_cash=100_000, max_weight=1.0).rules("test")
    tape = MarketTape.from_snapshot(market, rules)
    account = open_account(rules)
    steps = find_venue(venue).steps_per_unit
    buys = tuple(Order(asset, "BUY", 0.5, "", None, 100 * steps) for asset in (0, 1))
    nav = []

    for row in (1, 2, 3):
        day = settle(account, tape.day(row), buys if row == 1 else (), row - 1)
        account = day.after
        nav.append(day.nav_minor / 100)

    # Bought at Tuesday's opens, 238 and 252 EUR at Monday's 1.05, for 1 USD each; or at Monday's
    # closes, 238 and 252 at 1.05.
    cash = 100_000 - 23_800 - 26_460 - (2 if venue == "us_equity" else 0)

    assert nav == pytest.approx(
        [cash + 23_600 + 26_924, cash + 23_500 + 27_348, cash + 23_700 + 27_500], abs=0.001
    )


@pytest.mark.sampled(10)
# A mapping replaces words of the faultless table, a list adds lines to it; others are options.
@on_each_row(
    "changes, message",
    (
        {"rates": None, "currency": None},
        "snapshot two: prices in EUR and USD; convert them by --fx RATES --currency CODE",
    ),
    ({"currency": None}, "--fx and --currency go together"),
    ({"rates": None}, "--fx and --currency go together"),
    ({"assets": ("code\nSAP\n")}, "all prices are already in USD; leave --fx and --currency out"),
    ({"fx": {"EUR": "CHF"}}, "fx.csv: no rate of EUR in the 10 days up to 2025-03-03; add one"),
    (
        {"fx": {"2025-02-28,EUR,1.04\n": ""}},
        "no rate of EUR in the 10 days before 2025-03-03, for its opens",
    ),
    (
        {"fx": {"2025-02-28": "2025-02-20"}},
        "no rate of EUR in the 10 days before 2025-03-03, for its opens",
    ),
    (
        {"bars": ["2025-03-17,AAPL,1,1,1,1,1,"]},
        "no rate of EUR in the 10 days up to 2025-03-17; add one",
    ),
    (
        {"fx": {"1.06": "0"}},
        (
            "fx.csv: EUR 2025-03-04: rate 0: each row has a currency, a day of its own and a "
            "rate above 0"
        ),
    ),
    ({"fx": {"1.06": "-1"}}, "EUR 2025-03-04: rate -1"),
    ({"fx": {"1.06": "inf"}}, "EUR 2025-03-04: rate inf"),
    ({"fx": {"1.06": ""}}, "EUR 2025-03-04: rate nan"),
    (
        {"fx": ["2025-03-03,EUR,1.05"]},
        "EUR 2025-03-03: rate 1.05: each row has a currency, a day of its own",
    ),
    ({"fx": ["2025-03-03,,1.05"]}, "nan 2025-03-03: rate 1.05: each row has a currency"),
    ({"fx": {"1.06": "much"}}, "column 'rate' holds 'much', expected numbers"),
    ({"fx": {",rate": ",price"}}, "no column for 'rate'"),
    (
        {
            "bars": {"SAP": "600519.SH"},
            "assets": ("code,venue\n600519.SH,a_share"),
            "fx": {"EUR,": "CNY,"},
        },
        (
            "600519.SH: its prices are converted to USD, and venue a_share has CNY fees and "
            "limits; make CNY the --currency, or"
        ),
    ),
    (
        {"assets": ["AAPL,EUR"], "currency": "CNY"},
        "AAPL: .* venue us_equity has USD fees and limits; make USD",
    ),
    ({"fx": {",1.0": ",0.000010"}}, "SAP: .* venue us_equity has ticks too coarse for 0.00264"),
    (
        {"benchmark": "bars.csv", "benchmark_code": "SAP"},
        "SAP is not in USD; give its levels in USD in a separate file",
    ),
    (
        {"minutes": "minutes.csv"},
        "--minutes: bars within days are not converted; leave out those of SAP",
    ),
    ({"bars": {"250,255,249": "256,255,249"}}, "1 impossible_bars \\(first: SAP 2025-03-03\\)"),
    (
        {"bars": {"252,256,251,254": "252,256,251,257"}},
        "1 impossible_bars \\(first: SAP 2025-03-04\\)",
    ),
)
def test_what_can_not_be_converted_is_one_clear_line(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    (tmp_path / "minutes.csv").write_text(
        "time,code,open,high,low,close,volume\n2025-03-03T15:00-05:00,SAP,250,251,250,251,9\n"
    )
    whole = {"bars": BARS, "assets": ASSETS, "fx": RATES}

    with pytest.raises(KtdevalError, match=message) as caught:
        read(
            tmp_path,
            **{name: changed(whole.get(name, ""), change) for name, change in changes.items()},
        )

    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_in_a_market_of_yuan_only_prices_of_a_shares_are_whole_fen(tmp_path: Path) -> None:
    for name, text in (("bars", BARS), ("fx", RATES)):
        (tmp_path / f"{name}.csv").write_text(text)

    raw = read_long(LongParams(bars=str(tmp_path / "bars.csv"), venue="us_equity", kind="etf"))
    bars = raw.bars.assign(factor=1.5)
    rules = {"fund": dataclasses.replace(find_venue("us_equity"), name="fund", currency="CNY")}
    quoted = dict.fromkeys(("AAPL", "SAP"), Instrument("etf", "EUR", "fund"))
    raw = dataclasses.replace(raw, bars=bars, has_factor=True, instruments=quoted, rules=rules)
    made = convert(
        raw, LongParams(bars="bars.csv", fx=str(tmp_path / "fx.csv"), currency="CNY"), {}
    )

    assert not made.in_fen.any()
    assert "prices_look_adjusted" not in findings_of(made)
    assert assemble(made).close[1].tolist() == [236 * 1.06, 254 * 1.06]


def random_table(seed: int) -> str:
    """Bars of six assets: days without a row, halts that repeat a flat price, closes alone, volumes
    that are not known.
    """
    chance = np.random.default_rng(seed)
    rows = ["date,code,open,high,low,close,volume,amount,factor"]

    for number in range(6):
        for day in pd.bdate_range("2025-03-03", periods=40):
            close, wide = chance.uniform(20, 400, 2)
            open_ = close * chance.uniform(0.97, 1.03)
            kind = chance.integers(8)
            high = max(open_, close) * (1 + wide / 4e4)
            low = min(open_, close) * (1 - wide / 4e4)
            bar = {
                0: f"{close},{close},{close},{close},,",
                1: f"{open_},{high},{low},{close},0,0",
            }.get(kind, f"{open_},{high},{low},{close},{'' if kind == 2 else 1000},{1000 * close}")
            if kind != 3:
                rows.append(
                    f"{day:%Y-%m-%d},A{number},{f',,,{close},1000,' if number == 5 else bar},{1 if day.day < 20 else 1.5}"
                )

    return "\n".join(rows)


LISTED = "code,currency,venue\nA0,EUR,us_equity\nA1,GBP,frictionless\nA2,USD,\nA3,EUR,crypto_spot\nA4,GBP,\nA5,EUR,frictionless\n"
IN_DOLLARS = LISTED.replace("EUR", "USD").replace("GBP", "USD")
SERIES = ("open", "high", "low", "close", "volume", "amount", "factor", "member")


def random_rates(seed: int, after: str = "9999") -> str:
    """Rates of two currencies with days without one; those after a day are of another path."""
    chance = np.random.default_rng(seed)
    other = np.random.default_rng(seed + 1000)
    rows = ["date,currency,rate"]
    levels = {"EUR": 1.1, "GBP": 1.3}

    for day in pd.date_range("2025-02-24", periods=62):
        for currency in levels:
            moves = chance.normal(0, 0.02), other.normal(0, 0.3)
            levels[currency] *= np.exp(moves[str(day.date()) > after])
            if chance.random() < 0.8 or day.day == 24:
                rows.append(f"{day:%Y%m%d},{currency},{levels[currency]}")

    return "\n".join(rows)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2))
def test_at_rate_one_the_market_is_the_unconverted_one(seed: int, tmp_path: Path) -> None:
    bars = random_table(seed)
    ones = "date,currency,rate\n" + "".join(
        f"{day:%Y-%m-%d},{one},1\n"
        for day, one in product(pd.date_range("2025-03-01", periods=60, freq="5D"), ("EUR", "GBP"))
    )
    plain = read(tmp_path, bars, IN_DOLLARS, rates=None, currency=None)
    made = read(tmp_path, bars, LISTED, ones)

    for name in SERIES:
        np.testing.assert_array_equal(getattr(made, name), getattr(plain, name), err_msg=name)

    assert made.close_only.tolist() == [False] * 5 + [True]
    assert {code: set(levels.tolist()) for code, levels in made.indices.items()} == {
        "EURUSD": {1.0},
        "GBPUSD": {1.0},
    }
    assert [note for note in made.meta.notes if "converted" not in note] == list(plain.meta.notes)

    bare = dataclasses.replace(made, meta=plain.meta, indices={}, index_names={}, id="")
    assert with_id(bare).id == plain.id


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2))
def test_no_rate_of_a_later_day_is_seen_and_an_open_sees_none_of_its_own(
    seed: int, tmp_path: Path
) -> None:
    bars = random_table(seed)
    row = 20 + seed
    true = read(tmp_path, bars, LISTED, random_rates(seed))
    false = read(tmp_path, bars, LISTED, random_rates(seed, after=str(true.days[row])))
    plain = read(tmp_path, bars, IN_DOLLARS, rates=None, currency=None)
    np.testing.assert_array_equal(
        np.isnan(true.close), np.isnan(plain.close), err_msg="a flat bar without trade stays a halt"
    )

    for name in SERIES:
        early = getattr(true, name)
        other = getattr(false, name)
        np.testing.assert_array_equal(early[: row + 1], other[: row + 1], err_msg=name)

    np.testing.assert_array_equal(
        true.open[row + 1], false.open[row + 1], err_msg="fills at the next open"
    )

    assert not np.array_equal(true.close[row + 1], false.close[row + 1], equal_nan=True)

    views = [market.as_of(row).indices for market in (true, false)]
    assert {code: levels.tolist() for code, levels in views[0].items()} == {
        code: levels.tolist() for code, levels in views[1].items()
    }

    traded = np.isfinite(true.open)
    assert (true.high >= true.open * (1 - 1e-12))[traded].all()
    assert (true.low <= true.open * (1 + 1e-12))[traded].all()

    plugins = load_plugins()

    for name in ("market_blinded", "market_bright"):
        task: Any = plugins.make_task(name)
        check_task(task, true)  # its own poison: every bar and index after the close
        window = Window("w", str(true.days[row]), str(true.days[-1]))
        shown = [
            scene_on(task, market, window).observe(1, market.as_of(row), None, None)
            for market in (true, false)
        ]
        assert shown[0] == shown[1]


@pytest.mark.slow
def test_exchange_rates_are_masked_indices_but_never_the_benchmark(
    tmp_path: Path,
) -> None:
    market = read(tmp_path, random_table(1), LISTED, random_rates(1))
    assert (market.meta.benchmark, sorted(market.indices)) == ("", ["EURUSD", "GBPUSD"])
    assert np.isnan(market.benchmark).all()

    task: Any = load_plugins().make_task("market_blinded")
    window = Window("w", str(market.days[30]), str(market.days[-1]))
    scene = scene_on(task, market, window)
    guard = LeakGuard(scene.lens, market)

    for text in ("EURUSD rose", "gbpusd"):
        assert scene.lens.is_hidden_identity(text.split()[0])
        with pytest.raises(LeakError, match="which the mask hides"):
            guard.check(text)

    shown = scene.observe(0, market.as_of(29), None, None)
    guard.check(shown.user)
    (tmp_path / "spx.csv").write_text(
        "date,close\n" + "".join(f"{day},5000\n" for day in market.days)
    )
    given = {"benchmark": "spx.csv", "benchmark_code": "SPX"}
    both = read(tmp_path, random_table(1), LISTED, random_rates(1), **given)

    assert (both.meta.benchmark, sorted(both.indices), both.benchmark[0]) == (
        "SPX",
        ["EURUSD", "GBPUSD", "SPX"],
        5000,
    )


@pytest.mark.exhaustive
def test_the_command_imports_and_shows_what_was_converted(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(
        tmp_path,
        fx=RATES.replace("currency,rate", "cur,level"),
        map={"fx.currency": "cur", "fx.rate": "level"},
    )
    files = ("--bars", "bars.csv", "--industry", "assets.csv", "--fx", "fx.csv")
    options = ("--venue", "us_equity", "--currency", "USD", "--out", "two")
    mapping = ("--map", "fx.currency=cur,fx.rate=level")
    monkeypatch.chdir(tmp_path)
    printed = terminal.out("data", "make", "long", *files, *options, *mapping)

    assert "prices of 1 asset in EUR are converted to USD by the rates of each day: SAP" in printed

    facts = json.loads(terminal.out("data", "info", "two", "--json"))
    assert (facts["currency"], facts["indices"], facts["benchmark"]) == (
        "USD",
        ["EURUSD (USD for one EUR)"],
        "none",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "more"), [(1, ""), (8, ""), (9, " and 1 more"), (11, " and 3 more")]
)
def test_the_note_names_eight_converted_assets_at_most(
    tmp_path: Path, count: int, more: str
) -> None:
    codes = [f"E{number:02}" for number in range(count)]
    bars = BARS + "".join(
        f"2025-03-0{day},{code},10,11,9,10,100,1000\n" for code, day in product(codes, (3, 4, 5, 6))
    )
    assets = "code,currency\n" + "".join(f"{code},EUR\n" for code in codes)
    market = read(tmp_path, bars=bars, assets=assets)
    (note,) = [note for note in market.meta.notes if "are converted" in note]

    shown = f"prices of {count_of(count, 'asset')} in EUR"
    named = f"{', '.join(codes[:8])}{more}"
    assert note == f"{shown} are converted to USD by the rates of each day: {named}"


@pytest.mark.shared_data
def test_real_coins_as_if_in_euro_are_what_pandas_makes_of_them(
    shared_data: Path, tmp_path: Path
) -> None:
    stocks, coins = (
        pd.read_csv(shared_data / name, dtype={"date": str})
        for name in ("us_daily/nasdaq100_daily.csv.gz", "crypto_daily/crypto10_daily.csv.gz")
    )
    coins = coins[coins["date"].between(stocks["date"].min(), stocks["date"].max())]
    chance = np.random.default_rng(5)
    business = pd.bdate_range("2025-05-20", "2025-11-03")
    rates = pd.Series(
        1.1 * np.exp(np.cumsum(chance.normal(0, 0.01, len(business)))), index=business
    ).round(6)
    listed = "code,venue,currency\n" + "".join(
        f"{code},crypto_spot,EUR\n" for code in coins["code"].unique()
    )
    table = "date,currency,rate\n" + "".join(
        f"{day:%Y-%m-%d},EUR,{rate}\n" for day, rate in rates.items()
    )
    market = read(tmp_path, pd.concat([stocks, coins]).to_csv(index=False), listed, table)
    every = rates.reindex(pd.date_range("2025-05-20", "2025-11-03")).ffill()
    of_day, of_night = (
        series.reindex(pd.DatetimeIndex(market.days)).to_numpy()
        for series in (every, every.shift(1))
    )
    np.testing.assert_array_equal(market.indices["EURUSD"], of_day)

    for name in ("open", "high", "low", "close"):
        for raw, is_coin in ((stocks, False), (coins, True)):
            grid = raw.assign(date=pd.to_datetime(raw["date"])).pivot_table(
                index="date", columns="code", values=["open", name]
            )
            grid = grid.reindex(pd.DatetimeIndex(market.days))
            expected = (
                grid[name].to_numpy() * (of_night if name == "open" else of_day)[:, None]
                if is_coin
                else grid[name].to_numpy()
            )
            if is_coin and name in ("high", "low"):
                expected = {"high": np.fmax, "low": np.fmin}[name](
                    expected, grid["open"].to_numpy() * of_night[:, None]
                )

            columns = [market.asset_index[code] for code in grid[name].columns]
            np.testing.assert_allclose(getattr(market, name)[:, columns], expected, rtol=1e-14)

    tape = MarketTape.from_snapshot(market, AccountConfig().rules("test"))
    scales = np.array([scale.ticks_per_unit for scale in tape.rules.scales])
    coin = np.array(market.kinds) == "crypto"
    off = np.abs(tape.close_ticks / scales / market.close - 1)[:, coin]

    assert np.nanmax(off) < 1e-6
