"""At which tick of a day an order can next do anything, so that the ticks before it cost nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ktdeval_qfinzero.pmb.frames import Frame
from ktdeval_qfinzero.pmb.types import Order

NEVER = 1 << 30
"""Later than any tick of a day."""


def next_tick(order: Order, frame: Frame, first: int) -> int:
    """First tick from `first` on at which an order may trigger, fill or expire; `NEVER` where there is none this day."""
    column = frame.column.get(order.instrument.id)
    if column is None:
        return _expiry(order, frame)
    first = max(first, int(np.searchsorted(frame.start_ns, order.accepted_ns)))
    traded = frame.volume[first:, column] > 0
    reached = _reached(order, frame, first, column)
    return min(_first(traded if reached is None else traded & reached, first), _expiry(order, frame))


def next_tick_of_spread(orders: Sequence[Order], frame: Frame, first: int) -> int:
    """First tick at which all legs have a bar, or the spread expires."""
    first = max(first, int(np.searchsorted(frame.start_ns, orders[0].accepted_ns)))
    columns = [frame.column[order.instrument.id] for order in orders if order.instrument.id in frame.column]
    if len(columns) < len(orders):
        return _expiry(orders[0], frame)
    traded: npt.NDArray[np.bool_] = np.all(frame.volume[first:, columns] > 0, axis=1)
    return min(_first(traded, first), _expiry(orders[0], frame))


def _reached(order: Order, frame: Frame, first: int, column: int) -> npt.NDArray[np.bool_] | None:
    """Ticks at which the price that the order waits for is reached; None where it waits for none."""
    waits_for_stop = order.stop_e4 is not None and not order.triggered
    price = order.stop_e4 if waits_for_stop else order.limit_e4
    if price is None:
        return None
    upwards = (order.side == "BUY") == waits_for_stop
    return frame.high_e4[first:, column] >= price if upwards else frame.low_e4[first:, column] <= price


def _expiry(order: Order, frame: Frame) -> int:
    if order.expire_ns is None:
        return NEVER
    tick = int(np.searchsorted(frame.tick_ns, order.expire_ns))
    return tick if tick < len(frame.tick_ns) else NEVER


def _first(hits: npt.NDArray[np.bool_], first: int) -> int:
    place = int(hits.argmax()) if len(hits) else 0
    return first + place if len(hits) and hits[place] else NEVER
