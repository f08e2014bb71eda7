"""Rates, dividends, splits, the list of symbols, and how far each source reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from operator import attrgetter
from typing import TypeVar

from msgspec import UNSET, UnsetType

from ktdeval_qfinzero.data.rows import E4, TENOR_YEARS, AssetClass, Bars, DividendRow, Resolution, Span, SplitRow, SymbolRow
from ktdeval_qfinzero.moments import DAY, MINUTE, day_of, day_start, moment_text
from ktdeval_qfinzero.schemas import page_of, read_cursor
from ktdeval_qfinzero.upq import types
from ktdeval_qfinzero.upq.quotes import curves_of_days, day_moment
from ktdeval_qfinzero.upq.types import read_days, read_names, read_tickers
from ktdeval_qfinzero.view import View

_LENGTHS = {"M": "month", "Y": "year"}
_NAMES: Mapping[Resolution, str] = {"day": "daily", "minute": "minute"}
_LOOK_BACK_DAYS = (7, 70)  #: The newest bar is looked for in the last days of the data, before all of it is read

_Row = TypeVar("_Row", DividendRow, SplitRow)
Instruments = Mapping[AssetClass, Mapping[str, frozenset[str]]]
"""Asset class -> symbol of a stock or coin -> itself, or the contracts on it."""


def rates_query(view: View, given: types.DaysOfRates) -> types.Rates:
    """Treasury yields by day, from the moment of their publication."""
    first, last = read_days(given.start, given.end)
    tenors = read_names(given.tenors, "tenors", tuple(TENOR_YEARS))
    rows = [
        {
            "date": row.day.isoformat(),
            **{f"yield_{tenor[:-1]}_{_LENGTHS[tenor[-1]]}": row.yields_pct.get(tenor) for tenor in tenors},
            "published_ts": moment_text(row.available_ns),
        }
        for row in curves_of_days(view, first, last)
    ]
    return types.Rates(as_of_ts=moment_text(view.as_of_ns), rates=rows)


def dividends_query(view: View, given: types.ExDays) -> types.Dividends:
    """Cash dividends declared so far, by ex-day."""
    found, unknown = _of_ex_days(view, given, view.dividends, ("ex_day", "declared_ns", "amount_e4"))
    rows = [
        types.DividendShown(row.symbol, str(row.ex_day), str(row.pay_day), row.amount_e4 / E4, moment_text(row.declared_ns))
        for row in found
    ]
    return types.Dividends(as_of_ts=moment_text(view.as_of_ns), dividends=rows, unknown=unknown)


def splits_query(view: View, given: types.ExDays) -> types.Splits:
    """Stock splits announced so far, by ex-day."""
    found, unknown = _of_ex_days(view, given, view.splits, ("ex_day", "announced_ns", "new", "old"))
    rows = [types.SplitShown(row.symbol, str(row.ex_day), row.new, row.old, moment_text(row.announced_ns)) for row in found]
    return types.Splits(as_of_ts=moment_text(view.as_of_ns), splits=rows, unknown=unknown)


def _of_ex_days(
    view: View, given: types.ExDays, read: Callable[[str], Sequence[_Row]], order: tuple[str, ...]
) -> tuple[list[_Row], list[str]]:
    """Rows of the stocks and ex-days asked for, by stock and then in an order of fields; and the tickers that are no stock's."""
    first, last = read_days(given.start, given.end)
    tickers = read_tickers(given.tickers)
    stocks = {row.symbol for row in view.symbols() if row.asset_class == "stock"}
    by_stock = (sorted(read(ticker), key=attrgetter(*order)) for ticker in tickers if ticker in stocks)
    rows = [row for of_stock in by_stock for row in of_stock if first <= row.ex_day <= last]
    return rows, [ticker for ticker in tickers if ticker not in stocks]


def symbols_list(view: View, given: types.SymbolsQuery) -> types.Symbols:
    """Stocks and coins listed so far."""
    after = () if given.cursor is None else read_cursor(given.cursor, (str, str))
    listed = sorted(view.symbols(), key=_symbol_key)
    left = (row for row in listed if _symbol_key(row) > after and given.asset_class in (None, row.asset_class))
    page, next_cursor = page_of(left, given.limit, _symbol_key)
    return types.Symbols(
        as_of_ts=moment_text(view.as_of_ns),
        symbols=[_symbol(view, row) for row in page],
        next_cursor=next_cursor,
    )


def _symbol_key(row: SymbolRow) -> tuple[str, str]:
    return row.symbol, row.asset_class


def _symbol(view: View, row: SymbolRow) -> types.SymbolShown:
    asset_class: types.ListedClass = "crypto" if row.asset_class == "crypto" else "stock"
    has_options = row.has_options and len(view.contracts(row.symbol)) > 0
    return types.SymbolShown(row.symbol, asset_class, row.name, row.sector, has_options, moment_text(row.listed_ns))


def freshness(view: View, given: types.Nothing) -> types.Freshness:  # noqa: ARG001 - all functions of operations take both
    """How far each source reaches, as of the clock."""
    listed = _listed(view)
    sources: dict[str, types.Source] = {}
    for asset_class, symbols in listed.items():
        count = sum(map(len, symbols.values()))
        for resolution, name in _NAMES.items():
            newest = _newest_bar(view, asset_class, resolution, symbols)
            sources[f"{asset_class}_{name}"] = _shown([] if newest is None else [newest], count)
    stocks = listed["stock"]
    sources["rates"] = _shown((row.available_ns, row.day) for row in view.rates(date.min, date.max))
    sources["dividends"] = _shown((row.declared_ns, row.ex_day) for symbol in stocks for row in view.dividends(symbol))
    sources["splits"] = _shown((row.announced_ns, row.ex_day) for symbol in stocks for row in view.splits(symbol))
    return types.Freshness(as_of_ts=moment_text(view.as_of_ns), sources=sources)


def _listed(view: View) -> Instruments:
    rows = view.symbols()
    kinds: tuple[types.ListedClass, ...] = ("stock", "crypto")
    single: dict[AssetClass, dict[str, frozenset[str]]] = {
        kind: {row.symbol: frozenset([row.symbol]) for row in rows if row.asset_class == kind} for kind in kinds
    }
    optioned = [row.symbol for row in rows if row.asset_class == "stock" and row.has_options]
    return {**single, "option": {symbol: frozenset(row.symbol for row in view.contracts(symbol)) for symbol in optioned}}


def _newest_bar(
    view: View, asset_class: AssetClass, resolution: Resolution, symbols: Mapping[str, frozenset[str]]
) -> tuple[int, date] | None:
    info = view.dataset.info
    last_day = info.last_day if resolution == "day" else info.minute_last_day
    end_ns = min(view.as_of_ns, day_start(last_day) + DAY)
    for start_ns in (*(end_ns - days * DAY for days in _LOOK_BACK_DAYS), 0):
        span = Span(start_ns, view.as_of_ns + 1)
        starts = [int(bars.start_ns[-1]) for bars in _series(view, asset_class, resolution, symbols, span) if len(bars)]
        if starts:
            day = day_of(max(starts))
            if resolution == "minute":
                return max(starts) + MINUTE, day
            return (max(starts) + DAY if asset_class == "crypto" else day_moment(view, day, "close")), day
    return None


def _series(
    view: View, asset_class: AssetClass, resolution: Resolution, symbols: Mapping[str, frozenset[str]], span: Span
) -> Iterator[Bars]:
    for symbol, instruments in symbols.items():
        if asset_class == "option":
            yield from (bars for name, bars in view.chain_bars(symbol, resolution, span).items() if name in instruments)
        else:
            yield view.bars(asset_class, symbol, resolution, span)


def _shown(rows: Iterable[tuple[int, date]], instruments: int | UnsetType = UNSET) -> types.Source:
    """Of rows (when known, day), the one that became known last."""
    known_ns, day = max(rows, default=(None, None))
    return types.Source(None if day is None else str(day), None if known_ns is None else moment_text(known_ns), instruments)
