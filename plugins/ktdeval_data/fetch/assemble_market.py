"""Build markets from a vendor's responses: first the codes, then each table, in the same form as an
import.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

from ktdeval.cards import count
from ktdeval.errors import DataError, TooEarlyError, UsageError
from ktdeval.market import DayArray, Instrument, find_venue, parse_day, parse_symbol
from ktdeval_data.currency_conversion import convert
from ktdeval_data.fetch import coverage
from ktdeval_data.fetch.bar_timestamps import one_beginning
from ktdeval_data.fetch.http_vendors import Alpaca, Binance, Tushare
from ktdeval_data.fetch.libraries import Akshare, Baostock, Ccxt, Yfinance
from ktdeval_data.fetch.quote_currencies import check_currencies, in_whole_units, quoted_in
from ktdeval_data.fetch.vendor_requests import AnswerFolder, Vendor, VendorTransport, vendors
from ktdeval_data.fetch.vendor_tables import VendorTables
from ktdeval_data.instruments import read_listing
from ktdeval_data.membership import OPEN_END, intervals, read_members
from ktdeval_data.params import FetchParams, LongParams
from ktdeval_raw_markets.assembly import listed_codes
from ktdeval_raw_markets.sources.raw_tables import (
    NO_INDEX,
    UNTIL_SILENT,
    RawMarket,
    members_by_bars,
)

_FIRST_LEVEL = 2  # digits of a first-level SWS code


@dataclass(frozen=True)
class _FetchedMarket:
    """Market to fetch: the members of an index, or assets specified by the user."""

    hours: int  #: UTC offset of the market's clock, in hours
    index: str  #: code of the index; empty without an index
    instrument: Instrument


_MARKETS = {
    "csi300": _FetchedMarket(8, "000300.SH", Instrument()),
    "us": _FetchedMarket(-8, "", Instrument("stock", "USD", "us_equity")),
    "crypto": _FetchedMarket(0, "", Instrument("crypto", "USD", "crypto_spot")),
}


def read_fetched(market: str, params: FetchParams) -> RawMarket:
    """Request a market from a vendor and turn the responses into tables. Nothing is checked or
    repaired.

    Raises UsageError if a parameter is missing or wrong, or if a library or key is missing;
    DataError if the vendor refuses or does not respond, or if a response lacks a column; StoreError
    if responses can't be kept.
    """
    vendor = vendors()[params.vendor]
    kind = _MARKETS[market]
    first, last = _range(params, kind.hours)
    if params.answers is None:
        raise UsageError(
            f"{market}: no folder for the vendor's answers; give --answers DIR, or store the "
            f"market with `ktdeval data make {market} … --out DIR`"
        )

    exchange = getattr(params, "exchange", "")
    if exchange not in ("", "binance") and params.vendor != "ccxt":
        raise UsageError(f"exchange: {params.vendor} has no choice of exchanges; use --from ccxt")

    answers = AnswerFolder(
        params.vendor,
        Path(params.answers),
        _connect(params, vendor),
        params.per_minute or vendor.per_minute,
        lambda text: click.echo(text, err=True),
    )
    calendar = find_venue(kind.instrument.venue).calendar
    tables = VendorTables(vendor, params, answers, (first, last), calendar)
    parts = (
        _index_market(tables, kind.index) if kind.index else _symbol_market(tables, kind.instrument)
    )
    source = f"{vendor.words.format(exchange=exchange)}, {market} from {first} to {last}"
    raw = RawMarket(name=params.name or market, source=source, **parts)
    fx = getattr(params, "fx", None)
    currency = getattr(params, "currency", None)

    if fx is not None or currency is not None:
        raw = convert(raw, LongParams(bars="", fx=fx, currency=currency), {})

    click.echo(
        f"{params.vendor}: {count(answers.asked, 'request')} sent, {answers.kept:,} answered earlier",
        err=True,
    )
    return raw


def _index_market(tables: VendorTables, index: str) -> dict[str, Any]:
    """Return the raw market's fields for the members of an index."""
    members, (first, last) = _index_members(tables, index), tables.days
    overlap = (members["first"] <= np.datetime64(last)) & (members["last"] >= np.datetime64(first))
    codes = sorted(set(members.loc[overlap, "code"]))
    if not codes:
        raise DataError(
            f"{tables.name}: no members of {index} from {first} to {last}; choose another range of"
            " days"
        )

    bars = tables.read("bars", codes)
    gaps = _index_gaps(tables, bars, members)
    factors = tables.read("factors", codes)

    return {
        "benchmark": index,
        "bars": _with_factor(bars, factors, tables.vendor.tables["factors"].sparse),
        "indices": tables.read("index", [index]),
        "members": members,
        "assets": _asset_table(tables, index),
        "has_factor": True,
        "names": _dated_names(tables, codes),
        "notes": (*tables.vendor.notes, *gaps),
    }


def _index_gaps(tables: VendorTables, bars: pd.DataFrame, members: pd.DataFrame) -> list[str]:
    """Return notes on what the vendor has not sent: member lists, and bars for member days before a
    code's first bar or after its last.

    Member days without bars in between are halts, which `data check` counts. Raises DataError if
    more days are missing at the end than a halt explains.
    """
    problems = _missing_lists(tables)
    halts: list[str] = []
    expected = coverage.expected_days(tables.calendar, *tables.days)
    bars_of = {str(code): own for code, own in bars.groupby("code", observed=True)}
    spells_of = {str(code): own for code, own in members.groupby("code", observed=True)}

    for code, spells in spells_of.items():
        days = _member_days(spells, expected)
        if code not in bars_of:
            problems += [f"{code} has no bars"] if len(days) else []
            continue

        missing = coverage.missing_of(code, coverage.days_in(bars_of[code]), days)
        if len(missing.after) > coverage.LONGEST_HALT:
            without_halts = dataclasses.replace(missing, between=missing.between[:0])
            problems += coverage.problems_of(without_halts, "")
        elif len(missing.after):
            halts.append(f"{code} from {missing.after[0]}")

    notes = _settle(tables, problems)
    if halts:
        notes.append(f"no bars on the last sessions, taken as halts: {listed_codes(halts)}")

    return notes


def _member_days(spells: pd.DataFrame, days: DayArray) -> DayArray:
    """Return the days on which a code is a member. `spells`: the code's membership intervals, both
    ends inclusive.
    """
    is_member = np.zeros(len(days), np.bool_)
    for first, last in zip(spells["first"], spells["last"], strict=True):
        is_member |= (days >= np.datetime64(first, "D")) & (days <= np.datetime64(last, "D"))
    return days[is_member]


def _missing_lists(tables: VendorTables) -> list[str]:
    """Return a message for each request for member lists that returned no rows.

    A month that has not ended has no list yet.
    """
    absent = []
    for request in tables.unanswered.get("members", ()):
        month_ends = (request.last + timedelta(days=1)).day == 1
        if request.first == request.last or month_ends:
            absent.append(f"no list of members of {request.first}")

    return absent


def _settle(tables: VendorTables, problems: Sequence[str]) -> list[str]:
    """Return a note on missing days. Raises DataError if the user does not accept gaps."""
    params = tables.params
    asked = f"{tables.name}, asked from {tables.days[0]} to {tables.days[1]}"
    return coverage.settle(problems, params.accept_gaps, asked, str(params.answers))


def _symbol_market(tables: VendorTables, instrument: Instrument) -> dict[str, Any]:
    """Return the raw market's fields for assets specified by the user, without an index."""
    pairs = instrument.kind == "crypto"
    codes = sorted(
        {
            parse_symbol(text.replace("/", "") if pairs else text) or ""
            for text in tables.params.symbols
        }
    )
    if not codes or "" in codes:
        raise UsageError(
            "symbols: expected codes such as AAPL or BTCUSDT, was"
            f" {', '.join(tables.params.symbols) or 'nothing'}"
        )

    bars = tables.read("bars", codes)
    notes = one_beginning(bars, tables.name) if "begins" in bars else []
    quoted = quoted_in(tables.read("pairs", codes) if tables.has("pairs") else bars, tables.name)
    bars, currencies, converted = in_whole_units(bars, quoted)
    check_currencies(currencies, instrument.currency, tables.params.fx is not None, tables.name)
    listed = _days_of_listing(bars)

    if "split" in bars:
        bars = _as_traded(bars, tables.days[1])

    if missing := [code for code in codes if code not in set(bars["code"])]:
        raise DataError(
            f"{tables.name}: no bars of {', '.join(missing)} from {tables.days[0]} to"
            f" {tables.days[1]}; leave them out"
        )

    bars = bars.drop(columns=["begins", "currency", "listed"], errors="ignore")
    own = instrument.currency
    foreign = {code for code, currency in currencies.items() if currency != own}
    gaps = _symbol_gaps(tables, bars, listed, foreign)
    instruments = {}

    for code in codes:
        instruments[code] = dataclasses.replace(instrument, currency=currencies.get(code, own))

    if tables.has("actions"):
        bars = _with_factor(bars, _from_actions(tables.read("actions", codes), bars), sparse=True)

    return {
        "benchmark": "",
        "bars": bars.assign(**{name: np.nan for name in ("amount", "factor") if name not in bars}),
        "indices": pd.DataFrame({"date": bars["date"][:0], "code": [], "close": []}),
        "members": members_by_bars(bars),
        "assets": pd.DataFrame({"code": [], "name": [], "industry": []}),
        "has_factor": "factor" in bars,
        "notes": (*tables.vendor.notes, *notes, *converted, *gaps, UNTIL_SILENT, NO_INDEX),
        "instruments": instruments,
    }


def _days_of_listing(bars: pd.DataFrame) -> dict[str, str]:
    """Return code -> ISO listing day according to the vendor, without codes for which it is
    unknown.
    """
    if "listed" not in bars:
        return {}
    known = bars.loc[bars["listed"] != "", ["code", "listed"]]
    first_of = known.groupby("code", observed=True)["listed"].min()
    return {str(code): str(day) for code, day in first_of.items()}


def _symbol_gaps(
    tables: VendorTables,
    bars: pd.DataFrame,
    listed: Mapping[str, str],
    foreign: Collection[str],
) -> list[str]:
    """Return notes on sessions that the vendor has not sent.

    `foreign`: codes on other exchanges, whose sessions are unknown, so that only weeks without bars
    are reported. Raises DataError if missing sessions are not explained by a listing day and gaps
    are not accepted.
    """
    expected = coverage.expected_days(tables.calendar, *tables.days)
    all_missing = []
    for code, own in bars.groupby("code", observed=True):
        got = coverage.days_in(own)
        days = expected
        if code in foreign:
            days = coverage.far_from(got, expected)

        all_missing.append(coverage.missing_of(str(code), got, days))

    problems = []
    for missing in all_missing:
        problems += coverage.problems_of(missing, listed.get(missing.code, ""))

    notes = _settle(tables, problems)
    return [*notes, *coverage.late_starts(all_missing, listed)]


def _from_actions(actions: pd.DataFrame, bars: pd.DataFrame) -> pd.DataFrame:
    """Return factors on ex-dates. A split multiplies the factor by new / old, a dividend by close /
    (close - rate), where close is the previous close.
    """
    events = (
        actions.dropna(subset=["date"])
        .sort_values(["code", "date"], kind="stable")
        .reset_index(drop=True)
    )
    if events.empty:
        return bars[["date", "code"]][:0].assign(factor=1.0)

    closes = bars[["date", "code", "close"]].sort_values("date")
    previous = pd.merge_asof(
        events[["date", "code"]].sort_values("date"),
        closes,
        on="date",
        by="code",
        allow_exact_matches=False,
    )
    before = events[["date", "code"]].merge(previous.drop_duplicates(), how="left")["close"]
    ratio = (events["new_rate"] / events["old_rate"]).where(
        events["kind"].str.contains("split"), before / (before - events["rate"])
    )
    factor = ratio.fillna(1.0).groupby(events["code"]).cumprod()

    return (
        events[["date", "code"]]
        .assign(factor=factor)
        .drop_duplicates(["date", "code"], keep="last")
    )


def _as_traded(bars: pd.DataFrame, last: date) -> pd.DataFrame:
    """Return bars up to `last` with prices as traded, from prices that were divided by all later
    splits. The factor is defined as in `_from_actions`.
    """
    bars = bars.sort_values(["code", "date"], kind="stable").reset_index(drop=True)
    splits = bars["split"].where(bars["split"] > 0, 1.0)
    before = bars.groupby("code")["close"].shift()
    paid = (before / (before - bars["dividend"])).where(bars["dividend"] > 0, 1.0).fillna(1.0)
    so_far = splits.groupby(bars["code"]).cumprod()
    later = so_far.groupby(bars["code"]).transform("last") / so_far

    for name in ("open", "high", "low", "close"):
        bars[name] = (bars[name] * later).round(4)

    bars["volume"] = (bars["volume"] / later).round()
    bars["factor"] = (splits * paid).groupby(bars["code"]).cumprod().round(8)
    return (
        bars[bars["date"] <= np.datetime64(last)]
        .drop(columns=["split", "dividend"])
        .reset_index(drop=True)
    )


def _range(params: FetchParams, hours: int) -> tuple[date, date]:
    first, last = (
        parse_day(getattr(params, name), f"{name}: ", UsageError).astype(object)
        for name in ("first", "last")
    )
    yesterday = (datetime.now(UTC) + timedelta(hours=hours)).date() - timedelta(days=1)
    if first > last:
        raise UsageError(f"first: {first} lies after last, {last}")
    if last > yesterday:
        raise TooEarlyError(
            f"last: {last} is not over yet; choose {yesterday} or earlier, since answers are kept"
        )

    return first, last


_WEB = {"tushare": Tushare, "binance": Binance, "alpaca": Alpaca}


def _connect(params: FetchParams, vendor: Vendor) -> Callable[[], VendorTransport]:
    ways: Mapping[str, Callable[[], VendorTransport]] = {
        **{
            name: partial(way, name, params.endpoint or vendor.endpoint or "")
            for name, way in _WEB.items()
        },
        "baostock": Baostock,
        "akshare": Akshare,
        "yfinance": Yfinance,
        "ccxt": partial(Ccxt, getattr(params, "exchange", "")),
    }
    return ways[params.vendor]


def _index_members(tables: VendorTables, index: str) -> pd.DataFrame:
    """Return membership intervals: from a file, or from the vendor's dated lists."""
    if tables.params.members is not None:
        return read_members(
            Path(tables.params.members), {}, index, read_listing(None, {}, "a_share", None)
        )
    if not tables.has("members"):
        raise UsageError(
            f"{tables.name} has no past membership; give --members FILE (code, in_date, "
            "out_date, or dated lists date, code)"
        )

    lists = tables.read("members", [index])
    return intervals(lists["code"], lists["date"])


def _with_factor(bars: pd.DataFrame, factors: pd.DataFrame, sparse: bool) -> pd.DataFrame:
    """Return bars with their factors. If the vendor gives only changes, each bar has the last
    factor up to its day, and 1 before the first change.
    """
    factors = factors.dropna(subset=["date"])
    again = factors.duplicated(["date", "code"], keep=False)
    if again.any():
        own = factors[again].sort_values(["code", "date"], kind="stable")
        both = " and ".join(f"{factor:g}" for factor in own["factor"].iloc[:2])
        where = f"{own['code'].iloc[0]} {own['date'].iloc[0]:%Y-%m-%d}"
        why = "the vendor's answers contradict each other; leave the code out"
        raise DataError(f"factors: {where} has {both}: {why}")

    if not sparse:
        return bars.merge(factors, on=["date", "code"], how="left", validate="many_to_one")

    bars = bars.sort_values(["date", "code"], kind="stable").reset_index(drop=True)
    factors = factors.astype({"factor": np.float64, "date": bars["date"].dtype}).sort_values(
        "date", kind="stable"
    )
    joined = pd.merge_asof(bars, factors, on="date", by="code")
    joined["factor"] = joined["factor"].fillna(1.0)

    return joined


def _asset_table(tables: VendorTables, index: str) -> pd.DataFrame:
    """Return names and industries, one row per code."""
    assets = tables.read("assets", [index]).drop_duplicates("code", keep="last")
    if tables.has("industries"):
        dated = tables.read("industries", [index]).sort_values(["date"], kind="stable")
        latest = dated[dated["date"] <= np.datetime64(tables.days[1])].drop_duplicates(
            "code", keep="last"
        )
        groups = "SWS " + latest["industry"].str[:_FIRST_LEVEL]
        assets["industry"] = (
            assets["code"].map(dict(zip(latest["code"], groups, strict=True))).fillna("")
        )

    return assets[["code", "name", "industry"]]


def _dated_names(tables: VendorTables, codes: Sequence[str]) -> pd.DataFrame:
    """Return dated names. Each name holds until the day before the next one begins, whatever end
    the vendor states.

    Empty if the vendor has no names.
    """
    columns: dict[str, Any] = {"code": [], "first": [], "last": [], "name": [], "code_then": []}
    if not tables.has("names"):
        return pd.DataFrame(columns)

    names = (
        tables.read("names", codes)
        .dropna(subset=["first"])
        .sort_values(["code", "first", "last"], kind="stable")
    )
    names = names.drop_duplicates(["code", "first"], keep="last").reset_index(drop=True)
    following = names.groupby("code")["first"].shift(-1) - np.timedelta64(1, "D")
    ends = names["last"].fillna(OPEN_END)
    names["last"] = ends.where(following.isna() | (ends <= following), following)
    names["code_then"] = names["code"]

    return names[list(columns)]
