"""A snapshot's views and the days of a calendar."""

from __future__ import annotations

import dataclasses

import exchange_calendars
import numpy as np
import pytest

from ktdeval.errors import DataError, LookAheadError, UsageError
from ktdeval.market.assembly import assemble
from ktdeval.market.calendar import parse_day, sessions, window_rows
from ktdeval.market.snapshot import BAR_FIELDS, Board, MarketSnapshot, board_of, parse_code
from raw_market import market


@pytest.fixture(scope="module")
def snapshot() -> MarketSnapshot:
    return assemble(market())


def test_a_view_ends_with_the_day_of_its_cursor(snapshot: MarketSnapshot) -> None:
    view = snapshot.as_of(2)
    assert len(view.days) == 3
    for name in (*BAR_FIELDS, "member", "adjusted_close", "adjusted_open"):
        assert getattr(view, name).shape == (3, 3)
    assert all(len(levels) == 3 for levels in view.indices.values())


def test_reading_past_the_cursor_raises(snapshot: MarketSnapshot) -> None:
    view = snapshot.as_of(2)
    assert view.row("close", 2).tolist() == [10.1, 10.1, 10.1]
    with pytest.raises(LookAheadError):
        view.row("close", 3)
    with pytest.raises(IndexError):
        view.close[3]
    for outside in (-1, 5):
        with pytest.raises(LookAheadError):
            snapshot.as_of(outside)


def test_what_is_derived_of_a_day_is_made_once_for_all_its_views(snapshot: MarketSnapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    def total(day: int, of: MarketSnapshot) -> list[float]:
        view = of.as_of(day)
        return view.derived("total", lambda: [np.nansum(view.volume)])

    other = dataclasses.replace(snapshot)
    first = total(1, snapshot)
    assert first is total(1, snapshot)
    assert first < total(2, snapshot)
    assert first is not total(1, other)
    monkeypatch.setattr("ktdeval.market.snapshot._MOST_DERIVED", 2 * len(snapshot.codes))
    assert [total(day, snapshot) for day in (2, 3, 4)] == [total(day, other) for day in (2, 3, 4)]
    assert first is not total(1, snapshot)  # no longer among the days that are kept


def test_arrays_can_not_be_written(snapshot: MarketSnapshot) -> None:
    for name in (*BAR_FIELDS, "member", "adjusted_close"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(snapshot, name)[0, 0] = 0
    for levels in (snapshot.days, snapshot.benchmark, *snapshot.indices.values()):
        with pytest.raises(ValueError, match="read-only"):
            levels[0] = levels[1]


def test_shapes_and_the_benchmark_are_checked(snapshot: MarketSnapshot) -> None:
    with pytest.raises(DataError, match="close has shape"):
        dataclasses.replace(snapshot, close=np.ones((2, 3)))
    with pytest.raises(DataError, match=r"benchmark 000688\.SH has no series"):
        dataclasses.replace(snapshot, indices={})
    (index,) = snapshot.indices
    for changes, said in (
        ({"indices": {index: snapshot.benchmark[:-1]}}, "has shape"),  # figures against it would be of other days
        ({"indices": {index: list(snapshot.benchmark)}}, "has shape list"),
        ({"days": snapshot.days[[0, 0, *range(2, len(snapshot.days))]]}, "days are not ascending, each once"),
        ({"days": snapshot.days.astype("datetime64[ns]")}, r"as datetime64\[D\]"),
        ({"codes": (snapshot.codes[0],) * len(snapshot.codes)}, "a code stands there twice"),
        ({"names": snapshot.names[:-1]}, "lacks its name or industry"),
        ({"member": snapshot.member.astype(int)}, "member has type int64, expected bool"),
    ):
        with pytest.raises(DataError, match=said):
            dataclasses.replace(snapshot, **changes)


def test_a_day_is_found_or_named(snapshot: MarketSnapshot) -> None:
    assert snapshot.day_index("2024-01-08") == 4
    with pytest.raises(DataError, match="2024-01-06 is not a trading day"):
        snapshot.day_index("2024-01-06")


BOARDS = {
    Board.MAIN: ("600519.SH", "000001.SZ"), Board.CHINEXT: ("300750.SZ", "301269.SZ"), Board.STAR: ("688981.SH", "689009.SH"),
    Board.BSE: ("835185.BJ", "430047.BJ", "920002.BJ"),
}  # fmt: skip


def test_codes_of_every_vendor_are_one_code_of_a_board() -> None:
    styles = ["600519.SH", "600519", "SH600519", "sh.600519", "600519.SS", "600519.XSHG", "600519.SHH", "sh600519", " 600519 "]
    for text in styles:
        assert parse_code(text) == "600519.SH", text
    for text in ("", "60051", "6005190", "AAPL", "600519.NY", "HK00700", "123456"):
        assert parse_code(text) is None, text
    for board, codes in BOARDS.items():
        assert [board_of(code) for code in codes] == [board] * len(codes)
        assert [parse_code(code[:6]) for code in codes] == list(codes), "bare digits go by their board"
    with pytest.raises(DataError, match="belongs to no A-share board"):
        board_of("110059.SH")


# -- calendars


WINDOWS = {
    "W1": ("2024-04-01", "2024-06-05", 43), "W2": ("2024-05-27", "2024-07-25", 43), "W3": ("2024-07-25", "2024-09-25", 43),
    "W4": ("2024-09-09", "2024-11-15", 43), "W5": ("2024-10-21", "2024-12-13", 40), "W6": ("2024-12-06", "2025-02-14", 44),
    "W7": ("2025-03-03", "2025-05-09", 46), "W8": ("2025-07-14", "2025-09-19", 50), "W9": ("2025-10-13", "2025-12-19", 50),
    "W10": ("2026-02-02", "2026-04-10", 43), "long": ("2024-01-01", "2026-04-10", 548),
}  # fmt: skip


@pytest.fixture(scope="module")
def days() -> np.ndarray:
    return sessions("2023-12-01", "2026-05-08")


def test_windows_of_the_benchmark_have_the_published_numbers_of_days(days: np.ndarray) -> None:
    for name, (first, last, expected) in WINDOWS.items():
        start, stop = window_rows(days, first, last)
        assert stop - start == expected, name
        assert days[start - 1] < np.datetime64(first) <= days[start], name
        assert days[stop - 1] <= np.datetime64(last) < days[stop], name


def test_sessions_are_those_of_the_exchange() -> None:
    days = sessions("2024-02-08", "2024-02-20").astype(str).tolist()
    assert days == ["2024-02-08", "2024-02-19", "2024-02-20"], "Spring Festival lies between"
    assert sessions("2024-01-02", "2024-01-02").astype(str).tolist() == ["2024-01-02"]
    assert len(sessions("2024-01-01", "2024-01-01")) == 0
    assert len(sessions("2024-02-12", "2024-02-16", "XNYS")) == 5
    with pytest.raises(UsageError, match="'XSHH' is unknown; did you mean 'XSHG'"):
        sessions("2024-01-01", "2024-02-01", "XSHH")
    with pytest.raises(DataError, match="XSHG does not cover 2060"):
        sessions("2060-01-01", "2060-02-01")
    with pytest.raises(DataError, match="lies after"):
        sessions("2024-02-01", "2024-01-01")


@pytest.mark.parametrize("exchange", ["XNYS", "XSHG", "24/7"])
def test_ranges_of_a_decade_share_its_calendar_and_get_the_sessions_of_their_own(exchange: str) -> None:
    """Each range has the days that the library says, whatever was asked before."""
    alone = exchange_calendars.get_calendar(exchange, start="2009-01-02", end="2021-01-04")
    for first, last in (("2019-12-20", "2020-01-10"), ("2020-02-03", "2020-02-28"), ("2009-12-31", "2021-01-04")):
        days = sessions(first, last, exchange)
        assert days.astype(str).tolist() == [str(day.date()) for day in alone.sessions_in_range(first, last)]
        days[:] = np.datetime64("1970-01-01")  # who asked may do with them as they like
    assert len(sessions("2020-02-03", "2020-02-28", exchange)) > 15


NO_WINDOW = [
    ("2026-05-01", "2026-05-09", "outside the data"),
    ("2023-12-01", "2023-12-06", "outside the data, which allow 2023-12-04…2026-05-08"),
    ("2024-02-10", "2024-02-18", "holds no trading day"),
    ("2024-03-01", "2024-02-01", "ends before it begins"),
    ("2024-13-01", "2024-02-01", "is not a date; write it as 2024-01-02"),
]


def test_windows_that_hold_nothing_are_refused_with_the_reason(days: np.ndarray) -> None:
    assert window_rows(days, str(days[1]), str(days[3])) == (1, 4), "the first day of the data only decides"
    for first, last, message in NO_WINDOW:
        with pytest.raises(DataError, match=message):
            window_rows(days, first, last)
    with pytest.raises(DataError, match="allow no window at all"):
        window_rows(days[:1], "2024-01-02", "2024-01-02")
    assert parse_day("2024-01-02") == parse_day(np.datetime64("2024-01-02")) == np.datetime64("2024-01-02", "D")
    with pytest.raises(DataError, match="'NaT' is not a date"):
        parse_day(np.datetime64("NaT", "D"))
