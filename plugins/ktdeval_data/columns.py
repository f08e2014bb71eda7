"""Tables in files: columns by field under any vendor's names, and the days, codes and flags in their cells."""

from __future__ import annotations

import re
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pandas.api.types import union_categoricals

from ktdeval.errors import DataError, UsageError
from ktdeval.fields import near_matches
from ktdeval.market import categories, parse_code

ALIASES: Mapping[str, tuple[str, ...]] = {
    "date": ("trade_date", "datetime", "day"),
    "code": ("ts_code", "stock_code", "con_code", "symbol", "instrument"),
    "volume": ("vol",),
    "amount": ("turnover", "money"),
    "factor": ("adj_factor",),
    "in_date": ("first", "start", "start_date"),
    "out_date": ("last", "end", "end_date"),
    "name": ("stock_name",),
    "industry": ("sector",),
    "code_then": ("former_code", "old_code"),
    "time": ("ends_at", "datetime", "timestamp", "trade_date", "date"),
    "ratio": ("split_ratio", "stock splits"),
}
"""Names that vendors give to fields, tried where no mapping says otherwise."""

SUFFIXES = (".parquet", ".csv", ".csv.gz")
_TEXT_FIELDS = (
    "date", "time", "code", "in_date", "out_date", "name", "industry", "index_code", "traded", "code_then", "venue", "kind",
    "currency",
)  # fmt: skip
_ROWS = 2**20  # of a text file read at once
_BEYOND = "rows have more cells than the header"
_UNREADABLE = (OSError, EOFError, ValueError, zlib.error, pa.ArrowException)
_ENCODINGS = ("utf-8-sig", "gb18030")
_MISSING = ("", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "NaT", "None", "n/a", "nan", "null")  # in any column but codes
_COMPACT = re.compile(r"[0-9]{8}(\.0)?")
_DASHED = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_GROUPED = r"[+-]?[0-9]{1,3}(?:,[0-9]{2,3})*,[0-9]{3}(?:\.[0-9]*)?"  # 1,234.5 or 12,34,567; not 10,25, whose comma is decimal
_EARLIEST, _LATEST = np.datetime64("1678-01-01"), np.datetime64("2261-12-31")  # others overflow nanoseconds without an error


def _table_files(path: Path) -> list[Path]:
    """Return the files of a table: the file itself, or all tables in a folder, sorted by name; at least one."""
    if path.is_dir():
        files = sorted(child for child in path.iterdir() if child.name.endswith(SUFFIXES) and child.is_file())
        if not files:
            raise DataError(f"{path}: the folder holds no {', '.join(SUFFIXES)} file")
        return files
    if not path.name.endswith(SUFFIXES):
        raise DataError(f"{path}: unknown kind of file; expected one of {', '.join(SUFFIXES)}, or a folder of them")
    if not path.is_file():
        raise DataError(f"{path}: {'a pipe or device, not a file' if path.exists() else 'no such file'}")
    return [path]


def stem(path: Path) -> str:
    """File name without its table suffix."""
    return path.name.removesuffix(next(filter(path.name.endswith, SUFFIXES), ""))


def read_table(
    path: Path, fields: Sequence[str], optional: Sequence[str], mapping: Mapping[str, str], repeated: Sequence[str] = ()
) -> pd.DataFrame:
    """Read the columns of a file, or of a folder of files, under the names of their fields.

    A missing `code` is taken from the file names of a folder. `mapping`: field -> column of the source, before the usual aliases.
    Dates, codes and other texts are text (those `repeated` as categories), numbers float64. Raises DataError: a file is unreadable,
    or one of `fields` has no column; UsageError: the mapping names another field.
    """
    frames = []
    for file in _table_files(path):
        header = _header(file)
        columns = _resolve(header, [*fields, *optional], mapping, file)
        absent = [field for field in fields if field not in columns]
        if absent and not (absent == ["code"] and path.is_dir()):
            names = (absent[0], *ALIASES.get(absent[0], ()))
            raise DataError(f"{file}: no column for {absent[0]!r} (tried {', '.join(names)}); map one of {', '.join(header)}")
        frame = _read_columns(file, columns, repeated)
        if absent:
            frame["code"] = pd.Categorical([stem(file)]).repeat(len(frame)) if "code" in repeated else stem(file)
        frames.append(frame)
    return _as_one([frame for frame in frames if len(frame)] or frames[:1])


def _as_one(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate tables column by column, so that no large one is held twice."""
    if len(frames) == 1:
        return frames[0]
    joined: dict[str, pd.Series] = {}
    for name in dict.fromkeys(str(name) for frame in frames for name in frame):
        parts = [frame.pop(name) if name in frame else pd.Series(np.nan, frame.index) for frame in frames]
        texts = all(isinstance(part.dtype, pd.CategoricalDtype) for part in parts)
        joined[name] = pd.Series(union_categoricals(parts)) if texts else pd.concat(parts, ignore_index=True)
    return pd.DataFrame(joined, copy=False)


def read_events(path: str, key: str, value: str, mapping: Mapping[str, str], form: Callable[..., pd.Series]) -> pd.DataFrame:
    """Read `key`, brought to one form by `form`, date and `value` by date. Raises DataError: one is missing, or a row repeats."""
    table = read_table(Path(path), ["date", key, value], [], mapping)
    absent = table[["date", key]].isna().any(axis=1)
    table[key], table["date"] = form(table[key]), parse_days(table["date"], f"{path}: date").astype("datetime64[ns]")
    bad = absent | ~((table[value] > 0) & np.isfinite(table[value])) | table[["date", key]].duplicated()
    if bad.any():
        what, day, number = table.loc[bad, [key, "date", value]].iloc[0]
        where = f"{path}: {what} {str(day)[:10]}: {value} {number:g}"
        raise DataError(f"{where}: each row has a {key}, a day of its own and a {value} above 0")
    return table.sort_values("date", kind="stable", ignore_index=True)


def _resolve(header: Sequence[str], fields: Sequence[str], mapping: Mapping[str, str], file: Path) -> dict[str, str]:
    """Field -> column, for the fields that have one."""
    for field, column in mapping.items():
        if field not in fields:
            hint = near_matches(field, fields) or "; fields: " + ", ".join(fields)
            raise UsageError(f"map: {field!r} is no field of {file.name}{hint}")
        if column not in header:
            raise DataError(f"{file}: no column {column!r}{near_matches(column, header) or '; columns: ' + ', '.join(header)}")
    lower = {name.lower(): name for name in reversed(header)}
    by_field = {field: next((lower[name] for name in (field, *ALIASES.get(field, ())) if name in lower), None) for field in fields}
    for field, match in by_field.items():
        if match and field not in mapping and (header.count(match) > 1 or f"{match}.1" in header):  # pandas' name of a second one
            raise DataError(f"{file}: column {match!r} stands twice; keep one, or name it: --map {field}={match} or {match}.1")
    return {field: column for field, column in {**by_field, **mapping}.items() if column is not None}


def _header(file: Path) -> list[str]:
    try:
        return list(pq.read_schema(file).names if file.suffix == ".parquet" else _read_csv(file, nrows=0).columns)
    except _UNREADABLE as error:
        raise DataError(f"{file}: can't read: {' '.join(str(error).split())}") from error


def _read_csv(file: Path, columns: Sequence[str] = (), texts: Mapping[str, str] | None = None, **options: Any) -> pd.DataFrame:
    """Read a text file. `texts`: the columns of texts, as `text` or `category`. Raises ValueError: it is not text, or a row has
    more cells than the header; pandas ignores these with `usecols`, and would read `1,000` without quotes as 1. A comma at the end
    of every row is no further cell.
    """
    for encoding in _ENCODINGS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                read = pd.read_csv(file, encoding=encoding, index_col=False, dtype=dict.fromkeys(texts or (), str), **options)
                if texts is None:
                    return pd.DataFrame(read)
                return _as_one([_within(part, columns, texts, file) for part in read])
        except UnicodeDecodeError:
            continue
        except pd.errors.ParserWarning as error:
            if "names" in options:
                raise ValueError(_BEYOND) from error
            names = [*pd.read_csv(file, encoding=encoding, nrows=0).columns, _BEYOND]
            return _read_csv(file, columns, texts, names=names, header=0, **options)
    raise ValueError(f"not text in any of {', '.join(_ENCODINGS)}")


def _within(part: pd.DataFrame, columns: Sequence[str], texts: Mapping[str, str], file: Path) -> pd.DataFrame:
    """Return the columns of a part, all but `texts` as numbers: as texts they take several times the memory. Categories are made
    here, since pandas 3.1 reads `000001` as the category 1.
    """
    if _BEYOND in part and not part[_BEYOND].isin(["", np.nan]).all():
        raise ValueError(_BEYOND)
    part = part.astype({name: kind for name, kind in texts.items() if kind == "category"})
    return pd.DataFrame({name: part[name] if name in texts else to_numbers(part[name], file) for name in columns}, copy=False)


def _read_columns(file: Path, columns: Mapping[str, str], repeated: Sequence[str]) -> pd.DataFrame:
    text = [field for field in columns if field in _TEXT_FIELDS]
    try:
        if file.suffix == ".parquet":
            coded = [columns[field] for field in text if field in repeated]
            read = ((field, pq.read_table(file, columns=[column], read_dictionary=coded)) for field, column in columns.items())
            named = ((field, part.to_pandas(ignore_metadata=True, date_as_object=False).iloc[:, 0].copy()) for field, part in read)
        else:
            texts = {columns[field]: "category" if field in repeated else "text" for field in text}
            missing = {column: ("",) if field == "code" else _MISSING for field, column in columns.items()}
            options = {"na_values": missing, "keep_default_na": False, "low_memory": False}
            frame = _read_csv(file, [*missing], texts, chunksize=_ROWS, **options)
            named = ((field, frame[column]) for field, column in columns.items())
        kept = {field: series if field in text else to_numbers(series, file) for field, series in named}
    except _UNREADABLE as error:
        raise DataError(f"{file}: can't read: {' '.join(str(error).split())}") from error
    pa.default_memory_pool().release_unused()  # Arrow keeps freed memory, and memory that a column shares with it
    return pd.DataFrame(kept, copy=False)


def to_numbers(series: pd.Series, file: Path | str) -> pd.Series:
    """Return a column as float64; empty cells become NaN. Raises DataError, which begins with `file`: a cell is not a number."""
    if pd.api.types.is_numeric_dtype(series) and not pd.api.types.is_bool_dtype(series):
        return pd.Series(series.to_numpy(dtype=np.float64, na_value=np.nan), index=series.index)
    texts = series.astype(str).str.strip()
    numbers = pd.to_numeric(texts.str.replace(",", "").replace({"None": "nan", "": "nan", "<NA>": "nan"}), errors="coerce")
    bad = numbers.isna() & series.notna() & ~texts.str.lower().isin(["nan", "none", ""])
    bad |= texts.str.contains(",") & ~texts.str.fullmatch(_GROUPED)
    if bad.any():
        raise DataError(f"{file}: column {series.name!r} holds {texts[bad].iloc[0]!r}, expected numbers such as 1234.5 or 1,234.5")
    return numbers.astype(np.float64)


def parse_days(series: pd.Series, where: str) -> pd.Series:
    """Days as datetime64, from dates, `2024-01-02`, `2024/1/2` or `20240102`; empty cells become NaT.

    Raises DataError: a cell is not a day from 1678 to 2261 (the range of nanoseconds), or has a time of day (bars are daily).
    """
    if pd.api.types.is_datetime64_any_dtype(series):
        days = series.dt.tz_localize(None) if getattr(series.dtype, "tz", None) is not None else series
        outside = (days < _EARLIEST) | (days > _LATEST)
        if outside.any():
            raise DataError(f"{where}: {days[outside].to_numpy()[0].astype('datetime64[D]')} is no day from 1678 to 2261")
        if (days.dropna() != days.dropna().dt.normalize()).any():
            raise DataError(f"{where}: dates have times of day; bars must be daily")
        return days
    codes, texts = pd.factorize(series)
    cleaned = [str(text).strip().removesuffix(" 00:00:00").replace("/", "-") for text in texts]
    dashed = [f"{text[:4]}-{text[4:6]}-{text[6:8]}" if _COMPACT.fullmatch(text) else text for text in cleaned]
    iso_texts = [text if _DASHED.fullmatch(text) else "" for text in dashed]  # pandas takes `today` and `now` for days
    parsed = pd.to_datetime(iso_texts, format="%Y-%m-%d", errors="coerce")
    wrong = parsed.isna() | (parsed < _EARLIEST) | (parsed > _LATEST)
    if wrong.any():
        bad = texts[int(np.flatnonzero(wrong)[0])]
        raise DataError(f"{where}: {str(bad)!r} is no day (expected 2024-01-02 or 20240102, from 1678 to 2261); bars must be daily")
    values = np.append(parsed.to_numpy(dtype="datetime64[ns]"), np.datetime64("NaT", "ns"))
    return pd.Series(values[codes], index=series.index)


def normalise_codes(series: pd.Series) -> pd.Series:
    """Codes as `600519.SH`; other texts stay as they are, so that the check names them."""
    return with_texts(series, lambda text: parse_code(text) or text)


def with_texts(series: pd.Series, change: Callable[[str], str]) -> pd.Series:
    """Return a column of texts with each distinct one changed, categories as categories; a missing one becomes `no code`."""
    changed = pd.Series(categories(series, change), index=series.index)
    return changed if isinstance(series.dtype, pd.CategoricalDtype) else changed.astype(str)


def index_code(text: str) -> str:
    """Return the normalised code of an index: bare digits are Shanghai's, those from 399 on Shenzhen's."""
    text = text.strip()
    if text.isdigit() and len(text) == 6:
        return f"{text}.{'SZ' if text.startswith('399') else 'SH'}"
    return parse_code(text) or text


def parse_flags(series: pd.Series, where: str) -> pd.Series:
    """True and False, from booleans, 0/1 or their texts."""
    if pd.api.types.is_bool_dtype(series):
        return series.astype(bool)
    flags = series.astype(str).str.lower().map({"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False})
    if flags.isna().any():
        raise DataError(f"{where}: {series[flags.isna()].iloc[0]!r} is neither true nor false")
    return flags.astype(bool)
