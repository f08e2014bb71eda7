"""Adjustment factors that prices contradict, and those that they don't."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import DataError
from ktdeval.market.snapshots.snapshot import Instrument
from ktdeval.values.findings import Finding
from ktdeval_data.long_table import read_long
from ktdeval_data.params import LongParams
from ktdeval_raw_markets.assembly import apply_repairs, assemble
from ktdeval_raw_markets.checks.quality import check
from ktdeval_raw_markets.sources.raw_tables import RawMarket
from support.accept.accept_runs import REAL
from support.market.raw_market import market
from support.searching import examples

pytestmark = pytest.mark.slow

FACTOR_KINDS = {"factor_jumps", "factor_inverse", "codes_without_factor", "factor_missing"}
DAYS = pd.bdate_range("2023-01-02", periods=120)


def found(raw: RawMarket) -> dict[str, Finding]:
    return {each.rule: each for each in check(raw) if each.rule in FACTOR_KINDS}


def history(
    code: str = "600519.SH", ratios: dict[int, float] | None = None, seed: int = 0
) -> pd.DataFrame:
    """Bars of one code with quiet prices; `ratios`: splits and dividends by row, which price and
    factor follow.
    """
    rng = np.random.default_rng(seed)
    factor = np.ones(len(DAYS))

    for row, ratio in (ratios or {}).items():
        factor[row:] *= ratio

    close = 40 * np.exp(np.cumsum(rng.normal(0, 0.01, len(DAYS)))) / factor
    before = np.append(close[0], close[:-1] * factor[:-1] / factor[1:])
    opened = before * np.exp(rng.normal(0, 0.005, len(DAYS)))
    table = pd.DataFrame({"date": DAYS, "code": code, "open": opened, "close": close})
    table["high"] = table[["open", "close"]].max(axis=1) * 1.005
    table["low"] = table[["open", "close"]].min(axis=1) * 0.995
    prices = ["open", "high", "low", "close"]
    table = table.round(dict.fromkeys(prices, 2)).assign(volume=1e6, factor=factor)

    return table.assign(amount=table["close"] * table["volume"])


def as_market(*tables: pd.DataFrame, has_factor: bool = True, **changes: object) -> RawMarket:
    table = pd.concat(tables, ignore_index=True)
    codes = sorted(set(table["code"]))
    members = pd.DataFrame({"code": codes, "first": DAYS[0], "last": DAYS[-1]})
    levels = pd.DataFrame({"date": DAYS, "code": "000688.SH", "close": 100.0})

    return market(table, members=members, indices=levels, has_factor=has_factor, **changes)


def restarted(table: pd.DataFrame, row: int) -> pd.DataFrame:
    """The factor begins at 1 again on a row."""
    later = table.index >= row
    return table.assign(
        factor=table["factor"].where(~later, table["factor"] / table["factor"][row])
    )


def returns(raw: RawMarket) -> np.ndarray:
    """Adjusted returns, by code and day."""
    table = raw.table
    adjusted = table["close"] * table["factor"]
    return np.asarray((adjusted[1:] / adjusted[:-1])[~table.new_code[1:]])


def chained(raw: RawMarket, jumps: int) -> RawMarket:
    """The source without the jumps of its factor, of which there are so many."""
    assert found(raw)["factor_jumps"].count == jumps
    repaired = apply_repairs(raw, ["chain_factor"])
    assert found(repaired) == {}
    return repaired


# ---- restarts


def test_factor_restarting_after_a_halt_is_an_error_that_a_repair_fixes() -> None:
    right = history(ratios={20: 1.12})
    halted = restarted(right, 60).drop(index=range(50, 60))
    raw = as_market(halted)
    fault = found(raw)["factor_jumps"]

    assert (fault.level, fault.count, fault.repairs) == ("error", 1, ("chain_factor",))
    assert fault.examples[0].startswith(f"600519.SH {DAYS[60]:%Y-%m-%d}: factor 1.12 to 1, close ")

    with pytest.raises(DataError, match=r"1 factor_jumps .*--repair chain_factor"):
        assemble(raw)

    repaired = chained(raw, 1)
    expected = returns(as_market(right.drop(index=range(50, 60))))
    np.testing.assert_allclose(returns(repaired), expected)

    assert repaired.repairs == ("chain_factor: 60 rows",)
    assert assemble(raw, ["chain_factor"]).meta.repairs == repaired.repairs


def test_rows_of_a_halt_keep_the_factor_from_before_it() -> None:
    table = history(ratios={20: 1.12})
    table = restarted(table, 55)
    table.loc[50:59, "volume"] = 0.0
    repaired = apply_repairs(as_market(table), ["chain_factor"])

    assert repaired.bars["factor"].tolist() == pytest.approx([1.0] * 20 + [1.12] * 100)


@pytest.mark.exhaustive
@examples(40)
@given(row=st.integers(30, 110), ratio=st.floats(1.05, 80), seed=st.integers(0, 2**32))
def test_a_restart_on_any_day_is_found_and_fixed(row: int, ratio: float, seed: int) -> None:
    right = history(ratios={20: ratio}, seed=seed)
    repaired = chained(as_market(restarted(right, row)), 1)
    np.testing.assert_allclose(returns(repaired), returns(as_market(right)))


@pytest.mark.parametrize("anchor", [0, -1])
def test_factors_scaled_file_by_file_are_found_at_file_borders(anchor: int) -> None:
    right = history(ratios={20: 1.5, 50: 1.3, 90: 2.0})
    chunks = [right.iloc[start : start + 40] for start in (0, 40, 80)]
    scaled = [
        chunk.assign(factor=chunk["factor"] / chunk["factor"].iloc[anchor]) for chunk in chunks
    ]
    repaired = chained(as_market(*scaled), 2)
    np.testing.assert_allclose(returns(repaired), returns(as_market(right)))


@pytest.mark.parametrize("value", [0.5, 0.93, 0.95, 1.05, 1.4, 100.0])
@pytest.mark.parametrize("bars", [1, 3])
def test_a_factor_that_is_wrong_on_some_days_jumps_there_and_back(value: float, bars: int) -> None:
    table = history()
    table.loc[60 : 59 + bars, "factor"] = value
    repaired = chained(as_market(table), 2)

    assert repaired.bars["factor"].tolist() == pytest.approx([1.0] * 120)


def test_a_split_just_before_a_restart_stays() -> None:
    right = history(ratios={57: 1.5})
    repaired = chained(as_market(restarted(right, 60)), 1)
    np.testing.assert_allclose(returns(repaired), returns(as_market(right)))


# ---- what is no fault


@pytest.mark.exhaustive
@examples(40)
@given(
    row=st.integers(20, 100),
    ratio=st.floats(1.001, 4),
    gap=st.integers(0, 15),
    seed=st.integers(0, 2**32),
)
def test_splits_and_dividends_are_none_also_on_the_day_after_a_halt(
    row: int, ratio: float, gap: int, seed: int
) -> None:
    table = history(ratios={row: ratio}, seed=seed)
    assert found(as_market(table.drop(index=range(row - gap, row)))) == {}


@pytest.mark.parametrize("move", [-0.09, 0.09])
def test_a_move_near_the_limit_on_an_ex_date_is_none(move: float) -> None:
    table = history(ratios={60: 1.1})
    names = ["open", "high", "low", "close"]
    table.loc[60:, names] = (table.loc[60:, names] * (1 + move)).round(2)
    assert found(as_market(table)) == {}


def test_a_reverse_split_that_the_price_follows_is_none() -> None:
    assert found(as_market(history(ratios={60: 0.1}))) == {}


def test_a_factor_scaled_to_the_last_day_gives_the_same_returns() -> None:
    table = history(ratios={20: 1.5, 90: 2.0})
    scaled = table.assign(factor=table["factor"] / table["factor"].iloc[-1])
    assert found(as_market(scaled)) == {}
    np.testing.assert_allclose(returns(as_market(scaled)), returns(as_market(table)))


# ---- a factor to be divided by


def test_a_factor_that_moves_with_the_price_is_to_be_divided_by() -> None:
    right = history(ratios={20: 1.5, 90: 2.0})
    raw = as_market(right.assign(factor=1 / right["factor"]), history("000001.SZ", {50: 1.8}))
    fault = found(raw)["factor_inverse"]

    assert (fault.level, fault.examples, fault.repairs) == (
        "error",
        ("600519.SH",),
        ("invert_factor",),
    )

    repaired = apply_repairs(raw, ["invert_factor"])
    assert found(repaired) == {}

    np.testing.assert_allclose(
        returns(repaired), returns(as_market(right, history("000001.SZ", {50: 1.8})))
    )


def test_small_dividends_of_many_codes_reveal_inverse_factors() -> None:
    codes = [f"600{number:03d}.SH" for number in range(12)]
    tables = [history(code, {30: 1.03, 70: 1.03}, seed) for seed, code in enumerate(codes)]

    assert found(as_market(*tables)) == {}

    inverse = as_market(*(table.assign(factor=1 / table["factor"]) for table in tables))
    assert found(inverse).keys() == {"factor_inverse"}
    assert found(inverse)["factor_inverse"].count == 12
    assert found(apply_repairs(inverse, ["invert_factor"])) == {}


# ---- venues without a price limit


def test_a_factor_of_prices_that_are_adjusted_already_jumps() -> None:
    table = history("AAPL", {60: 4.0})
    names = ["open", "high", "low", "close"]
    table[names] = table[names].mul(table["factor"], axis=0)
    raw = as_market(table, instruments={"AAPL": Instrument("stock", "USD", "us_equity")})
    fault = found(raw)["factor_jumps"]

    assert fault.count == 1
    assert "--prices adjusted" in fault.fix


def test_a_split_of_a_stock_without_a_price_limit_is_none() -> None:
    stock = Instrument("stock", "USD", "us_equity")
    assert found(as_market(history("ORLY", {60: 15.0}), instruments={"ORLY": stock})) == {}


# ---- codes without a factor


def test_a_code_without_any_factor_takes_one_by_a_repair_of_its_own() -> None:
    table = history("600018.SH").assign(factor=np.nan)
    raw = as_market(table, history(ratios={60: 2.0}))

    assert found(raw).keys() == {"codes_without_factor"}

    fault = found(raw)["codes_without_factor"]
    assert (fault.count, fault.examples, fault.repairs) == (1, ("600018.SH",), ("factor_of_one",))

    repaired = apply_repairs(raw, ["factor_of_one"])
    assert found(repaired) == {}
    assert repaired.repairs == ("factor_of_one: 120 rows",)

    own = repaired.bars["code"] == "600018.SH"
    assert set(repaired.bars["factor"][own]) == {1.0}
    assert apply_repairs(raw, ["fill_factor"]).repairs == (), "there is none to fill in"


def test_a_code_whose_factors_are_all_zero_has_none() -> None:
    raw = as_market(history("600018.SH").assign(factor=0.0), history())
    assert found(raw).keys() == {"codes_without_factor"}


# ---- real factors


@pytest.fixture(scope="module")
def real(shared_data: Path) -> RawMarket:
    folder = shared_data / "a_share"
    mapping = {name: f"raw_{name}" for name in ("open", "high", "low", "close")}
    files = {name: str(folder / file) for name, file in REAL.items()}
    return read_long(LongParams(**files, map=mapping))  # type: ignore[arg-type]


@pytest.mark.exhaustive
@pytest.mark.shared_data
def test_real_splits_and_dividends_are_no_faults_and_planted_restarts_are(real: RawMarket) -> None:
    table = real.table
    factor = table["factor"]
    steps = np.abs(np.log(factor[1:] / factor[:-1]))[~table.new_code[1:]]

    assert (steps > 0.01).sum() > 1000
    assert found(real) == {}

    starts = np.flatnonzero(table.new_code)
    chosen = [row + 400 for row in starts[::10].tolist() if factor[row + 400] > 1.1]
    planted = factor.copy()

    for row in chosen:
        stop = starts[starts > row].min(initial=len(factor))
        planted[row:stop] /= factor[row]

    wrong = dataclasses.replace(real, bars=real.bars.assign(factor=table.in_source(planted)))

    assert len(chosen) > 20
    chained(wrong, len(chosen))
