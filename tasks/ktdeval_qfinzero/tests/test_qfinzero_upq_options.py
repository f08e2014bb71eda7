"""Option chains and contracts: filters, pages, and Greeks from what was known at the moment of each
price; the formulas.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.rows import ContractRow, RateRow, SplitRow
from ktdeval_qfinzero.instruments import OptionContract, parse_contract
from ktdeval_qfinzero.timestamps import MINUTE, SECOND
from ktdeval_qfinzero.trading_hours import trading_hours
from ktdeval_qfinzero.upq.option_greeks import interpolate
from ktdeval_qfinzero.upq.pricing import (
    GREEK_NAMES,
    EuropeanOptions,
    greeks,
    implied_volatility,
    price,
)
from support.qfinzero.qfinzero_upq import MINUTE_OPTION, all_rows, ask, column, market, refused
from support.qfinzero.qfinzero_world import (
    RATES,
    at,
    bars_of,
    minute_starts,
    stock_days,
    with_prices,
)

CHAIN = {"underlying": "AVLN", "date": "2025-01-06"}
PUT = "O:AVLN250221P00095000"
YEAR = 365 * 86_400 * SECOND


def with_contract(expiry: date, strike_e4: int) -> tuple[Dataset, str]:
    """The market with one more call, at the prices of a put, and its symbol."""
    contract = OptionContract("AVLN", expiry, strike_e4, "C")
    row = ContractRow(contract.symbol, "AVLN", expiry, strike_e4, "C", at("2025-01-01"))
    bars = {("option", contract.symbol, "day"): market().prices.bar_table["option", PUT, "day"]}  # type: ignore[attr-defined]

    return with_prices(market(), bars, contract_rows=[row]), contract.symbol


def rising_rates() -> Dataset:
    """The market with another curve on each day: the i-th day's is i tenths of a point up."""
    rows = []
    for i, day in enumerate(stock_days()):
        curve = {tenor: value + i / 10 for tenor, value in RATES.items()}
        rows.append(RateRow(day, curve, trading_hours().close_of(day) + 7200 * SECOND))

    return with_prices(market(), rate_rows=rows)


# --- chains ------------------------------------------------------------


def test_a_chain_has_the_contracts_that_traded_by_expiry_type_and_strike() -> None:
    rows = ask("option.chain_query", **CHAIN)["contracts"]
    assert len(rows) == 42

    keys = [(row["expiry"], row["type"], row["strike"]) for row in rows]
    assert keys == sorted(keys)

    first = rows[0]
    assert (first["contract"], first["underlying"], first["date"]) == (
        "O:AVLN250110C00080000",
        "AVLN",
        "2025-01-06",
    )
    assert parse_contract(first["contract"], "contract").strike_e4 == first["strike"] * 10_000


def test_filters_return_the_requested_contracts() -> None:
    between = {
        "strike_min": 95,
        "strike_max": 105.0,
        "expiry_min": "2025-01-17",
        "expiry_max": "2025-02-21",
    }
    rows = ask("option.chain_query", **CHAIN, type="P", **between, fields="strike,type,expiry")[
        "contracts"
    ]

    assert {(row["type"], row["strike"], row["expiry"]) for row in rows} == set(
        product("P", (95.0, 100.0, 105.0), ("2025-01-17", "2025-02-21"))
    )


def test_a_strike_that_is_no_round_number_is_found_by_itself() -> None:
    # 101.1 × 10,000 is not a whole number in floats
    dataset, _ = with_contract(date(2025, 2, 21), 1_011_000)
    assert (
        len(
            ask("option.chain_query", dataset=dataset, **CHAIN, strike_min=101.1, strike_max=101.1)[
                "contracts"
            ]
        )
        == 1
    )


def test_chain_excludes_contracts_of_other_stocks_and_later_listings() -> None:
    rows = [replace(row, listed_ns=at("2025-02-01")) for row in market().prices.contract_rows]  # type: ignore[attr-defined]
    answer = ask(
        "option.chain_query",
        as_of="2025-01-10T21:00:00Z",
        dataset=with_prices(market(), contract_rows=rows),
        **CHAIN,
    )

    assert (answer["contracts"], answer["nearest_expiries"]) == ([], [])
    assert (
        ask("option.chain_query", underlying="BRKT", date="2025-01-06", include_greeks=True)[
            "contracts"
        ]
        == []
    )
    assert ask("option.chain_query", underlying="NOPE", date="2025-01-06")["unknown"] == ["NOPE"]


def test_the_chain_of_a_day_is_there_from_its_close() -> None:
    before, after = (
        ask("option.chain_query", as_of=f"2025-01-06T{clock}Z", **CHAIN)
        for clock in ("20:59:59", "21:00:00")
    )

    assert (before["day_status"], len(before["contracts"])) == ("incomplete", 0)
    assert (after["day_status"], len(after["contracts"])) == ("complete", 42)
    assert (
        ask("option.chain_query", underlying="AVLN", date="2025-01-05")["day_status"]
        == "no_session"
    )


@pytest.mark.slow
def test_pages_of_a_chain_or_a_contract_together_are_the_whole() -> None:
    history = {
        "contract": MINUTE_OPTION,
        "start": "2025-01-06",
        "end": "2025-01-07",
        "resolution": "minute",
        "fields": "close",
    }

    for name, of, arguments, limits in (
        ("option.chain_query", "contracts", {**CHAIN, "include_greeks": True}, (8, 21, 42, 50)),
        ("option.chain_query", "contracts", CHAIN, (1,)),
        ("option.ticker_query", "bars", history, (101, 390, 780)),
    ):
        whole = ask(name, **arguments)[of]
        assert [all_rows(name, of, **arguments, limit=limit) for limit in limits] == [whole] * len(
            limits
        )


# --- contracts ------------------------------------------------------------


def test_contract_history_is_daily_or_by_minute_with_public_row_names() -> None:
    days = ask(
        "option.ticker_query", contract=PUT, start="2025-01-06T09:30:00", end="2025-01-08T16:00:00"
    )["bars"]

    assert column(days, "date") == ["2025-01-06", "2025-01-07", "2025-01-08"]

    span = {"start": "2025-01-06T14:31:00", "end": "2025-01-06T14:32:00", "resolution": "minute"}
    minutes = ask("option.ticker_query", contract=MINUTE_OPTION, **span)["bars"]

    assert column(minutes, "window_start") == ["2025-01-06T14:31:00Z", "2025-01-06T14:32:00Z"]

    named = {"start": "2025-01-06", "end": "2025-01-06", "fields": "ticker,window_start,close"}
    (row,) = ask("option.ticker_query", contract=PUT, **named)["bars"]

    assert set(row) == {"contract", "date", "ticker", "window_start", "close"}
    assert (row["ticker"], row["window_start"]) == (PUT, "2025-01-06T00:00:00Z")


def test_a_contract_that_is_not_listed_is_unknown() -> None:
    answer = ask(
        "option.ticker_query",
        contract="O:AVLN250221P00096000",
        start="2025-01-06",
        end="2025-01-06",
    )

    assert (answer["bars"], answer["unknown"]) == ([], ["O:AVLN250221P00096000"])
    assert (
        refused(
            "option.ticker_query", contract="AVLN-95-P", start="2025-01-06", end="2025-01-06"
        ).field
        == "contract"
    )


# --- Greeks ------------------------------------------------------------


def greek_rows(contract: str, start: str, end: str, **more: Any) -> list[dict[str, Any]]:
    given = {"dataset": rising_rates(), "contract": contract, "start": start, "end": end, **more}
    return ask("option.ticker_query", include_greeks=True, **given)["bars"]  # type: ignore[no-any-return]


def test_the_inputs_of_a_day_worked_by_hand() -> None:
    row = greek_rows(PUT, "2025-01-06", "2025-01-06")[0]
    years = (at("2025-02-21T21:00:00Z") - at("2025-01-06T21:00:00Z")) / YEAR
    # Published by the close of the 6th: the curve of the 3rd, a tenth above the first; 46 days lie
    # between its 1M and 3M.
    rate = (4.40 + (4.41 - 4.40) * (years - 1 / 12) / (0.25 - 1 / 12)) / 100
    wait = (at("2025-01-13T14:30:00Z") - at("2025-01-06T21:00:00Z")) / YEAR
    dividend = 0.25 * math.exp(-0.0440 * wait)

    assert (row["greek_years"], row["greek_rate"]) == (
        pytest.approx(years, abs=1e-8),
        pytest.approx(rate, abs=1e-8),
    )
    assert row["greek_dividends"] == pytest.approx(dividend, abs=1e-8)

    spot = ask("stock.daily", tickers="AVLN", start="2025-01-06", end="2025-01-06")["bars"][0][
        "close"
    ]

    assert (row["greek_spot"], row["greek_status"]) == (spot, "ok")

    worth = price(EuropeanOptions(False, spot - dividend, 95.0, rate, years), row["iv"])
    assert float(worth) == pytest.approx(row["close"], abs=1e-6)


def test_a_dividend_is_deducted_once_declared_and_until_its_ex_day() -> None:
    rows = greek_rows(PUT, "2025-01-02", "2025-01-14")
    deducted = {row["date"]: row["greek_dividends"] > 0 for row in rows}

    assert deducted == {  # declared after the close of the 3rd, ex on the 13th
        "2025-01-02": False,
        "2025-01-03": False,
        "2025-01-06": True,
        "2025-01-07": True,
        "2025-01-08": True,
        "2025-01-10": True,
        "2025-01-13": False,
        "2025-01-14": False,
    }
    assert all(
        row["greek_dividends"] == 0
        for row in greek_rows("O:AVLN250110C00100000", "2025-01-06", "2025-01-10")
    )


def test_a_dividend_after_an_announced_split_is_deducted_per_old_share() -> None:
    """AVLN splits 2 for 1 on the 10th, announced by the 7th: $0.25 per new share of the 13th are $0.50
    per share as of the 7th, of which the strike is a price.
    """
    split = SplitRow("AVLN", date(2025, 1, 10), 2, 1, at("2025-01-06T21:30:00Z"))
    dataset = with_prices(rising_rates(), split_rows=[split])
    plain = greek_rows(PUT, "2025-01-06", "2025-01-10")
    rows = greek_rows(PUT, "2025-01-06", "2025-01-10", dataset=dataset)

    ratios = {}
    for before, after in zip(plain, rows, strict=True):
        ratios[after["date"]] = round(after["greek_dividends"] / before["greek_dividends"], 6)
    # not yet announced by the close of the 6th, and in effect on the 10th
    assert ratios == {
        "2025-01-06": 1.0,
        "2025-01-07": 2.0,
        "2025-01-08": 2.0,
        "2025-01-10": 1.0,
    }


def test_a_minute_takes_the_spot_of_the_last_complete_minute() -> None:
    rows = greek_rows(MINUTE_OPTION, "2025-01-07", "2025-01-07", resolution="minute")
    spots = ask("stock.minute", tickers="AVLN", start="2025-01-07", end="2025-01-07")["bars"]

    assert column(rows, "greek_spot") == column(spots, "close")
    assert rows[0]["greek_years"] == pytest.approx(
        (at("2025-01-17T21:00:00Z") - at("2025-01-07T14:31:00Z")) / YEAR, abs=1e-8
    )

    last = greek_rows(MINUTE_OPTION, "2025-01-10", "2025-01-10", resolution="minute")
    left = (at("2025-01-17T21:00:00Z") - int(minute_starts()[-1]) - MINUTE) / YEAR

    assert (len(last), last[-1]["greek_years"]) == (390, pytest.approx(left, abs=1e-8))
    # of the 6th, published that evening; ten days are below one month
    assert {row["greek_rate"] for row in rows} == {0.045}


def test_the_opening_price_takes_what_was_known_at_the_open() -> None:
    row = greek_rows(PUT, "2025-01-06", "2025-01-06", greek_price_field="open")[0]
    spot = ask("stock.daily", tickers="AVLN", start="2025-01-06", end="2025-01-06")["bars"][0][
        "open"
    ]

    assert row["greek_spot"] == spot
    assert row["greek_years"] == pytest.approx(
        (at("2025-02-21T21:00:00Z") - at("2025-01-06T14:30:00Z")) / YEAR, abs=1e-8
    )

    minutes = greek_rows(
        MINUTE_OPTION, "2025-01-07", "2025-01-07", resolution="minute", greek_price_field="open"
    )

    # no minute of the day was complete at its open
    assert minutes[0]["greek_status"] == "missing_spot"

    closes = ask("stock.minute", tickers="AVLN", start="2025-01-07", end="2025-01-07")["bars"]
    assert column(minutes[1:], "greek_spot") == column(closes[:-1], "close")


def test_an_option_has_no_greeks_at_its_expiry() -> None:
    row = greek_rows("O:AVLN250110C00100000", "2025-01-10", "2025-01-10")[0]
    assert (row["greek_status"], row["iv"], row["delta"], row["greek_years"]) == (
        "expired",
        None,
        None,
        0.0,
    )


def test_expiry_on_a_holiday_is_the_session_before() -> None:
    dataset, symbol = with_contract(date(2025, 1, 9), 1_000_000)  # a day of mourning
    rows = greek_rows(symbol, "2025-01-07", "2025-01-08", dataset=dataset)
    assert [row["greek_years"] for row in rows] == [pytest.approx(1 / 365, abs=1e-8), 0.0]


def test_missing_parts_are_named() -> None:
    table = {
        ("stock", "AVLN", resolution): bars_of(np.empty(0, np.int64), np.empty(0))
        for resolution in ("day", "minute")
    }
    no_spot = with_prices(market(), bars=table)
    stale = with_prices(
        market(), rate_rows=[RateRow(date(2024, 12, 20), RATES, at("2024-12-20T23:00:00Z"))]
    )
    empty = with_prices(
        market(), rate_rows=[RateRow(date(2025, 1, 3), {}, at("2025-01-03T23:00:00Z"))]
    )

    for dataset, start, expected in (
        (no_spot, "2025-01-06", ["missing_spot"]),
        (with_prices(market(), rate_rows=[]), "2025-01-06", ["missing_rate"]),
        (stale, "2025-01-03", ["ok", "missing_rate"]),  # 14 days, then 17
        (empty, "2025-01-06", ["missing_rate"]),
    ):
        assert (
            column(greek_rows(PUT, start, "2025-01-06", dataset=dataset), "greek_status")
            == expected
        )

    no_minutes = greek_rows(
        MINUTE_OPTION, "2025-01-06", "2025-01-06", dataset=no_spot, resolution="minute"
    )

    assert {row["greek_status"] for row in no_minutes} == {"missing_spot"}


def test_a_price_below_the_value_of_exercise_is_noted() -> None:
    starts = market().prices.bar_table["option", PUT, "day"].start_ns  # type: ignore[attr-defined]
    cheap = {
        ("option", "O:AVLN250221C00080000", "day"): bars_of(starts, np.full(len(starts), 10_000))
    }
    row = greek_rows(
        "O:AVLN250221C00080000",
        "2025-01-06",
        "2025-01-06",
        dataset=with_prices(market(), bars=cheap),
    )[0]

    assert (row["greek_status"], row["iv"], row["greek_spot"] > 0) == (
        "below_intrinsic",
        None,
        True,
    )


def test_the_rate_is_linear_between_tenors_and_flat_beyond() -> None:
    row = RateRow(date(2025, 1, 6), {"1M": 4.0, "1Y": 5.0, "30Y": 3.0}, 0)
    years = np.array([0.001, 1 / 12, (1 + 1 / 12) / 2, 1.0, 15.5, 30.0, 50.0])
    np.testing.assert_allclose(interpolate(row, years), [0.04, 0.04, 0.045, 0.05, 0.04, 0.03, 0.03])


def test_a_curve_that_is_corrected_later_counts_from_its_correction() -> None:
    first = RateRow(date(2025, 1, 3), {"1M": 4.0}, at("2025-01-03T23:00:00Z"))
    corrected = replace(first, yields_pct={"1M": 5.0}, available_ns=at("2025-01-07T12:00:00Z"))
    dataset = with_prices(market(), rate_rows=[corrected, first])
    rows = greek_rows(PUT, "2025-01-06", "2025-01-07", dataset=dataset)

    assert column(rows, "greek_rate") == [0.04, 0.05]


def test_greeks_of_a_past_day_do_not_depend_on_the_clock() -> None:
    early = ask("option.chain_query", as_of="2025-01-06T21:00:00Z", **CHAIN, include_greeks=True)
    late = ask("option.chain_query", as_of="2025-02-28T21:00:00Z", **CHAIN, include_greeks=True)
    assert early["contracts"] == late["contracts"]


# --- defects of the public price service: ours has none of them


def test_minute_greeks_do_not_use_the_days_later_close_or_rate() -> None:
    bars = market().prices.bar_table["stock", "AVLN", "day"]  # type: ignore[attr-defined]
    wild = {("stock", "AVLN", "day"): replace(bars, close_e4=bars.close_e4 * 9)}
    same_day = RateRow(date(2025, 1, 7), dict.fromkeys(RATES, 9.0), at("2025-01-07T23:00:00Z"))
    other = with_prices(market(), bars=wild, rate_rows=[*market().prices.rate_rows[:3], same_day])  # type: ignore[attr-defined]
    arguments = {
        "contract": MINUTE_OPTION,
        "start": "2025-01-07",
        "end": "2025-01-07",
        "resolution": "minute",
    }
    rows = ask("option.ticker_query", **arguments, include_greeks=True)["bars"]

    assert (
        rows == ask("option.ticker_query", dataset=other, **arguments, include_greeks=True)["bars"]
    )
    assert {row["greek_status"] for row in rows} == {"ok"}


def test_no_other_expiry_is_given_silently() -> None:
    answer = ask("option.chain_query", **CHAIN, expiry_min="2025-01-24", expiry_max="2025-01-24")
    assert answer["contracts"] == []
    # 7, 14 and 28 days away
    assert answer["nearest_expiries"] == ["2025-01-17", "2025-01-10", "2025-02-21"]
    assert (
        ask("option.chain_query", **CHAIN, expiry_min="2025-01-17", expiry_max="2025-01-17")[
            "nearest_expiries"
        ]
        == []
    )


def test_an_empty_range_of_a_chain_is_refused() -> None:
    assert (
        refused(
            "option.chain_query", **CHAIN, expiry_min="2025-02-01", expiry_max="2025-01-01"
        ).field
        == "expiry_max"
    )
    assert (
        refused("option.chain_query", **CHAIN, strike_min=100, strike_max=99.5).field
        == "strike_max"
    )
    assert refused("option.chain_query", **CHAIN, strike_min=float("nan")).field == "strike_min"


# -- prices, greeks and volatilities


SPOTS = st.floats(1, 1_000)
STRIKES = st.floats(1, 1_000)
INTERESTS = st.floats(-0.02, 0.15)
YEARS = st.floats(0.002, 5)
VOLATILITIES = st.floats(0.02, 2.0)
ANY = {
    "spot": SPOTS,
    "strike": STRIKES,
    "rate": INTERESTS,
    "years": YEARS,
    "volatility": VOLATILITIES,
    "call": st.booleans(),
}


def normal(x: float) -> float:
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def test_prices_and_greeks_match_the_textbook() -> None:
    """Hull's examples: spot 42, strike 40, 10%, 20%, six months; spot 49, strike 50, 5%, 20%,
    twenty weeks; dividends of 0.50.
    """
    # ln(42/40) = 0.04879016.
    d1 = (0.04879016416943205 + (0.10 + 0.02) * 0.5) / (0.2 * math.sqrt(0.5))
    d2 = d1 - 0.2 * math.sqrt(0.5)
    call = 42 * normal(d1) - 40 * math.exp(-0.05) * normal(d2)
    put = 40 * math.exp(-0.05) * normal(-d2) - 42 * normal(-d1)

    assert (round(d1, 4), round(d2, 4), round(call, 2), round(put, 2)) == (
        0.7693,
        0.6278,
        4.76,
        0.81,
    )

    both = price(EuropeanOptions(np.array([True, False]), 42.0, 40.0, 0.10, 0.5), 0.2)
    assert both.tolist() == [pytest.approx(call, abs=1e-12), pytest.approx(put, abs=1e-12)]

    sensitivities = greeks(EuropeanOptions(True, 49.0, 50.0, 0.05, 0.3846), 0.2)
    yearly = sensitivities.theta * 365, sensitivities.vega * 100, sensitivities.rho * 100

    assert [
        float(figure) for figure in (sensitivities.delta, sensitivities.gamma)
    ] == pytest.approx([0.522, 0.066], abs=5e-4)
    assert [float(figure) for figure in yearly] == [
        pytest.approx(-4.31, abs=5e-3), pytest.approx(12.1, abs=5e-2), pytest.approx(8.91, abs=5e-3)
    ]  # fmt: skip

    # In two and five months, spot and strike 40, rate 9%, volatility 30%, six months: 3.67.
    deducted = 0.5 * math.exp(-0.09 * 2 / 12) + 0.5 * math.exp(-0.09 * 5 / 12)
    worth = float(price(EuropeanOptions(True, 40.0 - deducted, 40.0, 0.09, 0.5), 0.3))

    assert (deducted, worth) == (pytest.approx(0.9742, abs=1e-4), pytest.approx(3.67, abs=5e-3))


@pytest.mark.slow
@given(**ANY)
@settings(max_examples=60)
def test_call_less_put_is_spot_less_discounted_strike(
    spot: float, strike: float, rate: float, years: float, volatility: float, call: bool
) -> None:
    option = EuropeanOptions(np.array([True, False]), spot, strike, rate, years)
    both = price(option, volatility)
    sensitivities = greeks(option, volatility)

    assert both[0] - both[1] == pytest.approx(spot - strike * math.exp(-rate * years), abs=1e-9)

    gaps = [
        float(values[0] - values[1])
        for values in (sensitivities.delta, sensitivities.gamma, sensitivities.vega)
    ]

    assert gaps == [pytest.approx(gap, abs=1e-12) for gap in (1, 0, 0)]


@pytest.mark.parametrize("call", [True, False], ids=["call", "put"])
def test_greeks_are_the_slopes_of_the_price(call: bool) -> None:
    base = {"spot": 103.0, "strike": 100.0, "rate": 0.043, "years": 0.4, "volatility": 0.31}

    def slope(name: str, step: float) -> float:
        up, down = ({**base, name: base[name] + sign * step} for sign in (1, -1))
        high, low = (
            price(
                EuropeanOptions(call, at["spot"], 100.0, at["rate"], at["years"]), at["volatility"]
            )
            for at in (up, down)
        )
        return float(high - low) / (2 * step)

    sensitivities = greeks(EuropeanOptions(call, 103.0, 100.0, 0.043, 0.4), 0.31)
    below, above = (
        greeks(EuropeanOptions(call, spot, 100.0, 0.043, 0.4), 0.31).delta
        for spot in (102.99, 103.01)
    )

    assert float(sensitivities.delta) == pytest.approx(slope("spot", 1e-4), rel=1e-7)
    assert float(sensitivities.gamma) == pytest.approx(float(above - below) / 0.02, rel=1e-5)
    assert float(sensitivities.theta) == pytest.approx(-slope("years", 1e-5) / 365, rel=1e-6)
    assert float(sensitivities.vega) == pytest.approx(slope("volatility", 1e-5) / 100, rel=1e-7)
    assert float(sensitivities.rho) == pytest.approx(slope("rate", 1e-5) / 100, rel=1e-7)


def test_without_time_or_volatility_the_price_is_its_lower_bound() -> None:
    option = EuropeanOptions(np.array([True, False]), 110.0, 100.0, 0.0, np.array([0.0, 1.0]))
    assert price(option, np.array([0.3, 0.0])).tolist() == [10.0, 0.0]
    assert np.isnan(greeks(option, np.array([0.3, 0.0])).delta).all()


@pytest.mark.slow
@given(**ANY)
@settings(max_examples=60)
def test_a_price_implies_the_volatility_it_was_made_with(
    spot: float, strike: float, rate: float, years: float, volatility: float, call: bool
) -> None:
    option = EuropeanOptions(call, spot, strike, rate, years)
    made = float(price(option, volatility))
    assume(float(made - option.lower_bound) > 1e-6)
    implied, status = implied_volatility(option, made)

    assert (status[0], float(price(option, implied[0]))) == ("ok", pytest.approx(made, abs=1e-9))

    if float(greeks(option, volatility).vega) > 1e-4:
        assert implied[0] == pytest.approx(volatility, abs=1e-8)


def test_a_price_without_a_volatility_has_a_reason() -> None:
    """Spot 110 less strike 100 at no rate: at 10 nothing is left for time. A call is worth less
    than the stock; at 1000% 107.34.
    """
    paid = [10.0, 9.0, 10.5, 109.99, 110.0, 200.0, math.nan, math.inf, 0.0, -1.0]
    expected = ["below_intrinsic"] * 2 + ["ok"] + ["no_bracket"] * 3 + ["non_finite_input"] * 4
    volatilities, statuses = implied_volatility(
        EuropeanOptions(True, 110.0, 100.0, 0.0, 0.2), np.array(paid)
    )

    assert (statuses.tolist(), np.isfinite(volatilities).tolist()) == (
        expected,
        [status == "ok" for status in expected],
    )

    used_up = EuropeanOptions(False, -1.0, 100.0, 0.0, 0.2)  # a spot that dividends have used up
    assert implied_volatility(used_up, 5.0)[1].tolist() == ["non_finite_input"]


def test_arrays_give_what_scalars_give() -> None:
    calls = np.array([True, False, True])
    spots = np.array([90.0, 100.0, 110.0])
    together = price(EuropeanOptions(calls, spots, 100.0, 0.04, 0.25), 0.3)
    alone = [
        float(price(EuropeanOptions(bool(call), float(spot), 100.0, 0.04, 0.25), 0.3))
        for call, spot in zip(calls, spots)
    ]

    assert together.tolist() == alone


@pytest.mark.exhaustive
@given(**ANY)
@settings(max_examples=60)
def test_anywhere_it_agrees_with_the_calculator_of_quantlib(
    spot: float, strike: float, rate: float, years: float, volatility: float, call: bool
) -> None:
    ql = pytest.importorskip("QuantLib", reason="QuantLib, the independent check, is not installed")
    payoff = ql.PlainVanillaPayoff(ql.Option.Call if call else ql.Option.Put, strike)
    discount = math.exp(-rate * years)
    theirs = ql.BlackCalculator(payoff, spot / discount, volatility * math.sqrt(years), discount)
    option = EuropeanOptions(call, spot, strike, rate, years)
    ours = greeks(option, volatility)

    assert float(price(option, volatility)) == pytest.approx(theirs.value(), rel=1e-8, abs=1e-8)

    slopes = (
        theirs.delta(spot),
        theirs.gamma(spot),
        theirs.theta(spot, years) / 365,
        theirs.vega(years) / 100,
    )
    values = [float(getattr(ours, name)) for name in GREEK_NAMES]
    np.testing.assert_allclose(values, [*slopes, theirs.rho(years) / 100], rtol=1e-8, atol=1e-8)
