"""What hangs on the prices of the embedded market: options, rates, lending, calendars and
articles.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval_qfinzero.data.rows import E4, TENOR_YEARS, Bars, ContractRow, EventRow
from ktdeval_qfinzero.data.synthetic.companies import STOCKS, live
from ktdeval_qfinzero.data.synthetic.earnings import draw_reports, report_events
from ktdeval_qfinzero.data.synthetic.macro import FOMC, SERIES
from ktdeval_qfinzero.data.synthetic.minute_grid import new_york
from ktdeval_qfinzero.data.synthetic.option_prices import OptionTerms, value
from ktdeval_qfinzero.data.synthetic.params import SyntheticParams
from ktdeval_qfinzero.data.synthetic.prices import draw_course
from ktdeval_qfinzero.instruments import read_contract
from ktdeval_qfinzero.timestamps import DAY, MINUTE, day_of, day_start, moment_text
from ktdeval_qfinzero.trading_hours import trading_hours
from loops import not_empty
from qfinzero_synthetic import SMALL, bars, day_on, grid_of, outcomes, small_market

DEFAULT = SyntheticParams()
HALTED = "FNXO"
MEGA = "AVLN"


def contract_rows() -> dict[str, ContractRow]:
    return {row.symbol: row for row in small_market().prices.contract_rows}


def option_bars() -> Iterator[tuple[str, str, Bars]]:
    """Symbol, resolution and bars of each option with any."""
    for (asset_class, symbol, resolution), series in small_market().prices.bar_table.items():
        if asset_class == "option":
            yield symbol, resolution, series


def test_weeklies_expire_on_fridays_and_monthlies_on_third_fridays_that_are_sessions() -> None:
    expiries = {row.expiry for row in contract_rows().values()}
    assert {
        date(2024, 11, 15),
        date(2024, 12, 20),
        date(2025, 1, 17),
        date(2025, 2, 21),
        date(2025, 3, 21),
    } <= expiries
    assert {day for day in expiries if day.weekday() != 4} == {date(2025, 4, 17)}  # Good Friday
    assert all(trading_hours().row_of(day) is not None for day in expiries)
    # of Friday holidays the day before only
    assert all(expiry + timedelta(days=1) not in expiries for expiry in expiries)


def test_a_contract_has_no_bar_before_its_listing_or_after_its_last_session() -> None:
    rows = contract_rows()
    for symbol, resolution, series in not_empty(option_bars()):
        row = rows[symbol]
        last = trading_hours().last_expiry_session(row.expiry)
        assert day_of(int(series.start_ns[-1])) <= last
        opened = int(series.start_ns[0])
        assert row.listed_ns <= (
            opened if resolution == "minute" else new_york(day_of(opened), 9, 30)
        )


def test_every_day_has_strikes_close_to_the_price_and_far_from_it() -> None:
    market = small_market()
    hours = trading_hours()
    spot = bars("stock", MEGA, "day")
    by_expiry: dict[date, list[ContractRow]] = defaultdict(list)

    for row in market.prices.contracts(MEGA, int(hours.close_ns[-1])):
        by_expiry[row.expiry].append(row)

    for index in range(1, len(spot)):
        day = day_of(int(spot.start_ns[index]))
        price = spot.close_e4[index - 1]
        close_ns = hours.close_of(day)
        alive = 0
        for expiry in [expiry for expiry in by_expiry if expiry >= day]:
            strikes = {row.strike_e4 for row in by_expiry[expiry] if row.listed_ns <= close_ns}
            if not strikes:
                continue

            alive += 1
            assert min(strikes) < 0.92 * price
            assert max(strikes) > 1.08 * price
            assert min(abs(strike - price) for strike in strikes) <= 0.02 * price

        assert alive >= 5

    # Strikes are added as the price moves.
    listed = {
        row.listed_ns
        for row in contract_rows().values()
        if row.expiry == date(2025, 1, 17) and row.underlying == MEGA
    }

    assert len(listed) > 1


def test_underlyings_of_options_never_split_and_unwanted_strikes_have_no_bars() -> None:
    prices = small_market().prices
    underlyings = {row.symbol for row in prices.symbol_rows if row.has_options}

    assert underlyings == {row.underlying for row in prices.contract_rows} == {"AVLN", "BRKT"}
    assert underlyings.isdisjoint(row.symbol for row in prices.split_rows)

    with_bars = {symbol for symbol, *_ in option_bars()}
    assert 0.5 < len(with_bars) / len(contract_rows()) < 0.98

    volumes = np.concatenate(
        [series.volume for _, resolution, series in option_bars() if resolution == "day"]
    )

    assert np.quantile(volumes, 0.1) < 5 < 200 < np.quantile(volumes, 0.9)


def test_an_option_is_worth_its_payoff_at_expiry_and_never_less_than_exercise() -> None:
    expired = 0
    for symbol, resolution, series in option_bars():
        contract = read_contract(symbol)
        if contract is None or resolution != "day" or contract.underlying == "AVLN":
            continue

        spot = bars("stock", contract.underlying, "day")
        rows = np.searchsorted(spot.start_ns, series.start_ns)
        intrinsic = np.array([contract.intrinsic_e4(int(price)) for price in spot.close_e4[rows]])
        assert np.all(series.close_e4 >= intrinsic)
        if day_of(int(series.start_ns[-1])) == contract.expiry:
            expired += 1
            assert series.close_e4[-1] == max(100, intrinsic[-1])

    assert expired > 100


def one(
    strike: float, is_call: bool, rate: float, volatility: float, dividends: float = 0.0
) -> OptionTerms:
    return OptionTerms(
        *(np.array([number]) for number in (strike, is_call, rate, volatility, dividends))
    )


@pytest.mark.parametrize(
    ("strike", "is_call", "intrinsic", "worth"),
    [(40.0, True, 2.0, 4.76), (40.0, False, 0.0, 0.81), (100.0, False, 58.0, 58.0)],
)
def test_the_formula_gives_the_textbook_prices(
    strike: float, is_call: bool, intrinsic: float, worth: float
) -> None:
    """Hull: price 42, 10%, 20%, half a year. Far in the money a European put is worth less than
    exercise, at which nobody sells.
    """
    intrinsic_value, rest = value(one(strike, is_call, 0.1, 0.2), np.array([42.0]), np.array([0.5]))

    assert (intrinsic_value[0], round(intrinsic_value[0] + rest[0], 2)) == (intrinsic, worth)


@given(
    st.floats(20, 400),
    st.floats(0.6, 1.6),
    st.floats(0, 0.08),
    st.floats(0.08, 1.2),
    st.floats(0.003, 0.6),
)
def test_calls_and_puts_keep_parity_as_far_as_early_exercise_lets_them(
    spot: float, ratio: float, rate: float, volatility: float, years: float
) -> None:
    strike = spot * ratio

    def worth(is_call: bool) -> float:
        option = one(strike, is_call, rate, volatility)
        return sum(part[0] for part in value(option, np.array([spot]), np.array([years])))

    assert (
        spot - strike - 1e-6
        <= worth(True) - worth(False)
        <= spot - strike * math.exp(-rate * years) + 1e-6
    )


def test_calls_and_puts_keep_parity_in_the_bars() -> None:
    market = small_market()
    table = market.prices.bar_table
    rates = {row.day: row.yields_pct["3M"] / 100 for row in market.prices.rate_rows}
    gaps = []

    for row in contract_rows().values():
        put = row.symbol[:-9] + "P" + row.symbol[-8:]
        pair = (table.get(("option", row.symbol, "day")), table.get(("option", put, "day")))
        if row.right != "C" or row.underlying != "BRKT" or pair[0] is None or pair[1] is None:
            continue

        spot = bars("stock", row.underlying, "day")
        for start_ns in np.intersect1d(pair[0].start_ns, pair[1].start_ns).tolist():
            price = spot.close_e4[np.searchsorted(spot.start_ns, start_ns)] / E4
            call, put_price = (
                bars_.close_e4[np.searchsorted(bars_.start_ns, start_ns)] / E4 for bars_ in pair
            )
            years = (row.expiry - day_of(start_ns)).days / 365
            owed = sum(
                dividend.amount_e4 / E4
                for dividend in market.prices.dividend_rows
                if dividend.symbol == row.underlying
                and dividend.declared_ns < start_ns + DAY
                and day_of(start_ns) < dividend.ex_day <= row.expiry
            )
            later = row.strike_e4 / E4 * math.exp(-rates[day_of(start_ns)] * years)
            gaps.append((call - put_price - (price - owed - later)) / price)

    assert len(gaps) > 1_000
    assert abs(float(np.median(gaps))) < 0.0005
    assert float(np.quantile(np.abs(gaps), 0.9)) < 0.006


# Rates, lending.


def test_a_curve_is_published_at_six_in_the_evening() -> None:
    for row in small_market().prices.rate_rows:
        assert set(row.yields_pct) == set(TENOR_YEARS)
        assert all(rate == round(rate, 2) > 0 for rate in row.yields_pct.values())

    published = {row.day: moment_text(row.available_ns) for row in small_market().prices.rate_rows}

    assert published[date(2024, 10, 31)] == "2024-10-31T22:00:00Z"  # summer time
    assert published[date(2024, 11, 29)] == "2024-11-29T23:00:00Z"  # a day with an early close
    assert len(published) == len(grid_of(SMALL))


def test_some_stocks_are_hard_to_borrow() -> None:
    rows = small_market().prices.borrow_rows
    easy = [row for row in rows if row.symbol == MEGA]
    hard = [row for row in rows if row.symbol == HALTED]

    assert all(row.fee_bps_per_year <= 35 and row.shares > 1_000_000 for row in easy)
    assert all(row.fee_bps_per_year >= 300 and row.shares < 5_000 for row in hard)
    assert len({row.fee_bps_per_year for row in hard}) > 3
    assert small_market().prices.borrow(MEGA, int(grid_of(SMALL).midnight_ns[0])) is not None


# Calendars.


def test_no_outcome_is_known_before_its_event_is_due() -> None:
    events = small_market().events
    assert len({row.event_id for row in events}) == len(events) > 60

    for row in events:
        assert row.announced_ns < row.time_ns
        assert not any(name.endswith("actual") for name in row.expected)
        assert all(moment >= row.time_ns for moment, _ in outcomes(row))
        moments = [release.available_ns for release in row.releases]
        assert moments == sorted(moments)
        assert all(moment >= row.announced_ns for moment in moments)


def test_the_previous_value_is_that_of_the_last_release_known_at_the_announcement() -> None:
    by_series: dict[str, list[EventRow]] = defaultdict(list)
    for row in small_market().events:
        if row.event_type == "macro_calendar":
            by_series[re.sub(r"_\d+", "", row.event_id)].append(row)

    compared = 0
    for rows in by_series.values():
        for before, after in pairwise(rows):
            assert after.expected["previous"] == before.releases[0].values["actual"]
            assert after.announced_ns >= before.releases[0].available_ns
            compared += 1

    assert compared > 25


def test_economic_releases_come_at_their_hours() -> None:
    rows = {row.event_id: row for row in small_market().events}
    due = {
        "cpi_2024_12": "2024-12-11T13:30:00Z",
        "fomc_2024_12": "2024-12-18T19:00:00Z",
        "nfp_2025_01": "2025-01-10T13:30:00Z",
    }

    assert {name: moment_text(rows[f"econ_{name}"].time_ns) for name in due} == due
    assert rows["econ_cpi_2024_12"].title == "Consumer Price Index (November)"
    assert {row.importance for row in rows.values()} == {"high", "medium", "low"}
    assert {row.market for row in rows.values()} == {"us", "global"}


@pytest.mark.slow
@given(st.integers(2016, 2034), st.integers(1, 12))
def test_due_days_are_sessions_and_a_series_is_due_once_in_its_month(year: int, month: int) -> None:
    for series in (*SERIES, FOMC):
        days = series.days(year, month)
        assert all(trading_hours().row_of(day) is not None for day in days)
        if series.period != "week":
            assert len(days) <= 1
            assert all((day.year, day.month) == (year, month) for day in days)


@pytest.mark.slow
def test_a_moved_report_is_known_by_its_new_date_only_from_the_move_on() -> None:
    rows = {}
    for stock in STOCKS:
        course = draw_course(0, stock, grid_of(DEFAULT))
        rows |= {row.event_id: row for row in report_events(course.life, course.reports)}

    moved = [row for row in rows.values() if row.event_id.endswith("_moved")]

    assert len(moved) >= 5

    for row in moved:
        first = rows[row.event_id.removesuffix("_moved")]
        (release,) = first.releases
        assert release.values["rescheduled_to_utc"] == moment_text(row.time_ns)
        assert row.expected["rescheduled_from_utc"] == moment_text(first.time_ns)
        assert (
            first.announced_ns
            < release.available_ns
            == row.announced_ns
            < min(first.time_ns, row.time_ns)
        )
        assert first.title == row.title
        assert "rescheduled_from_utc" not in first.expected


def test_the_price_mostly_follows_the_surprise_of_a_report() -> None:
    grid = grid_of(DEFAULT)
    agreed = []
    for stock in STOCKS:
        reports, shocks = draw_reports(0, live(0, stock, grid), grid)
        taken = [report for report in reports if report.reaction_row is not None]
        assert [report.reaction_row for report in taken] == [shock.row for shock in shocks]
        agreed += [
            (report.eps > report.estimate) == (shock.size > 0)
            for report, shock in zip(taken, shocks, strict=True)
            if report.eps != report.estimate
        ]

    assert len(agreed) > 150
    assert 0.6 < np.mean(agreed) < 0.95


# Articles.


def test_articles_are_whole_texts_of_listed_instruments_at_addresses_that_exist_nowhere() -> None:
    market = small_market()
    listed = {row.symbol: row.listed_ns for row in market.prices.symbol_rows}

    assert len({row.id for row in market.news}) == len(market.news) > 150

    for row in market.news:
        assert row.id.startswith("news_")
        assert all(listed[ticker] <= row.published_ns for ticker in row.tickers)
        text = f"{row.title} {row.description} {row.body}"
        assert not re.search(r"[{}]|\bnan\b|None|  |\$-|--", text)
        assert row.title
        assert len(row.body) > 60
        assert re.fullmatch(r"https://[a-z]+\.example/\d{4}/\d\d/\d\d/[a-z0-9-]+", row.article_url)
        assert all(insight["ticker"] in row.tickers for insight in row.insights)
        assert all(
            insight["sentiment"] in ("positive", "neutral", "negative") for insight in row.insights
        )


def test_articles_report_true_results_and_not_before_publication() -> None:
    events = {
        row.title.removesuffix(" earnings"): row for row in small_market().events if outcomes(row)
    }
    titles = [
        (row, re.fullmatch(r"(.+) (beats|misses|meets) estimates for (Q\d \d{4}).*", row.title))
        for row in small_market().news
    ]
    results = [(row, match) for row, match in titles if match is not None]

    assert len(results) >= 5

    for row, match in results:
        event = events[f"{match[1]} {match[3]}"]
        values: dict[str, float] = dict(event.expected)
        for release in event.releases:
            values |= release.values if release.available_ns <= event.time_ns else {}

        verb = float(np.sign(values["eps_actual"] - values["eps_estimated"]))
        assert match[2] == {1.0: "beats", -1.0: "misses", 0.0: "meets"}[verb]
        assert f"${abs(values['eps_actual']):.2f} a share" in row.body
        assert event.time_ns < row.published_ns < event.time_ns + 10 * MINUTE


def test_articles_report_the_true_close_and_only_afterwards() -> None:
    count = 0
    for row in small_market().news:
        if row.keywords != ("market close",):
            continue

        day = day_of(row.published_ns)
        assert row.published_ns > trading_hours().close_of(day)
        for ticker, percent in re.findall(r"\(([A-Z]+)\) ([+-]\d+\.\d)%", row.body):
            days = bars("stock", ticker, "day")
            index = day_on(days, day)
            assert index is not None
            ratio = next(
                (
                    s.new / s.old
                    for s in small_market().prices.split_rows
                    if (s.symbol, s.ex_day) == (ticker, day)
                ),
                1.0,
            )
            change = (days.close_e4[index] / days.close_e4[index - 1] * ratio - 1) * 100
            assert float(percent) == pytest.approx(change, abs=0.051)
            count += 1

    assert count > 150


def test_articles_report_true_unusual_option_volume_after_the_close() -> None:
    chain: dict[tuple[str, str, int], float] = defaultdict(float)
    for symbol, resolution, series in option_bars():
        contract = read_contract(symbol)
        if resolution == "day" and contract is not None:
            for start_ns, volume in zip(
                series.start_ns.tolist(), series.volume.tolist(), strict=True
            ):
                chain[contract.underlying, contract.right, start_ns] += volume

    signals = [row for row in small_market().news if row.event_type == "option_signal"]

    assert signals

    for row in signals:
        day = day_of(row.published_ns)
        assert row.published_ns > trading_hours().close_of(day)
        match = re.search(r"([\d,]+) (call|put)s on", row.body)
        assert match is not None
        volume = chain[row.tickers[0], match[2][0].upper(), day_start(day)]
        assert volume == float(match[1].replace(",", ""))


def test_articles_report_corporate_actions_once_public() -> None:
    market = small_market()
    by_word: dict[str, list[int]] = defaultdict(list)
    for row in market.news:
        for word in row.keywords:
            by_word[word].append(row.published_ns)

    declared = sorted(row.declared_ns + 5 * MINUTE for row in market.prices.dividend_rows)
    first_ns = int(grid_of(SMALL).open_ns[0])

    assert by_word["dividend"] == [moment for moment in declared if moment > first_ns]
    assert {row.announced_ns for row in market.prices.split_rows} <= set(by_word["split"])
    assert all(
        by_word[word]
        for word in (
            "listing",
            "halt",
            "bid",
            "delisting",
            "earnings",
            "analysts",
            "economy",
            "coins",
        )
    )
