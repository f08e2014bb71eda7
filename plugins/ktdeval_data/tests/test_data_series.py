"""Columns beside prices, series that break in place and volumes that can't be, on files made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ktdeval.market.rules.calendar import sessions
from ktdeval.registry import load_plugins
from ktdeval_data.long_table import read_long
from ktdeval_data.params import LongParams
from ktdeval_raw_markets.checks.quality import raw_from_snapshot
from support.market.long_imports import Imports
from support.market.raw_market import findings_of

pytestmark = pytest.mark.slow

US = ("--venue", "us_equity")
COINS = ("--venue", "crypto_spot")
DAYS = tuple(sessions("2023-01-03", "2023-12-29").astype(str))
PRICES = ["open", "high", "low", "close"]


def walk(code: str, start: float, seed: int, days: tuple[str, ...] = DAYS) -> pd.DataFrame:
    """Daily bars of a random walk with moves of 1.5 % and volumes around a million."""
    chance = np.random.default_rng(seed)
    close = start * np.exp(np.cumsum(chance.normal(0, 0.015, len(days))))
    volume = np.round(1e6 * np.exp(chance.normal(0, 0.5, len(days))))
    table = pd.DataFrame({"date": days, "code": code, "close": close, "volume": volume})
    table = table.assign(open=close * 0.999, high=close * 1.01, low=close * 0.99)

    return table.round(4)


def times(table: pd.DataFrame, first: int, last: int, scale: float) -> pd.DataFrame:
    """The bars with prices of a stretch of rows scaled."""
    scaled = table.copy()
    scaled.loc[first:last, PRICES] *= scale
    return scaled


# ---- columns beside prices


@pytest.mark.parametrize(
    ("columns", "expected", "noted"),
    [
        ({"ajexdi": 4.0}, 0.25, "the factor is 1 / ajexdi"),
        ({"ajexdi": 4.0, "trfd": 1.1}, 0.275, "the factor is trfd / ajexdi"),
        ({"CFACPR": 0.05}, 20.0, "the factor is 1 / CFACPR"),
    ],
)
def test_a_divisor_under_any_name_becomes_a_factor(
    columns: dict[str, float], expected: float, noted: str, imports: Imports
) -> None:
    table = walk("KO", 60.0, 1)
    is_early = table.index < 100
    for name, value in columns.items():
        table[name] = np.where(is_early, value, 1.0)

    # The prices move by the factor, as at a split.
    table.loc[is_early, PRICES] = (table.loc[is_early, PRICES] / expected).round(4)
    snapshot = imports.made(table, *US)

    assert noted in imports.printed
    assert snapshot.factor[99:101, 0].tolist() == pytest.approx([expected, 1.0])


@pytest.mark.parametrize("column", ["preclose", "昨收", "PREVCLOSE", "prev_close"])
def test_reference_prices_give_the_factor_of_two_ex_days(column: str, imports: Imports) -> None:
    table = walk("KO", 60.0, 2).round(2)
    table["high"] = table[PRICES].max(axis=1)
    table["low"] = table[PRICES].min(axis=1)
    table[column] = table["close"].shift().fillna(60.0)
    ex_days = {50: 0.98, 120: 0.5}

    for row, part in ex_days.items():
        scaled = (table.loc[row:, PRICES] * part).round(2)
        table.loc[row:, PRICES] = scaled
        table.loc[row + 1 :, column] = table["close"].shift().loc[row + 1 :]
        table.loc[row, column] = round(float(table["close"][row - 1]) * part, 2)

    snapshot = imports.made(table, *US)

    assert f"2 ex-days on which column '{column}' differs" in imports.printed

    factor = snapshot.factor[:, 0]
    assert factor[49] == 1.0
    assert factor[[50, 119]].tolist() == pytest.approx([1 / 0.98] * 2, rel=1e-3)
    assert factor[120] == pytest.approx(2 / 0.98, rel=1e-3)


def test_a_column_that_is_often_off_the_last_close_is_no_reference_price(imports: Imports) -> None:
    table = walk("KO", 60.0, 3)
    table["pre_close"] = table["close"].shift().fillna(60.0) * 0.7
    snapshot = imports.made(table, *US)

    assert not snapshot.meta.has_factor
    assert (
        "'pre_close' is not read: it differs from the last close of KO on 241 of 241"
        in imports.printed
    )


@pytest.mark.parametrize(
    ("column", "over", "not_over"), [("is_final", "true", "false"), ("complete", "1", "0")]
)
def test_bars_that_are_not_over_are_left_out(
    column: str, over: str, not_over: str, imports: Imports
) -> None:
    table = pd.concat([walk("BTC", 4e4, 4), walk("ETH", 2e3, 5)], ignore_index=True)
    table[column] = over
    table.loc[table["date"] == DAYS[-1], column] = not_over
    snapshot = imports.made(table.drop(columns="volume"), *COINS)

    assert str(snapshot.days[-1]) == DAYS[-2]
    assert f"column {column!r} are left out: BTC {DAYS[-1]}, ETH {DAYS[-1]}" in imports.printed

    message = imports.refused(table.assign(**{column: not_over}), *COINS)
    assert "marks every bar as incomplete" in message


def test_known_columns_that_are_not_read_are_named(imports: Imports) -> None:
    table = walk("KO", 60.0, 6).assign(closeunadj=61.0, marketcap=2e11, adjOpen=1.0, mine=0)
    imports.made(table, *US)
    named = "'closeunadj' (close as traded), 'marketcap' (market capitalisation), 'adjOpen'"

    assert f"known but not read: {named}" in imports.printed
    assert "mine" not in imports.printed


# ---- series


@pytest.mark.parametrize(
    ("start", "later", "gap", "is_found"),
    [
        (45.0, 15.0, 70, True),
        (3.0, 210.0, 130, True),
        (45.0, 48.0, 70, False),
        (45.0, 15.0, 40, False),
    ],
)
def test_another_company_under_a_ticker_is_found_by_its_gap_and_its_price(
    start: float, later: float, gap: int, is_found: bool, imports: Imports
) -> None:
    before = walk("TWTR", start, 7, DAYS[:60])
    after = walk("TWTR", later, 8, DAYS[60 + gap :])
    both = pd.concat([before, after], ignore_index=True)
    raw = read_long(LongParams(bars=str(imports.written(both)), venue="us_equity"))
    found = findings_of(raw)

    assert ("reused_tickers" in found) is is_found

    if is_found:
        assert (
            f"TWTR ends {DAYS[59]}, begins {DAYS[60 + gap]}" in found["reused_tickers"].examples[0]
        )
        snapshot = imports.made(both, *US, "--repair", "drop_before_gap")
        assert str(snapshot.days[0]) == DAYS[60 + gap]


@pytest.mark.parametrize(
    ("scale", "rows", "named"),
    [
        (100.0, slice(40, 40), DAYS[40]),
        (0.01, slice(40, 45), f"{DAYS[40]}…{DAYS[45]}"),
        (1000.0, slice(100, 119), f"{DAYS[100]}…{DAYS[119]}"),
        (10.0, slice(5, 6), f"{DAYS[5]}…{DAYS[6]}"),
        (100.0, slice(1, 239, 3), DAYS[1]),
    ],
)
def test_prices_in_another_unit_for_some_days_are_named_and_matched(
    scale: float, rows: slice, named: str, imports: Imports
) -> None:
    whole = walk("BARC", 150.0, 9)
    broken = whole.copy()
    broken.loc[rows, PRICES] *= scale
    count = len(whole.loc[rows])
    message = imports.refused(broken, *US)

    assert f"{count} misplaced_prices (first: BARC {named}: prices are {scale:g} times" in message
    assert "split_like_moves" not in message

    snapshot = imports.made(broken, *US, "--repair", "match_prices")
    assert snapshot.close[:, 0].tolist() == pytest.approx(whole["close"].tolist(), rel=1e-9)


def test_quotes_are_matched_with_the_prices_of_their_day(imports: Imports) -> None:
    whole = walk("BARC", 150.0, 9)
    whole = whole.assign(bid=whole["close"] * 0.999, ask=whole["close"] * 1.001)
    broken = whole.copy()
    broken.loc[100:110, [*PRICES, "bid", "ask"]] *= 100.0

    snapshot = imports.made(broken, *US, "--repair", "match_prices")
    for name in ("bid", "ask"):
        given = whole[name].tolist()
        assert snapshot.quotes.arrays[name][:, 0].tolist() == pytest.approx(given, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_prices_that_often_move_by_ten_times_are_not_misplaced(seed: int, imports: Imports) -> None:
    wild = walk("FOO", 1.0, seed)
    close = np.random.default_rng(seed).uniform(20, 400, len(wild))
    wild = wild.assign(open=close, high=close * 1.01, low=close * 0.99, close=close)
    raw = read_long(LongParams(bars=str(imports.written(wild)), venue="us_equity"))

    assert "misplaced_prices" not in findings_of(raw)


@pytest.mark.parametrize("scale", [100.0, 0.01, 1000.0])
@pytest.mark.parametrize("last", [251, 120])
def test_prices_in_another_unit_from_a_day_on_are_units_and_no_split(
    scale: float, last: int, imports: Imports
) -> None:
    whole = walk("BARC", 150.0, 9)[: last + 1]
    broken = times(whole, 120, last, scale)
    message = imports.refused(broken, *US)
    found = f"price_unit_changes (first: BARC {DAYS[120]} on: prices are {scale:g} times those"

    assert found in message
    assert "split_like_moves" not in message
    assert "--splits" not in message

    snapshot = imports.made(broken, *US, "--repair", "accept_breaks")
    assert snapshot.close[120, 0] == pytest.approx(whole["close"].iloc[120] * scale, rel=1e-6)
    assert "--splits" not in imports.printed


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_a_split_by_a_hundred_moves_its_volumes_the_other_way(
    scale: float, imports: Imports
) -> None:
    split = times(walk("BRK-A", 40_000.0, 9), 120, 400, scale)
    split["volume"] = split["volume"].astype(float)
    split.loc[120:, "volume"] = (split.loc[120:, "volume"] / scale).round()
    imports.made(split, *US)

    assert "price_unit_changes" not in imports.printed
    assert "split_like_moves" in imports.printed
    assert "--splits" in imports.printed


def test_closes_alone_that_step_by_a_hundred_are_another_unit(imports: Imports) -> None:
    closes = times(walk("BARC", 150.0, 9), 120, 400, 100.0)[["date", "code", "close"]]
    assert "price_unit_changes" in imports.refused(closes, "--venue", "frictionless")


def test_a_split_is_no_misplaced_price(imports: Imports) -> None:
    split = times(walk("NVDA", 1200.0, 10), 120, 400, 0.1)
    imports.made(split, *US)
    assert "misplaced_prices" not in imports.printed
    assert "split_like_moves" in imports.printed


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("first", "scale", "option"),
    [
        (80, 0.01, f"share,{DAYS[80]}..=lot"),
        (80, 100.0, "share,..2023-05-07=lot"),
        (30, 0.001, f"share,{DAYS[30]}..=1000"),
    ],
)
@pytest.mark.parametrize("codes", [("KO",), ("KO", "PEP", "MCD")])
def test_change_of_volume_unit_is_found_and_corrected_by_the_option(
    codes: tuple[str, ...], first: int, scale: float, option: str, imports: Imports
) -> None:
    tables = [walk(code, 60.0, 20 + number) for number, code in enumerate(codes)]
    whole = pd.concat(tables, ignore_index=True)
    is_late = whole["date"] >= DAYS[first]
    broken = whole.assign(volume=whole["volume"].mask(is_late, whole["volume"] * scale))
    message = imports.refused(broken, *US)

    assert (
        f"{', '.join(sorted(codes))} from {DAYS[first]} on: volumes are {scale:g} times" in message
    )

    if len(codes) == 1:
        option = option.replace(",", f",{codes[0]}@")

    assert f"--volume-unit {option}," in message

    snapshot = imports.made(broken, *US, "--volume-unit", option)
    ratio = np.median(snapshot.volume[first:], axis=0) / np.median(snapshot.volume[:first], axis=0)

    assert (np.abs(np.log10(ratio)) < 0.3).all()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("rows", "power"), [((7, 30), 100.0), ((55,), 1000.0)])
def test_single_days_in_another_unit_are_repaired_where_amounts_tell_it(
    rows: tuple[int, ...], power: float, imports: Imports
) -> None:
    table = walk("600036.SH", 30.0, 30, DAYS[:60]).round(2)
    table["high"] = table[PRICES].max(axis=1)
    table["low"] = table[PRICES].min(axis=1)
    table["amount"] = (table["volume"] * table["close"]).round(2)
    broken = table.copy()
    broken.loc[list(rows), "volume"] = (broken.loc[list(rows), "volume"] / power).round()
    message = imports.refused(broken)

    assert f"{len(rows)} wrong_units (first: 600036.SH {DAYS[rows[0]]}: amount" in message

    snapshot = imports.made(broken, "--repair", "match_units")
    wanted = table["volume"].to_numpy()

    assert snapshot.volume[:, 0] == pytest.approx(wanted, abs=power / 2)


@pytest.mark.parametrize(("step", "name"), [(5, "weeks"), (21, "months")])
def test_a_code_of_another_interval_is_refused_by_code(
    step: int, name: str, imports: Imports
) -> None:
    daily = [walk(code, 60.0, number) for number, code in enumerate(("KO", "PEP"))]
    days = pd.Series(pd.to_datetime(DAYS))
    firsts = days.groupby(days.dt.to_period("W" if step == 5 else "M")).last()
    other = walk("MCD", 280.0, 40, tuple(str(day)[:10] for day in firsts))
    table = pd.concat([*daily, other], ignore_index=True)
    message = imports.refused(table, *US)

    assert f"1 other_intervals (first: MCD: bars of {name})" in message


# ---- volumes


@pytest.mark.parametrize(("code", "start"), [("LTC-USDT", 80.0), ("KO", 60.0)])
def test_a_price_in_the_column_of_volumes_is_refused(
    code: str, start: float, imports: Imports
) -> None:
    table = walk(code, start, 50)
    venue = COINS if code != "KO" else US
    message = imports.refused(table.assign(volume=table["close"] * 1.002), *venue)
    assert f"1 volume_is_price (first: {code})" in message


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("code", "start", "value"), [("ETHUSDT", 2e3, 2e10), ("BTC", 6e4, 3e10), ("FOO-USD", 50, 3e10)]
)
def test_values_in_the_column_of_volumes_are_more_coins_than_exist(
    code: str, start: float, value: float, imports: Imports
) -> None:
    table = walk(code, start, 51)
    values = table.assign(volume=value * table["volume"] / 1e6)
    message = imports.refused(values, *COINS)

    assert "1 volume_beyond_supply" in message
    assert "--volume-unit value" in message

    snapshot = imports.made(values, *COINS, "--volume-unit", "value")
    assert np.median(snapshot.volume) == pytest.approx(value / np.median(snapshot.close), rel=0.2)


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ("{d},10,11,9,10.5,10.2,{v},7", "date,open,high,low,close,-,volume,-"),
        ("{d},10,11,9,10.5,{a},{v}", "date,open,high,low,close,amount,volume"),
        ("{d},10,11,9,10.5,5.25,{v}", "date,open,high,low,close,-,volume"),
    ],
)
def test_the_advice_on_columns_looks_at_the_numbers(
    rows: str, names: str, tmp_path: Path, imports: Imports
) -> None:
    lines = []
    for number, day in enumerate(DAYS[:8]):
        volume = 1000 * (number + 3)
        lines.append(rows.format(d=day, v=volume, a=volume * 10))

    file = tmp_path / "KO.csv"
    file.write_text("\n".join(lines) + "\n")
    message = imports.refused(file, "--code", "KO", *US)

    assert f"--columns {names} " in message


# ---- no false alarms

SERIES = {
    "reused_tickers",
    "misplaced_prices",
    "price_unit_changes",
    "volume_unit_changes",
    "other_intervals",
    "volume_is_price",
    "volume_beyond_supply",
    "wrong_units",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name",
    ["", "_arena", "_crypto", "_deepfund", "_investorbench", "_mixed", "_us", "_views"],
)
def test_generated_markets_have_no_such_finding(name: str) -> None:
    raw = raw_from_snapshot(load_plugins().make_snapshot(f"synthetic{name}", {}))
    assert findings_of(raw).keys() & SERIES == set()


@pytest.mark.exhaustive
@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("file", "options", "size"),
    [
        ("us_daily/nasdaq100_daily.csv.gz", {"venue": "us_equity"}, (102, 10812)),
        ("crypto_daily/crypto10_daily.csv.gz", {"venue": "crypto_spot"}, (10, 3610)),
        ("a_share_sse50/sse50_daily.csv.gz", {}, (50, 10568)),
        (
            "a_share_sse50/daily_prices_sse_50.csv",
            {"volume_unit": "lot", "amount_unit": "thousand_CNY"},
            (50, 1500),
        ),
        (
            "a_share/csi300_ever_daily.parquet",
            {"map": {name: f"raw_{name}" for name in PRICES}},
            (367, 381240),
        ),
    ],
)
@pytest.mark.parametrize("has_amount", [True, False])
def test_real_markets_have_no_such_finding(
    shared_data: Path,
    file: str,
    options: dict[str, object],
    size: tuple[int, int],
    has_amount: bool,
) -> None:
    raw = read_long(LongParams(bars=str(shared_data / file), **options))
    assert (len(raw.table.codes), len(raw.table.row)) == size

    if not has_amount:
        raw.bars["amount"] = np.nan

    assert findings_of(raw).keys() & SERIES == set()


@pytest.mark.shared_data
def test_ex_days_of_a_real_file_are_those_of_its_reference_prices(shared_data: Path) -> None:
    file = shared_data / "a_share_sse50" / "daily_prices_sse_50.csv"
    raw = read_long(LongParams(bars=str(file), volume_unit="lot", amount_unit="thousand_CNY"))
    bars = raw.bars.sort_values(["code", "date"])
    rises = bars.groupby("code", observed=True)["factor"].pct_change() > 0

    assert int(rises.sum()) == 12
