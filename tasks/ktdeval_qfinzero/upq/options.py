"""Options: the chain of a day, and the history of a contract."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from ktdeval.api import JsonValue
from ktdeval_qfinzero.data.rows import BAR_COLUMNS, E4, Bars, ContractRow, Resolution, empty_bars
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.instruments import OptionContract, parse_contract, parse_tickers
from ktdeval_qfinzero.moments import MINUTE, day_of, moment_text, parse_day
from ktdeval_qfinzero.operations import Arguments
from ktdeval_qfinzero.paging import read_cursor, write_cursor
from ktdeval_qfinzero.trading_hours import trading_hours
from ktdeval_qfinzero.upq import columns
from ktdeval_qfinzero.upq.arguments import read_moments, read_names, span_of
from ktdeval_qfinzero.upq.bars import TIME_FIELD, VALUES
from ktdeval_qfinzero.upq.quotes import PriceField, Quotes, day_moment, spots_of_days, spots_of_moments, value_quotes
from ktdeval_qfinzero.view import View
from ktdeval_qfinzero.workspace import Workspace

MOST_VALUED = 10_000
"""Rows of a page with Greeks: each takes a search for its volatility."""
GREEK_DECIMALS = 8

_TERMS = ("contract", "ticker", "underlying", "expiry", "strike", "type")
_ON_REQUEST = frozenset({"ticker", "window_start"})
"""Fields that day rows have only when they are named: `ticker` is the contract, `window_start` the date's midnight."""
_NEAREST = 5


def option_fields(resolution: Resolution) -> tuple[str, ...]:
    """Fields of option rows that may be named."""
    return (*_TERMS, *(("date",) if resolution == "day" else ()), "window_start", *VALUES)


@dataclass(frozen=True, eq=False)
class Table:
    """Option bars with the options they are of.

    Attributes:
        underlying: ticker.
        contracts: [n] the options.
        bars: [n] their bars, one for each of `contracts`.
        resolution: of the bars.
    """

    underlying: str
    contracts: tuple[OptionContract, ...]
    bars: Bars
    resolution: Resolution


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


def chain_query(workspace: Workspace, arguments: Arguments) -> JsonValue:
    """`UPQ.option.chain_query`."""
    view, day, wanted = workspace.view, parse_day(arguments["date"], "date"), _read_filter(arguments)
    underlying = _read_underlying(arguments["underlying"])
    names, after = _read_fields(arguments, "day"), _read_key(arguments, str)
    listed = {row.symbol: row for row in view.contracts(underlying)}
    found = view.chain_bars(underlying, "day", span_of(day, day))
    chosen = [symbol for symbol in sorted(found) if symbol in listed and wanted.passes(listed[symbol])]
    left = [symbol for symbol in chosen if after is None or symbol > after]
    page = left[: _page_limit(arguments)]
    contracts = tuple(_contract(listed[symbol]) for symbol in page)
    table = Table(underlying, contracts, _joined(found[symbol] for symbol in page), "day")
    known = any(row.symbol == underlying and row.asset_class == "stock" for row in view.symbols())
    return {
        "as_of_ts": moment_text(view.as_of_ns),
        "underlying": underlying,
        "date": day.isoformat(),
        "day_status": _day_status(view, day),
        "contracts": _rows(view, table, names, arguments),
        "nearest_expiries": [] if chosen else _nearest_expiries(listed.values(), day, wanted),
        "unknown": [] if known else [underlying],
        "next_cursor": write_cursor(page[-1]) if len(left) > len(page) else None,
    }


def ticker_query(workspace: Workspace, arguments: Arguments) -> JsonValue:
    """`UPQ.option.ticker_query`."""
    view, contract = workspace.view, parse_contract(arguments["contract"], "contract")
    resolution: Resolution = arguments["resolution"]
    span, names, after = read_moments(arguments), _read_fields(arguments, resolution), _read_key(arguments, int)
    if resolution == "day":
        span = span_of(day_of(span.start_ns), day_of(span.end_ns - 1))
    listed = any(row.symbol == contract.symbol for row in view.contracts(contract.underlying))
    bars = view.bars("option", contract.symbol, resolution, span) if listed else empty_bars()
    left = bars if after is None else bars.take(bars.start_ns > after)
    page = left.take(slice(0, _page_limit(arguments)))
    table = Table(contract.underlying, (contract,) * len(page), page, resolution)
    return {
        "as_of_ts": moment_text(view.as_of_ns),
        "bars": _rows(view, table, names, arguments),
        "unknown": [] if listed else [contract.symbol],
        "next_cursor": write_cursor(int(page.start_ns[-1])) if len(left) > len(page) else None,
    }


def _rows(view: View, table: Table, names: Sequence[str], arguments: Arguments) -> list[dict[str, JsonValue]]:
    found: dict[str, columns.Column] = {name: _column(table, name) for name in names}
    if arguments["include_greeks"]:
        found |= _greek_columns(view, table, arguments["greek_price_field"])
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


def _nearest_expiries(listed: Iterable[ContractRow], day: date, wanted: Filter) -> list[JsonValue]:
    """Up to five listed expiries on or after a day, the nearest to those wanted first; of two as near, the earlier."""
    first, last = wanted.expiry_min or day, wanted.expiry_max or date.max

    def distance(expiry: date) -> tuple[int, date]:
        return max((first - expiry).days, (expiry - last).days, 0), expiry

    expiries = {row.expiry for row in listed if row.expiry >= day}
    return [expiry.isoformat() for expiry in sorted(expiries, key=distance)[:_NEAREST]]


def _day_status(view: View, day: date) -> str:
    hours = trading_hours()
    if hours.row_of(day) is None:
        return "no_session"
    return "complete" if hours.close_of(day) <= view.as_of_ns else "incomplete"


def _read_underlying(text: str) -> str:
    tickers = parse_tickers(text, "underlying")
    if len(tickers) != 1:
        raise invalid("underlying", "expected one ticker")
    return tickers[0]


def _read_filter(arguments: Arguments) -> Filter:
    first, last = (parse_day(arguments[name], name) if name in arguments else None for name in ("expiry_min", "expiry_max"))
    strikes: dict[str, float | None] = {name: arguments.get(name) for name in ("strike_min", "strike_max")}
    if first is not None and last is not None and first > last:
        raise invalid("expiry_max", "lies before expiry_min")
    lowest, highest = strikes["strike_min"], strikes["strike_max"]
    if lowest is not None and highest is not None and lowest > highest:
        raise invalid("strike_max", "lies below strike_min")
    return Filter(first, last, lowest, highest, arguments.get("type"))


def _read_fields(arguments: Arguments, resolution: Resolution) -> tuple[str, ...]:
    """Fields to show: the contract and the time in any case."""
    known = option_fields(resolution)
    names = read_names(arguments, "fields", known)
    hidden = _ON_REQUEST - {TIME_FIELD[resolution]} if "fields" not in arguments else frozenset()
    keys = {"contract", TIME_FIELD[resolution]}
    return tuple(name for name in known if (name in names and name not in hidden) or name in keys)


def _read_key(arguments: Arguments, kind: type) -> JsonValue:
    return read_cursor(arguments["cursor"], (kind,))[0] if "cursor" in arguments else None


def _page_limit(arguments: Arguments) -> int:
    limit: int = arguments["limit"]
    return min(limit, MOST_VALUED) if arguments["include_greeks"] else limit


def _contract(row: ContractRow) -> OptionContract:
    return OptionContract(row.underlying, row.expiry, row.strike_e4, row.right)


def _joined(parts: Iterable[Bars]) -> Bars:
    found = list(parts)
    return Bars(*(np.concatenate([getattr(bars, name) for bars in found]) for name in BAR_COLUMNS)) if found else empty_bars()
