"""Tables become a snapshot; a snapshot's views, and the days of a calendar."""

from __future__ import annotations

import dataclasses
import tracemalloc
from datetime import date
from typing import Any

import exchange_calendars
import inline_snapshot
import numpy as np
import pandas as pd
import pytest

from ktdeval.errors import DataError, LookAheadError, UsageError
from ktdeval.market.rules.calendar import parse_day, sessions, window_rows
from ktdeval.market.snapshots.snapshot import (
    BAR_FIELDS,
    Board,
    MarketSnapshot,
    board_of,
    parse_code,
)
from ktdeval.testing import errors_of
from ktdeval_raw_markets.assembly import assemble
from ktdeval_raw_markets.checks.quality import check
from ktdeval_raw_markets.sources import raw_tables as tables
from support.market.raw_market import bars, changed, market, same, without


def test_the_factor_holds_until_it_changes_and_is_one_before_the_first_bar() -> None:
    table = without("600519.SH", "2024-01-02", "2024-01-04")
    table.loc[table["code"] == "600519.SH", "factor"] = [2.0, 3.0, 3.000001]
    factor = assemble(market(table)).factor[:, 1]
    assert factor.tolist() == [1.0, 2.0, 2.0, 3.0, 3.000001]


def test_a_repair_of_one_fault_does_not_let_another_through() -> None:
    table = pd.concat(
        [changed("600519.SH", "2024-01-04", high=1.0), bars().iloc[:2]], ignore_index=True
    )

    with pytest.raises(DataError, match="impossible_bars"):
        assemble(market(table), ["drop_duplicates"])

    snapshot = assemble(market(table), ["drop_impossible", "drop_duplicates"])

    assert snapshot.meta.repairs == ("drop_duplicates: 2 rows", "drop_impossible: 1 rows")
    assert np.isnan(snapshot.close[2, 1])


def test_the_order_in_which_repairs_are_named_does_not_matter() -> None:
    table = pd.concat(
        [changed("600519.SH", "2024-01-04", high=np.nan), bars().iloc[:2]], ignore_index=True
    )
    names = ["derive_high_low", "drop_impossible", "drop_duplicates"]
    left, right = (
        assemble(market(table), order) for order in (names, [names[2], names[1], names[0]])
    )

    assert left.meta == right.meta
    assert left.high[2, 1] == right.high[2, 1] == 10.1


def test_a_benchmark_that_starts_too_late_can_not_be_filled() -> None:
    raw = market(indices=market().indices.iloc[1:])
    with pytest.raises(DataError, match=r"1 benchmark_gaps \(first: 2024-01-02\)"):
        assemble(raw, ["fill_indices"])


def many(days: int, codes: int, faults: float = 0.0) -> pd.DataFrame:
    """Bars day by day, with a fault of most kinds here and there."""
    rng = np.random.default_rng(5)
    shape = days * codes
    day = np.repeat(
        np.arange(
            np.datetime64("2023-01-02"), np.datetime64("2023-01-02") + np.timedelta64(days, "D")
        ),
        codes,
    )
    table = pd.DataFrame(
        {"date": day, "code": [f"{600000 + code}.SH" for code in range(codes)] * days}
    )
    close = np.round(rng.uniform(8, 12, shape), 2)
    table = table.assign(
        open=close,
        high=close + 0.1,
        low=close - 0.1,
        close=close,
        volume=np.round(rng.uniform(0, 9e5, shape)),
    )
    table = table.assign(
        amount=table["volume"] * close, factor=1.0, traded=rng.random(shape) > faults
    )

    for name in BAR_FIELDS:
        for wrong in (np.nan, 0.0, -1.0, 11.5):
            table.loc[rng.random(shape) < faults, name] = wrong

    return table


@pytest.mark.exhaustive
def test_parts_of_any_size_give_the_same_findings_and_the_same_market(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = market(pd.concat([many(60, 30, 0.002), many(1, 3)], ignore_index=True))
    days = pd.DataFrame({"date": raw.table.days, "code": raw.benchmark, "close": 1.0})
    raw = dataclasses.replace(raw, indices=days, members=raw.members[:0])
    repairs = (
        "drop_duplicates",
        "derive_high_low",
        "drop_impossible",
        "fill_factor",
        "chain_factor",
        "keep_first",
    )
    findings = check(raw)
    made = assemble(raw, repairs)

    assert len(findings) > 10

    monkeypatch.setattr(tables, "_PART", 100)
    raw = dataclasses.replace(raw)

    assert check(raw) == findings

    again = assemble(raw, repairs)
    assert all(same(getattr(again, name), getattr(made, name)) for name in BAR_FIELDS)


@pytest.mark.exhaustive
def test_an_import_needs_little_more_memory_than_source_and_grids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tables, "_PART", 2**12)
    raw = market(many(500, 200).astype({"code": "category"}))
    raw = dataclasses.replace(
        raw, indices=raw.bars[["date", "code", "close"]][::200].assign(code=raw.benchmark)
    )
    assemble(market())  # so that what it imports is not counted
    tracemalloc.start()
    made = assemble(raw)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    grids = sum(getattr(made, name).nbytes for name in BAR_FIELDS)

    assert grids < peak < 2 * grids


# ---- views


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


def test_derived_values_of_a_day_are_computed_once_for_all_views(
    snapshot: MarketSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def total(day: int, of: MarketSnapshot) -> list[float]:
        view = of.as_of(day)
        return view.derive_figures("total", lambda: [np.nansum(view.volume)])

    other = dataclasses.replace(snapshot)
    first = total(1, snapshot)

    assert first is total(1, snapshot)
    assert first < total(2, snapshot)
    assert first is not total(1, other)

    monkeypatch.setattr("ktdeval.market.snapshots.snapshot._MAX_DERIVED", 2 * len(snapshot.codes))
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
    (index,) = snapshot.indices
    no_time = np.where(np.arange(len(snapshot.days)) == 1, np.datetime64("NaT"), snapshot.days)
    changes: list[dict[str, Any]] = [
        {"close": np.ones((2, 3))},
        {"close": snapshot.close.astype(object)},
        {"indices": {}},
        {"indices": {index: snapshot.benchmark[:-1]}},  # figures against it would be of other days
        {"indices": {index: list(snapshot.benchmark)}},
        {"days": snapshot.days[[0, 0, *range(2, len(snapshot.days))]]},
        {"days": snapshot.days.astype("datetime64[ns]")},
        {"days": no_time},
        {"codes": (snapshot.codes[0],) * len(snapshot.codes)},
        {"names": snapshot.names[:-1]},
        {"names": (None, *snapshot.names[1:])},
        {"member": snapshot.member.astype(int)},
        {"meta": dataclasses.replace(snapshot.meta, source=None)},
        {"meta": dataclasses.replace(snapshot.meta, synthetic="no")},
    ]
    refused = errors_of(lambda change: dataclasses.replace(snapshot, **change), *changes)
    assert refused == inline_snapshot.snapshot("""\
DataError: snapshot tiny: close has shape (2, 3), expected (5, 3)
DataError: snapshot tiny: close has objects, expected numbers
DataError: snapshot tiny: benchmark 000688.SH has no series
DataError: snapshot tiny: 000688.SH has shape (4,), expected (5,)
DataError: snapshot tiny: 000688.SH has shape list, expected (5,)
DataError: snapshot tiny: days must be distinct and ascending, as datetime64[D]
DataError: snapshot tiny: days must be distinct and ascending, as datetime64[D]
DataError: snapshot tiny: days must be distinct and ascending, as datetime64[D]
DataError: snapshot tiny: a code appears twice, or lacks its name or industry
DataError: snapshot tiny: a code appears twice, or lacks its name or industry
DataError: snapshot tiny: a code, name, industry or text of its meta is not text: sequence item 3: expected str instance, NoneType found
DataError: snapshot tiny: member has type int64, expected bool
DataError: snapshot tiny: a code, name, industry or text of its meta is not text: sequence item 10: expected str instance, NoneType found
DataError: snapshot tiny: synthetic, has_factor and placebo must be True or False
""")


def test_a_day_is_found_or_named(snapshot: MarketSnapshot) -> None:
    assert snapshot.day_index("2024-01-08") == 4
    with pytest.raises(DataError, match="2024-01-06 is not a trading day"):
        snapshot.day_index("2024-01-06")


BOARDS = {
    Board.MAIN: ("600519.SH", "000001.SZ"),
    Board.CHINEXT: ("300750.SZ", "301269.SZ"),
    Board.STAR: ("688981.SH", "689009.SH"),
    Board.BSE: ("835185.BJ", "430047.BJ", "920002.BJ"),
}


def test_codes_of_every_vendor_are_one_code_of_a_board() -> None:
    styles = [
        "600519.SH",
        "600519",
        "SH600519",
        "sh.600519",
        "600519.SS",
        "600519.XSHG",
        "600519.SHH",
        "sh600519",
        " 600519 ",
    ]

    for text in styles:
        assert parse_code(text) == "600519.SH", text

    for text in ("", "60051", "6005190", "AAPL", "600519.NY", "HK00700", "123456"):
        assert parse_code(text) is None, text

    for board, codes in BOARDS.items():
        assert [board_of(code) for code in codes] == [board] * len(codes)
        assert [parse_code(code[:6]) for code in codes] == list(codes), (
            "bare digits go by their board"
        )

    with pytest.raises(DataError, match="belongs to no A-share board"):
        board_of("110059.SH")


# -- calendars


WINDOWS = {
    "W1": ("2024-04-01", "2024-06-05", 43),
    "W2": ("2024-05-27", "2024-07-25", 43),
    "W3": ("2024-07-25", "2024-09-25", 43),
    "W4": ("2024-09-09", "2024-11-15", 43),
    "W5": ("2024-10-21", "2024-12-13", 40),
    "W6": ("2024-12-06", "2025-02-14", 44),
    "W7": ("2025-03-03", "2025-05-09", 46),
    "W8": ("2025-07-14", "2025-09-19", 50),
    "W9": ("2025-10-13", "2025-12-19", 50),
    "W10": ("2026-02-02", "2026-04-10", 43),
    "long": ("2024-01-01", "2026-04-10", 548),
}


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


@pytest.mark.exhaustive
@pytest.mark.parametrize("exchange", ["XNYS", "XSHG", "24/7"])
def test_ranges_of_a_decade_share_its_calendar_with_correct_sessions(
    exchange: str,
) -> None:
    """Each range has the days that the library says, whatever was asked before."""
    alone = exchange_calendars.get_calendar(exchange, start="2009-01-02", end="2021-01-04")
    for first, last in (
        ("2019-12-20", "2020-01-10"),
        ("2020-02-03", "2020-02-28"),
        ("2009-12-31", "2021-01-04"),
    ):
        days = sessions(first, last, exchange)
        assert days.astype(str).tolist() == [
            str(day.date()) for day in alone.sessions_in_range(first, last)
        ]
        days[:] = np.datetime64("1970-01-01")  # who asked may do with them as they like

    assert len(sessions("2020-02-03", "2020-02-28", exchange)) > 15


def test_windows_that_hold_nothing_are_refused_with_the_reason(
    days: np.ndarray,
) -> None:
    assert window_rows(days, str(days[1]), str(days[3])) == (
        1,
        4,
    ), "the first day of the data only decides"

    wrong = (
        (days, "2026-05-01", "2026-05-09"),
        (days, "2023-12-01", "2023-12-06"),
        (days, "2024-02-10", "2024-02-18"),
        (days, "2024-03-01", "2024-02-01"),
        (days, "2024-13-01", "2024-02-01"),
        (days[:1], "2024-01-02", "2024-01-02"),
    )
    refused = errors_of(lambda given: window_rows(*given), *wrong)
    assert refused == inline_snapshot.snapshot("""\
DataError: window 2026-05-01…2026-05-09 lies outside the data, which allow 2023-12-04…2026-05-08 (nothing is filled on the first day, which only decides); choose a window inside, such as by --windows FIRST:LAST, or other data
DataError: window 2023-12-01…2023-12-06 lies outside the data, which allow 2023-12-04…2026-05-08 (nothing is filled on the first day, which only decides); choose a window inside, such as by --windows FIRST:LAST, or other data
DataError: window 2024-02-10…2024-02-18 holds no trading day; choose a longer one
DataError: window 2024-03-01…2024-02-01 ends before it begins; swap the dates
DataError: '2024-13-01' is not a date; write it as 2024-01-02
DataError: window 2024-01-02…2024-01-02 lies outside the data, which allow no window at all (nothing is filled on the first day, which only decides); choose a window inside, such as by --windows FIRST:LAST, or other data
""")

    assert (
        parse_day("2024-01-02")
        == parse_day(np.datetime64("2024-01-02"))
        == np.datetime64("2024-01-02", "D")
    )

    # days that sort as texts have one form
    others = (np.datetime64("NaT", "D"), "20240102", "2024-W01-2", "2024-01-02 ")
    assert errors_of(parse_day, *others) == inline_snapshot.snapshot("""\
DataError: 'NaT' is not a date; write it as 2024-01-02
DataError: '20240102' is not a date; write it as 2024-01-02
DataError: '2024-W01-2' is not a date; write it as 2024-01-02
DataError: '2024-01-02 ' is not a date; write it as 2024-01-02
""")


def test_a_day_is_never_made_of_a_time_within_it() -> None:
    days = pd.Series(pd.to_datetime(["2024-01-25", "2024-01-26", None]), name="date")
    assert tables.as_days(days)[:2].tolist() == [date(2024, 1, 25), date(2024, 1, 26)]

    with pytest.raises(DataError, match=r"column date: 2024-01-25T16:00:00.* is not a day"):
        tables.as_days(days + pd.Timedelta(hours=16))

    with pytest.raises(DataError, match="column date: times have a zone"):
        tables.as_days(days.dt.tz_localize("UTC"))
