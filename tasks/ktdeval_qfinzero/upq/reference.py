"""Rates, dividends, splits and the list of symbols."""

from __future__ import annotations

from ktdeval.api import JsonValue
from ktdeval_qfinzero.data.rows import E4, TENOR_YEARS, SymbolRow
from ktdeval_qfinzero.moments import moment_text
from ktdeval_qfinzero.operations import Arguments
from ktdeval_qfinzero.paging import read_cursor, write_cursor
from ktdeval_qfinzero.upq.arguments import read_days, read_names, read_tickers
from ktdeval_qfinzero.upq.curves import curves_of_days
from ktdeval_qfinzero.view import View
from ktdeval_qfinzero.workspace import Workspace

YIELD_FIELDS = {
    tenor: f"yield_{tenor[:-1]}_{'month' if tenor.endswith('M') else 'year'}" for tenor in TENOR_YEARS
}  # fmt: skip
"""Tenor -> field of a row: `10Y` -> `yield_10_year`."""


def rates_query(workspace: Workspace, arguments: Arguments) -> JsonValue:
    """`UPQ.rates.query`."""
    view, (first, last) = workspace.view, read_days(arguments)
    tenors = read_names(arguments, "tenors", tuple(TENOR_YEARS))
    rows = [
        {
            "date": row.day.isoformat(),
            **{YIELD_FIELDS[tenor]: row.yields_pct.get(tenor) for tenor in tenors},
            "published_ts": moment_text(row.available_ns),
        }
        for row in curves_of_days(view, first, last)
    ]
    return {"as_of_ts": moment_text(view.as_of_ns), "rates": rows}


def dividends_query(workspace: Workspace, arguments: Arguments) -> JsonValue:
    """`UPQ.dividends.query`."""
    view, (first, last) = workspace.view, read_days(arguments)
    listed, unknown = _known_stocks(view, read_tickers(arguments))
    rows = [
        {
            "ticker": ticker,
            "ex_dividend_date": row.ex_day.isoformat(),
            "pay_date": row.pay_day.isoformat(),
            "amount": row.amount_e4 / E4,
            "declared_ts": moment_text(row.declared_ns),
        }
        for ticker in listed
        for row in sorted(view.dividends(ticker), key=lambda row: (row.ex_day, row.declared_ns, row.amount_e4))
        if first <= row.ex_day <= last
    ]
    return {"as_of_ts": moment_text(view.as_of_ns), "dividends": rows, "unknown": unknown}


def splits_query(workspace: Workspace, arguments: Arguments) -> JsonValue:
    """`UPQ.splits.query`."""
    view, (first, last) = workspace.view, read_days(arguments)
    listed, unknown = _known_stocks(view, read_tickers(arguments))
    rows = [
        {
            "ticker": ticker,
            "ex_date": row.ex_day.isoformat(),
            "new_shares": row.new,
            "old_shares": row.old,
            "announced_ts": moment_text(row.announced_ns),
        }
        for ticker in listed
        for row in sorted(view.splits(ticker), key=lambda row: (row.ex_day, row.announced_ns, row.new, row.old))
        if first <= row.ex_day <= last
    ]
    return {"as_of_ts": moment_text(view.as_of_ns), "splits": rows, "unknown": unknown}


def symbols_list(workspace: Workspace, arguments: Arguments) -> JsonValue:
    """`UPQ.symbols.list`."""
    view, kind, limit = workspace.view, arguments.get("asset_class"), arguments["limit"]
    after = read_cursor(arguments["cursor"], (str, str)) if "cursor" in arguments else ()
    listed = sorted(view.symbols(), key=_symbol_key)
    left = [row for row in listed if _symbol_key(row) > after and kind in (None, row.asset_class)]
    page = left[:limit]
    return {
        "as_of_ts": moment_text(view.as_of_ns),
        "symbols": [_symbol(view, row) for row in page],
        "next_cursor": write_cursor(*_symbol_key(page[-1])) if len(left) > len(page) else None,
    }


def _symbol_key(row: SymbolRow) -> tuple[str, str]:
    return row.symbol, row.asset_class


def _symbol(view: View, row: SymbolRow) -> JsonValue:
    return {
        "ticker": row.symbol,
        "asset_class": row.asset_class,
        "name": row.name,
        "sector": row.sector,
        "has_options": row.has_options and len(view.contracts(row.symbol)) > 0,
        "listed_ts": moment_text(row.listed_ns),
    }


def _known_stocks(view: View, tickers: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The tickers of listed stocks, and the others."""
    known = {row.symbol for row in view.symbols() if row.asset_class == "stock"}
    return [ticker for ticker in tickers if ticker in known], [ticker for ticker in tickers if ticker not in known]
