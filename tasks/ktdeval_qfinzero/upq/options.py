"""Options: the chain of a day, and the history of a contract."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.data.rows import BAR_COLUMNS, E4, Bars, ContractRow, Resolution, empty_bars
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.instruments import OptionContract, parse_contract, parse_tickers
from ktdeval_qfinzero.moments import MINUTE, day_of, moment_text, parse_day
from ktdeval_qfinzero.schemas import read_cursor, write_cursor
from ktdeval_qfinzero.trading_hours import trading_hours
from ktdeval_qfinzero.upq import columns
from ktdeval_qfinzero.upq.answers import Chain, ContractBars, Rows
from ktdeval_qfinzero.upq.arguments import (
    MOST_VALUED,
    TERMS,
    VALUES,
    ChainQuery,
    ContractQuery,
    DayStatus,
    PriceField,
    read_moments,
    read_names,
    span_of,
)
from ktdeval_qfinzero.upq.bars import TIME_FIELD
from ktdeval_qfinzero.upq.quotes import Quotes, day_moment, spots_of_days, spots_of_moments, value_quotes
from ktdeval_qfinzero.view import View

GREEK_DECIMALS = 8

_ON_REQUEST = frozenset({"ticker", "window_start"})
"""Fields that day rows have only when they are named: `ticker` is the contract, `window_start` the date's midnight."""
_NEAREST = 5


def option_fields(resolution: Resolution) -> tuple[str, ...]:
    """Fields of option rows that may be named."""
    return (*TERMS, *(("date",) if resolution == "day" else ()), "window_start", *VALUES)


@dataclass(frozen=True, eq=False)
class Table:
    """Option bars with the options they are of."""

    underlying: str  #: ticker
    contracts: tuple[OptionContract, ...]  #: [n] the options
    bars: Bars  #: [n] their bars, one for each of `contracts`
    resolution: Resolution  #: of the bars


@dataclass(frozen=True, slots=True)
class Filter:
    """Which contracts of a chain are wanted; None lets everything pass."""

    expiry_min: date | None
    expiry_max: date | None
    strike_min: float | None
    strike_max: float | None
    right: str | None

    def passes(self, row: ContractRow) -> bool:
        """Whether a contract is one of those wanted."""
        return (
            (self.expiry_min is None or row.expiry >= self.expiry_min)
            and (self.expiry_max is None or row.expiry <= self.expiry_max)
            and (self.strike_min is None or row.strike_e4 / E4 >= self.strike_min)
            and (self.strike_max is None or row.strike_e4 / E4 <= self.strike_max)
            and (self.right is None or row.right == self.right)
        )


def chain_query(view: View, given: ChainQuery) -> Chain:
    """Options on a stock that traded on a day, with that day's bar, from the session's close on."""
    day, wanted = parse_day(given.date, "date"), _read_filter(given)
    underlying = _read_underlying(given.underlying)
    names, after = _read_fields(given.fields, "day"), _read_key(given.cursor, str)
    listed = {row.symbol: row for row in view.contracts(underlying)}
    found = view.chain_bars(underlying, "day", span_of(day, day))
    chosen = [symbol for symbol in sorted(found) if symbol in listed and wanted.passes(listed[symbol])]
    left = [symbol for symbol in chosen if after is None or symbol > after]
    page = left[: _page_limit(given)]
    contracts = tuple(_contract(listed[symbol]) for symbol in page)
    table = Table(underlying, contracts, _joined(found[symbol] for symbol in page), "day")
    known = any(row.symbol == underlying and row.asset_class == "stock" for row in view.symbols())
    return Chain(
        as_of_ts=moment_text(view.as_of_ns),
        underlying=underlying,
        date=day.isoformat(),
        day_status=_day_status(view, day),
        contracts=_rows(view, table, names, given),
        nearest_expiries=[] if chosen else _nearest_expiries(listed.values(), day, wanted),
        unknown=[] if known else [underlying],
        next_cursor=write_cursor(page[-1]) if len(left) > len(page) else None,
    )


def ticker_query(view: View, given: ContractQuery) -> ContractBars:
    """Bars of one option."""
    contract, resolution = parse_contract(given.contract, "contract"), given.resolution
    span = read_moments(given.start, given.end)
    names, after = _read_fields(given.fields, resolution), _read_key(given.cursor, int)
    if resolution == "day":
        span = span_of(day_of(span.start_ns), day_of(span.end_ns - 1))
    listed = any(row.symbol == contract.symbol for row in view.contracts(contract.underlying))
    bars = view.bars("option", contract.symbol, resolution, span) if listed else empty_bars()
    left = bars if after is None else bars.take(bars.start_ns > after)
    page = left.take(slice(0, _page_limit(given)))
    table = Table(contract.underlying, (contract,) * len(page), page, resolution)
    return ContractBars(
        as_of_ts=moment_text(view.as_of_ns),
        bars=_rows(view, table, names, given),
        unknown=[] if listed else [contract.symbol],
        next_cursor=write_cursor(int(page.start_ns[-1])) if len(left) > len(page) else None,
    )


def _rows(view: View, table: Table, names: Sequence[str], given: ChainQuery | ContractQuery) -> Rows:
    found: dict[str, columns.Column] = {name: _column(table, name) for name in names}
    if given.include_greeks:
        found |= _greek_columns(view, table, given.greek_price_field)
    return columns.to_rows(found)


def _column(table: Table, name: str) -> columns.Column:
    bars = table.bars
    if name in ("date", "window_start"):
        return columns.days(bars.start_ns) if name == "date" else columns.moments(bars.start_ns)
    if name in VALUES:
        return columns.bar_value(bars, name)
    return [_term(contract, name) for contract in table.contracts]


def _term(contract: OptionContract, name: str) -> JsonValue:
    if name in ("contract", "ticker"):
        return contract.symbol
    if name == "strike":
        return contract.strike_e4 / E4
    return {"underlying": contract.underlying, "expiry": contract.expiry.isoformat(), "type": contract.right}[name]


def _greek_columns(view: View, table: Table, field: PriceField) -> dict[str, columns.Column]:
    start_ns = table.bars.start_ns
    if len(start_ns) == 0:
        return {}
    if table.resolution == "day":
        days, place = np.unique(start_ns, return_inverse=True)
        moments = np.array([day_moment(day_of(int(day)), field) for day in days], dtype=np.int64)[place]
        spots = spots_of_days(view, table.underlying, days, field)[place]
    else:
        moments = start_ns + (MINUTE if field == "close" else 0)
        spots = spots_of_moments(view, table.underlying, moments)
    price = getattr(table.bars, f"{field}_e4") / E4
    valued = value_quotes(view, Quotes(table.underlying, table.contracts, moments, price, spots))
    shown = {name: columns.numbers(values, GREEK_DECIMALS) for name, values in valued.values.items()}
    return {**shown, "greek_status": valued.status.tolist()}


def _nearest_expiries(listed: Iterable[ContractRow], day: date, wanted: Filter) -> list[str]:
    """Up to five listed expiries on or after a day, the nearest to those wanted first; of two as near, the earlier."""
    first, last = wanted.expiry_min or day, wanted.expiry_max or date.max

    def distance(expiry: date) -> tuple[int, date]:
        return max((first - expiry).days, (expiry - last).days, 0), expiry

    expiries = {row.expiry for row in listed if row.expiry >= day}
    return [expiry.isoformat() for expiry in sorted(expiries, key=distance)[:_NEAREST]]


def _day_status(view: View, day: date) -> DayStatus:
    hours = trading_hours()
    if hours.row_of(day) is None:
        return "no_session"
    return "complete" if hours.close_of(day) <= view.as_of_ns else "incomplete"


def _read_underlying(text: str) -> str:
    tickers = parse_tickers(text, "underlying")
    if len(tickers) != 1:
        raise invalid("underlying", "expected one ticker")
    return tickers[0]


def _read_filter(given: ChainQuery) -> Filter:
    first, last = (
        None if text is None else parse_day(text, name)
        for name, text in (("expiry_min", given.expiry_min), ("expiry_max", given.expiry_max))
    )
    if first is not None and last is not None and first > last:
        raise invalid("expiry_max", "lies before expiry_min")
    if given.strike_min is not None and given.strike_max is not None and given.strike_min > given.strike_max:
        raise invalid("strike_max", "lies below strike_min")
    return Filter(first, last, given.strike_min, given.strike_max, given.type)


def _read_fields(given: str | None, resolution: Resolution) -> tuple[str, ...]:
    """Fields to show: the contract and the time in any case."""
    known = option_fields(resolution)
    names = read_names(given, "fields", known)
    hidden = _ON_REQUEST - {TIME_FIELD[resolution]} if given is None else frozenset()
    keys = {"contract", TIME_FIELD[resolution]}
    return tuple(name for name in known if (name in names and name not in hidden) or name in keys)


def _read_key(cursor: str | None, kind: type) -> Any:
    return None if cursor is None else read_cursor(cursor, (kind,))[0]


def _page_limit(given: ChainQuery | ContractQuery) -> int:
    return min(given.limit, MOST_VALUED) if given.include_greeks else given.limit


def _contract(row: ContractRow) -> OptionContract:
    return OptionContract(row.underlying, row.expiry, row.strike_e4, row.right)


def _joined(parts: Iterable[Bars]) -> Bars:
    found = list(parts)
    return Bars(*(np.concatenate([getattr(bars, name) for bars in found]) for name in BAR_COLUMNS)) if found else empty_bars()
