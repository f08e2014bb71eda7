"""Market around an episode: the benchmark, the days after each order, and closes of every stock that was traded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ktdeval.jsonio import JsonValue
from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.trading import OrderRecord, StepRecord

DAYS_BEFORE, DAYS_AFTER = 40, 10
"""Days around an episode of which closes are shown, so that its first and last orders have a surrounding too."""

_CLOSE_SCALE = 1000
"""Adjusted closes are kept in thousandths of CNY: what a plot of them can show, and no more."""


def benchmark_levels(steps: Sequence[StepRecord], market: MarketSnapshot) -> list[float]:
    """[steps + 1] closes of the benchmark: of the day of the first decision, then of each fill day. Raises DataError: a day of the
    records is no day of the market.
    """
    days = [steps[0].decided_on, *(step.filled_on for step in steps)]
    return [float(market.benchmark[market.day_index(day)]) for day in days]


def order_facts(step: StepRecord, market: MarketSnapshot) -> list[JsonValue]:
    """For each order of a step prices around it in CNY, and returns adjusted for splits and dividends as fractions.

    `to_open` is from the close before to the fill day's open, `to_close` from that open to the day's close, `to_next_open` from
    that open to the next trading day's. `right`: whether that last return was positive for a buy, negative for a sell, which is
    what calibration judges filled orders by (KTD-Fin Appendix G). None for an order in no asset, and in the place of a figure that
    the market lacks.
    """
    row = market.day_index(step.filled_on)
    facts: list[JsonValue] = []
    for order in step.orders:
        column = None if order.code is None else market.asset_index.get(order.code)
        facts.append(None if column is None else _facts(market, row, column, order))
    return facts


def _facts(market: MarketSnapshot, row: int, column: int, order: OrderRecord) -> dict[str, JsonValue]:
    opens, closes = market.adjusted_open[:, column], market.adjusted_close[:, column]
    before = _last_known(closes[:row])
    after = opens[row + 1] if row + 1 < len(opens) else np.nan
    change = after / opens[row] - 1.0
    judged = bool(order.filled_shares) and bool(np.isfinite(change))
    return {
        "close_before": _figure(_last_known(market.close[:row, column])),
        "open": _figure(market.open[row, column]),
        "close": _figure(market.close[row, column]),
        "next_open": _figure(market.open[row + 1, column]) if row + 1 < len(opens) else None,
        "to_open": _figure(opens[row] / before - 1.0),
        "to_close": _figure(closes[row] / opens[row] - 1.0),
        "to_next_open": _figure(change),
        "right": bool(change > 0 if order.side == "BUY" else change < 0) if judged else None,
    }


def _last_known(values: FloatArray) -> float:
    known = np.flatnonzero(np.isfinite(values))
    return float(values[known[-1]]) if len(known) else float("nan")


def _figure(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None


def close_series(steps: Sequence[StepRecord], market: MarketSnapshot) -> dict[str, JsonValue]:
    """Adjusted closes of every stock that was ordered or held, in terms of the last day shown. Returns `days`: ISO days. `start`:
    which of them is the day of the first decision. `scale`: units a CNY. `closes`: code -> the first close in these units, then the
    change from the last known one; None on a day without a bar.
    """
    base = market.day_index(steps[0].decided_on)
    first, last = max(0, base - DAYS_BEFORE), min(len(market.days), base + len(steps) + DAYS_AFTER)
    codes = {order.code for step in steps for order in step.orders if order.code is not None}
    codes |= {position.code for step in steps for position in step.positions}
    columns = {code: market.asset_index[code] for code in sorted(codes) if code in market.asset_index}
    closes = {}
    for code, column in columns.items():
        values = market.adjusted_close[first:last, column] / market.factor[last - 1, column]
        closes[code] = _changes(values)
    return {"days": [str(day) for day in market.days[first:last]], "start": base - first, "scale": _CLOSE_SCALE, "closes": closes}


def _changes(values: FloatArray) -> list[int | None]:
    """Values in units of `_CLOSE_SCALE`, each as its change from the last known one before."""
    found: list[int | None] = []
    last = 0
    for value in values.tolist():
        if value != value:  # NaN: no bar
            found.append(None)
            continue
        now = round(value * _CLOSE_SCALE)
        found.append(now - last)
        last = now
    return found
