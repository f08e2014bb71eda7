"""Market data in long form: tables of any vendor, whose files, columns, dates, codes and units are brought to one form.

One row for each day and code, with membership, index levels and industries in files beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.api import assemble
from ktdeval.errors import DataError, UsageError
from ktdeval.fields import near_matches
from ktdeval.market import EVERY_ASSET, MarketSnapshot, RawMarket, parse_code, stored_volume
from ktdeval_data.params import LongParams, QlibParams

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
}
"""Names that vendors give to fields, tried where no mapping says otherwise."""

_AMOUNT_UNITS = {"CNY": 1.0, "thousand_CNY": 1e3, "ten_thousand_CNY": 1e4}
_VOLUME_UNITS = {"share": 1.0, "lot": 100.0}
_SUFFIXES = (".parquet", ".csv", ".csv.gz")
_TEXT_FIELDS = ("date", "code", "in_date", "out_date", "name", "industry", "index_code", "traded", "code_then")
_ENCODINGS = ("utf-8-sig", "gb18030")
_REQUIRED = ("date", "code", "open", "close", "volume")
_OPTIONAL = ("high", "low", "amount", "factor", "traded")
_FILES = ("bars", "benchmark", "members", "industry", "names")
_OPEN_START, _OPEN_END = np.datetime64("1900-01-01"), np.datetime64("2200-01-01")


def make_long(params: LongParams) -> MarketSnapshot:
    """Return a snapshot from CSV or Parquet tables."""
    return assemble(read_long(params), params.repair)


def read_long(params: LongParams) -> RawMarket:
    """Read the tables that `params` names; nothing is judged or repaired.

    Codes are normalised, prices in CNY unadjusted where there is a factor, volume in shares and amount in CNY. Raises DataError: a
    file is missing or unreadable, lacks a column, or holds cells that are no numbers or days; UsageError: the column mapping names
    a field that there is not.
    """
    mappings = _split_mapping(params.map)
    benchmark_code = index_code(params.benchmark_code)
    names = read_names(params.names, mappings["names"])
    bars = renumbered(_read_bars(params, mappings["bars"]), names)
    has_factor, notes = to_our_units(bars, params)
    if params.members is None:
        lives = bars.groupby("code", sort=True)["date"].agg(["min", "max"]).reset_index()
        members = lives.set_axis(["code", "first", "last"], axis=1)
    else:
        members = renumbered(_read_members(Path(params.members), mappings["members"], benchmark_code), names)
    if params.assets == "members":
        bars = bars[bars["code"].isin(set(members["code"]))].reset_index(drop=True)
        if bars.empty:
            raise DataError(f"{params.bars}: no bars of any member of {params.members}; check both code columns")
    files = [Path(path).name for path in (params.bars, params.benchmark, params.members, params.industry, params.names) if path]
    universe = () if params.members else (EVERY_ASSET,)
    return RawMarket(
        name=params.name or _stem(Path(params.bars)),
        source=params.source or "; ".join((f"long tables {', '.join(files)}", *universe)),
        benchmark=benchmark_code,
        bars=_clip(bars, params),
        indices=_read_indices(Path(params.benchmark), mappings["benchmark"], benchmark_code),
        members=members,
        assets=read_industry(params.industry, mappings["industry"]),
        has_factor=has_factor,
        notes=(*universe, *notes),
        names=names,
    )


def _split_mapping(mapping: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the column mapping of each file; a field without a prefix is one of the bars."""
    split: dict[str, dict[str, str]] = {file: {} for file in _FILES}
    for key, column in mapping.items():
        file, dot, field = key.rpartition(".")
        if dot and file not in split:
            raise UsageError(f"map: {key!r} names no file{near_matches(file, _FILES) or '; files: ' + ', '.join(_FILES)}")
        split[file or "bars"][field] = column
    return split


def _clip(bars: pd.DataFrame, params: LongParams) -> pd.DataFrame:
    keep = np.ones(len(bars), dtype=np.bool_)
    if params.first is not None:
        keep &= (bars["date"] >= parse_days(pd.Series([params.first]), "first").iloc[0]).to_numpy()
    if params.last is not None:
        keep &= (bars["date"] <= parse_days(pd.Series([params.last]), "last").iloc[0]).to_numpy()
    if not keep.any():
        raise DataError(f"{params.bars}: no bars from {params.first or 'the start'} to {params.last or 'the end'}")
    return bars if keep.all() else bars[keep].reset_index(drop=True)


def _read_bars(params: LongParams, mapping: Mapping[str, str]) -> pd.DataFrame:
    where = params.bars
    bars = read_table(Path(where), _REQUIRED, _OPTIONAL, mapping)
    bars["date"] = parse_days(bars["date"], f"{where}: date")
    if bars["date"].isna().any():
        raise DataError(f"{where}: {int(bars['date'].isna().sum())} rows have no date")
    bars["code"] = normalise_codes(bars["code"])
    if "traded" in bars:
        bars["traded"] = _parse_flags(bars["traded"], f"{where}: traded")
    for name in ("high", "low", "amount", "factor"):
        if name not in bars:
            bars[name] = np.nan
    return bars


def to_our_units(bars: pd.DataFrame, params: LongParams | QlibParams) -> tuple[bool, tuple[str, ...]]:
    """Bring bars to shares, CNY and unadjusted prices in whole fen, in place; return whether they have a factor, and notes on how
    they were read. Prices without a factor become missing where others have one. Raises DataError: volumes don't show how they
    are stored.
    """
    bars["volume"] *= _VOLUME_UNITS[params.volume_unit]
    bars["amount"] *= _AMOUNT_UNITS[params.amount_unit]
    if not bars["factor"].notna().any():
        return False, ()
    known = bars["factor"].where(bars["factor"] > 0)
    notes = _undo_volume(bars, known, params)
    if params.prices == "adjusted":
        for name in ("open", "high", "low", "close"):
            bars[name] = (bars[name] / known).round(2)
    return True, notes


def _undo_volume(bars: pd.DataFrame, factor: pd.Series, params: LongParams | QlibParams) -> tuple[str, ...]:
    """Multiply volumes by the factor where they were divided by it, to whole shares."""
    kind = params.volume
    if kind == "auto":
        told = stored_volume(bars["volume"].to_numpy(dtype=np.float64), factor.to_numpy(dtype=np.float64))
        if told is None and params.prices == "adjusted":
            raise DataError(
                "volume: whole shares don't show whether volumes are as traded or divided by the factor;"
                " say --volume raw or --volume divided (shares or lots: --volume-unit)"
            )
        kind = told or "raw"
    if kind == "divided":
        bars["volume"] = (bars["volume"] * factor).round()
    how = "told by whole shares" if params.volume == "auto" else "as asked for"
    what = {"raw": "as traded, taken as they are", "divided": "divided by the factor, multiplied by it"}[kind]
    return (f"volumes were stored {what} ({how})",) if (params.volume, kind) != ("raw", "raw") else ()


def _read_indices(path: Path, mapping: Mapping[str, str], benchmark_code: str) -> pd.DataFrame:
    table = read_table(path, ["date", "close"], ["code"], mapping)
    table["date"] = parse_days(table["date"], f"{path}: date")
    table["code"] = [index_code(str(text)) for text in table["code"]] if "code" in table else benchmark_code
    known = sorted(set(table["code"]))
    if benchmark_code not in known:
        raise DataError(f"{path}: no levels of benchmark {benchmark_code}; it has {', '.join(known[:8])}")
    return table[["date", "code", "close"]]


def _read_members(path: Path, mapping: Mapping[str, str], benchmark_code: str) -> pd.DataFrame:
    """Intervals of membership, from intervals or from dated lists."""
    table = read_table(path, ["code"], ["in_date", "out_date", "date", "index_code"], mapping)
    if "index_code" in table:
        table = table[[index_code(str(text)) == benchmark_code for text in table["index_code"]]]
    if table.empty:
        raise DataError(f"{path}: no members of {benchmark_code}")
    table["code"] = normalise_codes(table["code"])
    if "in_date" in table:
        first = parse_days(table["in_date"], f"{path}: in_date")
        last = parse_days(table["out_date"], f"{path}: out_date") if "out_date" in table else pd.Series(pd.NaT, index=table.index)
        return pd.DataFrame({"code": table["code"], "first": first, "last": last.fillna(_OPEN_END)}).reset_index(drop=True)
    if "date" not in table:
        raise DataError(f"{path}: no column in_date (intervals) nor date (dated lists); map one")
    return _intervals(table["code"], parse_days(table["date"], f"{path}: date"))


def _intervals(codes: pd.Series, dates: pd.Series) -> pd.DataFrame:
    """Intervals from dated lists: each list holds from its day to the day before the next one, the last one without end."""
    starts = np.sort(dates.unique())
    ends = np.append(starts[1:] - np.timedelta64(1, "D"), _OPEN_END).astype("datetime64[ns]")
    place = np.searchsorted(starts, dates.to_numpy())
    table = pd.DataFrame({"code": codes.to_numpy(), "place": place}).drop_duplicates().sort_values(["code", "place"])
    run = (table["code"] != table["code"].shift()) | (table["place"] != table["place"].shift() + 1)
    runs = table.groupby(run.cumsum()).agg(code=("code", "first"), first=("place", "first"), last=("place", "last"))
    return pd.DataFrame({"code": runs["code"].to_numpy(), "first": starts[runs["first"]], "last": ends[runs["last"]]})


def read_industry(path: str | None, mapping: Mapping[str, str]) -> pd.DataFrame:
    """Names and industries: code, name, industry, one row a code; none without a file."""
    if path is None or not path:
        return pd.DataFrame(columns=["code", "name", "industry"])
    table = read_table(Path(path), ["code"], ["name", "industry"], mapping)
    for column in ("name", "industry"):
        table[column] = table[column].fillna("") if column in table else ""
    table["code"] = normalise_codes(table["code"])
    return table.drop_duplicates("code").reset_index(drop=True)


def read_names(path: str | None, mapping: Mapping[str, str]) -> pd.DataFrame:
    """Dated names: code, first, last, name, code_then, one row a spell; none without a file."""
    if path is None or not path:
        return pd.DataFrame(columns=["code", "first", "last", "name", "code_then"])
    table = read_table(Path(path), ["code", "name", "in_date"], ["out_date", "code_then"], mapping)
    last = parse_days(table["out_date"], f"{path}: out_date") if "out_date" in table else pd.Series(pd.NaT, index=table.index)
    then = table["code_then"] if "code_then" in table else table["code"]
    names = pd.DataFrame(
        {
            "code": normalise_codes(table["code"]),
            "first": parse_days(table["in_date"], f"{path}: in_date").fillna(_OPEN_START),
            "last": last.fillna(_OPEN_END),
            "name": table["name"].fillna(""),
            "code_then": normalise_codes(then.fillna(table["code"])),
        }
    )
    return names.drop_duplicates().reset_index(drop=True)


def renumbered(table: pd.DataFrame, names: pd.DataFrame) -> pd.DataFrame:
    """Return the table with codes that an asset had before it was renumbered replaced by its own."""
    former = dict(zip(names["code_then"], names["code"], strict=True))
    own = set(names["code"])
    table["code"] = table["code"].replace({then: code for then, code in former.items() if then not in own})
    return table


# ---- files and columns


def _table_files(path: Path) -> list[Path]:
    """Return the files of a table: the file itself, or all tables in a folder, sorted by name; at least one."""
    if path.is_dir():
        files = sorted(child for child in path.iterdir() if child.name.endswith(_SUFFIXES))
        if not files:
            raise DataError(f"{path}: the folder holds no {', '.join(_SUFFIXES)} file")
        return files
    if not path.name.endswith(_SUFFIXES):
        raise DataError(f"{path}: unknown kind of file; expected one of {', '.join(_SUFFIXES)}, or a folder of them")
    if not path.exists():
        raise DataError(f"{path}: no such file")
    return [path]


def _stem(path: Path) -> str:
    """File name without its table suffix."""
    return path.name.removesuffix(next(filter(path.name.endswith, _SUFFIXES), ""))


def read_table(path: Path, fields: Sequence[str], optional: Sequence[str], mapping: Mapping[str, str]) -> pd.DataFrame:
    """Read the columns of a file, or of a folder of files, under the names of their fields.

    A missing `code` is taken from the file names of a folder. `mapping`: field -> column of the source, before the usual aliases.
    Dates, codes and other texts are text, numbers float64. Raises DataError: a file is unreadable, or one of `fields` has no
    column; UsageError: the mapping names another field.
    """
    frames = []
    for file in _table_files(path):
        header = _header(file)
        columns = _resolve(header, [*fields, *optional], mapping, file)
        absent = [field for field in fields if field not in columns]
        if absent and not (absent == ["code"] and path.is_dir()):
            wanted = (absent[0], *ALIASES.get(absent[0], ()))
            raise DataError(f"{file}: no column for {absent[0]!r} (tried {', '.join(wanted)}); map one of {', '.join(header)}")
        frame = _read_columns(file, columns)
        if absent:
            frame["code"] = _stem(file)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]


def _resolve(header: Sequence[str], fields: Sequence[str], mapping: Mapping[str, str], file: Path) -> dict[str, str]:
    """Field -> column, for the fields that have one."""
    for field, column in mapping.items():
        if field not in fields:
            hint = near_matches(field, fields) or "; fields: " + ", ".join(fields)
            raise UsageError(f"map: {field!r} is no field of {file.name}{hint}")
        if column not in header:
            raise DataError(f"{file}: no column {column!r}{near_matches(column, header) or '; columns: ' + ', '.join(header)}")
    lower = {name.lower(): name for name in reversed(header)}
    found = {field: next((lower[name] for name in (field, *ALIASES.get(field, ())) if name in lower), None) for field in fields}
    return {field: column for field, column in {**found, **mapping}.items() if column is not None}


def _header(file: Path) -> list[str]:
    try:
        return list(pq.read_schema(file).names if file.suffix == ".parquet" else _read_csv(file, nrows=0).columns)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(f"{file}: can't read: {' '.join(str(error).split())}") from error


def _read_csv(file: Path, **options: Any) -> pd.DataFrame:
    for encoding in _ENCODINGS:
        try:
            frame: pd.DataFrame = pd.read_csv(file, encoding=encoding, **options)
            return frame
        except UnicodeDecodeError:
            continue
    raise ValueError(f"not text in any of {', '.join(_ENCODINGS)}")


def _read_columns(file: Path, columns: Mapping[str, str]) -> pd.DataFrame:
    text = [field for field in columns if field in _TEXT_FIELDS]
    wanted = list(dict.fromkeys(columns.values()))
    try:
        if file.suffix == ".parquet":
            frame = pd.read_parquet(file, columns=wanted)
        else:
            dtypes = {columns[field]: str for field in text}
            frame = _read_csv(file, usecols=wanted, dtype=dtypes, thousands=",", low_memory=False)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(f"{file}: can't read: {' '.join(str(error).split())}") from error
    named = {field: frame[column] for field, column in columns.items()}
    return pd.DataFrame({field: series if field in text else _numbers(series, file) for field, series in named.items()})


def _numbers(series: pd.Series, file: Path) -> pd.Series:
    if pd.api.types.is_numeric_dtype(series):
        return pd.Series(series.to_numpy(dtype=np.float64, na_value=np.nan), index=series.index)
    texts = series.astype(str)
    numbers = pd.to_numeric(texts.str.replace(",", "").replace({"None": "nan", "": "nan", "<NA>": "nan"}), errors="coerce")
    bad = numbers.isna() & series.notna() & ~texts.str.lower().isin(["nan", "none", ""])
    if bad.any():
        raise DataError(f"{file}: column {series.name!r} holds {series[bad].iloc[0]!r}, expected numbers")
    return numbers.astype(np.float64)


# ---- cells


def parse_days(series: pd.Series, where: str) -> pd.Series:
    """Days as datetime64, from dates, `2024-01-02`, `2024/1/2` or `20240102`; empty cells become NaT.

    Raises DataError: a cell is no day, or has a time of day (bars are daily).
    """
    if pd.api.types.is_datetime64_any_dtype(series):
        days = series.dt.tz_localize(None) if getattr(series.dtype, "tz", None) is not None else series
        if (days.dropna() != days.dropna().dt.normalize()).any():
            raise DataError(f"{where}: dates have times of day; bars must be daily")
        return days
    places, texts = pd.factorize(series)
    cleaned = pd.Series(texts).astype(str).str.strip().str.removesuffix(" 00:00:00").str.replace("/", "-")
    compact = cleaned.str.fullmatch(r"\d{8}(\.0)?")
    parsed = pd.to_datetime(cleaned.where(~compact), format="%Y-%m-%d", errors="coerce")
    parsed = parsed.where(~compact, pd.to_datetime(cleaned.where(compact).str[:8], format="%Y%m%d", errors="coerce"))
    if parsed.isna().any():
        bad = texts[int(np.flatnonzero(parsed.isna())[0])]
        raise DataError(f"{where}: {bad!r} is no day (expected 2024-01-02 or 20240102); bars must be daily")
    values = np.append(parsed.to_numpy(dtype="datetime64[ns]"), np.datetime64("NaT"))
    return pd.Series(values[places], index=series.index)


def normalise_codes(series: pd.Series) -> pd.Series:
    """Codes as `600519.SH`; what is no code stays as it is, for the check to name."""
    places, texts = pd.factorize(series.astype(str))
    normalised = np.array([parse_code(text) or text for text in texts], dtype=object)
    return pd.Series(normalised[places], index=series.index)


def index_code(text: str) -> str:
    """Return the normalised code of an index: bare digits are Shanghai's, those from 399 on Shenzhen's."""
    text = text.strip()
    if text.isdigit() and len(text) == 6:
        return f"{text}.{'SZ' if text.startswith('399') else 'SH'}"
    return parse_code(text) or text


def _parse_flags(series: pd.Series, where: str) -> pd.Series:
    """True and False, from booleans, 0/1 or their texts."""
    if pd.api.types.is_bool_dtype(series):
        return series.astype(bool)
    flags = series.astype(str).str.lower().map({"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False})
    if flags.isna().any():
        raise DataError(f"{where}: {series[flags.isna()].iloc[0]!r} is neither true nor false")
    return flags.astype(bool)
