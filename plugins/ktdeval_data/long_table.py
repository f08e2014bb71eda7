"""Read market data in long format from any vendor's tables.

A table has one row per day and code. Membership, index levels and industries are in separate files.
Columns, dates, codes and units are normalised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval.market import (
    NO_DOCUMENTS,
    NO_MINUTES,
    QUOTE_COLUMNS,
    BoolArray,
    Close,
    Documents,
    Entity,
    Instrument,
    MinuteBars,
)
from ktdeval.values import near_matches
from ktdeval_data.adjustment_factors import factors_beside, factors_of_file
from ktdeval_data.bar_column_checks import (
    EVENTS,
    apply_named_units,
    forget_empty_volumes,
    leave_out_rates,
    leave_out_unfinished,
    name_unread,
    reading_of,
    refuse_lost_zeros,
    refuse_other_currencies,
    refuse_other_intervals,
    refuse_several_sources,
    refuse_times,
    refuse_unnamed_prices,
    scale_fixed_prices,
)
from ktdeval_data.currency_conversion import convert
from ktdeval_data.delistings import read_delistings
from ktdeval_data.identifying_words import read_entity_table
from ktdeval_data.instruments import Listing, among, read_listing
from ktdeval_data.membership import (
    index_codes,
    known_days,
    read_members,
    read_names,
    renewed_codes,
    replace_former_codes,
)
from ktdeval_data.params import DocumentParams, LongParams
from ktdeval_data.splits import apply_splits
from ktdeval_data.unit_conversion import in_shares, to_our_units
from ktdeval_raw_markets.sources.column_units import VOLUME_UNITS, Unit
from ktdeval_raw_markets.sources.document_files import read_documents
from ktdeval_raw_markets.sources.raw_tables import (
    LIMIT_COLUMNS,
    NO_INDEX,
    UNTIL_SILENT,
    RawMarket,
    members_by_bars,
)
from ktdeval_tables.days import parse_days
from ktdeval_tables.options import ReadingOptions
from ktdeval_tables.vendor_tables import (
    index_code,
    parse_flags,
    read_table,
    stem,
)

_FILES = (
    "bars",
    "benchmark",
    "members",
    "industry",
    "names",
    "splits",
    "factors",
    "minutes",
    "fx",
    "entities",
)
_TIME = r"^((?:19|20)\d\d-\d\d-\d\d[T ]\d\d:\d\d(?::00(?:\.0+)?)?)(Z|[+-]\d\d:?\d\d)?$"
_FIX = "write 2024-01-02T10:31:00-05:00, or name the zone of times without one (--minutes-zone)"
_REQUIRED = ("date", "code", "open", "close", "volume")
_REQUIRED_OF_CLOSES = ("date", "code", "close")  # at venues without A-share codes
_OPTIONAL = ("high", "low", "amount", "factor", "traded", *LIMIT_COLUMNS, *QUOTE_COLUMNS)


def read_long(params: LongParams) -> RawMarket:
    """Read the tables that `params` names. Nothing is checked or repaired.

    Codes are normalised. Prices are unadjusted if there is a factor. Volume is in shares or crypto
    units, and amount is in currency units. Raises DataError if a file is missing or unreadable,
    lacks a column, or has cells that are not numbers or days; UsageError if the column mapping
    names an unknown field, or an option names an unknown venue.
    """
    mappings = _split_mapping(params)
    _check_options(params)
    benchmark_code = index_code(params.benchmark_code) if params.benchmark else ""
    reading = reading_of(params)
    listing = read_listing(
        params.industry, mappings["industry"], params.venue, params.kind, reading
    )
    names = read_names(params.names, mappings["names"], listing.codes, reading)
    bars = _read_bars(params, mappings["bars"], listing, reading)

    if params.factors:
        # The bars are clipped first, so that the factor file need not cover unused bars.
        bars = _clip(bars, params)

    late = _given_up(bars, names)
    bars = replace_former_codes(bars, names)

    known = frozenset(bars["code"].unique())
    listing = listing.among(known)
    names["code"] = among(names["code"], known)

    def present(codes: pd.Series) -> pd.Series:
        own = among(listing.codes(codes), known)
        return replace_former_codes(pd.DataFrame({"code": own}), names)["code"]

    factor_notes = _factors(bars, params, mappings, present, reading)
    conventions, unit_notes = to_our_units(bars, params, _has_boards(bars, listing))
    has_factor = bool(bars["factor"].notna().any())

    index_bars = _bars_of_index(bars, params, present)
    indices = _read_indices(params, mappings["benchmark"], benchmark_code, index_bars, reading)

    if params.members is None:
        members = members_by_bars(bars)
    else:
        members = read_members(
            Path(params.members), mappings["members"], benchmark_code, listing, reading
        )
        members["code"] = among(members["code"], known)
        members = replace_former_codes(members, names)

    if params.assets == "members" and params.members is not None:
        bars = _bars_of_members(bars, members, params)

    bars = _clip(bars, params)
    universe_notes = () if params.members else (UNTIL_SILENT,)

    minutes, minute_notes = _minutes(params, mappings["minutes"], listing, names, bars)
    index_notes = () if benchmark_code else (NO_INDEX,)
    raw = RawMarket(
        name=params.name or stem(Path(params.bars)),
        source=params.source or "; ".join((_files_named(params), *universe_notes)),
        benchmark=benchmark_code,
        bars=bars,
        indices=indices,
        members=members,
        assets=listing.assets,
        has_factor=has_factor,
        notes=(
            *universe_notes,
            *reading.notes,
            *unit_notes,
            *factor_notes,
            *late,
            *minute_notes,
            *index_notes,
        ),
        names=names,
        instruments=_instruments(listing, {*bars["code"].unique(), *members["code"]}),
        rules=listing.rules,
        documents=documents_of(params, mappings["entities"], listing.codes, reading, names),
        minutes=minutes,
        listed=listing.listed,
        conventions=conventions,
        delisting_returns=read_delistings(params.delisting_return, listing.codes, reading),
    )

    if params.fx is None and params.currency is None:
        return raw
    return convert(raw, params, mappings["fx"])


def _check_options(params: LongParams) -> None:
    """Raise UsageError if an option belongs to a file that is not given."""
    if params.minutes is None and (params.minutes_zone is not None or params.minutes_length):
        raise UsageError(
            "--minutes-zone and --minutes-length apply to bars within days; give --minutes too, or"
            " leave them out"
        )
    if not params.benchmark and params.benchmark_code != LongParams.benchmark_code:
        raise UsageError(
            "--benchmark-code applies to a file of levels; give --benchmark too, or leave it out"
        )


def _instruments(listing: Listing, codes: set[str]) -> dict[str, Instrument]:
    """Return the instrument of each code; empty if all are A-shares, which is the default."""
    instruments = {code: listing.of(code) for code in codes}
    if set(instruments.values()) == {Instrument()}:
        return {}
    return instruments


def _has_boards(bars: pd.DataFrame, listing: Listing) -> BoolArray:
    """Return which bars belong to a venue with boards."""
    boards = {}
    for code in bars["code"].unique():
        boards[code] = listing.venues[listing.of(code).venue].has_boards
    return bars["code"].map(boards).to_numpy(dtype=np.bool_)


def _bars_of_members(bars: pd.DataFrame, members: pd.DataFrame, params: LongParams) -> pd.DataFrame:
    # The index is kept, since errors use the row number to find a bar's line in its file.
    own: pd.DataFrame = bars[bars["code"].isin(set(members["code"]))]
    if own.empty:
        raise DataError(
            f"{params.bars}: no bars of any member of {params.members}; check both code columns"
        )
    return own


def _files_named(params: LongParams) -> str:
    """Return the names of the files that the user gives, without duplicates."""
    names: dict[str, None] = {}
    for file in _FILES:
        path = getattr(params, file)
        if path:
            names[Path(path).name] = None
    return f"long tables {', '.join(names)}"


def _factors(
    bars: pd.DataFrame,
    params: LongParams,
    mappings: Mapping[str, Mapping[str, str]],
    codes: Callable[[pd.Series], pd.Series],
    reading: ReadingOptions,
) -> tuple[str, ...]:
    """Fill missing adjustment factors in place, from whichever file or column has them; return
    notes.
    """
    notes: tuple[str, ...] = ()
    if params.factors:
        how = _of_bars(bars, reading, "factors")
        notes += (factors_of_file(bars, params.factors, mappings["factors"], codes, how),)

    if params.splits:
        how = _of_bars(bars, reading, "splits")
        notes += (apply_splits(bars, params.splits, mappings["splits"], codes, how),)

    notes += factors_beside(bars, params, reading)
    for name in EVENTS:
        if name in bars:
            del bars[name]

    return notes


def _of_bars(bars: pd.DataFrame, reading: ReadingOptions, file: str) -> ReadingOptions:
    """Return how a file next to the bars is read. Without a code column, the file belongs to the
    only asset in the bars.
    """
    codes = bars["code"].unique()
    code = str(codes[0]) if len(codes) == 1 else ""
    return replace(reading.beside(file), code=code)


def _split_mapping(params: LongParams) -> dict[str, dict[str, str]]:
    """Return the column mapping of each file. A field without a file's prefix belongs to the bars."""
    split: dict[str, dict[str, str]] = {file: {} for file in _FILES}
    for key, column in params.map.items():
        file, dot, field = key.rpartition(".")
        if dot and file not in split:
            hint = near_matches(file, _FILES) or f"; files: {', '.join(_FILES)}"
            raise UsageError(f"map: {key!r} names no file{hint}")
        if dot and not getattr(params, file):
            raise UsageError(
                f"--map {key} applies to a file that is not given; give --{file} too, or leave it out"
            )

        split[file or "bars"][field] = column

    return split


def _clip(bars: pd.DataFrame, params: LongParams) -> pd.DataFrame:
    first, last = parse_days(pd.Series([params.first, params.last], dtype=object), "first or last")
    keep = ~((bars["date"] < first) | (bars["date"] > last))
    if not keep.any():
        raise DataError(
            f"{params.bars}: no bars from {params.first or 'the start'} to"
            f" {params.last or 'the end'}"
        )
    if keep.all():
        return bars  # without copying a large table

    clipped: pd.DataFrame = bars[keep]
    return clipped


def _minutes(
    params: LongParams,
    mapping: dict[str, str],
    listing: Listing,
    names: pd.DataFrame,
    bars: pd.DataFrame,
) -> tuple[MinuteBars, tuple[str, ...]]:
    """Return intraday bars for the codes and date range of `bars`, and a note on the file's other
    bars.
    """
    if params.minutes is None:
        return NO_MINUTES, ()

    reading = reading_of(params).beside("minutes")
    table = _read_minutes(Path(params.minutes), mapping, params.minutes_zone, reading)
    table["code"] = among(listing.codes(table["code"]), frozenset(bars["code"].unique()))
    table["ends_at"] += np.timedelta64(params.minutes_length, "m")
    table = replace_former_codes(table, names).sort_values(["code", "ends_at"], kind="stable")

    def zone_of(code: str) -> str:
        return listing.venues[listing.of(code).venue].zone

    days = MinuteBars.of(table).days(zone_of).astype("M8[s]")
    unit = Unit.parse(params.volume_unit, VOLUME_UNITS, "--volume-unit")
    table["volume"] = in_shares(table.assign(date=days), unit)
    keep = (
        table["code"].isin(bars["code"].unique())
        & (days >= bars["date"].min())
        & (days <= bars["date"].max())
    )
    if not keep.any():
        raise DataError(
            f"{params.minutes}: no row matches a code and day of {params.bars}; check its codes "
            "and times"
        )

    minutes = MinuteBars.of(table[keep])
    if keep.all():
        return minutes, ()

    note = (
        f"{int((~keep).sum())} of {len(keep)} bars within days have other codes or days and are "
        "left out"
    )
    return minutes, (note,)


def _read_minutes(
    path: Path, mapping: Mapping[str, str], zone: str | None, reading: ReadingOptions
) -> pd.DataFrame:
    """Read time, code, open, high, low, close, volume, and `ends_at`, the time in UTC.

    `zone` applies to times without a zone. Raises DataError if the file is unreadable or lacks a
    column, if the zone is unknown, or if a time is invalid, has no zone or is ambiguous in its
    zone.
    """
    fields = ["time", "code", "open", "high", "low", "close", "volume"]
    table = read_table(path, fields, [], mapping, reading=reading)

    # All codes share the same times, so each distinct string is parsed once.
    cells = table["time"].astype(str).where(table["time"].notna(), "").str.strip()
    time_codes, texts = pd.factorize(cells)
    matches = pd.Series(texts, dtype=str).str.extract(_TIME)
    naive = matches[1].isna()
    stamps = matches[0] + matches[1].fillna("Z")
    in_utc = pd.to_datetime(stamps, format="ISO8601", errors="coerce", utc=True)
    moments = in_utc.dt.tz_localize(None)
    faults = {"is not a time of a whole minute": moments.isna(), "has no time zone": naive}

    if zone is not None:
        try:
            Close.parse(f"00:00 {zone}")
        except DataError as error:
            raise DataError(
                f"--minutes-zone {zone!r} is not a time zone; write one such as America/New_York"
            ) from error

        local = moments.dt.tz_localize(zone, ambiguous="NaT", nonexistent="NaT").dt.tz_convert(None)
        moments = moments.where(~naive, local)
        faults |= {
            "has no time zone": naive & False,
            f"occurs twice or never in {zone}, since clocks change": moments.isna(),
        }

    for why, bad in faults.items():
        if bad.any():
            raise DataError(f"{path}: time {texts[bad.to_numpy()][0][:40]!r} {why}; {_FIX}")

    return table.assign(ends_at=moments.to_numpy()[time_codes])


def _read_bars(
    params: LongParams, mapping: Mapping[str, str], listing: Listing, reading: ReadingOptions
) -> pd.DataFrame:
    where = params.bars
    required = _REQUIRED if listing.venues[params.venue].has_boards else _REQUIRED_OF_CLOSES
    not_required = [name for name in _REQUIRED if name not in required]
    optional = (*not_required, *_OPTIONAL, *EVENTS, "complete", "currency")
    repeated = ("date", "code", "currency")
    bars = read_table(Path(where), required, optional, mapping, repeated, reading)
    if bars.empty:
        raise DataError(f"{where}: has only a header and no bars; check the file")

    refuse_times(reading, where)
    bars["date"] = known_days(bars, "date", where, reading.days)
    if params.code and "code" in reading.columns_of:
        raise UsageError(
            f"--code {params.code}: {where} has a column of codes, {reading.columns_of['code']!r};"
            " leave --code out"
        )

    refuse_several_sources(reading, where)
    scale_fixed_prices(bars, reading)
    refuse_other_intervals(bars, where)
    if listing.venues[params.venue].has_boards and not reading.code_width:
        refuse_lost_zeros(bars["code"], where)

    bars["code"] = listing.codes(bars["code"])
    bars = leave_out_unfinished(bars, where, reading)
    name_unread(reading)
    refuse_unnamed_prices(reading, where)
    for flag in ("traded", "special"):
        if flag in bars:
            bars[flag] = parse_flags(bars[flag], f"{where}: {flag}")

    for name in ("open", "high", "low", "volume", "amount", "factor"):
        if name not in bars:
            bars[name] = np.nan

    refuse_other_currencies(bars, lambda code: listing.of(code).currency, reading, where)
    forget_empty_volumes(bars, reading)
    apply_named_units(bars, params, reading)
    if "amount" not in mapping:
        leave_out_rates(bars, reading)

    return bars


def _bars_of_index(
    bars: pd.DataFrame, params: LongParams, present: Callable[[pd.Series], pd.Series]
) -> pd.DataFrame:
    """Return the bars of the asset that serves as the index, or all bars if the index is not an
    asset.
    """
    if not params.index_is_asset:
        return bars
    index_asset: str = present(pd.Series([params.benchmark_code]))[0]
    return bars[bars["code"] == index_asset]


def _read_indices(
    params: LongParams,
    mapping: Mapping[str, str],
    benchmark_code: str,
    bars: pd.DataFrame,
    reading: ReadingOptions,
) -> pd.DataFrame:
    """Return the index levels: date, code, close.

    If the index is an asset (such as a fund), `bars` has its bars, and the levels are adjusted for
    splits and dividends unless the mapping specifies a level column.
    """
    if not params.benchmark:
        return pd.DataFrame({"date": pd.to_datetime([]), "code": [], "close": np.empty(0)})

    path = Path(params.benchmark)
    table = read_table(
        path, ["date", "close"], ["code"], mapping, reading=reading.beside("benchmark")
    )
    table["date"] = known_days(table, "date", path, reading.days)

    if "code" in table:
        table["code"] = index_codes(table["code"], reading)
    else:
        table["code"] = benchmark_code

    codes = sorted(set(table["code"]))
    if benchmark_code not in codes:
        raise DataError(
            f"{path}: no levels of benchmark {benchmark_code}; it has {', '.join(codes[:8])}"
        )

    if params.index_is_asset and not mapping:
        own = bars.sort_values("date", ignore_index=True)
        # The factor is scaled to 1 on the first day. A factor that a vendor scaled to 1 on the last
        # day would reveal how large later dividends are.
        factor = own["factor"].ffill()
        first_factor = factor.dropna().head(1).sum()
        scaled = (factor / first_factor).fillna(1.0)
        table = own.assign(code=benchmark_code, close=own["close"] * scaled)
    elif params.index_is_asset:  # the other codes are assets, not indices
        table = table[table["code"] == benchmark_code].reset_index(drop=True)

    return table[["date", "code", "close"]]


def _given_up(bars: pd.DataFrame, names: pd.DataFrame) -> tuple[str, ...]:
    """Return a note on former codes that still have bars after their last day, perhaps of another
    asset.
    """
    ends = names[names["code_then"] != names["code"]].groupby("code_then")["last"].max().to_dict()
    latest = bars[bars["code"].isin(ends)].groupby("code", observed=True)["date"].max()
    late = [str(code) for code, last in latest.items() if last > ends[str(code)]]
    if not late:
        return ()

    named = ", ".join(late[:8])
    return (f"former codes with bars after their last day, perhaps of another asset: {named}",)


def documents_of(
    params: DocumentParams,
    mapping: Mapping[str, str],
    form: Callable[[pd.Series], pd.Series],
    reading: ReadingOptions,
    names: pd.DataFrame,
) -> Documents:
    """Return the documents that `params` specifies and the entities in them; empty without a file.
    Items under a former code in `names` are those of its asset. The other arguments are as in
    `read_entity_table`.

    Raises DataError as `read_documents`; UsageError if entities or a close are given without
    documents.
    """
    if params.documents is None:
        if params.entities is not None or params.documents_close != DocumentParams.documents_close:
            raise UsageError(
                "--entities and --documents-close apply to documents; give --documents too, or leave"
                " them out"
            )

        return NO_DOCUMENTS

    entities: list[Entity] = []
    if params.entities is not None:
        entities = read_entity_table(Path(params.entities), mapping, form, reading)

    close = Close.parse(params.documents_close)
    return read_documents(Path(params.documents), close, entities, renewed_codes(names))
