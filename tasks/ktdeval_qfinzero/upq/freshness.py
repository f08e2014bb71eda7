"""How far each source reaches, as of the clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date

from ktdeval.api import JsonValue
from ktdeval_qfinzero.data.rows import AssetClass, Bars, Resolution
from ktdeval_qfinzero.data.stores import Span
from ktdeval_qfinzero.moments import DAY, MINUTE, day_of, day_start, moment_text
from ktdeval_qfinzero.operations import Arguments
from ktdeval_qfinzero.upq.quotes import day_moment
from ktdeval_qfinzero.view import View
from ktdeval_qfinzero.workspace import Workspace

_LOOK_BACK_DAYS = (7, 70)
"""The newest bar is looked for in the last days of the data, before all of it is read."""

Instruments = Mapping[AssetClass, Mapping[str, frozenset[str]]]
"""Asset class -> symbol of a stock or coin -> itself, or the contracts on it."""


def freshness(workspace: Workspace, arguments: Arguments) -> JsonValue:  # noqa: ARG001 - all handlers have one signature
    """`UPQ.health.freshness`."""
    view = workspace.view
    listed = _listed(view)
    sources: dict[str, JsonValue] = {}
    for asset_class, symbols in listed.items():
        for resolution in ("day", "minute"):
            name = f"{asset_class}_{'daily' if resolution == 'day' else 'minute'}"
            newest = _newest_bar(view, asset_class, resolution, symbols)
            sources[name] = _shown([] if newest is None else [newest]) | {"instruments": sum(map(len, symbols.values()))}
    stocks = listed["stock"]
    sources["rates"] = _shown((row.available_ns, row.day) for row in view.rates(date.min, date.max))
    sources["dividends"] = _shown((row.declared_ns, row.ex_day) for symbol in stocks for row in view.dividends(symbol))
    sources["splits"] = _shown((row.announced_ns, row.ex_day) for symbol in stocks for row in view.splits(symbol))
    return {"as_of_ts": moment_text(view.as_of_ns), "sources": sources}


def _listed(view: View) -> Instruments:
    rows = view.symbols()
    optioned = [row.symbol for row in rows if row.asset_class == "stock" and row.has_options]
    return {
        "stock": {row.symbol: frozenset([row.symbol]) for row in rows if row.asset_class == "stock"},
        "crypto": {row.symbol: frozenset([row.symbol]) for row in rows if row.asset_class == "crypto"},
        "option": {symbol: frozenset(row.symbol for row in view.contracts(symbol)) for symbol in optioned},
    }


def _newest_bar(
    view: View, asset_class: AssetClass, resolution: Resolution, symbols: Mapping[str, frozenset[str]]
) -> tuple[int, date] | None:
    """When the newest bar was complete, and its day."""
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
            return (max(starts) + DAY if asset_class == "crypto" else day_moment(day, "close")), day
    return None


def _series(
    view: View, asset_class: AssetClass, resolution: Resolution, symbols: Mapping[str, frozenset[str]], span: Span
) -> Iterator[Bars]:
    for symbol, instruments in symbols.items():
        if asset_class == "option":
            yield from (bars for name, bars in view.chain_bars(symbol, resolution, span).items() if name in instruments)
        else:
            yield view.bars(asset_class, symbol, resolution, span)


def _shown(rows: Iterable[tuple[int, date]]) -> dict[str, JsonValue]:
    """Of rows (when known, day), the one that became known last."""
    known_ns, day = max(rows, default=(None, None))
    return {
        "latest_date": None if day is None else day.isoformat(),
        "latest_ts": None if known_ns is None else moment_text(known_ns),
    }
