"""Dropped files that can't be read: one line each, which names the file and where it is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ktdeval.errors import DataError
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


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "line 1: is empty; write the names of its columns"),
        (b"code,open\nAAA,1\n", "lacks the column high"),
        ((HEADER + ROW.rstrip("\n")).encode(), "its last line has no line break"),
        ((HEADER + "AAA,1,2,1,2,100\n").encode(), "line 2: expected 7 cells, was 6"),
        ((HEADER + "AAA,1,2,1,2,100,150,7\n").encode(), "line 2: expected 7 cells, was 8"),
        ((HEADER + "AAA,1,2,x,2,100,150\n").encode(), "line 2: low: 'x' is not a number"),
        ((HEADER + 'AAA,1,2,"1\n').encode(), "is not CSV"),
        (HEADER.encode("utf-16-le"), "NUL character"),
    ],
)
def test_file_that_is_no_table_of_bars_is_refused(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    (tmp_path / f"bars-{DAY}.csv").write_bytes(content)
    with pytest.raises(DataError, match=problem) as caught:
        DropFolder(tmp_path).day("us", DAY, NOW)

    assert "\n" not in str(caught.value)


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
