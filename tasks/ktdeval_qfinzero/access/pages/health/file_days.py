"""Days of the data in files: one or two columns are read, once for each state of a file."""

from __future__ import annotations

import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from ktdeval.errors import DataError
from ktdeval.values import open_parquet
from ktdeval_qfinzero.access.pages.health.coverage import Days

_MAX_BYTES: Final = 512 << 20
_KEPT_FILES: Final = 50_000
_DATE_COLUMNS: Final = (
    "date", "datetime", "trade_date", "day", "time", "timestamp", "start_ns", "dt",
)  # fmt: skip
_NAME_COLUMNS: Final = (
    "symbol", "code", "ticker", "ts_code", "stock_code", "asset", "instrument", "con_code",
)  # fmt: skip
_COMPACT_DAY: Final = r"^\d{8}$"
_DAY_CHARS: Final = 10

SUFFIXES: Final = (".csv", ".csv.gz", ".parquet")

FileDays = Mapping[str, Days]
"""Ascending distinct days by instrument; one instrument `""` where a file names none."""


class DayCache:
    """Days of files, kept as long as a file's inode, size and time of change stay the same."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int, int, int], FileDays] = OrderedDict()
        self._lock = threading.Lock()

    def days_of(self, path: Path) -> FileDays:
        """Return the days of a file. Raises DataError: it can't be read, or has no dates."""
        stamp = _stamp(path)
        with self._lock:
            kept = self._kept.get(stamp)
            if kept is not None:
                self._kept.move_to_end(stamp)
                return kept

        days = read_days(path)
        with self._lock:
            self._kept[stamp] = days
            while len(self._kept) > _KEPT_FILES:
                self._kept.popitem(last=False)

        return days


def _stamp(path: Path) -> tuple[str, int, int, int]:
    try:
        status = path.lstat()
    except OSError as error:
        raise DataError(f"can't be read: {error.strerror or error}") from error

    if not stat.S_ISREG(status.st_mode):
        raise DataError("is not a plain file")
    if status.st_size > _MAX_BYTES:
        raise DataError(f"is larger than {_MAX_BYTES >> 20} MiB; its days are not counted")
    return os.fspath(path), status.st_ino, status.st_size, status.st_mtime_ns


def read_days(path: Path) -> FileDays:
    """Read the columns of a file that tell its days. Raises DataError: it can't be read, or has no
    column of dates.
    """
    try:
        if path.name.endswith(".parquet"):
            metadata = pq.read_metadata(path)
            date_name, own_name = _date_and_name_columns(metadata.schema.to_arrow_schema().names)
            columns = [name for name in (own_name, date_name) if name]
            with open_parquet(path, columns, metadata=metadata) as file:
                table = file.read(columns=columns, use_threads=False)
        else:
            table, date_name, own_name = _read_csv(path)

        return _by_instrument(table, date_name, own_name)
    except (OSError, ValueError, pa.ArrowException, EOFError) as error:
        text = " ".join(str(error).split())[:200]
        raise DataError(f"can't be read: {text}") from error


def _read_csv(path: Path) -> tuple[Any, str, str]:
    """Return the table of the two columns as texts, and their names."""
    with csv.open_csv(path) as reader:
        names = reader.schema.names

    date_name, own_name = _date_and_name_columns(names)
    columns = [name for name in (own_name, date_name) if name]
    options = csv.ConvertOptions(
        include_columns=columns, column_types=dict.fromkeys(columns, pa.string())
    )
    return csv.read_csv(path, convert_options=options), date_name, own_name


def _date_and_name_columns(names: list[str]) -> tuple[str, str]:
    """Return the names of the columns of dates and of instruments, the latter empty where there is
    none. Raises DataError.
    """
    by_lower = {name.lower(): name for name in reversed(names)}
    date_name = next((by_lower[name] for name in _DATE_COLUMNS if name in by_lower), "")
    own_name = next((by_lower[name] for name in _NAME_COLUMNS if name in by_lower), "")
    if not date_name:
        raise DataError("has no column of dates")
    return date_name, own_name


def _by_instrument(table: Any, date_name: str, own_name: str) -> FileDays:
    days = _as_days(table[date_name])
    known = ~np.isnat(days)
    if not own_name:
        return {"": np.unique(days[known])}

    names = pc.dictionary_encode(table[own_name].cast(pa.string())).combine_chunks()
    if isinstance(names, pa.ChunkedArray):
        names = names.chunk(0)

    codes = pc.fill_null(names.indices, -1).to_numpy(zero_copy_only=False)
    found: dict[str, Days] = {}
    for number, name in enumerate(names.dictionary.to_pylist()):
        found[str(name)] = np.unique(days[known & (codes == number)])

    return found


def _as_days(column: Any) -> Days:
    """Return a column as days, NaT where it has none. Raises DataError: no date can be read."""
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        days: Days = column.to_numpy().astype("datetime64[D]")
        return days
    if pa.types.is_integer(kind) and kind == pa.int64():
        nanoseconds = column.to_numpy().astype("datetime64[ns]")
        of_moments: Days = nanoseconds.astype("datetime64[D]")
        return of_moments

    texts = column.cast(pa.string())
    compact = pc.match_substring_regex(texts, _COMPACT_DAY)
    dashed = pc.binary_join_element_wise(
        pc.utf8_slice_codeunits(texts, 0, 4),
        pc.utf8_slice_codeunits(texts, 4, 6),
        pc.utf8_slice_codeunits(texts, 6, 8),
        "-",
    )
    days_text = pc.utf8_slice_codeunits(texts, 0, _DAY_CHARS)
    iso = pc.if_else(compact, dashed, pc.replace_substring(days_text, "/", "-"))
    plain = pc.if_else(pc.match_substring_regex(iso, r"^\d{4}-\d{2}-\d{2}$"), iso, None)
    if plain.null_count == len(plain):
        raise DataError("has no date that can be read (expected 2025-01-31 or 20250131)")

    parsed: Days = plain.cast(pa.date32()).to_numpy().astype("datetime64[D]")
    return parsed
