"""One set of hostile files at each door through which tables come in: bars and the files next to
them, documents, QFinZero's ingestion, live's drop folder.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ktdeval.errors import DataError, KtdevalError
from ktdeval_tables.workbook import sheet_as_text
from support.market.table_doors import DOORS, Cells, Door, as_csv, as_parquet
from support.tables import beside

CASES = beside(__file__)


def text_of(door: Door, **changes: str) -> bytes:
    """Return the faultless table with cells of the second row changed."""
    by_place = {(2, getattr(door, column)): cell for column, cell in changes.items()}
    return as_csv(door.table(by_place)).encode()


def with_last_row(door: Door, change: Callable[[list[str]], list[str]]) -> bytes:
    """Return the faultless table with its last row changed."""
    rows: Cells = door.table()
    return as_csv([*rows[:-1], change(rows[-1])]).encode()


TEXTS: dict[str, Callable[[Door], bytes]] = {
    "byte order mark": lambda door: b"\xef\xbb\xbf" + text_of(door),
    "UTF-16 with its mark": lambda door: text_of(door).decode().encode("utf-16"),
    "ends of Windows": lambda door: text_of(door).replace(b"\n", b"\r\n"),
    "packed": lambda door: gzip.compress(text_of(door)),
    "not text": lambda door: text_of(door, text="Ä").decode().encode("latin-1"),
    "NUL": lambda door: text_of(door, text="A\0A"),
    "huge cell": lambda door: text_of(door, text="x" * (1 << 24)),
    "column twice": lambda door: as_csv([[*row, row[-1]] for row in door.cells]).encode(),
    "cell too many": lambda door: with_last_row(door, lambda row: [*row, "7"]),
    "last row cut off": lambda door: with_last_row(door, lambda row: row[:-1]),
    "open quote": lambda door: text_of(door) + b'"x',
    "open quote in its names": lambda door: b'"' + text_of(door),
    "empty": lambda _: b"",
    "web page": lambda _: b"<!DOCTYPE html><html></html>",
    "archive": lambda _: b"PK\x03\x04....",
    "pointer": lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
    "refusal of a server": lambda _: b'{"Note": "limit of 5 calls"}',
    "packed and cut off": lambda door: gzip.compress(text_of(door) * 50)[:60],
    "packed bomb": lambda door: gzip.compress(text_of(door) + b",\n" * (1 << 20)),
}


def column_of(name: str, door: Door) -> dict[str, Any]:
    """Return the column of a Parquet file that is not as it should be."""
    not_utf8 = pa.array([b"\xff\xfe", b"\xff"], pa.binary()).buffers()
    columns: dict[str, tuple[str, Any]] = {
        "structs": (door.number, pa.array([{"a": 1}, {"a": 2}])),
        "lists": (door.number, [[1.0], [2.0]]),
        "flags": (door.number, [True, False]),
        "moments": (door.number, [datetime(2024, 1, 1), datetime(2024, 1, 2)]),
        "bytes": (door.text, [b"\xff", b"\xfe"]),
        "texts that are none": (door.text, pa.Array.from_buffers(pa.string(), 2, not_utf8)),
    }

    return dict([columns[name]]) if name in columns else {}


def read(door: Door, folder: Path, content: bytes, suffix: str = ".csv") -> object:
    """Return what a door reads of a file."""
    path = folder / door.file.format(suffix)
    path.write_bytes(content)
    return door.read(path)


def at_each_door(table: str) -> Iterator[Any]:
    """Yield each case at each door: its form, the door, the words."""
    _, *rows = CASES[table]
    for form, *outcomes in rows:
        for (name, door), outcome in zip(DOORS.items(), outcomes, strict=True):
            yield pytest.param(form, door, outcome, id=f"{form}-{name}")


def assert_refused(door: Door, folder: Path, content: bytes, words: str, suffix: str) -> None:
    """Check that a file is refused on one line that names it and is short."""
    with pytest.raises(KtdevalError) as caught:
        read(door, folder, content, suffix)

    message = str(caught.value)

    assert words in message
    assert door.file.format(suffix) in message
    assert "\n" not in message
    assert len(message) < 600


@pytest.mark.slow
@pytest.mark.sampled(30)
@pytest.mark.parametrize(("form", "door", "outcome"), [*at_each_door("texts")])
def test_a_text_is_read_or_refused_on_one_line(
    form: str, door: Door, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A bomb of 2 MiB is as good as one of 257, and read at once.
    monkeypatch.setattr("ktdeval.values.disk.decompression_limits.ALWAYS_ALLOWED", 1 << 20)
    content = TEXTS[form](door)
    suffix = ".csv.gz" if form.startswith("packed") else ".csv"

    if outcome == "read":
        assert read(door, tmp_path, content, suffix) == read(door, tmp_path, text_of(door))
    else:
        assert_refused(door, tmp_path, content, outcome, suffix)


@pytest.mark.parametrize(("cell", "door", "outcome"), [*at_each_door("numbers")])
def test_a_cell_that_is_no_number_is_never_one(
    cell: str, door: Door, outcome: str, tmp_path: Path
) -> None:
    content = text_of(door, number=cell)
    if outcome == "as text":
        (_, second) = read(door, tmp_path, content)  # type: ignore[misc]
        assert second.sentiment == cell
    elif outcome == "as infinity":
        (_, second) = read(door, tmp_path, content)  # type: ignore[misc]
        assert second["close"] == float("inf")  # checks of a market refuse it
    else:
        assert_refused(door, tmp_path, content, outcome, ".csv")


@pytest.mark.sampled(15)
@pytest.mark.parametrize(("form", "door", "outcome"), [*at_each_door("typed")])
def test_typed_columns_are_read_or_refused_on_one_line(
    form: str, door: Door, outcome: str, tmp_path: Path
) -> None:
    content = as_parquet(door.cells, column_of(form, door))
    if form == "cut off":
        content = content[:-20]

    if outcome == "read":
        assert read(door, tmp_path, content, ".parquet") == read(door, tmp_path, text_of(door))
    else:
        assert_refused(door, tmp_path, content, outcome, ".parquet")


# ---- workbooks, which bars and their side files take


def workbook(*rows: list[object]) -> bytes:
    """Return a workbook with these rows."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()

    for row in rows:
        book.active.append(row)

    stream = io.BytesIO()
    book.save(stream)

    return stream.getvalue()


@pytest.mark.parametrize("name", ["bars", "side file"])
def test_a_formula_without_a_value_is_no_empty_cell(name: str, tmp_path: Path) -> None:
    door = DOORS[name]
    header, first, second = door.cells
    content = workbook(list(header), list(first), [*second[:-1], "=1+1"])
    words = f"line 3: cell {len(header)} is the formula '=1+1' without a value"
    assert_refused(door, tmp_path, content, words, ".xlsx")


@pytest.mark.parametrize("name", ["documents", "ingest", "drop folder"])
def test_a_workbook_is_refused_with_advice_where_none_is_read(name: str, tmp_path: Path) -> None:
    door = DOORS[name]
    content = workbook(*map(list, door.cells))
    words = "by its first bytes it is a workbook: save it as .csv"
    assert_refused(door, tmp_path, content, words, ".csv")


@pytest.mark.slow
def test_a_workbook_that_holds_more_than_its_size_allows_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bars.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
        with archive.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as sheet:
            for _ in range(300):
                sheet.write(bytes(1 << 20))

    with pytest.raises(DataError, match=r"bars\.xlsx: .* at most are read"):
        sheet_as_text(path, lambda _: None)
