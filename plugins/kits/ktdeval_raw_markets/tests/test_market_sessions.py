"""Feeds that stand still, days that are all off by one, splits dated off their price step, and
repairs that are tried before they are advised.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ktdeval.errors import DataError
from ktdeval.market.rules.calendar import sessions
from ktdeval.market.snapshots.snapshot import Instrument
from ktdeval.values.findings import Finding
from ktdeval_raw_markets.assembly import apply_repairs, assemble, with_repairs_that_work
from ktdeval_raw_markets.checks.quality import check
from ktdeval_raw_markets.sources.raw_tables import RawMarket
from support.market.raw_market import market

DAYS = pd.DatetimeIndex(sessions("2024-01-02", "2024-03-28", "XNYS"))
PRICES = ["open", "high", "low", "close"]


def stock(code: str = "AAPL", days: pd.DatetimeIndex = DAYS, seed: int = 5) -> pd.DataFrame:
    """Bars of a US stock that moves by about 1 % a day."""
    draws = np.random.default_rng(seed)
    close = np.round(180 * np.exp(np.cumsum(draws.normal(0, 0.01, len(days)))), 2)
    bars = pd.DataFrame({"date": days, "code": code, "open": close, "close": close})
    volume = draws.integers(1_000_000, 9_000_000, len(days)).astype(float)
    return bars.assign(high=close + 1, low=close - 1, volume=volume, amount=np.nan, factor=np.nan)


def raw(table: pd.DataFrame, has_factor: bool = False) -> RawMarket:
    codes = table["code"].unique()
    members = pd.DataFrame({"code": codes, "first": DAYS[0], "last": DAYS[-1]})
    levels = pd.DataFrame({"date": table["date"].unique(), "code": "000688.SH", "close": 100.0})
    instruments = {code: Instrument("stock", "USD", "us_equity") for code in codes}
    return market(
        table, members=members, indices=levels, has_factor=has_factor, instruments=instruments
    )


def errors(source: RawMarket) -> dict[str, Finding]:
    found = with_repairs_that_work(source, check(source))
    return {each.rule: each for each in found if each.level == "error"}


# ---- frozen bars (yfinance #2966)


def standing(first: int, bars: int, **changes: float) -> pd.DataFrame:
    """The bar of a row again on the rows after it, so many equal ones in all."""
    table = stock()
    for row in range(first + 1, first + bars):
        table.loc[row, [*PRICES, "volume"]] = table.loc[first, [*PRICES, "volume"]].to_numpy()
    for name, value in changes.items():
        table.loc[first : first + bars - 1, name] = value
    return table


def test_three_equal_bars_in_a_row_are_an_error_with_their_days() -> None:
    fault = errors(raw(standing(20, bars=3)))["frozen_bars"]

    assert fault.count == 2
    assert fault.examples == (f"AAPL {DAYS[21].date()}…{DAYS[22].date()}: equal to the bar before",)
    assert fault.repairs == ("drop_frozen", "accept_breaks")


@pytest.mark.parametrize(
    "table",
    [
        standing(20, bars=2),
        standing(20, bars=3, volume=0.0),
        standing(20, bars=3).assign(volume=lambda table: table["volume"] + np.arange(len(table))),
        standing(20, bars=3).assign(low=lambda table: table["low"] - np.arange(len(table)) / 100),
    ],
    ids=["two days", "without trade", "other volumes", "other lows"],
)
def test_two_equal_bars_and_bars_that_differ_are_none(table: pd.DataFrame) -> None:
    assert "frozen_bars" not in errors(raw(table))


@pytest.mark.parametrize(("shift", "words"), [(1, "one day late"), (-1, "one day early")])
def test_days_that_are_all_off_by_one_are_moved_not_dropped(shift: int, words: str) -> None:
    table = stock()
    moved = table.assign(date=table["date"] + pd.Timedelta(days=shift))
    source = raw(moved)
    found = {each.rule: each for each in check(source)}

    assert found["shifted_days"].examples[0].endswith(words)
    assert "calendar_mismatch" not in found
    with pytest.raises(DataError, match="--repair shift_days"):
        assemble(source)

    repaired = apply_repairs(source, ["shift_days"])
    assert repaired.bars["date"].tolist() == table["date"].tolist()
    assert repaired.indices["date"].tolist() == table["date"].tolist()
    assert repaired.repairs == (f"shift_days: {len(table)} rows",)


# ---- days that are all off by one


def test_one_code_that_is_late_among_others_is_moved_alone() -> None:
    late = stock("META", DAYS + pd.Timedelta(days=1), seed=6)
    source = raw(pd.concat([stock(), late], ignore_index=True))

    (example,) = errors(source)["shifted_days"].examples
    assert example.startswith("META ")
    repaired = apply_repairs(source, ["shift_days"]).bars
    assert set(repaired["date"]) == set(DAYS)


def test_single_days_beside_the_sessions_are_no_shift() -> None:
    table = stock()
    table.loc[[10, 30], "date"] = [pd.Timestamp("2024-01-20"), pd.Timestamp("2024-02-17")]
    found = {each.rule for each in check(raw(table))}

    assert "calendar_mismatch" in found
    assert "shifted_days" not in found


# ---- splits off their price step


@pytest.mark.parametrize("off", [-6, -1, 1, 12])
def test_a_split_off_its_price_step_names_the_day_on_which_prices_halve(off: int) -> None:
    table = stock()
    table.loc[30:, PRICES] /= 2
    table["factor"] = np.where(np.arange(len(table)) < 30 + off, 1.0, 2.0)
    fault = errors(raw(table, has_factor=True))["factor_jumps"]

    assert f"on {DAYS[30].date()}" in fault.examples[0]
    assert "date the factor, or its split (--splits)" in fault.fix
    assert fault.repairs == ()  # to take the jump out would leave the loss of half


def test_a_factor_that_restarts_without_a_price_step_is_chained_as_before() -> None:
    table = stock()
    table["factor"] = np.where(np.arange(len(table)) < 30, 2.0, 1.0)
    fault = errors(raw(table, has_factor=True))["factor_jumps"]

    assert fault.repairs == ("chain_factor",)
    assert " times on " not in fault.examples[0]


@pytest.mark.parametrize(("wrong", "right"), [(0, "keep_last"), (1, "keep_first")])
def test_of_two_rows_that_differ_the_one_that_fits_the_series_is_advised(
    wrong: int, right: str
) -> None:
    table = stock()
    doubled = table.loc[[20]].assign(**{name: table.loc[20, name] * 2 for name in PRICES})
    pair = [doubled, table.loc[[20]]] if wrong == 0 else [table.loc[[20]], doubled]
    source = raw(pd.concat([table.drop(index=20), *pair], ignore_index=True))

    fault = errors(source)["conflicting_rows"]
    assert fault.repairs == (right,)
    assert f"--repair {right}" in fault.fix
    assert "was tried: it leaves" in fault.fix
