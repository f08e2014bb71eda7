"""Rates, dividends, splits, the list of symbols, and how far each source reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import chain
from operator import attrgetter
from typing import TypeVar, cast

from msgspec import UNSET, UnsetType

from ktdeval_qfinzero.cursors import page_of, read_cursor
from ktdeval_qfinzero.data.rows import (
    E4,
    TENOR_YEARS,
    AssetClass,
    Bars,
    DividendRow,
    MomentSpan,
    RateRow,
    Resolution,
    SplitRow,
    SymbolRow,
)
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.schemas import Nothing
from ktdeval_qfinzero.timestamps import DAY, MINUTE, day_of, day_start, moment_text
from ktdeval_qfinzero.upq import answers, arguments
from ktdeval_qfinzero.upq.argument_parsing import read_days, read_names, read_tickers
from ktdeval_qfinzero.upq.option_greeks import curves_of_days, day_moment
from ktdeval_qfinzero.upq.rows_and_indicators import Cell

_LENGTHS = {"M": "month", "Y": "year"}
_NAMES: Mapping[Resolution, str] = {"day": "daily", "minute": "minute"}
#: The newest bar is searched for first in the last days of the data, then in all of the data
_LOOK_BACK_DAYS = (7, 70)

_Row = TypeVar("_Row", DividendRow, SplitRow)
Instruments = Mapping[AssetClass, Mapping[str, frozenset[str]]]
"""Asset class -> symbol of a stock or crypto asset -> the symbol itself, or the contracts on it."""


def rates_query(view: DatasetView, given: arguments.DaysOfRates) -> answers.Rates:
    """Treasury yields by day, from the moment of their publication."""
    first, last = read_days(given.start, given.end)
    tenors = read_names(given.tenors, "tenors", tuple(TENOR_YEARS))
    curves = [_curve(row, tenors) for row in curves_of_days(view, first, last)]
    return answers.Rates(rates=cast("list[answers.Curve]", curves))


def _curve(row: RateRow, tenors: Sequence[str]) -> dict[str, Cell]:
    curve: dict[str, Cell] = {"date": row.day.isoformat()}
    for tenor in tenors:
        count, unit = tenor[:-1], _LENGTHS[tenor[-1]]
        curve[f"yield_{count}_{unit}"] = row.yields_pct.get(tenor)

    curve["published_ts"] = moment_text(row.available_ns)
    return curve


def dividends_query(view: DatasetView, given: arguments.ExDays) -> answers.Dividends:
    """Cash dividends declared so far, by ex-day."""
    found, unknown = _of_ex_days(
        view, given, view.dividends, ("ex_day", "declared_ns", "amount_e4")
    )
    rows = [
        answers.DividendShown(
            ticker=row.symbol,
            ex_dividend_date=str(row.ex_day),
            pay_date=str(row.pay_day),
            amount=row.amount_e4 / E4,
            declared_ts=moment_text(row.declared_ns),
        )
        for row in found
    ]

    return answers.Dividends(dividends=rows, unknown=unknown)


def splits_query(view: DatasetView, given: arguments.ExDays) -> answers.Splits:
    """Stock splits announced so far, by ex-day."""
    found, unknown = _of_ex_days(view, given, view.splits, ("ex_day", "announced_ns", "new", "old"))
    rows = [
        answers.SplitShown(
            ticker=row.symbol,
            ex_date=str(row.ex_day),
            new_shares=row.new,
            old_shares=row.old,
            announced_ts=moment_text(row.announced_ns),
        )
        for row in found
    ]

    return answers.Splits(splits=rows, unknown=unknown)


def _of_ex_days(
    view: DatasetView,
    given: arguments.ExDays,
    read: Callable[[str], Sequence[_Row]],
    order: tuple[str, ...],
) -> tuple[list[_Row], list[str]]:
    """Return the rows for the requested stocks and ex-days, sorted by stock and then by the fields
    in `order`, and the tickers that are not stocks.
    """
    first, last = read_days(given.start, given.end)
    tickers = read_tickers(given.tickers)
    stocks = {row.symbol for row in view.symbols() if row.asset_class == "stock"}
    rows: list[_Row] = []
    unknown: list[str] = []

    for ticker in tickers:
        if ticker in stocks:
            of_stock = sorted(read(ticker), key=attrgetter(*order))
            rows += [row for row in of_stock if first <= row.ex_day <= last]
        else:
            unknown.append(ticker)

    return rows, unknown


def symbols_list(view: DatasetView, given: arguments.SymbolsQuery) -> answers.Symbols:
    """Stocks and coins listed so far."""
    after = () if given.cursor is None else read_cursor(given.cursor, (str, str))
    listed = sorted(view.symbols(), key=_symbol_key)
    left = (
        row
        for row in listed
        if _symbol_key(row) > after and given.asset_class in (None, row.asset_class)
    )
    page, next_cursor = page_of(left, given.limit, _symbol_key)

    return answers.Symbols(
        symbols=[_symbol_shown(view, row) for row in page],
        next_cursor=next_cursor,
    )


def _symbol_key(row: SymbolRow) -> tuple[str, str]:
    return row.symbol, row.asset_class


def _symbol_shown(view: DatasetView, row: SymbolRow) -> answers.SymbolShown:
    return answers.SymbolShown(
        ticker=row.symbol,
        asset_class="crypto" if row.asset_class == "crypto" else "stock",
        name=row.name,
        sector=row.sector,
        has_options=row.has_options and len(view.contracts(row.symbol)) > 0,
        listed_ts=moment_text(row.listed_ns),
    )


def freshness(view: DatasetView, given: Nothing) -> answers.Freshness:  # noqa: ARG001 - all functions of operations take both
    """How far each source reaches, as of the clock."""
    listed = _listed_instruments(view)
    sources: dict[str, answers.Source] = {}
    for asset_class, symbols in listed.items():
        count = sum(len(instruments) for instruments in symbols.values())
        for resolution, name in _NAMES.items():
            newest = _newest_bar(view, asset_class, resolution, symbols)
            rows = [] if newest is None else [newest]
            sources[f"{asset_class}_{name}"] = _source_shown(rows, count)

    stocks = listed["stock"]
    curves = view.rates(date.min, date.max)
    dividends = chain.from_iterable(view.dividends(symbol) for symbol in stocks)
    splits = chain.from_iterable(view.splits(symbol) for symbol in stocks)
    sources["rates"] = _source_shown((row.available_ns, row.day) for row in curves)
    sources["dividends"] = _source_shown((row.declared_ns, row.ex_day) for row in dividends)
    sources["splits"] = _source_shown((row.announced_ns, row.ex_day) for row in splits)

    return answers.Freshness(sources=sources)


def _listed_instruments(view: DatasetView) -> Instruments:
    stocks: dict[str, frozenset[str]] = {}
    coins: dict[str, frozenset[str]] = {}
    options: dict[str, frozenset[str]] = {}

    for row in view.symbols():
        if row.asset_class == "crypto":
            coins[row.symbol] = frozenset([row.symbol])
        elif row.asset_class == "stock":
            stocks[row.symbol] = frozenset([row.symbol])
            if row.has_options:
                contracts = view.contracts(row.symbol)
                options[row.symbol] = frozenset(contract.symbol for contract in contracts)

    return {"stock": stocks, "crypto": coins, "option": options}


def _newest_bar(
    view: DatasetView,
    asset_class: AssetClass,
    resolution: Resolution,
    symbols: Mapping[str, frozenset[str]],
) -> tuple[int, date] | None:
    info = view.dataset.info
    last_day = info.last_day if resolution == "day" else info.minute_last_day
    end_ns = min(view.as_of_ns, day_start(last_day) + DAY)

    starts_ns = [end_ns - days * DAY for days in _LOOK_BACK_DAYS]
    for start_ns in (*starts_ns, 0):
        span = MomentSpan(start_ns, view.as_of_ns + 1)
        series = _bar_series(view, asset_class, resolution, symbols, span)
        newest_ns = max((int(bars.start_ns[-1]) for bars in series if len(bars)), default=None)
        if newest_ns is not None:
            known_ns = _known_ns(view, asset_class, resolution, newest_ns)
            return known_ns, day_of(newest_ns)

    return None


def _known_ns(
    view: DatasetView, asset_class: AssetClass, resolution: Resolution, start_ns: int
) -> int:
    """Return when the bar with this start was complete."""
    if resolution == "minute":
        return start_ns + MINUTE
    if asset_class == "crypto":
        return start_ns + DAY

    return day_moment(view, day_of(start_ns), "close")


def _bar_series(
    view: DatasetView,
    asset_class: AssetClass,
    resolution: Resolution,
    symbols: Mapping[str, frozenset[str]],
    span: MomentSpan,
) -> Iterator[Bars]:
    for symbol, instruments in symbols.items():
        if asset_class == "option":
            yield from (
                bars
                for name, bars in view.chain_bars(symbol, resolution, span).items()
                if name in instruments
            )
        else:
            yield view.bars(asset_class, symbol, resolution, span)


def _source_shown(
    rows: Iterable[tuple[int, date]], instruments: int | UnsetType = UNSET
) -> answers.Source:
    """Describe the source of rows (time known, day) by the row that became known last."""
    newest = max(rows, default=None)
    if newest is None:
        return answers.Source(latest_date=None, latest_ts=None, instruments=instruments)

    known_ns, day = newest
    return answers.Source(
        latest_date=str(day), latest_ts=moment_text(known_ns), instruments=instruments
    )
