"""Results of QuantConnect LEAN: the JSON of a backtest, and the JSON of its order events.

All times are UTC; days are those of the market's time zone, New York unless another is given. Equity is
sampled at midnight of the algorithm, which is the close of the day before (`BaseResultsHandler.Sample`).
Older versions begin keys with a capital.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.cells import NEW_YORK, CellRow, object_row
from ktdeval_judge.readers.frames import FrameFill, signed_fill, trades_of
from ktdeval_judge.readers.lean_equity import camel, equity_of, member, start_equity
from ktdeval_judge.readers.sample import FileSample, ReadOptions, load_document

name = "lean"
_FILLED = ("3", "filled")  # status of an order, by number or by name
_EVENT = ("fillPrice", "fillQuantity", "symbolValue")
_NOTES = (
    "LEAN fills at prices adjusted for splits and dividends, unless the algorithm asks for raw ones.",
    "LEAN does not write on whose knowledge an order was decided.",
)


def recognises(sample: FileSample) -> bool:
    """Whether a document is a result of LEAN or its order events."""
    if sample.has_keys("charts", "statistics") or sample.has_keys("Charts", "Statistics"):
        return True

    return sample.has_keys("charts", "orders") or sample.has_keys(*_EVENT)


def read(path: Path, options: ReadOptions) -> Declared:
    """Return what a file declares. Raises DataError: the first fault, with its place."""
    document = load_document(path)
    zone = options.zone or NEW_YORK
    if isinstance(document, list):
        trades = trades_of(_event_fills(str(path), document, zone), path)
        return Declared(program=name, source=path.name, trades=trades, notes=_NOTES)

    result = camel(object_row(str(path), document))
    notes = list(_NOTES)
    values, first = equity_of(path, result, zone, options.sessions)
    return Declared(
        program=name,
        source=path.name,
        trades=_trades(path, result, zone, notes),
        values=values,
        cash=start_equity(result, first),
        notes=tuple(notes),
    )


# ---- orders


def _trades(path: Path, result: CellRow, zone: str, notes: list[str]) -> pd.DataFrame | None:
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

    fills: list[FrameFill] = []
    partly = 0
    for key, value in orders.items():
        order = camel(object_row(f"{path}: orders.{key}", value))
        found = list(_order_fills(order, zone))
        partly += not found and order.has("lastFillTime")
        fills += found

    if partly:
        notes.append(
            f"Left out: {partly} orders that were filled in part; the file of order events has their"
            " fills."
        )
    return trades_of(fills, path) if fills else None


def _total_orders(result: CellRow) -> int | None:
    statistics = result.cells.get("statistics")
    if not isinstance(statistics, Mapping):
        return None

    text = statistics.get("Total Orders", statistics.get("Total Trades"))
    return int(text) if isinstance(text, str) and text.isdecimal() and text.isascii() else None


def _order_fills(order: CellRow, zone: str) -> Iterator[FrameFill]:
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


def _code(order: CellRow) -> str:
    if isinstance(order.cells.get("symbol"), str):
        return order.text("symbol")
    return member(order, "symbol").text("value")


def _event_fills(place: str, events: list[Any], zone: str, code: str = "") -> Iterator[FrameFill]:
    for number, value in enumerate(events):
        event = camel(object_row(f"{place}[{number}]", value))
        if event.has("fillQuantity") and event.number("fillQuantity") == 0:
            continue

        asset = code or event.text("symbolValue")
        fill = signed_fill(event, _event_moment(event, zone), asset, "fillQuantity", "fillPrice")
        has_fee = event.has("orderFeeAmount")
        yield fill.with_fee(event.number("orderFeeAmount") if has_fee else None)


def _event_moment(event: CellRow, zone: str) -> datetime:
    if isinstance(event.cells.get("time"), str):
        return event.moment("time", zone, is_label=False)
    return event.unix_moment("time", zone)
