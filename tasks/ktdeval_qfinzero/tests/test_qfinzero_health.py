"""Health of folders: coverage by day, what is wrong in a folder, and the calendar's export."""

from __future__ import annotations

import csv
import io
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from ktdeval.errors import DataError
from ktdeval_qfinzero.access.pages.health.calendar_export import to_csv, to_ics
from ktdeval_qfinzero.access.pages.health.coverage import coverage_of
from ktdeval_qfinzero.access.pages.health.file_days import DayCache, read_days
from ktdeval_qfinzero.access.pages.health.folders import folder_state
from ktdeval_qfinzero.data.layout import load_manifest
from ktdeval_qfinzero.esp.answers import EventShown


def days(*texts: str) -> np.ndarray:
    return np.array(texts, "datetime64[D]")


def test_coverage_counts_instruments_by_session_and_names_the_gaps() -> None:
    # New York: sessions from Thursday the 2nd to Friday the 10th without the 9th (a day of mourning)
    data = {
        "A": days("2025-01-02", "2025-01-03", "2025-01-08", "2025-01-10"),
        "B": days("2025-01-03", "2025-01-04", "2025-01-08"),  # the 4th is a Saturday
    }

    coverage = coverage_of("stock day", data, "XNYS")

    assert [str(day) for day in coverage.days] == [
        "2025-01-02", "2025-01-03", "2025-01-04", "2025-01-06", "2025-01-07", "2025-01-08",
        "2025-01-10",
    ]  # fmt: skip
    assert coverage.have == (1, 2, 1, 0, 0, 2, 1)
    assert coverage.due == (1, 2, 2, 2, 2, 2, 1)
    assert coverage.complete == 6 / 10
    assert [(gap.first, gap.last, gap.sessions) for gap in coverage.gaps] == [
        (date(2025, 1, 6), date(2025, 1, 7), 2)
    ]
    assert (coverage.outside, coverage.session_places) == (1, (0, 1, 3, 4, 5, 6))


def test_the_calendar_of_files_is_the_one_that_fits_their_days() -> None:
    round_the_clock = np.arange("2025-01-01", "2025-02-01", dtype="datetime64[D]")

    assert coverage_of("coins", {"BTC": round_the_clock}).calendar == "24/7"
    assert coverage_of("one day", {"600519.SH": days("2025-03-04")}).calendar == "XSHG"
    assert coverage_of("one day", {"MSFT": days("2025-03-04")}).calendar == "XNYS"
    assert coverage_of("none", {"MSFT": days()}).complete is None


def test_days_are_read_from_a_table_in_any_usual_form(tmp_path: Path) -> None:
    file = tmp_path / "bars.csv"
    file.write_text(
        "ts_code,trade_date,close\nA,20250103,1\nB,2025-01-06 10:30,2\nA,2025/01/02,3\n"
    )

    read = read_days(file)

    assert read.keys() == {"A", "B"}
    assert list(map(str, read["A"])) == ["2025-01-02", "2025-01-03"]
    assert list(map(str, read["B"])) == ["2025-01-06"]

    file.write_text("name,close\nA,1\n")

    with pytest.raises(DataError, match="no column of dates"):
        read_days(file)


def test_a_folder_is_described_whatever_state_it_is_in(tiny: Path, tmp_path: Path) -> None:
    cache = DayCache()
    sound = folder_state(tiny, cache)

    assert (sound.kind, sound.problems) == ("dataset", ())
    assert {group.name for group in sound.groups} >= {"stock day"}
    assert sound == folder_state(tiny, cache)  # from what was read before

    part = next(iter(load_manifest(tiny).bar_files().values()))
    (tiny / part.file).write_bytes(b"torn")
    torn = folder_state(tiny, cache)

    assert torn.kind == "unfinished dataset"
    assert any(problem.startswith(part.file) for problem in torn.problems)

    (tiny / "manifest.json").write_text("{")
    assert "not the manifest" in folder_state(tiny, cache).problems[0]

    (tiny / "manifest.json").unlink()
    half = folder_state(tiny, cache)

    assert half.kind == "unfinished dataset"
    assert "import again" in half.problems[0]
    # the torn file was the only one of its group
    assert len(half.groups) == len(sound.groups) - 1

    (tmp_path / "nothing").mkdir()
    assert folder_state(tmp_path / "nothing", cache).kind == "empty"
    assert folder_state(tmp_path / "absent", cache).kind == "absent"


def event(title: str) -> EventShown:
    return EventShown(
        event_id="econ_1", event_type="macro_calendar", title=title,
        time_utc="2025-01-10T13:30:00Z", importance="high", status="occurred", tickers=[],
        country="US", market="us", snippet="-0.3; up, then\ndown", source="test",
    )  # fmt: skip


def test_the_exported_calendar_is_safe_in_a_spreadsheet_and_valid_in_a_calendar() -> None:
    title = "=HYPERLINK(1) " + "日" * 40

    rows = list(csv.reader(io.StringIO(to_csv([event(title)]))))
    text = to_ics([event(title)], "mine")

    assert rows[1][:2] == ["2025-01-10T13:30:00Z", f"'{title}"]
    assert rows[1][6].startswith("'-0.3")

    lines = text.split("\r\n")
    assert max(len(line.encode()) for line in lines) <= 75

    unfolded = text.replace("\r\n ", "").split("\r\n")
    assert f"SUMMARY:{title}" in unfolded
    assert "DTSTART:20250110T133000Z" in unfolded
    assert "DESCRIPTION:-0.3\\; up\\, then\\ndown\\nstatus: occurred\\nsource: test" in unfolded
    assert (unfolded[0], unfolded[-2]) == ("BEGIN:VCALENDAR", "END:VCALENDAR")
