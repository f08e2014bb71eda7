"""Data derived from the embedded market's prices: options, rates, stock lending, calendars and
articles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from ktdeval_qfinzero.data.synthetic.cached_dataset import cache_root, generated_folder
from ktdeval_qfinzero.data.synthetic.companies import STOCKS, live
from ktdeval_qfinzero.data.synthetic.earnings import draw_reports, report_events
from ktdeval_qfinzero.data.synthetic.macro import FOMC, SERIES
from ktdeval_qfinzero.data.synthetic.option_prices import OptionTerms, value
from ktdeval_qfinzero.data.synthetic.params import SyntheticMarketParams
from ktdeval_qfinzero.data.synthetic.prices import draw_course
from ktdeval_qfinzero.data.writing import save_dataset
from ktdeval_qfinzero.suite.samples import embedded_dataset
from ktdeval_qfinzero.timestamps import moment_text
from ktdeval_qfinzero.trading_hours import trading_hours
from support.qfinzero.qfinzero_synthetic import SMALL, grid_of, small_market
from support.tables import on_each_row

DEFAULT = SyntheticMarketParams()


def connect(folder: Path) -> duckdb.DuckDBPyConnection:
    """A market's file, with the exchange's sessions and bars by day."""
    hours = trading_hours()
    columns = {"day": hours.days, "open_ns": hours.open_ns, "close_ns": hours.close_ns}
    bars = "SELECT *, make_timestamp_ns(start_ns)::DATE AS day FROM bars JOIN series USING (series)"
    connection = duckdb.connect(folder / "market.duckdb", read_only=True)
    connection.register("sessions", pa.table(columns))
    connection.execute(
        "CREATE TEMP VIEW grid AS FROM sessions"
        f" WHERE day BETWEEN '{SMALL.first_day}' AND '{SMALL.last_day}';"
        f"CREATE TEMP VIEW days AS {bars} WHERE resolution = 'day';"
        f"CREATE TEMP VIEW minutes AS {bars} WHERE resolution = 'minute'"
    )
    return connection


def tally(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[int, int]:
    """Rows of a query, and those in which the rule does not hold."""
    counts = f"SELECT count(*), count_if(NOT coalesce(holds, false)) FROM ({query})"
    rows, broken = connection.execute(counts).fetchall()[0]
    return rows, broken


@pytest.fixture(scope="module")
def stored(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """The reduced market."""
    folder = tmp_path_factory.mktemp("stored") / "small"
    market = small_market()
    save_dataset(folder, market.prices, market.events, market.news, market.info)
    with connect(folder) as connection:
        yield connection


@on_each_row
def test_each_row_of_the_market_obeys(
    stored: duckdb.DuckDBPyConnection, rule: str, min_rows: int, query: str
) -> None:
    rows, broken = tally(stored, query)
    assert (rows >= min_rows, broken) == (True, 0), rule


@on_each_row
def test_each_row_of_the_embedded_market_obeys(rule: str, min_rows: int, query: str) -> None:
    embedded_dataset(0)
    with connect(generated_folder(cache_root(), DEFAULT)) as connection:
        rows, broken = tally(connection, query)

    assert (rows >= min_rows, broken) == (True, 0), rule


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


# Calendars.


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
