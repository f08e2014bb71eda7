"""Dropped files that can't be read: one line each, which names the file and where it is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ktdeval.errors import DataError
from ktdeval.testing import errors_of
from ktdeval_live.days.day_sources import DropFolder

DAY = "2026-01-05"
NOW = datetime(2026, 1, 5, 22, tzinfo=UTC)
HEADER = "code,open,high,low,close,volume,amount\n"
ROW = "AAA,1,2,1,2,100,150\n"
ITEM = (
    '{"published_at": "2026-01-05T20:00:00Z", "known_at": "2026-01-05T20:00:00ZONE", "source": "x",'
    ' "kind": "news", "assets": [], "title": "t", "text": "t"}'
)


def test_whole_file_gives_its_bars(tmp_path: Path) -> None:
    (tmp_path / f"bars-{DAY}.csv").write_text(HEADER + ROW, "utf-8")
    increment = DropFolder(tmp_path).day("us", DAY, NOW)

    assert increment is not None

    (bar,) = increment.bars
    assert (bar.code, bar.close, bar.amount, bar.factor) == ("AAA", 2.0, 150.0, None)


def test_file_that_is_no_table_of_bars_is_refused(tmp_path: Path) -> None:
    def read(content: bytes) -> None:
        (tmp_path / f"bars-{DAY}.csv").write_bytes(content)
        DropFolder(tmp_path).day("us", DAY, NOW)

    assert errors_of(
        read,
        b"",
        b"code,open\nAAA,1\n",
        (HEADER + ROW.rstrip("\n")).encode(),
        (HEADER + "AAA,1,2,1,2,100\n").encode(),
        (HEADER + "AAA,1,2,1,2,100,150,7\n").encode(),
        (HEADER + "AAA,1,2,x,2,100,150\n").encode(),
        (HEADER + 'AAA,1,2,"1\n').encode(),
        HEADER.encode("utf-16-le"),
        folder=tmp_path,
    ) == snapshot("""\
DataError: FOLDER/bars-2026-01-05.csv: line 1: is empty; write the names of its columns into the first line
DataError: FOLDER/bars-2026-01-05.csv: line 1: lacks the column high; its columns: code, open
DataError: FOLDER/bars-2026-01-05.csv: line 2: its last line has no line break, so the file may be cut off; write the whole file
DataError: FOLDER/bars-2026-01-05.csv: line 2: expected 7 cells, was 6; quote texts with commas or line breaks
DataError: FOLDER/bars-2026-01-05.csv: line 2: expected 7 cells, was 8; quote texts with commas or line breaks
DataError: FOLDER/bars-2026-01-05.csv: line 2: low: 'x' is not a number such as 1234.5
DataError: FOLDER/bars-2026-01-05.csv: line 2: is not CSV: unexpected end of data
DataError: FOLDER/bars-2026-01-05.csv: line 1: has a NUL character, so it is not text; write the file again
""")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("00:00ZONE", "00:00", "line 1: known_at"),
        ("00:00ZONE", "00:00Z", None),
        ('"kind": "news", ', "", "line 1"),
    ],
    ids=["no zone", "whole", "no kind"],
)
def test_time_of_a_document_needs_its_zone(
    tmp_path: Path, old: str, new: str, problem: str | None
) -> None:
    (tmp_path / f"bars-{DAY}.csv").write_text(HEADER + ROW, "utf-8")
    (tmp_path / f"documents-{DAY}.jsonl").write_text(ITEM.replace(old, new) + "\n", "utf-8")
    source = DropFolder(tmp_path)

    if problem is None:
        increment = source.day("us", DAY, NOW)
        assert increment is not None
        assert len(increment.documents) == 1
        return

    with pytest.raises(DataError, match=problem):
        source.day("us", DAY, NOW)


def test_folder_under_the_name_of_a_file_is_no_file(tmp_path: Path) -> None:
    (tmp_path / f"bars-{DAY}.csv").write_text(HEADER + ROW, "utf-8")
    (tmp_path / f"indices-{DAY}.csv").mkdir()
    increment = DropFolder(tmp_path).day("us", DAY, NOW)

    assert increment is not None
    assert increment.indices == {}


def test_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not there; create it"):
        DropFolder(tmp_path / "gone").day("us", DAY, NOW)
