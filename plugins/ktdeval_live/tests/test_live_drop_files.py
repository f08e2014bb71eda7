"""Files of a drop folder: read as spreadsheets and scripts write them, or refused on one line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ktdeval.errors import DataError
from ktdeval.market import MarketSnapshot
from ktdeval.testing import errors_of, on_each_row, random_snapshot
from ktdeval_live.days.day_sources import DropFolder
from ktdeval_live.days.market_increments import (
    Bar,
    Increment,
    check_increment,
    days_before,
    market_as_known,
)

DAY = "2026-01-05"
NOW = datetime(2026, 1, 5, 21, 15, tzinfo=UTC)
PLAIN = "code,open,high,low,close,volume\nAA,10,11,9.5,10.5,1000\n"
BAR = Bar(code="AA", open=10.0, high=11.0, low=9.5, close=10.5, volume=1000.0)


def day_of(folder: Path, bars: str | bytes = PLAIN, **others: str) -> Increment:
    """Return what a folder with some files has of the day."""
    content = bars if isinstance(bars, bytes) else bars.encode()
    (folder / f"bars-{DAY}.csv").write_bytes(content)

    for name, text in others.items():
        suffix = "jsonl" if name == "documents" else "csv"
        (folder / f"{name}-{DAY}.{suffix}").write_text(text, "utf-8")

    found = DropFolder(folder).day("m", DAY, NOW)

    assert found is not None

    return found


@on_each_row(
    "form, text",
    ("plain", ("code,open,high,low,close,volume\nAA,10,11,9.5,10.5,1000\n")),
    ("byte order mark", ("\ufeffcode,open,high,low,close,volume\nAA,10,11,9.5,10.5,1000\n")),
    ("ends of Windows", ("code,open,high,low,close,volume\r\nAA,10,11,9.5,10.5,1000\r\n")),
    (
        "quotes",
        ('"code","open","high","low","close","volume"\n"AA","10","11","9.5","10.5","1000"\n'),
    ),
    ("other order", ("volume,close,low,high,open,code\n1000,10.5,9.5,11,10,AA\n")),
    ("exponents", ("code,open,high,low,close,volume\nAA,1e1,11.,9.5,10.5,1E+3\n")),
    ("empty lines", ("code,open,high,low,close,volume\n\nAA,10,11,9.5,10.5,1000\n\n")),
)
def test_file_as_programs_write_it_is_read(form: str, text: str, tmp_path: Path) -> None:
    assert day_of(tmp_path, text).bars == (BAR,), form


@on_each_row(
    "form, text, words",
    (
        "thousands",
        ('code,open,high,low,close,volume\nAA,10,11,9.5,10.5,"1,000"\n'),
        "line 2: volume: '1,000' is not a number such as 1234.5",
    ),
    (
        "comma for a point",
        ('code,open,high,low,close,volume\nAA,10,11,"9,5",10.5,1000\n'),
        "line 2: low: '9,5' is not a number such as 1234.5",
    ),
    (
        "underscores",
        ("code,open,high,low,close,volume\nAA,10,11,9.5,10.5,1_000\n"),
        "line 2: volume: '1_000' is not a number such as 1234.5",
    ),
    (
        "digits of another script",
        ("code,open,high,low,close,volume\nAA,１０,11,9.5,10.5,1000\n"),
        "line 2: open: '１０' is not a number such as 1234.5",
    ),
    (
        "empty cell",
        ("code,open,high,low,close,volume\nAA,10,11,,10.5,1000\n"),
        "line 2: low: '' is not a number such as 1234.5",
    ),
    (
        "NaN",
        ("code,open,high,low,close,volume\nAA,10,11,9.5,nan,1000\n"),
        "line 2: close: 'nan' is not a number such as 1234.5",
    ),
    (
        "infinite",
        ("code,open,high,low,close,volume\nAA,10,inf,9.5,10.5,1000\n"),
        "line 2: high: 'inf' is not a number such as 1234.5",
    ),
    (
        "huge",
        ("code,open,high,low,close,volume\nAA,10,1e999,9.5,10.5,1000\n"),
        "line 2: high: '1e999' is too large",
    ),
    (
        "code twice",
        ("code,open,high,low,close,volume\nAA,10,11,9.5,10.5,1000\nAA,10,11,9.5,10.5,1000\n"),
        "line 3: AA is on line 2, too; leave one out",
    ),
    (
        "no code",
        ("code,open,high,low,close,volume\n,10,11,9.5,10.5,1000\n"),
        "line 2: code: '' is not a code",
    ),
    (
        "code over two lines",
        ('code,open,high,low,close,volume\n"A\nA",10,11,9.5,10.5,1000\n'),
        "line 3: code: 'A\\nA' is not a code",
    ),
    (
        "not UTF-8",
        ("code,open,high,low,close,volume\nÄ,10,11,9.5,10.5,1000\n"),
        "line 2: is not UTF-8 text; save the file as UTF-8",
    ),
    (
        "missing column",
        ("code,open,high,low,close\nAA,10,11,9.5,10.5\n"),
        "line 1: lacks the column volume; its columns: code, open, high, low, close",
    ),
    (
        "misspelt column",
        ("code,open,high,low,close,volume,factr\nAA,10,11,9.5,10.5,1000,2\n"),
        "line 1: column 'factr' is not a field: leave it out; did you mean 'factor'?",
    ),
    (
        "column twice",
        ("code,open,high,low,close,volume,open\nAA,10,11,9.5,10.5,1000,12\n"),
        "line 1: column 'open' appears twice; keep one",
    ),
    (
        "field too many",
        ("code,open,high,low,close,volume\nAA,10,11,9.5,10.5,1000,7\n"),
        "line 2: expected 6 cells, was 7; quote texts with commas or line breaks",
    ),
    (
        "field missing",
        ("code,open,high,low,close,volume\nAA,10,11,9.5,10.5\n"),
        "line 2: expected 6 cells, was 5; quote texts with commas or line breaks",
    ),
    (
        "semicolons",
        ("code;open;high;low;close;volume\nAA;10;11;9.5;10.5;1000\n"),
        (
            "line 1: lacks the column code; its only column is "
            "'code;open;high;low;close;volume': write commas between the cells"
        ),
    ),
    ("empty file", "", "line 1: is empty; write the names of its columns into the first line"),
    (
        "cut off",
        ("code,open,high,low,close,volume\nAA,10,11,9.5,10.5,10"),
        (
            "line 2: its last line has no line break, so the file may be cut off; write the "
            "whole file"
        ),
    ),
)
def test_file_that_can_not_be_read_is_refused_with_its_place(
    form: str, text: str, words: str, tmp_path: Path
) -> None:
    content = text.encode("latin-1") if form == "not UTF-8" else text
    with pytest.raises(DataError) as caught:
        day_of(tmp_path, content)

    message = str(caught.value)

    assert message == f"{tmp_path}/bars-{DAY}.csv: {words}"
    assert "\n" not in message


def test_optional_cell_may_be_empty(tmp_path: Path) -> None:
    text = (
        "code,open,high,low,close,volume,amount,factor\n"
        "AA,10,11,9.5,10.5,1000,,1.25\nBB,1,1,1,1,0,5,\n"
    )
    bars = day_of(tmp_path, text).bars

    assert [(bar.amount, bar.factor) for bar in bars] == [(None, 1.25), (5.0, None)]


def test_level_of_an_index_twice_is_refused(tmp_path: Path) -> None:
    assert errors_of(
        lambda text: day_of(tmp_path, indices=text),
        "code,close\nI,1000\nI,1001\n",
        "code,close\nI,\n",
        folder=tmp_path,
    ) == snapshot("""\
DataError: FOLDER/indices-2026-01-05.csv: line 3: I is on line 2, too; leave one out
DataError: FOLDER/indices-2026-01-05.csv: line 2: close: '' is not a number such as 1234.5
""")


# ---- documents


def item(**changes: Any) -> str:
    """Return a line with a document."""
    fields = {
        "published_at": "2026-01-05T15:00:00Z",
        "known_at": "2026-01-05T15:00:00Z",
        "source": "wire",
        "kind": "news",
        "assets": [],
        "title": "Title",
        "text": "Text",
        **changes,
    }
    return json.dumps(fields)


def test_document_that_can_not_be_read_is_refused_with_its_line(tmp_path: Path) -> None:
    assert errors_of(
        lambda line: day_of(tmp_path, documents=f"{item()}\n{line}\n"),
        "{",
        item(title=None),
        item(known_at="2026-01-05T15:00:00"),
        item(knwon_at="2026-01-05T15:00:00Z"),
        "[1]",
        folder=tmp_path,
    ) == snapshot("""\
DataError: FOLDER/documents-2026-01-05.jsonl: line 2: input data was truncated
DataError: FOLDER/documents-2026-01-05.jsonl: line 2: title: expected `str`, was `null`
DataError: FOLDER/documents-2026-01-05.jsonl: line 2: known_at: expected `datetime` with a timezone component
DataError: FOLDER/documents-2026-01-05.jsonl: line 2: unknown field 'knwon_at'; did you mean 'known_at'?
DataError: FOLDER/documents-2026-01-05.jsonl: line 2: expected `object`, was `array`
""")


@pytest.fixture(scope="module")
def market() -> MarketSnapshot:
    return random_snapshot(seed=3, n_days=60)


def increment(market: MarketSnapshot, folder: Path, row: int, line: str, now: str) -> Increment:
    """Return the increment of a day of the market with one document."""
    (folder / f"bars-{market.days[row]}.csv").write_text("code,open,high,low,close,volume\n")
    (folder / f"documents-{market.days[row]}.jsonl").write_text(line + "\n")
    found = DropFolder(folder).day("m", str(market.days[row]), datetime.fromisoformat(now))

    assert found is not None

    return found


def test_document_known_after_the_close_is_shown_from_the_next_day_on(
    market: MarketSnapshot, tmp_path: Path
) -> None:
    days = [str(day) for day in market.days[50:]]
    later = f"{days[0]}T20:00:00+00:00"  # long after the close in China
    line = item(published_at=later, known_at=later)
    found = increment(market, tmp_path, 50, line, f"{days[0]}T20:15:00+00:00")
    check_increment(found, market)
    known = market_as_known(days_before(market, 50), days, [found])

    assert len(known.as_of(50).documents) == 0
    assert len(known.as_of(51).documents) == 1


def test_document_of_the_future_or_on_nobody_is_refused(
    market: MarketSnapshot, tmp_path: Path
) -> None:
    day = str(market.days[50])
    future = item(known_at="2030-01-01T00:00:00Z")
    with pytest.raises(DataError, match="became known at 2030-01-01"):
        check_increment(increment(market, tmp_path, 50, future, f"{day}T20:15:00+00:00"), market)

    nobody = item(
        published_at="2020-01-01T00:00:00Z", known_at="2020-01-01T00:00:00Z", assets=["X"]
    )

    with pytest.raises(DataError, match="document on unknown X"):
        check_increment(increment(market, tmp_path, 50, nobody, f"{day}T20:15:00+00:00"), market)
