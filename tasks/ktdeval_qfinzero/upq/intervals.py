"""Bars of several minutes, counted from the session's open and a lunch break's end, of coins from midnight in UTC."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ktdeval_qfinzero.data.rows import AssetClass, Bars, IntArray, grouped
from ktdeval_qfinzero.data.stores import Span
from ktdeval_qfinzero.moments import MINUTE
from ktdeval_qfinzero.view import View


def interval_bars(view: View, asset_class: AssetClass, ticker: str, span: Span, step_ns: int) -> Bars:
    """Bars of `step_ns` that start in the span, as known at the view's moment; the last one may still grow."""
    minutes = view.bars(asset_class, ticker, "minute", Span(span.start_ns, span.end_ns + step_ns - MINUTE))
    start_ns = minutes.start_ns - (minutes.start_ns - _origins(view, asset_class, minutes.start_ns)) % step_ns
    inside = (start_ns >= span.start_ns) & (start_ns < span.end_ns)
    minutes, start_ns = minutes.take(inside), start_ns[inside]
    if not len(minutes):
        return minutes
    first = np.flatnonzero(np.diff(start_ns, prepend=start_ns[0] - 1))
    return grouped(minutes, first, start_ns[first])


def interval_ends(view: View, asset_class: AssetClass, start_ns: IntArray, step_ns: int) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """[n] until when bars reach, at most to a break, a close and the view's moment; and which reach over a whole `step_ns`."""
    ends = np.minimum(start_ns + step_ns, view.as_of_ns // MINUTE * MINUTE)
    if asset_class != "crypto":
        hours = view.hours
        ends = np.minimum(ends, hours.end_ns[np.searchsorted(hours.end_ns, start_ns, side="right")])
    return ends, ends == start_ns + step_ns


def _origins(view: View, asset_class: AssetClass, ns: IntArray) -> IntArray:
    """[n] moments that the bars of these moments are counted from: the beginning of the trading that runs, or comes next."""
    if asset_class == "crypto":
        return np.zeros_like(ns)
    hours = view.hours
    return hours.begin_ns[np.searchsorted(hours.end_ns, ns, side="right")]
