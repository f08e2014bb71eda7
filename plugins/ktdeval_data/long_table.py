"""Market data in long form: tables of any vendor, whose files, columns, dates, codes and units are brought to one form.

One row for each day and code, with membership, index levels and industries in files beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval.fields import near_matches
from ktdeval.market import (
    NO_DOCUMENTS,
    NO_INDEX,
    NO_MINUTES,
    UNTIL_SILENT,
    Close,
    Documents,
    Instrument,
    MinuteBars,
    RawMarket,
    members_by_bars,
    read_documents,
    stored_volume,
)
from ktdeval_data.columns import index_code, normalise_codes, parse_days, parse_flags, read_table, stem, with_texts
from ktdeval_data.exchange_rates import convert
from ktdeval_data.instruments import Listing, apply_splits, read_listing
from ktdeval_data.params import DocumentParams, LongParams, QlibParams

_AMOUNT_UNITS = {"CNY": 1.0, "thousand_CNY": 1e3, "ten_thousand_CNY": 1e4}
_VOLUME_UNITS = {"share": 1.0, "lot": 100.0}
_REQUIRED = ("date", "code", "open", "close", "volume")
_REQUIRED_OF_CLOSES = ("date", "code", "close")  # at venues without A-share codes
_OPTIONAL = ("high", "low", "amount", "factor", "traded")
_FILES = ("bars", "benchmark", "members", "industry", "names", "splits", "minutes", "fx")
_TIME = r"^((?:19|20)\d\d-\d\d-\d\d[T ]\d\d:\d\d(?::00(?:\.0+)?)?)(Z|[+-]\d\d:?\d\d)?$"
_FIX = "write 2024-01-02T10:31:00-05:00, or name the zone of times without one (--minutes-zone)"
_OPEN_START, OPEN_END = np.datetime64("1900-01-01"), np.datetime64("2200-01-01")


def read_long(params: LongParams) -> RawMarket:
    """Read the tables that `params` names; nothing is checked or repaired.

    Codes are normalised, prices unadjusted where there is a factor, volume in shares or coins and amount in units of currency.
    Raises DataError: a file is missing or unreadable, lacks a column, or holds cells that are not numbers or days; UsageError: the
    column mapping names an unknown field, or an option an unknown venue.
    """
    mappings = _split_mapping(params)
    if params.minutes is None and (params.minutes_zone is not None or params.minutes_length):
        raise UsageError("--minutes-zone and --minutes-length are of bars within days; give --minutes too, or leave them out")
    if not params.benchmark and params.benchmark_code != LongParams.benchmark_code:
        raise UsageError("--benchmark-code is of a file of levels; give --benchmark too, or leave it out")
    benchmark_code = index_code(params.benchmark_code) if params.benchmark else ""
    listing = read_listing(params.industry, mappings["industry"], params.venue, params.kind)
    names = read_names(params.names, mappings["names"], listing.codes)
    bars = _read_bars(params, mappings["bars"], listing)
    late, bars = _given_up(bars, names), renumbered(bars, names)

    def present(codes: pd.Series) -> pd.Series:
        return renumbered(pd.DataFrame({"code": listing.codes(codes)}), names)["code"]

    split = (apply_splits(bars, params.splits, mappings["splits"], present),) if params.splits else ()
    boards = {code: listing.venues[listing.of(code).venue].has_boards for code in bars["code"].unique()}
    has_factor, notes = to_our_units(bars, params, bars["code"].map(boards).to_numpy(dtype=np.bool_))
    index_bars = bars[bars["code"] == present(pd.Series([params.benchmark_code]))[0]] if params.index_is_asset else bars
    indices = _read_indices(params, mappings["benchmark"], benchmark_code, index_bars)
    if params.members is None:
        members = members_by_bars(bars)
    else:
        members = renumbered(read_members(Path(params.members), mappings["members"], benchmark_code, listing), names)
    if params.assets == "members" and params.members is not None:
        bars = bars[bars["code"].isin(set(members["code"]))].reset_index(drop=True)
        if bars.empty:
            raise DataError(f"{params.bars}: no bars of any member of {params.members}; check both code columns")
    files = dict.fromkeys(Path(path).name for file in _FILES if (path := getattr(params, file)))
    bars = _clip(bars, params)
    universe = () if params.members else (UNTIL_SILENT,)
    instruments = {code: listing.of(code) for code in {*bars["code"].unique(), *members["code"]}}
    minutes, left_out = _minutes(params, mappings["minutes"], listing, names, bars)
    raw = RawMarket(
        name=params.name or stem(Path(params.bars)),
        source=params.source or "; ".join((f"long tables {', '.join(files)}", *universe)),
        benchmark=benchmark_code,
        bars=bars,
        indices=indices,
        members=members,
        assets=listing.assets,
        has_factor=has_factor,
        notes=(*universe, *notes, *split, *late, *left_out, *(() if benchmark_code else (NO_INDEX,))),
        names=names,
        instruments=instruments if set(instruments.values()) != {Instrument()} else {},
        rules=listing.rules,
        documents=documents_of(params),
        minutes=minutes,
    )
    return raw if params.fx is None and params.currency is None else convert(raw, params, mappings["fx"])


def _split_mapping(params: LongParams) -> dict[str, dict[str, str]]:
    """Return the column mapping of each file; a field without a prefix is one of the bars."""
    split: dict[str, dict[str, str]] = {file: {} for file in _FILES}
    for key, column in params.map.items():
        file, dot, field = key.rpartition(".")
        if dot and file not in split:
            raise UsageError(f"map: {key!r} names no file{near_matches(file, _FILES) or '; files: ' + ', '.join(_FILES)}")
        if dot and not getattr(params, file):
            raise UsageError(f"--map {key} is of a file that is not given; give --{file} too, or leave it out")
        split[file or "bars"][field] = column
    return split


def _clip(bars: pd.DataFrame, params: LongParams) -> pd.DataFrame:
    first, last = parse_days(pd.Series([params.first, params.last], dtype=object), "first or last")
    keep = ~((bars["date"] < first) | (bars["date"] > last))
    if not keep.any():
        raise DataError(f"{params.bars}: no bars from {params.first or 'the start'} to {params.last or 'the end'}")
    return bars if keep.all() else bars[keep].reset_index(drop=True)


def _minutes(
    params: LongParams, mapping: dict[str, str], listing: Listing, names: pd.DataFrame, bars: pd.DataFrame
) -> tuple[MinuteBars, tuple[str, ...]]:
    """Bars within days of the codes of `bars`, from their first day to their last, and a note on what else the file has."""
    if params.minutes is None:
        return NO_MINUTES, ()
    table = _read_minutes(Path(params.minutes), mapping, params.minutes_zone)
    table["code"], table["volume"] = listing.codes(table["code"]), table["volume"] * _VOLUME_UNITS[params.volume_unit]
    table["ends_at"] += np.timedelta64(params.minutes_length, "m")
    table = renumbered(table, names).sort_values(["code", "ends_at"], kind="stable")
    days = MinuteBars.of(table).days(lambda code: listing.venues[listing.of(code).venue].zone).astype("M8[s]")
    keep = table["code"].isin(bars["code"].unique()) & (days >= bars["date"].min()) & (days <= bars["date"].max())
    if not keep.any():
        raise DataError(f"{params.minutes}: no row is of a code and day of {params.bars}; check its codes and times")
    left_out = (f"{int((~keep).sum())} of {len(keep)} bars within days are of other codes or days, and left out",)
    return MinuteBars.of(table[keep]), () if keep.all() else left_out


def _read_minutes(path: Path, mapping: Mapping[str, str], zone: str | None) -> pd.DataFrame:
    """Read time, code, open, high, low, close, volume, and ends_at, the time in UTC. `zone`: of times without one. Raises
    DataError: an unreadable file, an absent column, an unknown zone, a time that is invalid, ambiguous in the zone, or has none.
    """
    table = read_table(path, ["time", "code", "open", "high", "low", "close", "volume"], [], mapping)
    time_codes, texts = pd.factorize(table["time"].astype(str).where(table["time"].notna(), "").str.strip())
    matches = pd.Series(texts, dtype=str).str.extract(_TIME)
    naive, stamps = matches[1].isna(), matches[0] + matches[1].fillna("Z")
    moments = pd.to_datetime(stamps, format="ISO8601", errors="coerce", utc=True).dt.tz_localize(None)
    faults = {"is no time of a whole minute": moments.isna(), "has no time zone": naive}
    if zone is not None:
        try:
            Close.parse(f"00:00 {zone}")
        except DataError as error:
            raise DataError(f"--minutes-zone {zone!r} is no time zone; write one such as America/New_York") from error
        local = moments.dt.tz_localize(zone, ambiguous="NaT", nonexistent="NaT").dt.tz_convert(None)
        moments = moments.where(~naive, local)
        faults |= {"has no time zone": naive & False, f"is twice or never in {zone} as clocks change": moments.isna()}
    for why, bad in faults.items():
        if bad.any():
            raise DataError(f"{path}: time {texts[bad.to_numpy()][0][:40]!r} {why}; {_FIX}")
    return table.assign(ends_at=moments.to_numpy()[time_codes])


def _read_bars(params: LongParams, mapping: Mapping[str, str], listing: Listing) -> pd.DataFrame:
    where = params.bars
    required = _REQUIRED if listing.venues[params.venue].has_boards else _REQUIRED_OF_CLOSES
    optional = (*(name for name in _REQUIRED if name not in required), *_OPTIONAL)
    bars = read_table(Path(where), required, optional, mapping, ("date", "code"))
    if bars.empty:
        raise DataError(f"{where}: there are no bars, only a header; check the file")
    bars["date"] = _known_days(bars, "date", where)
    bars["code"] = listing.codes(bars["code"])
    if "traded" in bars:
        bars["traded"] = parse_flags(bars["traded"], f"{where}: traded")
    for name in ("open", "high", "low", "volume", "amount", "factor"):
        if name not in bars:
            bars[name] = np.nan
    return bars


def _known_days(table: pd.DataFrame, column: str, where: Path | str) -> pd.Series:
    """Days of a column. Raises DataError: a cell is empty, or not a day."""
    days = parse_days(table[column], f"{where}: {column}")
    if missing := int(days.isna().sum()):
        raise DataError(f"{where}: {missing} rows have no {column}; fill it in, or leave the rows out")
    return days


def to_our_units(
    bars: pd.DataFrame, params: LongParams | QlibParams, in_fen: npt.NDArray[np.bool_] | bool = True
) -> tuple[bool, tuple[str, ...]]:
    """Convert bars in place to shares, units of currency and unadjusted prices (A-shares, `in_fen`, to whole shares and fen);
    return whether they have a factor, and notes on how they were read. Prices without a factor become missing where others have
    one. Raises DataError: volumes don't show how they are stored.
    """
    bars["volume"] *= _VOLUME_UNITS[params.volume_unit]
    bars["amount"] *= _AMOUNT_UNITS[params.amount_unit]
    if not bars["factor"].notna().any():
        return False, ()
    factor = bars["factor"].where(bars["factor"] > 0)
    notes = _undo_volume(bars, factor, params, in_fen)
    if params.prices == "adjusted":
        for name in ("open", "high", "low", "close"):
            prices = bars[name] / factor
            bars[name] = np.where(in_fen, prices.round(2), prices)
    return True, notes


def _undo_volume(
    bars: pd.DataFrame, factor: pd.Series, params: LongParams | QlibParams, in_fen: npt.NDArray[np.bool_] | bool
) -> tuple[str, ...]:
    """Multiply volumes by the factor where they were divided by it."""
    kind = params.volume
    if kind == "auto":
        detected = stored_volume(bars["volume"].to_numpy(dtype=np.float64), factor.to_numpy(dtype=np.float64))
        if detected is None and params.prices == "adjusted":
            raise DataError(
                "volume: whole shares don't show whether volumes are as traded or divided by the factor;"
                " say --volume raw or --volume divided (shares or lots: --volume-unit)"
            )
        kind = detected or "raw"
    if kind == "divided":
        volume = bars["volume"] * factor
        bars["volume"] = np.where(in_fen, volume.round(), volume)
    how = "told by whole shares" if params.volume == "auto" else "as asked for"
    what = {"raw": "as traded, taken as they are", "divided": "divided by the factor, multiplied by it"}[kind]
    return (f"volumes were stored {what} ({how})",) if (params.volume, kind) != ("raw", "raw") else ()


def _read_indices(params: LongParams, mapping: Mapping[str, str], benchmark_code: str, bars: pd.DataFrame) -> pd.DataFrame:
    """Levels of the indices. `bars`: those of an index that is an asset; its splits and dividends are no moves of the index, unless
    a column of levels is named.
    """
    if not params.benchmark:
        return pd.DataFrame({"date": pd.to_datetime([]), "code": [], "close": np.empty(0)})
    path = Path(params.benchmark)
    table = read_table(path, ["date", "close"], ["code"], mapping)
    table["date"] = _known_days(table, "date", path)
    table["code"] = [index_code(str(text)) for text in table["code"]] if "code" in table else benchmark_code
    codes = sorted(set(table["code"]))
    if benchmark_code not in codes:
        raise DataError(f"{path}: no levels of benchmark {benchmark_code}; it has {', '.join(codes[:8])}")
    if params.index_is_asset and not mapping:
        own = bars.sort_values("date", ignore_index=True)
        factor = own["factor"].ffill()  # from 1 on: what a vendor scales to its last day tells of later dividends
        table = own.assign(code=benchmark_code, close=own["close"] * (factor / factor.dropna().head(1).sum()).fillna(1.0))
    elif params.index_is_asset:  # the other codes are assets, not indices
        table = table[table["code"] == benchmark_code].reset_index(drop=True)
    return table[["date", "code", "close"]]


def read_members(path: Path, mapping: Mapping[str, str], benchmark_code: str, listing: Listing) -> pd.DataFrame:
    """Intervals of membership, from intervals or from dated lists."""
    table = read_table(path, ["code"], ["in_date", "out_date", "date", "index_code"], mapping)
    if "index_code" in table:
        table = table[[index_code(str(text)) == benchmark_code for text in table["index_code"]]]
    if table.empty:
        raise DataError(f"{path}: no members of {benchmark_code}")
    table["code"] = listing.codes(table["code"])
    if "in_date" in table:
        first = _known_days(table, "in_date", path)
        last = parse_days(table["out_date"], f"{path}: out_date") if "out_date" in table else pd.Series(pd.NaT, index=table.index)
        return pd.DataFrame({"code": table["code"], "first": first, "last": last.fillna(OPEN_END)}).reset_index(drop=True)
    if "date" not in table:
        raise DataError(f"{path}: no column in_date (intervals) nor date (dated lists); map one")
    return intervals(table["code"], _known_days(table, "date", path))


def intervals(codes: pd.Series, dates: pd.Series) -> pd.DataFrame:
    """Intervals from dated lists: each list holds from its day to the day before the next one, the last one without end."""
    starts = np.sort(dates.unique())
    ends = np.append(starts[1:] - np.timedelta64(1, "D"), OPEN_END).astype("datetime64[ns]")
    list_index = np.searchsorted(starts, dates.to_numpy())
    table = pd.DataFrame({"code": codes.to_numpy(), "list": list_index}).drop_duplicates().sort_values(["code", "list"])
    run = (table["code"] != table["code"].shift()) | (table["list"] != table["list"].shift() + 1)
    runs = table.groupby(run.cumsum()).agg(code=("code", "first"), first=("list", "first"), last=("list", "last"))
    return pd.DataFrame({"code": runs["code"].to_numpy(), "first": starts[runs["first"]], "last": ends[runs["last"]]})


def read_names(
    path: str | None, mapping: Mapping[str, str], codes: Callable[[pd.Series], pd.Series] = normalise_codes
) -> pd.DataFrame:
    """Dated names: code, first, last, name, code_then, one row a spell; none without a file."""
    if path is None or not path:
        return pd.DataFrame(columns=["code", "first", "last", "name", "code_then"])
    table = read_table(Path(path), ["code", "name", "in_date"], ["out_date", "code_then"], mapping)
    last = parse_days(table["out_date"], f"{path}: out_date") if "out_date" in table else pd.Series(pd.NaT, index=table.index)
    then = table["code_then"] if "code_then" in table else table["code"]
    names = pd.DataFrame(
        {
            "code": codes(table["code"]),
            "first": parse_days(table["in_date"], f"{path}: in_date").fillna(_OPEN_START),
            "last": last.fillna(OPEN_END),
            "name": table["name"].fillna(""),
            "code_then": codes(then.fillna(table["code"])),
        }
    )
    return names.drop_duplicates().reset_index(drop=True)


def renumbered(table: pd.DataFrame, names: pd.DataFrame) -> pd.DataFrame:
    """Return the table with former codes of renumbered assets replaced by the present ones."""
    if renewed := {then: code for then, code in zip(names["code_then"], names["code"], strict=True) if then != code}:
        table["code"] = with_texts(table["code"], lambda text: renewed.get(text, text))
    return table


def _given_up(bars: pd.DataFrame, names: pd.DataFrame) -> tuple[str, ...]:
    """Note on former codes with bars of days after they were given up, when another asset may have had them."""
    ends = names[names["code_then"] != names["code"]].groupby("code_then")["last"].max().to_dict()
    latest = bars[bars["code"].isin(ends)].groupby("code", observed=True)["date"].max()
    late = [str(code) for code, last in latest.items() if last > ends[str(code)]]
    return (f"former codes with bars after their last day, perhaps of another asset: {', '.join(late[:8])}",) if late else ()


def documents_of(params: DocumentParams) -> Documents:
    """Read the documents that `params` names; none without a file. Raises DataError as of `read_documents`, UsageError: entities
    or a close without documents.
    """
    if params.documents is None:
        if params.entities is not None or params.documents_close != DocumentParams.documents_close:
            raise UsageError("--entities and --documents-close are of documents; give --documents too, or leave them out")
        return NO_DOCUMENTS
    entities = None if params.entities is None else Path(params.entities)
    return read_documents(Path(params.documents), Close.parse(params.documents_close), entities)
