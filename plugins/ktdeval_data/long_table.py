"""Market data in long form: one row for each day and code, with membership, index levels and industries in files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval.fields import near_matches
from ktdeval.market import RawMarket
from ktdeval_data.params import LongParams
from ktdeval_data.tables import (
    AMOUNT_UNITS,
    VOLUME_UNITS,
    index_code,
    normalise_codes,
    parse_days,
    parse_flags,
    read_industry,
    read_table,
    stem,
    unadjust,
)

_REQUIRED = ("date", "code", "open", "close", "volume")
_OPTIONAL = ("high", "low", "amount", "factor", "traded")
_FILES = ("bars", "benchmark", "members", "industry")
_OPEN_END = np.datetime64("2200-01-01")


def read_long(params: LongParams) -> RawMarket:
    """Read the tables that `params` names. Returns the market, with codes normalised, prices in CNY unadjusted where there is a
    factor, volume in shares and amount in CNY; nothing is judged or repaired. Raises DataError: a file is missing or unreadable,
    lacks a column, or holds cells that are no numbers or days. Raises UsageError: the column mapping names a field that there is
    not.
    """
    mappings = _split_mapping(params.map)
    benchmark_code = index_code(params.benchmark_code)
    bars, has_factor = _read_bars(params, mappings["bars"])
    if params.members is None:
        members = _members_from_bars(bars)
    else:
        members = _read_members(Path(params.members), mappings["members"], benchmark_code)
    if params.assets == "members":
        bars = bars[bars["code"].isin(set(members["code"]))].reset_index(drop=True)
        if bars.empty:
            raise DataError(f"{params.bars}: no bars of any member of {params.members}; check both code columns")
    bars = _clip(bars, params)
    return RawMarket(
        name=params.name or stem(Path(params.bars)),
        source=params.source or _source(params),
        benchmark=benchmark_code,
        bars=bars,
        indices=_read_indices(Path(params.benchmark), mappings["benchmark"], benchmark_code),
        members=members,
        assets=read_industry(Path(params.industry), mappings["industry"])
        if params.industry
        else pd.DataFrame(columns=["code", "name", "industry"]),
        has_factor=has_factor,
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


def _source(params: LongParams) -> str:
    files = [Path(path).name for path in (params.bars, params.benchmark, params.members, params.industry) if path]
    note = "" if params.members else "; no membership file: every asset is a member from its first bar to its last"
    return f"long tables {', '.join(files)}{note}"


def _clip(bars: pd.DataFrame, params: LongParams) -> pd.DataFrame:
    keep = np.ones(len(bars), dtype=np.bool_)
    for bound, text in (("first", params.first), ("last", params.last)):
        if text is not None:
            day = parse_days(pd.Series([text]), bound).iloc[0]
            keep &= (bars["date"] >= day).to_numpy() if bound == "first" else (bars["date"] <= day).to_numpy()
    if not keep.any():
        raise DataError(f"{params.bars}: no bars from {params.first or 'the start'} to {params.last or 'the end'}")
    return bars if keep.all() else bars[keep].reset_index(drop=True)


def _read_bars(params: LongParams, mapping: Mapping[str, str]) -> tuple[pd.DataFrame, bool]:
    """Bars in the suite's fields and units, and whether they have a factor."""
    where = params.bars
    bars = read_table(Path(where), _REQUIRED, _OPTIONAL, mapping)
    bars["date"] = parse_days(bars["date"], f"{where}: date")
    if bars["date"].isna().any():
        raise DataError(f"{where}: {int(bars['date'].isna().sum())} rows have no date")
    bars["code"] = normalise_codes(bars["code"])
    if "traded" in bars:
        bars["traded"] = parse_flags(bars["traded"], f"{where}: traded")
    for name in ("high", "low", "amount", "factor"):
        if name not in bars:
            bars[name] = np.nan
    bars["volume"] *= VOLUME_UNITS[params.volume_unit]
    bars["amount"] *= AMOUNT_UNITS[params.amount_unit]
    has_factor = bool(bars["factor"].notna().any())
    if has_factor and params.prices == "adjusted":
        unadjust(bars, bars["factor"])
    return bars, has_factor


def _read_indices(path: Path, mapping: Mapping[str, str], benchmark_code: str) -> pd.DataFrame:
    table = read_table(path, ["date", "close"], ["code"], mapping)
    table["date"] = parse_days(table["date"], f"{path}: date")
    if "code" in table:
        table["code"] = [index_code(str(text)) for text in table["code"]]
    else:
        table["code"] = benchmark_code
    known = sorted(set(table["code"]))
    if benchmark_code not in known:
        raise DataError(f"{path}: no levels of benchmark {benchmark_code}; it has {', '.join(known[:8])}")
    return table[["date", "code", "close"]]


def _members_from_bars(bars: pd.DataFrame) -> pd.DataFrame:
    lives = bars.groupby("code", sort=True)["date"].agg(["min", "max"]).reset_index()
    return lives.set_axis(["code", "first", "last"], axis=1)


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
