"""Moments become days of the market: offsets, time zones, midnights."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest

from ktdeval_judge.readers import ReadOptions, read_declared
from ktdeval_tables.moments import CellFault, StampClock, parse_moments
from program_files import FILES


def day(text: str, zone: str = "", *, is_label: bool = True) -> int:
    clock = StampClock(zone=zone, has_labels=is_label)
    moment = parse_moments(pd.Series([text], dtype="str"), clock)[0]
    return int(f"{moment:%Y%m%d}")


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2025-03-14", "", 20250314),
        ("20250314", "", 20250314),
        ("2025-03-14 00:00:00", "America/New_York", 20250314),
        ("2025-03-14T15:00:00", "Asia/Tokyo", 20250314),
        ("2025-03-14 00:00:00+00:00", "America/New_York", 20250314),
        ("2025-03-14 00:00:00+00:00", "Asia/Shanghai", 20250314),
        ("2025-03-14 20:00:00+00:00", "America/New_York", 20250314),
        ("2025-03-14 07:00:00+00:00", "Asia/Shanghai", 20250314),
        ("2025-03-14T22:30:00Z", "Australia/Sydney", 20250315),
        ("2025-03-14T00:30:00Z", "America/New_York", 20250313),
    ],
)
def test_a_stamp_is_a_day_of_the_market(text: str, zone: str, expected: int) -> None:
    assert day(text, zone) == expected


@pytest.mark.parametrize(
    ("form", "text", "zone", "expected"),
    [
        ("%Y-%m-%dT%H:%M:%S%z", "2025-03-14T22:30:00Z", "Australia/Sydney", 20250315),
        ("%Y-%m-%dT%H:%M:%S%z", "2025-03-14T00:30:00+0000", "America/New_York", 20250313),
        ("%d/%m/%Y %H:%M:%S %z", "14/03/2025 23:30:00 +05:30", "Asia/Tokyo", 20250315),
        # without a zone of the market: the day as it is written
        ("%Y-%m-%dT%H:%M:%S%z", "2025-03-15T01:00:00+05:30", "", 20250315),
        ("%d/%m/%Y", "14/03/2025", "Asia/Tokyo", 20250314),
        ("unix_s", "1741991400", "Australia/Sydney", 20250315),
    ],
)
def test_a_stamp_of_a_named_format_is_a_day_of_the_market(
    form: str, text: str, zone: str, expected: int
) -> None:
    moment = parse_moments(pd.Series([text], dtype="str"), StampClock(format=form, zone=zone))[0]
    assert int(f"{moment:%Y%m%d}") == expected


def test_offsets_of_several_spellings_are_moments() -> None:
    texts = ["2025-03-03 22:30:00+00:00", "2025-03-04 22:30:00+0"]
    moments = parse_moments(pd.Series(texts, dtype="str"), StampClock(zone="Asia/Tokyo"))
    assert list(moments.dt.strftime("%m-%d %H:%M")) == ["03-04 07:30", "03-05 07:30"]


@pytest.mark.parametrize("text", ["-1-03-11T13:30:00.123456Z", "0001-01-01", "12025-01-01"])
def test_a_stamp_beyond_the_years_of_markets_is_no_date(text: str) -> None:
    with pytest.raises(CellFault, match="is not a date"):
        parse_moments(pd.Series([text], dtype="str"), StampClock())


def test_midnight_utc_is_a_session_s_label_or_a_moment_by_program() -> None:
    assert day("2025-03-14T00:00:00Z", "America/New_York") == 20250314
    assert day("2025-03-14T00:00:00Z", "America/New_York", is_label=False) == 20250313


def activity(stamp: str) -> dict[str, str]:
    return {"id": "1", "activity_type": "FILL", "transaction_time": stamp, "type": "fill",
            "price": "10", "qty": "5", "side": "buy", "symbol": "SPY"}  # fmt: skip


@pytest.mark.parametrize(
    ("stamp", "zone", "expected"),
    [
        ("2026-06-25T01:12:30.709802Z", "", 20260624),  # after hours in New York
        ("2025-01-15T14:30:00Z", "", 20250115),  # 09:30 in winter
        ("2025-07-15T13:30:00Z", "", 20250715),  # 09:30 in summer
        ("2025-01-15T23:30:00Z", "UTC", 20250115),
        ("2025-01-15T23:30:00Z", "Asia/Tokyo", 20250116),
    ],
)
def test_alpaca_s_stamps_are_days_of_new_york_unless_a_zone_is_given(
    tmp_path: Path, stamp: str, zone: str, expected: int
) -> None:
    path = tmp_path / "activities.json"
    path.write_text(json.dumps([activity(stamp)]))
    trades = read_declared(path, ReadOptions(zone=zone)).trades
    assert trades is not None
    assert trades.day.tolist() == [expected]


def lean_result(points: list[list[float]]) -> dict[str, object]:
    series = {"Equity": {"values": points}}
    return {"charts": {"Strategy Equity": {"series": series}}, "orders": {}, "statistics": {}}


def unix(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_lean_s_midnight_sample_is_the_close_of_the_day_before(tmp_path: Path) -> None:
    # New York is at UTC-5 until 2025-03-09, then at UTC-4.
    points = [
        [unix("2025-03-06T05:00"), 100.0],  # midnight before the first session: the capital
        [unix("2025-03-07T05:00"), 101.0],  # the close of Thursday the 6th
        [unix("2025-03-08T05:00"), 102.0],  # the close of Friday the 7th
        [unix("2025-03-11T04:00"), 103.0],  # the close of Monday the 10th, in summer time
        [unix("2025-03-11T20:00"), 104.0],  # 16:00 of Tuesday the 11th
    ]
    path = tmp_path / "result.json"
    path.write_text(json.dumps(lean_result(points)))
    found = read_declared(path, ReadOptions())
    assert found.values is not None
    assert found.cash == 100.0
    assert found.values.to_dict() == {
        20250306: 101.0, 20250307: 102.0, 20250310: 103.0, 20250311: 104.0,
    }  # fmt: skip


def test_lean_values_without_a_session_are_dropped_if_sessions_are_known(tmp_path: Path) -> None:
    points = [[unix(f"2025-03-0{number}T05:00"), 100.0 + number] for number in range(5, 10)]
    path = tmp_path / "result.json"
    path.write_text(json.dumps(lean_result(points)))
    found = read_declared(path, ReadOptions(sessions=(20250305, 20250306, 20250307, 20250310)))
    assert found.values is not None
    assert found.values.to_dict() == {20250305: 106.0, 20250306: 107.0, 20250307: 108.0}


def test_old_results_of_lean_have_capital_keys_and_points_of_x_and_y(tmp_path: Path) -> None:
    points = [
        {"x": unix("2025-03-06T05:00"), "y": 100.0},
        {"x": unix("2025-03-06T21:00"), "y": 99.5},
    ]
    order = {"Id": 1, "Symbol": {"Value": "SPY", "ID": "SPY R735"}, "Quantity": -10.0, "Price": 580.5,
             "Status": 3, "Time": "2025-03-06T14:31:00Z", "LastFillTime": "2025-03-06T14:31:00Z"}  # fmt: skip
    result = {
        "Charts": {"Strategy Equity": {"Series": {"Equity": {"Values": points}}}},
        "Orders": {"1": order},
        "Statistics": {"Total Trades": "1"},
    }
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result))
    found = read_declared(path, ReadOptions())
    assert found.trades is not None
    assert found.values is not None
    assert found.trades.iloc[0].tolist() == [20250306, "SPY", "sell", 10.0, 580.5, 9 * 60 + 31]
    assert found.values.to_dict() == {20250306: 99.5}


def test_a_result_of_lean_without_all_its_orders_declares_no_trades(tmp_path: Path) -> None:
    result = json.loads((FILES / "lean/result.json").read_text())
    result["statistics"]["Total Orders"] = "5000"
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result))
    found = read_declared(path, ReadOptions())
    assert found.trades is None
    assert found.values is not None
    assert any("39 of 5000 orders" in note for note in found.notes)


def test_an_order_of_lean_that_was_filled_in_part_needs_its_events(tmp_path: Path) -> None:
    # The quantity of an order is what was asked for; order events have what was filled.
    result = json.loads((FILES / "lean/result.json").read_text())
    result["orders"]["1"]["status"] = 5
    result["orders"]["2"]["events"] = [
        {"fillQuantity": 7000, "fillPrice": 25.4, "time": "2025-03-11T13:30:00Z"},
        {"fillQuantity": 0, "fillPrice": 0, "time": "2025-03-11T20:00:00Z"},
    ]
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result))
    found = read_declared(path, ReadOptions())
    assert found.trades is not None
    first = found.trades.iloc[0].tolist()
    assert first[:5] == [20250311, "009116.SZ", "buy", 7000.0, 25.4]
    assert any("Left out, as filled in part: 1 order;" in note for note in found.notes)


STATEMENT = """\
Trades,Header,DataDiscriminator,Asset Category,Currency,Symbol,Date/Time,Quantity,T. Price,Comm/Fee
Trades,Data,Order,Stocks,HKD,700,"2025-03-13, 22:00:00","1,200",410.2,-60
"""


@pytest.mark.parametrize(("zone", "expected"), [("", 20250313), ("Asia/Hong_Kong", 20250314)])
def test_statement_evening_in_new_york_is_next_morning_in_hong_kong(
    tmp_path: Path, zone: str, expected: int
) -> None:
    path = tmp_path / "statement.csv"
    path.write_text(STATEMENT)
    trades = read_declared(path, ReadOptions(zone=zone)).trades
    assert trades is not None
    assert trades.iloc[0].tolist()[:7] == [expected, "700", "buy", 1200.0, 410.2, 60.0, 2]
