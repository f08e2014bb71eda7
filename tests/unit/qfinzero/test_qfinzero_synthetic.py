"""The embedded market: what its prices, calendars and articles are like, and that equal seeds give equal markets."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import DataError, StoreError
from ktdeval_qfinzero.data.check import check_dataset
from ktdeval_qfinzero.data.folder import save_dataset
from ktdeval_qfinzero.data.rows import E4, TENOR_YEARS, Bars, ContractRow, EventRow
from ktdeval_qfinzero.data.stores import Page, Span, Tags
from ktdeval_qfinzero.data.synthetic.corporate import live, log_factor
from ktdeval_qfinzero.data.synthetic.earnings import draw_reports, report_events
from ktdeval_qfinzero.data.synthetic.embedded import cache_root, generated_folder, open_generated
from ktdeval_qfinzero.data.synthetic.engine import Moves, Shock, Traded, make_tape, with_shocks
from ktdeval_qfinzero.data.synthetic.grid import Grid, new_york, session_grid
from ktdeval_qfinzero.data.synthetic.macro import FOMC, SERIES, draw_readings, market_shocks
from ktdeval_qfinzero.data.synthetic.market import generate
from ktdeval_qfinzero.data.synthetic.names import COINS, STOCKS, Stock
from ktdeval_qfinzero.data.synthetic.option_prices import Terms, value
from ktdeval_qfinzero.data.synthetic.params import SyntheticParams, small_params
from ktdeval_qfinzero.data.synthetic.prices import common_moves, draw_course
from ktdeval_qfinzero.instruments import TICKER, read_contract
from ktdeval_qfinzero.moments import DAY, MINUTE, day_of, day_start, moment_text, parse_moment
from ktdeval_qfinzero.suite.samples import embedded_dataset
from ktdeval_qfinzero.trading_hours import trading_hours
from ktdeval_qfinzero.view import View
from qfinzero_synthetic import ALL_TIME, dataset_of, digest_of_bars, small_market
from tables import on_each_row

SMALL = small_params()
DEFAULT = SyntheticParams()
HALTED, NEW, BID_FOR, SPLIT, REVERSE = "FNXO", "EMBQ", "GYRM", "CSTL", "HXLV"
THIN, MEGA = "DUVN", "AVLN"
TINY = dataclasses.replace(SMALL, stocks=1, coins=0, option_underlyings=0, option_minute_underlyings=0)


def at(text: str) -> int:
    return parse_moment(text, "test")


def bars(asset_class: str, symbol: str, resolution: str) -> Bars:
    return small_market().prices.bar_table[asset_class, symbol, resolution]


def grid_of(params: SyntheticParams) -> Grid:
    return session_grid(date.fromisoformat(params.first_day), date.fromisoformat(params.last_day))


def day_on(found: Bars, day: date) -> int | None:
    places = np.flatnonzero(found.start_ns == day_start(day))
    return int(places[0]) if len(places) else None


def contract_rows() -> dict[str, ContractRow]:
    return {row.symbol: row for row in small_market().prices.contract_rows}


# Equal seeds, equal markets.


def test_parameters_give_the_market_that_they_always_gave(tmp_path: Path) -> None:
    market = small_market()
    info = save_dataset(tmp_path / "small", market.prices, market.events, market.news, market.info)
    # Another id is another market: then GENERATOR_VERSION must grow, and items made before do not fit it.
    assert info.content_id == "6a317bbaf9401790acfb2c75e48781507dfe1b3e748218816393a4c3861c6a40"


def test_another_seed_is_another_market_and_another_stock_coin_or_range_of_minutes_changes_nothing_else() -> None:
    ours = {key: digest_of_bars(found) for key, found in small_market().prices.bar_table.items()}
    other = generate(dataclasses.replace(SMALL, seed=1, stocks=2)).prices.bar_table
    for key in (("stock", "AVLN", "day"), ("option", "O:AVLN241220C00240000", "day"), ("crypto", "BTCX", "minute")):
        assert key not in other or digest_of_bars(other[key]) != ours[key]
    fewer = generate(dataclasses.replace(SMALL, stocks=7, coins=1))
    assert len(fewer.prices.bar_table) > 500
    assert all(digest_of_bars(found) == ours[key] for key, found in fewer.prices.bar_table.items())
    assert all(row in small_market().events for row in fewer.events)
    theirs = {row.id: row for row in small_market().news}
    changed = {row.title for row in fewer.news if theirs.get(row.id) != row}
    assert len(changed) < len(fewer.news) / 3, "only articles that look at the whole market"
    shorter = generate(dataclasses.replace(SMALL, minute_last="2024-12-20", option_minute_underlyings=0)).prices.bar_table
    days = [key for key in ours if key[2] == "day" and not key[1].startswith("O:AVLN")]
    assert {key: digest_of_bars(shorter[key]) for key in days} == {key: ours[key] for key in days}


# Bars.


def test_every_bar_is_a_possible_one() -> None:
    for (asset_class, _, _), found in small_market().prices.bar_table.items():
        prices = np.stack([found.open_e4, found.high_e4, found.low_e4, found.close_e4])
        assert len(found)
        assert np.all(np.diff(found.start_ns) > 0)
        assert np.all((found.low_e4 == prices.min(axis=0)) & (found.high_e4 == prices.max(axis=0)))
        assert np.all((prices >= 100) & (prices % 100 == 0)), "to the cent"
        assert np.all((found.volume > 0) & (found.transactions > 0))
        if asset_class != "crypto":
            assert np.all((found.volume == np.floor(found.volume)) & (found.volume >= found.transactions))
            single = found.take(found.transactions == 1)
            assert np.array_equal(single.high_e4, single.low_e4), "one trade has one price"


def test_bars_of_days_are_made_of_bars_of_minutes() -> None:
    table = small_market().prices.bar_table
    compared: dict[str, int] = defaultdict(int)
    for (asset_class, symbol, resolution), minutes in table.items():
        for start_ns in np.unique(minutes.start_ns // DAY * DAY).tolist() if resolution == "minute" else ():
            days = table[asset_class, symbol, "day"]
            day = days.take(days.start_ns == start_ns)
            first, end = np.searchsorted(minutes.start_ns, (start_ns, start_ns + DAY))
            part = minutes.take(slice(int(first), int(end)))
            made = [part.open_e4[0], part.high_e4.max(), part.low_e4.min(), part.close_e4[-1], part.transactions.sum()]
            assert [*day.open_e4, *day.high_e4, *day.low_e4, *day.close_e4, *day.transactions] == made
            assert day.volume[0] == pytest.approx(part.volume.sum(), abs=1e-9 * day.volume[0])
            compared[asset_class] += 1
    assert (compared["stock"] > 90, compared["crypto"], compared["option"] > 100) == (True, 2 * 16, True)


def test_minutes_lie_in_sessions_and_stop_at_an_early_close() -> None:
    hours, minutes = trading_hours(), bars("stock", MEGA, "minute")
    row = np.searchsorted(hours.open_ns, minutes.start_ns, side="right") - 1
    assert np.all(minutes.start_ns < hours.close_ns[row])
    on_24th = minutes.start_ns[minutes.start_ns // DAY * DAY == day_start(date(2024, 12, 24))]
    assert (moment_text(int(on_24th[0])), moment_text(int(on_24th[-1]))) == ("2024-12-24T14:30:00Z", "2024-12-24T17:59:00Z")
    assert len(on_24th) == 210
    assert day_on(bars("stock", MEGA, "day"), date(2024, 12, 25)) is None
    # A thinly traded stock misses minutes, and a large one does not.
    sessions = 10 * 390 + 210
    assert len(bars("stock", MEGA, "minute")) == sessions
    assert 0.4 * sessions < len(bars("stock", THIN, "minute")) < 0.9 * sessions


def test_coins_trade_every_minute_of_every_day() -> None:
    minutes = bars("crypto", "BTCX", "minute")
    assert np.all(np.diff(minutes.start_ns) == MINUTE)
    assert np.all(np.diff(bars("crypto", "BTCX", "day").start_ns) == DAY)
    assert (moment_text(int(minutes.start_ns[0])), len(minutes)) == ("2024-12-16T00:00:00Z", 16 * 1440)
    assert np.any(minutes.volume != np.floor(minutes.volume))


def test_a_halted_stock_has_no_bar_for_a_day_and_trades_again_after_it() -> None:
    grid, days = grid_of(SMALL), bars("stock", HALTED, "day")
    row = live(0, STOCKS[5], grid).halted_row
    assert row is not None
    assert [day_on(days, grid.days[place]) is None for place in (row - 1, row, row + 1)] == [False, True, False]
    minutes = bars("stock", HALTED, "minute").start_ns
    assert not np.any((minutes >= grid.open_ns[row]) & (minutes < grid.close_ns[row]))


def test_a_new_stock_is_unknown_and_has_no_bars_before_its_listing() -> None:
    market = small_market()
    listed_ns = next(row.listed_ns for row in market.prices.symbol_rows if row.symbol == NEW)
    first_day = int(bars("stock", NEW, "day").start_ns[0])
    assert listed_ns == new_york(day_of(first_day), 9, 30)
    assert first_day > day_start(date.fromisoformat(SMALL.first_day))
    before, after = (View(dataset_of(market), moment) for moment in (listed_ns - 1, listed_ns))
    assert NEW not in {row.symbol for row in before.symbols()}
    assert NEW in {row.symbol for row in after.symbols()}
    assert before.borrow(NEW) is None
    assert after.borrow(NEW) is not None


def test_a_stock_that_was_bought_jumps_at_the_bid_rests_and_is_delisted() -> None:
    grid, days = grid_of(SMALL), bars("stock", BID_FOR, "day")
    life = live(0, STOCKS[6], grid)
    assert life.bid_row is not None
    place = day_on(days, grid.days[life.bid_row])
    assert place is not None
    assert 1.15 < days.open_e4[place] / days.close_e4[place - 1] < 1.30
    waiting = np.diff(np.log(days.close_e4[place:]))
    assert np.abs(waiting).max() < 0.01
    assert day_of(int(days.start_ns[-1])) == grid.days[life.last_row] < grid.days[-1]
    last = small_market().prices.borrow(BID_FOR, int(grid.close_ns[-1]))
    assert last is not None
    assert last.shares == 0


def flat(days: int, width: int = 390) -> Moves:
    return Moves(np.zeros((days, width)), np.zeros((days, width)), np.full(days, 0.01), 0.01)


def test_a_split_divides_the_price_and_a_dividend_comes_off_it_at_the_open() -> None:
    grid = grid_of(SMALL)
    stock = Stock("TEST", "Test", "technology", "tests", 100.0, 1.0, 0.01, "mid", 0.0, "split", 0.5, 2, 1)
    life = live(0, stock, grid)
    (split,) = life.splits
    row = grid.row_on_or_after(split.ex_day)
    assert row is not None
    dividends = live(0, msgspec.structs.replace(stock, role="plain", yield_pct=4.0), grid).dividends
    (dividend,) = dividends
    paid = grid.row_on_or_after(dividend.ex_day)
    assert paid is not None
    factor = np.exp(log_factor(dataclasses.replace(life, dividends=dividends), grid, flat(len(grid))))
    # 100 dollars; a dividend of about a dollar; two shares for one.
    assert (factor[0], factor[row] / factor[row - 1]) == (1.0, pytest.approx(0.5))
    before = 100.0 * factor[paid - 1]
    assert 100.0 * factor[paid] == pytest.approx(before - dividend.amount_e4 / E4)


def test_splits_show_in_prices_and_volumes_and_dividends_are_declared_before_their_ex_day() -> None:
    prices = small_market().prices
    assert {(row.symbol, row.new, row.old) for row in prices.split_rows} >= {(SPLIT, 2, 1), (REVERSE, 1, 10)}
    for row in prices.split_rows:
        days = bars("stock", row.symbol, "day")
        place = day_on(days, row.ex_day)
        assert place is not None
        assert 0.85 < days.open_e4[place] / days.close_e4[place - 1] * row.new / row.old < 1.15
        assert 0.5 < np.median(days.volume[place:]) / np.median(days.volume[:place]) * row.old / row.new < 2.0
        assert row.announced_ns < new_york(row.ex_day, 0)
    assert len(prices.dividend_rows) >= 5
    for paid in prices.dividend_rows:
        assert paid.declared_ns < day_start(paid.ex_day) < day_start(paid.pay_day)
        assert trading_hours().row_of(paid.ex_day) is not None
        assert paid.amount_e4 % 100 == 0


def test_news_moves_the_price_before_the_bar_that_starts_at_its_moment() -> None:
    """Whoever reads it at that moment and buys at the next bar's open pays the new price."""
    grid = session_grid(date(2024, 12, 16), date(2024, 12, 17))
    moves = with_shocks(flat(2), [Shock(0, 5, 0.1), Shock(1, 0, -0.2)])
    traded = Traded(100.0, np.zeros(2), np.ones(2, bool), 1e6, np.ones(2))
    tape = make_tape(0, ("test",), grid, dataclasses.replace(moves, volatility=np.full(2, 1e-9)), traded)
    minutes = tape.minutes
    assert (minutes.close_e4[4], minutes.open_e4[5]) == (1_000_000, round(100 * math.exp(0.1) * 100) * 100)
    assert (tape.days.close_e4[0], tape.days.open_e4[1]) == (minutes.open_e4[5], round(100 * math.exp(-0.1) * 100) * 100)


# Options.


def test_weeklies_expire_on_fridays_and_monthlies_on_third_fridays_that_are_sessions() -> None:
    expiries = {row.expiry for row in contract_rows().values()}
    assert {date(2024, 11, 15), date(2024, 12, 20), date(2025, 1, 17), date(2025, 2, 21), date(2025, 3, 21)} <= expiries
    assert {day for day in expiries if day.weekday() != 4} == {date(2025, 4, 17)}  # Good Friday
    assert all(trading_hours().row_of(day) is not None for day in expiries)
    assert all(expiry + timedelta(days=1) not in expiries for expiry in expiries)  # of Friday holidays the day before only


def test_a_contract_has_no_bar_before_its_listing_or_after_its_last_session() -> None:
    rows = contract_rows()
    for (asset_class, symbol, resolution), found in small_market().prices.bar_table.items():
        if asset_class != "option":
            continue
        row = rows[symbol]
        last = trading_hours().last_expiry_session(row.expiry)
        assert day_of(int(found.start_ns[-1])) <= last
        opened = int(found.start_ns[0])
        assert row.listed_ns <= (opened if resolution == "minute" else new_york(day_of(opened), 9, 30))


def test_every_day_has_strikes_close_to_the_price_and_far_from_it() -> None:
    market, hours = small_market(), trading_hours()
    spot = bars("stock", MEGA, "day")
    by_expiry: dict[date, list[ContractRow]] = defaultdict(list)
    for row in market.prices.contracts(MEGA, int(hours.close_ns[-1])):
        by_expiry[row.expiry].append(row)
    for place in range(1, len(spot)):
        day, price = day_of(int(spot.start_ns[place])), spot.close_e4[place - 1]
        close_ns = hours.close_of(day)
        alive = [day for day in by_expiry if any(row.listed_ns <= close_ns for row in by_expiry[day])]
        alive = [expiry for expiry in alive if expiry >= day]
        assert len(alive) >= 5
        for expiry in alive:
            strikes = sorted({row.strike_e4 for row in by_expiry[expiry] if row.listed_ns <= close_ns})
            assert strikes[0] < 0.92 * price
            assert strikes[-1] > 1.08 * price
            assert min(abs(strike - price) for strike in strikes) <= 0.02 * price
    # Strikes are added as the price moves.
    listed = {row.listed_ns for row in contract_rows().values() if row.expiry == date(2025, 1, 17) and row.underlying == MEGA}
    assert len(listed) > 1


def test_underlyings_of_options_never_split_and_unwanted_strikes_have_no_bars() -> None:
    prices = small_market().prices
    underlyings = {row.symbol for row in prices.symbol_rows if row.has_options}
    assert underlyings == {row.underlying for row in prices.contract_rows} == {"AVLN", "BRKT"}
    assert underlyings.isdisjoint(row.symbol for row in prices.split_rows)
    table = prices.bar_table
    with_bars = {symbol for asset_class, symbol, _ in table if asset_class == "option"}
    assert 0.5 < len(with_bars) / len(contract_rows()) < 0.98
    volumes = np.concatenate([found.volume for key, found in table.items() if key[0] == "option" and key[2] == "day"])
    assert np.quantile(volumes, 0.1) < 5 < 200 < np.quantile(volumes, 0.9)


def test_an_option_is_worth_what_it_gives_at_expiry_and_never_less_than_exercise() -> None:
    market, expired = small_market(), 0
    for (asset_class, symbol, resolution), found in market.prices.bar_table.items():
        if asset_class != "option" or resolution != "day" or symbol.startswith("O:AVLN"):
            continue
        contract = read_contract(symbol)
        assert contract is not None
        spot = bars("stock", contract.underlying, "day")
        places = np.searchsorted(spot.start_ns, found.start_ns)
        intrinsic = np.array([contract.intrinsic_e4(int(price)) for price in spot.close_e4[places]])
        assert np.all(found.close_e4 >= intrinsic)
        if day_of(int(found.start_ns[-1])) == contract.expiry:
            expired += 1
            assert found.close_e4[-1] == max(100, intrinsic[-1])
    assert expired > 100


def one(strike: float, is_call: bool, rate: float, volatility: float, dividends: float = 0.0) -> Terms:
    return Terms(*(np.array([number]) for number in (strike, is_call, rate, volatility, dividends)))


def test_the_formula_gives_the_textbook_prices() -> None:
    """Hull: price 42, 10%, 20%, half a year. Far in the money a European put is worth less than exercise, at which nobody sells."""
    for strike, is_call, intrinsic, worth in ((40.0, True, 2.0, 4.76), (40.0, False, 0.0, 0.81), (100.0, False, 58.0, 58.0)):
        found, rest = value(one(strike, is_call, 0.1, 0.2), np.array([42.0]), np.array([0.5]))
        assert (found[0], round(found[0] + rest[0], 2)) == (intrinsic, worth)


@given(
    st.floats(20, 400), st.floats(0.6, 1.6), st.floats(0, 0.08), st.floats(0.08, 1.2), st.floats(0.003, 0.6)
)  # fmt: skip
def test_calls_and_puts_keep_parity_as_far_as_early_exercise_lets_them(
    spot: float, ratio: float, rate: float, volatility: float, years: float
) -> None:
    strike = spot * ratio
    worth = [
        sum(part[0] for part in value(one(strike, is_call, rate, volatility), np.array([spot]), np.array([years])))
        for is_call in (True, False)
    ]
    assert spot - strike - 1e-6 <= worth[0] - worth[1] <= spot - strike * math.exp(-rate * years) + 1e-6


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
            call, put_price = (bars_.close_e4[np.searchsorted(bars_.start_ns, start_ns)] / E4 for bars_ in pair)
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


def outcomes(row: EventRow) -> list[tuple[int, str]]:
    return [(release.available_ns, name) for release in row.releases for name in release.values if name.endswith("actual")]


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


def test_the_previous_value_is_what_the_release_before_said_and_was_known_at_the_announcement() -> None:
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
    assert moment_text(rows["econ_cpi_2024_12"].time_ns) == "2024-12-11T13:30:00Z"
    assert rows["econ_cpi_2024_12"].title == "Consumer Price Index (November)"
    assert moment_text(rows["econ_fomc_2024_12"].time_ns) == "2024-12-18T19:00:00Z"
    assert moment_text(rows["econ_nfp_2025_01"].time_ns) == "2025-01-10T13:30:00Z"
    assert {row.importance for row in rows.values()} == {"high", "medium", "low"}
    assert {row.market for row in rows.values()} == {"us", "global"}


@given(st.integers(2016, 2034), st.integers(1, 12))
def test_due_days_are_sessions_and_a_series_is_due_once_in_its_month(year: int, month: int) -> None:
    for series in (*SERIES, FOMC):
        days = series.days(year, month)
        assert all(trading_hours().row_of(day) is not None for day in days)
        if series.period != "week":
            assert len(days) <= 1
            assert all((day.year, day.month) == (year, month) for day in days)


def test_a_moved_report_is_known_by_its_new_date_only_from_the_move_on() -> None:
    rows = {
        row.event_id: row
        for course in (draw_course(0, stock, grid_of(DEFAULT)) for stock in STOCKS)
        for row in report_events(course.life, course.reports)
    }
    moved = [row for row in rows.values() if row.event_id.endswith("_moved")]
    assert len(moved) >= 5
    for row in moved:
        first = rows[row.event_id.removesuffix("_moved")]
        (release,) = first.releases
        assert release.values["rescheduled_to_utc"] == moment_text(row.time_ns)
        assert row.expected["rescheduled_from_utc"] == moment_text(first.time_ns)
        assert first.announced_ns < release.available_ns == row.announced_ns < min(first.time_ns, row.time_ns)
        assert first.title == row.title
        assert "rescheduled_from_utc" not in first.expected


def test_the_price_mostly_follows_the_surprise_of_a_report() -> None:
    grid, agreed = grid_of(DEFAULT), []
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
        assert all(insight["sentiment"] in ("positive", "neutral", "negative") for insight in row.insights)


def test_results_are_told_as_they_are_and_not_before_they_are_out() -> None:
    events = {row.title.removesuffix(" earnings"): row for row in small_market().events if outcomes(row)}
    titles = [
        (row, re.fullmatch(r"(.+) (beats|misses|meets) estimates for (Q\d \d{4}).*", row.title)) for row in small_market().news
    ]
    told = [(row, found) for row, found in titles if found is not None]
    assert len(told) >= 5
    for row, found in told:
        event = events[f"{found[1]} {found[3]}"]
        values: dict[str, float] = dict(event.expected)
        for release in event.releases:
            values |= release.values if release.available_ns <= event.time_ns else {}
        verb = float(np.sign(values["eps_actual"] - values["eps_estimated"]))
        assert found[2] == {1.0: "beats", -1.0: "misses", 0.0: "meets"}[verb]
        assert f"${abs(values['eps_actual']):.2f} a share" in row.body
        assert event.time_ns < row.published_ns < event.time_ns + 10 * MINUTE


def test_the_close_is_told_after_the_close_and_as_it_was() -> None:
    told = 0
    for row in small_market().news:
        if row.keywords != ("market close",):
            continue
        day = day_of(row.published_ns)
        assert row.published_ns > trading_hours().close_of(day)
        for ticker, percent in re.findall(r"\(([A-Z]+)\) ([+-]\d+\.\d)%", row.body):
            days = bars("stock", ticker, "day")
            place = day_on(days, day)
            assert place is not None
            ratio = next((s.new / s.old for s in small_market().prices.split_rows if (s.symbol, s.ex_day) == (ticker, day)), 1.0)
            change = (days.close_e4[place] / days.close_e4[place - 1] * ratio - 1) * 100
            assert float(percent) == pytest.approx(change, abs=0.051)
            told += 1
    assert told > 150


def test_unusual_volume_in_options_is_told_after_the_close_and_as_it_was() -> None:
    chain: dict[tuple[str, str, int], float] = defaultdict(float)
    for (asset_class, symbol, resolution), found in small_market().prices.bar_table.items():
        contract = read_contract(symbol)
        if asset_class == "option" and resolution == "day" and contract is not None:
            for start_ns, volume in zip(found.start_ns.tolist(), found.volume.tolist(), strict=True):
                chain[contract.underlying, contract.right, start_ns] += volume
    signals = [row for row in small_market().news if row.event_type == "option_signal"]
    assert signals
    for row in signals:
        day = day_of(row.published_ns)
        assert row.published_ns > trading_hours().close_of(day)
        found = re.search(r"([\d,]+) (call|put)s on", row.body)
        assert found is not None
        volume = chain[row.tickers[0], found[2][0].upper(), day_start(day)]
        assert volume == float(found[1].replace(",", ""))


def test_what_happens_to_shares_is_told_once_it_is_public() -> None:
    market = small_market()
    by_word: dict[str, list[int]] = defaultdict(list)
    for row in market.news:
        for word in row.keywords:
            by_word[word].append(row.published_ns)
    declared = sorted(row.declared_ns + 5 * MINUTE for row in market.prices.dividend_rows)
    first_ns = int(grid_of(SMALL).open_ns[0])
    assert by_word["dividend"] == [moment for moment in declared if moment > first_ns]
    assert {row.announced_ns for row in market.prices.split_rows} <= set(by_word["split"])
    assert all(by_word[word] for word in ("listing", "halt", "bid", "delisting", "earnings", "analysts", "economy", "coins"))


# Parameters, other uses, the cache.


@on_each_row
def test_days_that_make_no_market_are_refused_in_one_line(changed: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message) as refused:
        generate(dataclasses.replace(SMALL, **changed))
    assert "\n" not in str(refused.value)
    days = dict.fromkeys(("first_day", "last_day", "minute_first", "minute_last", "as_of_day"), "2024-12-25")
    with pytest.raises(DataError, match="fewer than two trading days"):
        generate(dataclasses.replace(SMALL, option_minute_underlyings=0, **days))


def test_invented_tickers_are_tickers_and_none_stands_twice() -> None:
    tickers = [row.ticker for row in (*STOCKS, *COINS)]
    assert len(set(tickers)) == len(tickers) == 44
    assert all(TICKER.fullmatch(ticker) for ticker in tickers)
    assert {"AVLN", "BRKT", "CSTL", "BTCX"} <= set(tickers)


def test_a_market_is_generated_once_and_found_in_the_cache_afterwards(tmp_path: Path) -> None:
    params = dataclasses.replace(SMALL, stocks=3, coins=1)
    said: list[str] = []
    first = open_generated(tmp_path, params, said.append)
    assert len(said) == 2
    again = open_generated(tmp_path, params, said.append)
    assert (len(said), first.info) == (2, again.info)
    folder = generated_folder(tmp_path, params)
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert folder.name.startswith("synthetic-v2.")
    assert check_dataset(folder) == ()
    stored = first.prices.bars("stock", "AVLN", "minute", ALL_TIME)
    assert digest_of_bars(stored) == digest_of_bars(bars("stock", "AVLN", "minute"))


def test_two_that_generate_at_once_share_one_folder(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        ids = {info.content_id for info in pool.map(lambda _: open_generated(tmp_path, TINY).info, range(2))}
    assert (len(ids), [path.name for path in tmp_path.iterdir()]) == (1, [generated_folder(tmp_path, TINY).name])


def test_a_cache_that_cannot_be_written_or_is_damaged_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="set KTDEVAL_CACHE_DIR"):
        open_generated(tmp_path / "file", TINY)
    (tmp_path / "other").mkdir()
    generated_folder(tmp_path / "other", TINY).write_text("")
    with pytest.raises(StoreError, match=r"exists and is no dataset.*set KTDEVAL_CACHE_DIR"):
        open_generated(tmp_path / "other", TINY)
    open_generated(tmp_path, TINY)
    folder = generated_folder(tmp_path, TINY)
    next(folder.rglob("*.parquet")).unlink()
    with pytest.raises(DataError, match=f"delete {folder} to generate it again"):
        open_generated(tmp_path, TINY)


# The embedded market itself, and what was planted in it.


def test_the_embedded_market_is_as_large_as_promised() -> None:
    dataset = embedded_dataset(0)
    info = dataset.info
    assert info.synthetic
    assert (info.first_day, info.last_day) == (date(2024, 1, 2), date(2025, 6, 30))
    assert (info.minute_first_day, info.minute_last_day) == (date(2025, 1, 2), date(2025, 3, 31))
    assert moment_text(info.default_as_of_ns) == "2025-02-14T21:00:00Z"
    end = View(dataset, at("2025-07-01T00:00:00Z"))
    classes = [row.asset_class for row in end.symbols()]
    assert ((classes.count("stock"), classes.count("crypto")), sum(row.has_options for row in end.symbols())) == ((36, 4), 12)
    articles = end.news(ALL_TIME, Tags(), Page(10_000))
    assert len(articles) > 1_000
    assert {row.event_type for row in articles} == {"breaking_news", "daily_news", "analyst_action", "option_signal"}
    folder = generated_folder(cache_root(), DEFAULT)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 120 * 2**20


def returns(symbol: str) -> tuple[np.ndarray, np.ndarray]:
    """Days and log returns, days of splits left out."""
    days = embedded_dataset(0).prices.bars("stock", symbol, "day", ALL_TIME)
    change = np.diff(np.log(days.close_e4))
    kept = np.abs(change) < 0.3
    return days.start_ns[1:][kept], change[kept]


def test_planted_betas_clusters_of_volatility_and_fat_tails_are_found_again() -> None:
    grid = grid_of(DEFAULT)
    market = common_moves(0, grid, market_shocks(draw_readings(0, grid), grid)).market
    true = dict(zip(grid.midnight_ns.tolist(), (market.jumps + market.steps).sum(axis=1).tolist(), strict=True))
    slopes, planted, clusters, tails = [], [], [], []
    for stock in STOCKS[:36]:
        if stock.role not in ("plain", "split"):
            continue
        days, change = returns(stock.ticker)
        moved = np.array([true[day] for day in days.tolist()])
        slopes.append(float(np.cov(change, moved)[0, 1] / np.var(moved, ddof=1)))
        planted.append(stock.beta)
        if stock.role == "plain":
            size = np.abs(change) - np.abs(change).mean()
            clusters.append(np.mean([np.mean(size[lag:] * size[:-lag]) / np.mean(size**2) for lag in range(1, 6)]))
            tails.append(np.mean((change - change.mean()) ** 4) / np.var(change) ** 2)
    assert np.corrcoef(slopes, planted)[0, 1] > 0.85
    assert np.mean(np.abs(np.array(slopes) - np.array(planted))) < 0.2
    assert np.mean(clusters) > 0.04
    assert np.median(tails) > 3.8


def test_sessions_begin_and_end_busier_and_wilder_than_they_go_on() -> None:
    minutes = embedded_dataset(0).prices.bars("stock", "BRKT", "minute", ALL_TIME)
    hours = trading_hours()
    row = np.searchsorted(hours.open_ns, minutes.start_ns, side="right") - 1
    minute = (minutes.start_ns - hours.open_ns[row]) // MINUTE
    wide = (minutes.high_e4 - minutes.low_e4) / minutes.close_e4
    first, middle, last = minute < 20, (minute > 150) & (minute < 240), minute >= 380
    assert minutes.volume[first].mean() > 1.8 * minutes.volume[middle].mean()
    assert minutes.volume[last].mean() > 1.8 * minutes.volume[middle].mean()
    assert wide[first].mean() > 1.3 * wide[middle].mean()


def test_some_reports_of_the_embedded_market_are_moved_re_estimated_and_corrected() -> None:
    view = View(embedded_dataset(0), at("2025-07-01T00:00:00Z"))
    rows = view.events(ALL_TIME, Tags(types=("earnings",)), Page(10_000))
    assert sum("rescheduled_from_utc" in row.expected for row in rows) >= 5
    assert sum(any("eps_estimated" in release.values for release in row.releases) for row in rows) >= 30
    assert sum(len(outcomes(row)) > 2 for row in rows) >= 3
    economic = view.events(ALL_TIME, Tags(types=("macro_calendar",)), Page(10_000))
    assert sum(len(row.releases) > 1 for row in economic) > 50
    upcoming = View(embedded_dataset(0), embedded_dataset(0).info.default_as_of_ns)
    soon = Span(upcoming.as_of_ns, upcoming.as_of_ns + 30 * DAY)
    assert len(upcoming.events(soon, Tags(), Page(1_000))) > 15
