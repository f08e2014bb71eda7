"""Results of QuantConnect LEAN: the JSON of a backtest, and the JSON of its order events.

All times are UTC; days are those of the market's time zone, New York unless another is given. Equity is
sampled at midnight of the algorithm, which is the close of the day before (`BaseResultsHandler.Sample`).
Older versions begin keys with a capital.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

import pandas as pd

from ktdeval.errors import DataError
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.cells import NEW_YORK, Row, day_of, object_row
from ktdeval_judge.readers.frames import Fill, signed_fill, trades_of, values_of
from ktdeval_judge.readers.sample import ReadOptions, Sample, load_document

name = "lean"
_FILLED = ("2", "3", "partiallyfilled", "filled")  # status of an order, by number or by name
_EVENT = ("fillPrice", "fillQuantity", "symbolValue")
_ADJUSTED = "LEAN fills at prices adjusted for splits and dividends, unless the algorithm asks for raw ones."
_NO_DECISIONS = "LEAN does not write on whose knowledge an order was decided."


def recognises(sample: Sample) -> bool:
    """Whether a document is a result of LEAN or its order events."""
    if sample.has_keys("charts", "statistics") or sample.has_keys("Charts", "Statistics"):
        return True

    return sample.has_keys("charts", "orders") or sample.has_keys(*_EVENT)


def read(path: Path, options: ReadOptions) -> Declared:
    """Return what a file declares. Raises DataError: the first fault, with its place."""
    document = load_document(path)
    zone = options.zone or NEW_YORK
    if isinstance(document, list):
        fills = list(_event_fills(str(path), document, zone))
        return Declared(
            program=name,
            source=path.name,
            trades=trades_of(fills, path),
            notes=(_ADJUSTED, _NO_DECISIONS),
        )

    result = _camel(object_row(str(path), document))
    notes = [_ADJUSTED, _NO_DECISIONS]
    trades = _trades(path, result, zone, notes)
    values, first = _values(path, result, zone, options.sessions)
    return Declared(
        program=name,
        source=path.name,
        trades=trades,
        values=values,
        cash=_start_equity(result, first),
        notes=tuple(notes),
    )


def _camel(row: Row) -> Row:
    cells = {key[:1].lower() + key[1:]: value for key, value in row.cells.items()}
    return Row(row.place, cells, unit="key")


def _member(row: Row, key: str) -> Row:
    return _camel(object_row(f"{row.place}: {key}", row.members(key)))


# ---- orders


def _trades(path: Path, result: Row, zone: str, notes: list[str]) -> pd.DataFrame | None:
    """Return the trades of a result; None where it has no orders, or not all of them."""
    if not result.has("orders"):
        return None

    orders = result.cells["orders"]
    if isinstance(orders, list):
        orders = {str(number): order for number, order in enumerate(orders)}
    if not isinstance(orders, Mapping):
        result.refuse("orders", "expected an object of orders by number")

    total = _total_orders(result)
    if total is not None and total > len(orders):
        notes.append(
            f"The result holds {len(orders)} of {total} orders, so that its trades are left out:"
            " read the file of order events."
        )
        return None

    fills: list[Fill] = []
    for key, value in orders.items():
        fills += _order_fills(_camel(object_row(f"{path}: orders.{key}", value)), zone)

    return trades_of(fills, path) if fills else None


def _total_orders(result: Row) -> int | None:
    statistics = result.cells.get("statistics")
    if not isinstance(statistics, Mapping):
        return None

    text = statistics.get("Total Orders", statistics.get("Total Trades"))
    return int(text) if isinstance(text, str) and text.isdecimal() and text.isascii() else None


def _order_fills(order: Row, zone: str) -> Iterator[Fill]:
    """Yield the fills of an order: its events, or else one of its quantity at its average price."""
    events = order.cells.get("events")
    if isinstance(events, list) and events:
        code = _code(order)
        yield from _event_fills(f"{order.place}: events", events, zone, code)
        return

    if str(order.cells.get("status")).lower() not in _FILLED:
        return

    moment = order.moment("lastFillTime", zone, is_label=False)
    yield signed_fill(order, moment, _code(order), "quantity", "price")


def _code(order: Row) -> str:
    if isinstance(order.cells.get("symbol"), str):
        return order.text("symbol")
    return _member(order, "symbol").text("value")


def _event_fills(place: str, events: list[Any], zone: str, code: str = "") -> Iterator[Fill]:
    for number, value in enumerate(events):
        event = _camel(object_row(f"{place}[{number}]", value))
        if event.has("fillQuantity") and event.number("fillQuantity") == 0:
            continue

        asset = code or event.text("symbolValue")
        fill = signed_fill(event, _event_moment(event, zone), asset, "fillQuantity", "fillPrice")
        has_fee = event.has("orderFeeAmount")
        yield fill.with_fee(event.number("orderFeeAmount") if has_fee else None)


def _event_moment(event: Row, zone: str) -> datetime:
    if isinstance(event.cells.get("time"), str):
        return event.moment("time", zone, is_label=False)
    return event.unix_moment("time", zone)


# ---- equity


def _values(
    path: Path, result: Row, zone: str, sessions: tuple[int, ...]
) -> tuple[pd.Series, float]:
    """Return account values by day, and the first sample. Nights of days without trading are sampled
    too: where `sessions` are given, those alone count.
    """
    charts = object_row(f"{path}: charts", result.members("charts"))
    chart = _member(charts, "Strategy Equity")
    lines = object_row(f"{chart.place}: series", chart.members("series"))
    points = _member(lines, "Equity").items("values")
    samples = sorted(_points(f"{path}: charts.Strategy Equity.Equity", points, zone))
    if not samples:
        raise DataError(f"{path}: its Strategy Equity is empty; export a finished backtest")

    first_moment, first = samples[0]
    if first_moment.time() == time() and len(samples) > 1:
        samples = samples[1:]  # taken as the algorithm started, before its first bar

    by_day: dict[int, float] = {}
    trading = frozenset(sessions)
    for moment, value in samples:
        day = day_of(_close_day(moment))
        if not trading or day in trading:
            by_day[day] = value

    return values_of(by_day, path), first


def _close_day(moment: datetime) -> datetime:
    return moment - timedelta(days=1) if moment.time() == time() else moment


def _points(place: str, points: Any, zone: str) -> Iterator[tuple[datetime, float]]:
    for number, point in enumerate(points):
        if isinstance(point, list) and len(point) in (2, 5):
            cells = {"time": point[0], "value": point[-1]}  # a candle ends with its close
        elif isinstance(point, Mapping):
            cells = {"time": point.get("x"), "value": point.get("y")}
        else:
            raise DataError(f"{place}[{number}]: expected [time, value] or [time, o, h, l, c]")

        row = Row(f"{place}[{number}]", cells, unit="key")
        if row.has("value"):
            yield row.unix_moment("time", zone), row.number("value")


def _start_equity(result: Row, first: float) -> float:
    """Return the capital that a backtest began with."""
    statistics = result.cells.get("statistics")
    text = statistics.get("Start Equity") if isinstance(statistics, Mapping) else None
    if text is None:
        return first
    return Row(f"{result.place}: statistics", {"Start Equity": text}, unit="key").number(
        "Start Equity"
    )
