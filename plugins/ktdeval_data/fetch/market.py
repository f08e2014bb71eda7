"""From a vendor's answers to a market: which codes, then each table, brought to the same form as an import's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

from ktdeval.api import assemble
from ktdeval.errors import DataError, UsageError
from ktdeval.fields import near_matches
from ktdeval.market import MarketSnapshot, RawMarket
from ktdeval_data.columns import normalise_codes, parse_days, parse_flags, to_numbers
from ktdeval_data.fetch.answers import Answers
from ktdeval_data.fetch.libraries import Akshare, Baostock
from ktdeval_data.fetch.tushare import Tushare
from ktdeval_data.fetch.vendor import Answer, Request, Table, Transport, Vendor, plan, vendors
from ktdeval_data.instruments import read_listing
from ktdeval_data.long_table import OPEN_END, intervals, read_members
from ktdeval_data.params import FetchParams

_INDEX = {"csi300": "000300.SH"}  #: market -> its index
_BEIJING_HOURS = 8
_NUMBERS = ("open", "high", "low", "close", "volume", "amount", "factor")
_DAYS = ("date", "first", "last")
_FIRST_LEVEL = 2  # digits of a code of the SWS classification


def make_fetched(market: str, params: FetchParams) -> MarketSnapshot:
    """Return a snapshot of `market` from a vendor. Raises DataError or UsageError: as of `read_fetched` and `assemble`."""
    return assemble(read_fetched(market, params), params.repair)


def read_fetched(market: str, params: FetchParams) -> RawMarket:
    """Ask a vendor for a market and bring the answers to tables; nothing is judged or repaired.

    Raises UsageError: a parameter is missing or wrong, a library or key is missing; DataError: the vendor refuses or does not
    answer, or an answer lacks a column; StoreError: answers can't be kept.
    """
    vendor, index = vendors()[params.vendor], _INDEX[market]
    first, last = _range(params)
    if params.answers is None:
        raise UsageError(f"{market}: no folder for answers; say --answers DIR, or use `ktdeval data fetch {market}`")
    answers = Answers(
        params.vendor,
        Path(params.answers),
        _connect(params, vendor),
        params.per_minute or vendor.per_minute,
        lambda text: click.echo(text, err=True),
    )
    desk = _Tables(vendor, params, answers, first, last)
    members = _members(desk, index)
    overlap = (members["first"] <= np.datetime64(last)) & (members["last"] >= np.datetime64(first))
    codes = sorted(set(members.loc[overlap, "code"]))
    if not codes:
        raise DataError(f"{params.vendor}: no members of {index} from {first} to {last}; choose another range of days")
    bars = _with_factor(desk, desk.read("bars", codes), codes)
    raw = RawMarket(
        name=params.name or market,
        source=f"{vendor.words}, {market} from {first} to {last}",
        benchmark=index,
        bars=bars,
        indices=desk.read("index", [index]),
        members=members,
        assets=_assets(desk, index),
        has_factor=True,
        names=_names(desk, codes),
        notes=vendor.notes,
    )
    click.echo(f"{params.vendor}: {answers.asked:,} requests answered, {answers.kept:,} answers were there before", err=True)
    return raw


def _range(params: FetchParams) -> tuple[date, date]:
    first, last = (_day(name, getattr(params, name)) for name in ("first", "last"))
    yesterday = (datetime.now(UTC) + timedelta(hours=_BEIJING_HOURS)).date() - timedelta(days=1)
    if first > last:
        raise UsageError(f"first: {first} lies after last, {last}")
    if last > yesterday:
        raise UsageError(f"last: {last} is not over yet; choose {yesterday} or earlier, since answers are kept")
    return first, last


def _day(name: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{name}: {text!r} is not a date; write it as 2024-01-02") from None


def _connect(params: FetchParams, vendor: Vendor) -> Callable[[], Transport]:
    ways: Mapping[str, Callable[[], Transport]] = {
        "tushare": lambda: Tushare(params.endpoint or vendor.endpoint or ""),
        "baostock": Baostock,
        "akshare": Akshare,
    }
    return ways[params.vendor]


class _Tables:
    """Tables of one vendor over a range of days."""

    def __init__(self, vendor: Vendor, params: FetchParams, answers: Answers, first: date, last: date) -> None:
        self.vendor, self.name, self._answers, self._days = vendor, params.vendor, answers, (first, last)
        self.members_file = params.members
        self._map = _overrides(params.map, vendor)

    @property
    def last(self) -> np.datetime64:
        """Last day asked for."""
        return np.datetime64(self._days[1])

    def has(self, table: str) -> bool:
        """Whether the vendor has a table."""
        return table in self.vendor.tables

    def read(self, name: str, codes: Sequence[str]) -> pd.DataFrame:
        """Ask for a table and return its fields as columns, without rows that come twice. Raises DataError: it is empty, or an
        answer lacks a column.
        """
        table = self.vendor.tables[name]
        columns = {**table.columns, **self._map.get(name, {})}
        frames = [self._frame(name, table, columns, request, self._answers.ask(request)) for request in self._plan(table, codes)]
        frame = pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
        if frame.empty and not table.sparse:
            raise DataError(f"{self.name} {table.api}: no rows for {name} from {self._days[0]} to {self._days[1]}")
        return frame.drop_duplicates().reset_index(drop=True)

    def _plan(self, table: Table, codes: Sequence[str]) -> Iterable[Request]:
        return plan(self.vendor, table, codes, *self._days)

    def _frame(self, name: str, table: Table, columns: Mapping[str, str], request: Request, answer: Answer) -> pd.DataFrame:
        if not answer.rows:
            return pd.DataFrame(columns=list(columns))
        raw = pd.DataFrame(list(answer.rows), columns=list(answer.columns), dtype=object)
        where = f"{self.name} {table.api}"
        frame = pd.DataFrame(index=raw.index)
        for field, column in columns.items():
            if column in ("=code", "=first"):
                frame[field] = str(getattr(request, column[1:]))
            elif column not in raw:
                near = near_matches(column, answer.columns) or f"; it has {', '.join(answer.columns)}"
                raise DataError(
                    f"{where}: the answer has no column {column!r} for {name}.{field}{near}; say --map {name}.{field}=COLUMN"
                )
            else:
                frame[field] = raw[column]
        return _typed(frame, table.scale, where)


def _overrides(mapping: Mapping[str, str], vendor: Vendor) -> dict[str, dict[str, str]]:
    """Columns that the user names instead of those of `vendors.yaml`, by table and field."""
    split: dict[str, dict[str, str]] = {}
    for key, column in mapping.items():
        table, _, field = key.partition(".")
        if table not in vendor.tables or field not in vendor.tables[table].columns:
            known = [f"{name}.{each}" for name, entry in vendor.tables.items() for each in entry.columns]
            raise UsageError(f"map: {key!r} is no field{near_matches(key, known) or '; fields: ' + ', '.join(known)}")
        split.setdefault(table, {})[field] = column
    return split


def _typed(frame: pd.DataFrame, scale: Mapping[str, float], where: str) -> pd.DataFrame:
    for field in frame.columns:
        if field in _NUMBERS:
            frame[field] = to_numbers(frame[field], where) * scale.get(field, 1.0)
        elif field in _DAYS:
            frame[field] = parse_days(frame[field].replace("", None), f"{where}: {field}")
        elif field == "code":
            frame[field] = normalise_codes(frame[field])
        elif field == "traded":
            frame[field] = parse_flags(frame[field], f"{where}: {field}")
        else:
            frame[field] = frame[field].fillna("").astype(str)
    return frame


def _members(desk: _Tables, index: str) -> pd.DataFrame:
    """Intervals of membership: from a file, or from the vendor's dated lists."""
    if desk.members_file is not None:
        return read_members(Path(desk.members_file), {}, index, read_listing(None, {}, "a_share", None))
    if not desk.has("members"):
        raise UsageError(
            f"{desk.name} has no past membership; say --members FILE (code, in_date, out_date, or dated lists date, code)"
        )
    lists = desk.read("members", [index])
    return intervals(lists["code"], lists["date"])


def _with_factor(desk: _Tables, bars: pd.DataFrame, codes: Sequence[str]) -> pd.DataFrame:
    """Bars with their factor: that of the day, or the last one before where the vendor gives changes alone; 1 before the first."""
    factors = desk.read("factors", codes).dropna(subset=["date"])
    sparse = desk.vendor.tables["factors"].sparse
    if not sparse:
        return bars.merge(factors.drop_duplicates(["date", "code"]), on=["date", "code"], how="left", validate="many_to_one")
    bars = bars.sort_values(["date", "code"], kind="stable").reset_index(drop=True)
    factors = factors.astype({"factor": np.float64, "date": bars["date"].dtype}).sort_values("date", kind="stable")
    joined = pd.merge_asof(bars, factors, on="date", by="code")
    joined["factor"] = joined["factor"].fillna(1.0)
    return joined


def _assets(desk: _Tables, index: str) -> pd.DataFrame:
    """Names and industries, one row a code."""
    assets = desk.read("assets", [index]).drop_duplicates("code", keep="last")
    if desk.has("industries"):
        dated = desk.read("industries", [index]).sort_values(["date"], kind="stable")
        latest = dated[dated["date"] <= desk.last].drop_duplicates("code", keep="last")
        groups = "SWS " + latest["industry"].str[:_FIRST_LEVEL]
        assets["industry"] = assets["code"].map(dict(zip(latest["code"], groups, strict=True))).fillna("")
    return assets[["code", "name", "industry"]]


def _names(desk: _Tables, codes: Sequence[str]) -> pd.DataFrame:
    """Dated names; each holds until the day before the next one's first, whatever end the vendor gives. Empty where it has none."""
    columns: dict[str, Any] = {"code": [], "first": [], "last": [], "name": [], "code_then": []}
    if not desk.has("names"):
        return pd.DataFrame(columns)
    names = desk.read("names", codes).dropna(subset=["first"]).sort_values(["code", "first", "last"], kind="stable")
    names = names.drop_duplicates(["code", "first"], keep="last").reset_index(drop=True)
    following = names.groupby("code")["first"].shift(-1) - np.timedelta64(1, "D")
    ends = names["last"].fillna(OPEN_END)
    names["last"] = ends.where(following.isna() | (ends <= following), following)
    names["code_then"] = names["code"]
    return names[list(columns)]
