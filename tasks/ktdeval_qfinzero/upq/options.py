"""Options: the chain on a day, and the history of a contract."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, cast

import numpy as np

from ktdeval_qfinzero.cursors import page_of, read_cursor, write_cursor
from ktdeval_qfinzero.data.rows import E4, Bars, ContractRow, Resolution, empty_bars, join
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.instruments import OptionContract, parse_contract, parse_tickers
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.timestamps import MINUTE, day_of, parse_day
from ktdeval_qfinzero.upq import answers, arguments, rows_and_indicators
from ktdeval_qfinzero.upq.argument_parsing import read_moments, read_names, span_of
from ktdeval_qfinzero.upq.arguments import MAX_VALUED, TERMS, VALUES
from ktdeval_qfinzero.upq.option_greeks import (
    OptionQuotes,
    day_moment,
    spots_of_days,
    spots_of_moments,
    value_quotes,
)

GREEK_DECIMALS = 8

_ON_REQUEST = frozenset({"ticker", "window_start"})
"""Fields that daily rows have only on request: `ticker` is the contract, `window_start` the date's
midnight.
"""
_NEAREST = 5
TIME_FIELD: Final[dict[Resolution, str]] = {"day": "date", "minute": "window_start"}


@dataclass(frozen=True, eq=False)
class OptionTable:
    """Option bars with their contracts."""

    underlying: str  #: ticker
    contracts: tuple[OptionContract, ...]  #: [n] the options
    bars: Bars  #: [n] bars, one for each of `contracts`
    resolution: Resolution  #: resolution of the bars


def chain_query(view: DatasetView, given: arguments.ChainQuery) -> answers.Chain:
    """Options on a stock that traded on a day, with that day's bar, from the session's close on."""
    day = parse_day(given.date, "date")
    expiries = _read_expiries(given)
    underlying, *others = parse_tickers(given.underlying, "underlying")
    if others:
        raise invalid("underlying", "expected one ticker")

    names = _read_fields(given.fields, "day")
    after = None if given.cursor is None else str(read_cursor(given.cursor, (str,))[0])

    listed = {row.symbol: row for row in view.contracts(underlying)}
    chain = view.chain_bars(underlying, "day", span_of(day, day))
    passing = [
        symbol
        for symbol in sorted(chain)
        if symbol in listed and _passes(listed[symbol], given, expiries)
    ]
    left = (symbol for symbol in passing if after is None or symbol > after)
    page, next_cursor = page_of(left, _max_rows(given), lambda symbol: (symbol,))

    contracts = tuple(listed[symbol].contract for symbol in page)
    bars = join([chain[symbol] for symbol in page])
    rows = _option_rows(view, OptionTable(underlying, contracts, bars, "day"), names, given)
    stocks = {row.symbol for row in view.symbols() if row.asset_class == "stock"}

    return answers.Chain(
        underlying=underlying,
        date=day.isoformat(),
        day_status=_status_of(view, day),
        contracts=cast("list[answers.ChainBar]", rows),
        nearest_expiries=[] if passing else _nearest_expiries(listed.values(), day, expiries),
        unknown=[] if underlying in stocks else [underlying],
        next_cursor=next_cursor,
    )


def ticker_query(view: DatasetView, given: arguments.ContractQuery) -> answers.ContractBars:
    """Bars of one option."""
    contract = parse_contract(given.contract, "contract")
    resolution = given.resolution
    span = read_moments(given.start, given.end)
    names = _read_fields(given.fields, resolution)
    after = None if given.cursor is None else int(read_cursor(given.cursor, (int,))[0])
    if resolution == "day":
        span = span_of(day_of(span.start_ns), day_of(span.end_ns - 1))

    row = _row_of(view, contract)
    if row is None:
        bars = empty_bars()
    else:
        contract = row.contract
        bars = view.bars("option", contract.symbol, resolution, span)

    left = bars if after is None else bars.take(bars.start_ns > after)
    page = left.take(slice(0, _max_rows(given)))
    next_cursor = write_cursor(int(page.start_ns[-1])) if len(left) > len(page) else None
    table = OptionTable(contract.underlying, (contract,) * len(page), page, resolution)
    rows = _option_rows(view, table, names, given)

    return answers.ContractBars(
        bars=cast("list[answers.ContractBar]", rows),
        unknown=[contract.symbol] if row is None else [],
        next_cursor=next_cursor,
    )


def _max_rows(given: arguments.ChainQuery | arguments.ContractQuery) -> int:
    """Return the maximum number of rows per page, which is lower with Greeks, since these
    are slow.
    """
    return min(given.limit, MAX_VALUED) if given.include_greeks else given.limit


def _status_of(view: DatasetView, day: date) -> answers.DayStatus:
    hours = view.hours
    if hours.row_of(day) is None:
        return "no_session"
    return "complete" if hours.close_of(day) <= view.as_of_ns else "incomplete"


def _row_of(view: DatasetView, contract: OptionContract) -> ContractRow | None:
    """Return the listed contract with an OPRA symbol, whose root is usually the underlying."""
    others = (row.symbol for row in view.symbols() if row.has_options)
    for underlying in dict.fromkeys((contract.underlying, *others)):
        for row in view.contracts(underlying):
            if row.symbol == contract.symbol:
                return row

    return None


def _option_rows(
    view: DatasetView,
    table: OptionTable,
    names: Sequence[str],
    given: arguments.ChainQuery | arguments.ContractQuery,
) -> rows_and_indicators.Rows:
    values: dict[str, rows_and_indicators.Column] = {name: _column(table, name) for name in names}
    if given.include_greeks:
        values |= _greek_columns(view, table, given.greek_price_field)
    return rows_and_indicators.to_rows(values)


def _column(table: OptionTable, name: str) -> rows_and_indicators.Column:
    """Return one [n] field of the rows."""
    if name == "date":
        return rows_and_indicators.days(table.bars.start_ns)
    if name == "window_start":
        return rows_and_indicators.moments(table.bars.start_ns)
    if name in VALUES:
        return rows_and_indicators.bar_value(table.bars, name)

    return [_term(contract, name) for contract in table.contracts]


def _term(contract: OptionContract, name: str) -> rows_and_indicators.Cell:
    if name in ("contract", "ticker"):
        return contract.symbol
    if name == "strike":
        return contract.strike
    if name == "expiry":
        return str(contract.expiry)
    if name == "type":
        return contract.right

    assert name == "underlying"
    return contract.underlying


def _greek_columns(
    view: DatasetView, table: OptionTable, field: arguments.PriceField
) -> dict[str, rows_and_indicators.Column]:
    start_ns = table.bars.start_ns
    if len(start_ns) == 0:
        return {}

    if table.resolution == "day":
        days, inverse = np.unique(start_ns, return_inverse=True)
        of_days = [day_moment(view, day_of(int(day)), field) for day in days]
        moments = np.array(of_days, dtype=np.int64)[inverse]
        spots = spots_of_days(view, table.underlying, days, field)[inverse]
    else:
        moments = start_ns + (MINUTE if field == "close" else 0)
        spots = spots_of_moments(view, table.underlying, moments)

    price = table.bars.price_e4(field) / E4
    quotes = OptionQuotes(table.underlying, table.contracts, moments, price, spots)
    values, status = value_quotes(view, quotes)
    greeks = {
        name: rows_and_indicators.numbers(of_rows, GREEK_DECIMALS)
        for name, of_rows in values.items()
    }

    return {**greeks, "greek_status": status.tolist()}


def _nearest_expiries(
    listed: Iterable[ContractRow], day: date, wanted: tuple[date, date]
) -> list[str]:
    """Return up to five listed expiries on or after a day, nearest to the wanted ones first; ties
    go to the earlier expiry.
    """
    first, last = wanted

    def distance(expiry: date) -> tuple[int, date]:
        return max((first - expiry).days, (expiry - last).days, 0), expiry

    coming = {row.expiry for row in listed if row.expiry >= day}
    return [expiry.isoformat() for expiry in sorted(coming, key=distance)[:_NEAREST]]


def _read_expiries(given: arguments.ChainQuery) -> tuple[date, date]:
    """Return the first and last wanted expiry, by default all expiries. Also check the bounds on
    strikes.
    """
    first = date.min if given.expiry_min is None else parse_day(given.expiry_min, "expiry_min")
    last = date.max if given.expiry_max is None else parse_day(given.expiry_max, "expiry_max")
    if first > last:
        raise invalid("expiry_max", "lies before expiry_min")
    if (
        given.strike_min is not None
        and given.strike_max is not None
        and given.strike_min > given.strike_max
    ):
        raise invalid("strike_max", "lies below strike_min")

    return first, last


def _passes(row: ContractRow, given: arguments.ChainQuery, expiries: tuple[date, date]) -> bool:
    """Return whether a contract's expiry, strike and type are wanted."""
    least = given.strike_min or 0.0
    most = math.inf if given.strike_max is None else given.strike_max
    in_time = expiries[0] <= row.expiry <= expiries[1]

    return in_time and least <= row.strike_e4 / E4 <= most and given.type in (None, row.right)


def _read_fields(given: str | None, resolution: Resolution) -> tuple[str, ...]:
    """Return the fields to show, in order, always including the contract and the time. Raises
    ServiceError `invalid_argument` if a field is unknown.
    """
    dates = ("date",) if resolution == "day" else ()
    known = (*TERMS, *dates, "window_start", *VALUES)
    keys = {"contract", TIME_FIELD[resolution]}
    chosen = set(read_names(given, "fields", known)) | keys
    if given is None:
        chosen -= _ON_REQUEST - keys

    return tuple(name for name in known if name in chosen)
