"""Files that are small on disk and large in memory are refused before they take it; real tables of
any size are not.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from ktdeval.values import (
    check_parquet,
    open_parquet,
    open_unpacked,
)
from support.runs.memory import ktdeval_within

ROWS = 40_000_000
ROOM = 1200 << 20
"""Bytes that a command may take: a few times what is always allowed, a fraction of what a bomb
holds.
"""

LITTLE = 1 << 20
"""Bytes that are allowed to any file where a test says so: a bomb of 2 MiB is as good as one of 257.
"""


@pytest.fixture
def _little_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktdeval.values.disk.decompression_limits.ALWAYS_ALLOWED", LITTLE)


def constant(value: object, rows: int = ROWS) -> pa.Array:
    return pa.repeat(pa.scalar(value), rows)


def write(path: Path, **columns: pa.Array) -> Path:
    pq.write_table(
        pa.table(columns), path, compression="zstd", row_group_size=1 << 26, data_page_size=1 << 26
    )
    return path


def bomb_of_rows(folder: Path) -> Path:
    """40 million equal rows: 1.9 GB of numbers in some kB."""
    prices = {name: constant(1.0) for name in ("open", "high", "low", "close", "volume")}
    keys = {"date": pa.nulls(ROWS, pa.date32()), "code": pa.nulls(ROWS, pa.string())}
    return write(folder / "bars.parquet", **keys, **prices)


def bomb_of_texts(folder: Path) -> Path:
    """One text of 100 kB, in 100,000 rows of a dictionary."""
    text = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(100_000, np.int32)), pa.array(["x" * 100_000])
    )
    dates = constant("2024-01-02", 100_000)
    prices = {name: constant(1.0, 100_000) for name in ("open", "high", "low", "close", "volume")}

    return write(
        folder / "bars.parquet",
        date=dates,
        code=constant("600519.SH", 100_000),
        name=text,
        **prices,
    )


BARS = ("data", "make", "long", "--out", "market", "--bars")


def refused(done: object, path: str) -> str:
    """Return the one line of an error that names the file."""
    assert done.returncode == 2, done  # type: ignore[attr-defined]

    (line,) = done.stderr.splitlines()  # type: ignore[attr-defined]
    assert line.startswith("ktdeval: error: ")
    assert path in line

    return str(line)


@pytest.mark.exhaustive
def test_rows_of_run_lengths_are_counted_before_they_are_read(tmp_path: Path) -> None:
    path = bomb_of_rows(tmp_path)
    assert path.stat().st_size < 1 << 20
    done = ktdeval_within(ROOM, *BARS, path.name, cwd=tmp_path)
    assert "at most are read; write the table without repeated" in refused(done, "bars.parquet")


def test_texts_that_a_dictionary_repeats_are_counted_before_they_are_made(
    tmp_path: Path,
) -> None:
    text = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(20_000, np.int32)), pa.array(["x" * 100_000])
    )
    published = constant("2024-01-02T10:00:00+08:00", 20_000)
    path = write(
        tmp_path / "news.parquet", published_at=published, title=constant("a", 20_000), text=text
    )

    assert path.stat().st_size < 1 << 20

    with pytest.raises(pa.ArrowInvalid, match="at most are read"):
        open_parquet(path)


@pytest.mark.usefixtures("_little_is_allowed")
def test_texts_in_lists_are_counted_too(tmp_path: Path) -> None:
    texts = pa.array([["y" * 5_000] * 100] * 20)
    path = write(tmp_path / "lists.parquet", assets=texts)
    with pytest.raises(pa.ArrowInvalid, match="at most are read"):
        open_parquet(path)


def number(value: int) -> bytes:
    """Return a field of 64 bits in Thrift's compact protocol, next after the one before it."""
    rest = 2 * value if value >= 0 else -2 * value - 1
    data = b"\x16"

    while rest > 127:
        data += bytes([rest & 127 | 128])
        rest >>= 7

    return data + bytes([rest])


def test_a_column_that_states_less_than_no_values_is_refused(tmp_path: Path) -> None:
    rows = 300_000
    places = pa.array(np.zeros(rows, np.int32))
    columns = {}

    for name, letters in (("first", 20_000), ("second", 30_000)):
        columns[name] = pa.DictionaryArray.from_arrays(places, pa.array([name[0] * letters]))

    path = write(tmp_path / "bars.parquet", **columns)
    before, mark, after = path.read_bytes().rpartition(number(rows))  # of the row group
    before, _, between = before.rpartition(number(rows))
    path.write_bytes(before + number(-rows) + between + mark + after)
    footer = pq.read_metadata(path).row_group(0)

    assert [footer.column(place).num_values for place in (0, 1)] == [rows, -rows]

    with pytest.raises(pa.ArrowInvalid, match="expected length 300000"):
        open_parquet(path)


def test_texts_that_stay_in_their_dictionary_cost_what_it_holds(tmp_path: Path) -> None:
    path = bomb_of_texts(tmp_path)
    with open_parquet(path, columns=["name"], read_dictionary=["name"]) as file:
        assert file.read(columns=["name"]).num_rows == 100_000

    with open_parquet(path, columns=["date", "close"]) as file:
        assert file.read(columns=["close"]).num_rows == 100_000


PACK: dict[str, Callable[[Path, bytes], object]] = {
    ".gz": lambda path, data: path.write_bytes(gzip.compress(data, mtime=0)),
    ".bz2": lambda path, data: path.write_bytes(bz2.compress(data)),
    ".xz": lambda path, data: path.write_bytes(lzma.compress(data)),
    ".zip": lambda path, data: zip_of(path, data),
}


def zip_of(path: Path, data: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bars.csv", data)


@pytest.mark.slow
@pytest.mark.usefixtures("_little_is_allowed")
@pytest.mark.parametrize("suffix", PACK)
def test_packed_text_is_read_as_far_as_its_size_allows(tmp_path: Path, suffix: str) -> None:
    head = b"date,code,open,high,low,close,volume\n"
    small = tmp_path / f"small.csv{suffix}"
    PACK[suffix](small, head)

    with open_unpacked(small) as stream:
        assert stream.read() == head

    large = tmp_path / f"large.csv{suffix}"
    PACK[suffix](large, head + bytes(2 * LITTLE))
    with open_unpacked(large) as stream, pytest.raises(OSError, match="at most are read"):
        deque(iter(partial(stream.read, 1 << 20), b""), maxlen=0)


@pytest.mark.exhaustive
def test_a_packed_bomb_of_bars_is_one_line(tmp_path: Path) -> None:
    row = b"2024-01-02,600519.SH,1,1,1,1,1\n"
    data = b"date,code,open,high,low,close,volume\n" + row * (700_000_000 // len(row))
    (tmp_path / "bars.csv.gz").write_bytes(gzip.compress(data, 9, mtime=0))
    done = ktdeval_within(ROOM + (400 << 20), *BARS, "bars.csv.gz", cwd=tmp_path)
    refused(done, "bars.csv.gz")


@pytest.mark.parametrize("cut", [0.2, 0.9])
@pytest.mark.parametrize("suffix", PACK)
def test_a_packed_file_that_is_cut_short_is_an_error_of_the_file(
    tmp_path: Path, suffix: str, cut: float
) -> None:
    path = tmp_path / f"bars.csv{suffix}"
    PACK[suffix](path, np.random.default_rng(3).bytes(5000))
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * cut)])

    with pytest.raises((OSError, EOFError)), open_unpacked(path) as stream:
        stream.read()


@pytest.mark.exhaustive
def test_a_real_market_of_25_million_bars_is_within_the_bounds() -> None:
    """By the description of a file of a million: real prices take 3 to 9 bytes a cell on disk, of 8
    in memory.
    """
    rows = 1_000_000
    chance = np.random.default_rng(1)
    closes = (10.0 * np.exp(np.cumsum(chance.normal(0, 0.02, rows)) / 20)).round(2)
    codes = pa.array(np.repeat([f"{number:06d}.SZ" for number in range(1000)], rows // 1000))
    columns = {"date": constant("2024-01-02", rows), "code": codes, "factor": constant(1.0, rows)}

    for name in ("open", "high", "low", "close", "volume", "amount"):
        columns[name] = pa.array((closes * chance.uniform(0.99, 1.01, rows)).round(2))

    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    data = sink.getvalue()
    metadata = pq.read_metadata(pa.BufferReader(data))
    check_parquet(metadata, data.size, None)
    per_row = data.size / rows

    assert 9 * 8 / per_row < 20, "a tenth of what is allowed"


@pytest.mark.exhaustive
def test_a_transcript_that_claims_gigabytes_is_refused(tmp_path: Path) -> None:
    from ktdeval.errors import StoreError
    from ktdeval.runner.records.episode_journal import unpack_lines

    packed = zstandard.ZstdCompressor().compress(bytes(1 << 30))
    path = tmp_path / "transcript.jsonl.zst"
    path.write_bytes(packed[:100])

    with pytest.raises(StoreError, match="has no size, or an impossible one"):
        unpack_lines(path, dict, "transcript")
