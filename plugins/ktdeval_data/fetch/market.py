"""Markets from a vendor's answers: the codes, then each table, in the same form as an import's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import click
import numpy as np
import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval.fields import near_matches
from ktdeval.market import NO_INDEX, UNTIL_SILENT, Instrument, RawMarket, members_by_bars, parse_day, parse_symbol
from ktdeval_data.columns import normalise_codes, parse_days, parse_flags, to_numbers
from ktdeval_data.fetch.libraries import Akshare, Baostock, Ccxt, Yfinance
from ktdeval_data.fetch.vendor import Answer, Answers, Request, Table, Transport, Vendor, plan, vendors
from ktdeval_data.fetch.web import Alpaca, Binance, Tushare
from ktdeval_data.instruments import read_listing
from ktdeval_data.long_table import OPEN_END, intervals, read_members
from ktdeval_data.params import FetchParams

_NUMBERS = ("open", "high", "low", "close", "volume", "amount", "factor", "new_rate", "old_rate", "rate", "split", "dividend")
_DAYS = ("date", "first", "last")
_FIRST_LEVEL = 2  # digits of a code of the SWS classification


@dataclass(frozen=True)
class _Market:
    """Market to fetch: the members of an index, or assets that the user names."""

    hours: int  #: offset of its clock from UTC
    index: str  #: code of the index, empty where there is none
    instrument: Instrument


_MARKETS = {
    "csi300": _Market(8, "000300.SH", Instrument()),
    "us": _Market(-8, "", Instrument("stock", "USD", "us_equity")),
    "crypto": _Market(0, "", Instrument("crypto", "USD", "crypto_spot")),
}


def read_fetched(market: str, params: FetchParams) -> RawMarket:
    """Request a market from a vendor and turn the answers into tables; nothing is checked or repaired.

    Raises UsageError: a parameter is missing or wrong, a library or key is missing; DataError: the vendor refuses or does not
    answer, or an answer lacks a column; StoreError: answers can't be kept.
    """
    vendor, kind = vendors()[params.vendor], _MARKETS[market]
    first, last = _range(params, kind.hours)
    if params.answers is None:
        raise UsageError(f"{market}: no folder for answers; say --answers DIR, or use `ktdeval data fetch {market}`")
    exchange = getattr(params, "exchange", "")
    if exchange not in ("", "binance") and params.vendor != "ccxt":
        raise UsageError(f"exchange: {params.vendor} has none to choose; say --from ccxt")
    answers = Answers(
        params.vendor,
        Path(params.answers),
        _connect(params, vendor),
        params.per_minute or vendor.per_minute,
        lambda text: click.echo(text, err=True),
    )
    tables = _Tables(vendor, params, answers, first, last)
    parts = _index_market(tables, kind.index) if kind.index else _symbol_market(tables, kind.instrument)
    source = f"{vendor.words.format(exchange=exchange)}, {market} from {first} to {last}"
    raw = RawMarket(name=params.name or market, source=source, **parts)
    click.echo(f"{params.vendor}: {answers.asked:,} requests answered, {answers.kept:,} answers were there before", err=True)
    return raw


def _index_market(tables: _Tables, index: str) -> dict[str, Any]:
    """Fields of the raw market of an index's members."""
    members, (first, last) = _members(tables, index), tables.days
    overlap = (members["first"] <= np.datetime64(last)) & (members["last"] >= np.datetime64(first))
    codes = sorted(set(members.loc[overlap, "code"]))
    if not codes:
        raise DataError(f"{tables.name}: no members of {index} from {first} to {last}; choose another range of days")
    return {
        "benchmark": index,
        "bars": _with_factor(tables.read("bars", codes), tables.read("factors", codes), tables.vendor.tables["factors"].sparse),
        "indices": tables.read("index", [index]),
        "members": members,
        "assets": _assets(tables, index),
        "has_factor": True,
        "names": _names(tables, codes),
        "notes": tables.vendor.notes,
    }


def _symbol_market(tables: _Tables, instrument: Instrument) -> dict[str, Any]:
    """Fields of the raw market of assets that the user names, without an index."""
    pairs = instrument.kind == "crypto"
    codes = sorted({parse_symbol(text.replace("/", "") if pairs else text) or "" for text in tables.params.symbols})
    if not codes or "" in codes:
        raise UsageError(f"symbols: expected codes such as AAPL or BTCUSDT, was {', '.join(tables.params.symbols) or 'nothing'}")
    bars = tables.read("bars", codes)
    if "split" in bars:
        bars = _as_traded(bars, tables.days[1])
    if missing := [code for code in codes if code not in set(bars["code"])]:
        raise DataError(f"{tables.name}: no bars of {', '.join(missing)} from {tables.days[0]} to {tables.days[1]}; leave them out")
    if tables.has("actions"):
        bars = _with_factor(bars, _from_actions(tables.read("actions", codes), bars), sparse=True)
    return {
        "benchmark": "",
        "bars": bars.assign(**{name: np.nan for name in ("amount", "factor") if name not in bars}),
        "indices": pd.DataFrame({"date": bars["date"][:0], "code": [], "close": []}),
        "members": members_by_bars(bars),
        "assets": pd.DataFrame({"code": [], "name": [], "industry": []}),
        "has_factor": "factor" in bars,
        "notes": (*tables.vendor.notes, UNTIL_SILENT, NO_INDEX),
        "instruments": dict.fromkeys(codes, instrument),
    }


def _from_actions(actions: pd.DataFrame, bars: pd.DataFrame) -> pd.DataFrame:
    """Factors on ex-dates: a split multiplies by new / old, a dividend by close / (close - rate) with the close before it."""
    events = actions.dropna(subset=["date"]).sort_values(["code", "date"], kind="stable").reset_index(drop=True)
    if events.empty:
        return bars[["date", "code"]][:0].assign(factor=1.0)
    closes = bars[["date", "code", "close"]].sort_values("date")
    previous = pd.merge_asof(events[["date", "code"]].sort_values("date"), closes, on="date", by="code", allow_exact_matches=False)
    before = events[["date", "code"]].merge(previous.drop_duplicates(), how="left")["close"]
    ratio = (events["new_rate"] / events["old_rate"]).where(
        events["kind"].str.contains("split"), before / (before - events["rate"])
    )
    factor = ratio.fillna(1.0).groupby(events["code"]).cumprod()
    return events[["date", "code"]].assign(factor=factor).drop_duplicates(["date", "code"], keep="last")


def _as_traded(bars: pd.DataFrame, last: date) -> pd.DataFrame:
    """Bars until `last` as they traded, of prices divided by all later splits; the factor is as of `_from_actions`."""
    bars = bars.sort_values(["code", "date"], kind="stable").reset_index(drop=True)
    splits, before = bars["split"].where(bars["split"] > 0, 1.0), bars.groupby("code")["close"].shift()
    paid = (before / (before - bars["dividend"])).where(bars["dividend"] > 0, 1.0).fillna(1.0)
    so_far = splits.groupby(bars["code"]).cumprod()
    later = so_far.groupby(bars["code"]).transform("last") / so_far
    for name in ("open", "high", "low", "close"):
        bars[name] = (bars[name] * later).round(4)
    bars["volume"] = (bars["volume"] / later).round()
    bars["factor"] = (splits * paid).groupby(bars["code"]).cumprod().round(8)
    return bars[bars["date"] <= np.datetime64(last)].drop(columns=["split", "dividend"]).reset_index(drop=True)


def _range(params: FetchParams, hours: int) -> tuple[date, date]:
    first, last = (parse_day(getattr(params, name), f"{name}: ", UsageError).astype(object) for name in ("first", "last"))
    yesterday = (datetime.now(UTC) + timedelta(hours=hours)).date() - timedelta(days=1)
    if first > last:
        raise UsageError(f"first: {first} lies after last, {last}")
    if last > yesterday:
        raise UsageError(f"last: {last} is not over yet; choose {yesterday} or earlier, since answers are kept")
    return first, last


_WEB = {"tushare": Tushare, "binance": Binance, "alpaca": Alpaca}


def _connect(params: FetchParams, vendor: Vendor) -> Callable[[], Transport]:
    ways: Mapping[str, Callable[[], Transport]] = {
        **{name: partial(way, name, params.endpoint or vendor.endpoint or "") for name, way in _WEB.items()},
        "baostock": Baostock,
        "akshare": Akshare,
        "yfinance": Yfinance,
        "ccxt": partial(Ccxt, getattr(params, "exchange", "")),
    }
    return ways[params.vendor]


class _Tables:
    """Tables of one vendor over a range of days."""

    def __init__(self, vendor: Vendor, params: FetchParams, answers: Answers, first: date, last: date) -> None:
        self.vendor, self.name, self.params, self._answers = vendor, params.vendor, cast("Any", params), answers
        self.days = (first, last)
        self._map = _overrides(params.map, vendor)

    def has(self, table: str) -> bool:
        """Whether the vendor has a table."""
        return table in self.vendor.tables

    def read(self, name: str, codes: Sequence[str]) -> pd.DataFrame:
        """Request a table and return its fields as columns, without repeated rows. Raises DataError: it is empty, or an answer
        lacks a column.
        """
        table = self.vendor.tables[name]
        columns = {**table.columns, **table.optional, **self._map.get(name, {})}
        requests = plan(self.vendor, table, codes, *self.days, exchange=getattr(self.params, "exchange", ""))
        frames = [self._frame(name, table, columns, request, self._answers.ask(request)) for request in requests]
        frame = pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
        if frame.empty and not table.sparse:
            raise DataError(f"{self.name} {table.api}: no rows for {name} from {self.days[0]} to {self.days[1]}")
        return frame if frame.empty else _typed(frame, table, f"{self.name} {table.api}").drop_duplicates().reset_index(drop=True)

    def _frame(self, name: str, table: Table, columns: Mapping[str, str], request: Request, answer: Answer) -> pd.DataFrame:
        if not answer.rows:
            return pd.DataFrame(columns=list(columns))
        raw = pd.DataFrame(list(answer.rows), columns=list(answer.columns), dtype=object)
        where = f"{self.name} {table.api}"
        frame = pd.DataFrame(index=raw.index)
        for field, column in columns.items():
            if column in ("=code", "=first"):
                frame[field] = str(getattr(request, column[1:]))
            elif column not in raw and field in table.optional:
                frame[field] = np.nan
            elif column not in raw:
                near = near_matches(column, answer.columns) or f"; it has {', '.join(answer.columns)}"
                raise DataError(
                    f"{where}: the answer has no column {column!r} for {name}.{field}{near}; say --map {name}.{field}=COLUMN"
                )
            else:
                frame[field] = raw[column]
        return frame


def _overrides(mapping: Mapping[str, str], vendor: Vendor) -> dict[str, dict[str, str]]:
    """Columns that the user names instead of those of `vendors.yaml`, by table and field."""
    split: dict[str, dict[str, str]] = {}
    for key, column in mapping.items():
        table, _, field = key.partition(".")
        allowed = [f"{name}.{each}" for name, entry in vendor.tables.items() for each in (*entry.columns, *entry.optional)]
        if key not in allowed:
            raise UsageError(f"map: {key!r} is no field{near_matches(key, allowed) or '; fields: ' + ', '.join(allowed)}")
        split.setdefault(table, {})[field] = column
    return split


def _typed(frame: pd.DataFrame, table: Table, where: str) -> pd.DataFrame:
    if table.stamps is not None:
        moments = pd.to_datetime(frame["date"], unit="ms") if table.stamps == "ms" else frame["date"]
        frame["date"] = moments.astype(str).str[:10]
    for field in frame.columns:
        if field in _NUMBERS:
            numbers = to_numbers(frame[field], where)
            frame[field] = (numbers * table.scale[field]).round(4) if field in table.scale else numbers
        elif field in _DAYS:
            frame[field] = parse_days(frame[field].replace("", None), f"{where}: {field}")
        elif field == "code":
            frame[field] = normalise_codes(frame[field])
        elif field == "traded":
            frame[field] = parse_flags(frame[field], f"{where}: {field}")
        else:
            frame[field] = frame[field].fillna("").astype(str)
    return frame


def _members(tables: _Tables, index: str) -> pd.DataFrame:
    """Intervals of membership: from a file, or from the vendor's dated lists."""
    if tables.params.members is not None:
        return read_members(Path(tables.params.members), {}, index, read_listing(None, {}, "a_share", None))
    if not tables.has("members"):
        raise UsageError(
            f"{tables.name} has no past membership; say --members FILE (code, in_date, out_date, or dated lists date, code)"
        )
    lists = tables.read("members", [index])
    return intervals(lists["code"], lists["date"])


def _with_factor(bars: pd.DataFrame, factors: pd.DataFrame, sparse: bool) -> pd.DataFrame:
    """Bars with their factor: that of the day, or if the vendor gives only changes the last one before it; 1 before the first."""
    factors = factors.dropna(subset=["date"])
    if not sparse:
        return bars.merge(factors.drop_duplicates(["date", "code"]), on=["date", "code"], how="left", validate="many_to_one")
    bars = bars.sort_values(["date", "code"], kind="stable").reset_index(drop=True)
    factors = factors.astype({"factor": np.float64, "date": bars["date"].dtype}).sort_values("date", kind="stable")
    joined = pd.merge_asof(bars, factors, on="date", by="code")
    joined["factor"] = joined["factor"].fillna(1.0)
    return joined


def _assets(tables: _Tables, index: str) -> pd.DataFrame:
    """Names and industries, one row a code."""
    assets = tables.read("assets", [index]).drop_duplicates("code", keep="last")
    if tables.has("industries"):
        dated = tables.read("industries", [index]).sort_values(["date"], kind="stable")
        latest = dated[dated["date"] <= np.datetime64(tables.days[1])].drop_duplicates("code", keep="last")
        groups = "SWS " + latest["industry"].str[:_FIRST_LEVEL]
        assets["industry"] = assets["code"].map(dict(zip(latest["code"], groups, strict=True))).fillna("")
    return assets[["code", "name", "industry"]]


def _names(tables: _Tables, codes: Sequence[str]) -> pd.DataFrame:
    """Dated names; each holds until the day before the next one's first, whatever end the vendor gives. Empty where it has none."""
    columns: dict[str, Any] = {"code": [], "first": [], "last": [], "name": [], "code_then": []}
    if not tables.has("names"):
        return pd.DataFrame(columns)
    names = tables.read("names", codes).dropna(subset=["first"]).sort_values(["code", "first", "last"], kind="stable")
    names = names.drop_duplicates(["code", "first"], keep="last").reset_index(drop=True)
    following = names.groupby("code")["first"].shift(-1) - np.timedelta64(1, "D")
    ends = names["last"].fillna(OPEN_END)
    names["last"] = ends.where(following.isna() | (ends <= following), following)
    names["code_then"] = names["code"]
    return names[list(columns)]
