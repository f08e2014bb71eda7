"""Equity in a result of QuantConnect LEAN: a chart of samples, one at each midnight of the algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

import pandas as pd

from ktdeval.errors import DataError
from ktdeval_judge.readers.cells import CellRow, day_of, object_row
from ktdeval_judge.readers.frames import values_of


def camel(row: CellRow) -> CellRow:
    """Return an object with keys that begin with a small letter, as newer versions write them."""
    cells = {key[:1].lower() + key[1:]: value for key, value in row.cells.items()}
    return CellRow(row.place, cells, unit="key")


def member(row: CellRow, key: str) -> CellRow:
    """Return an object in an object, with keys as of `camel`."""
    return camel(object_row(f"{row.place}: {key}", row.members(key)))


def equity_of(
    path: Path, result: CellRow, zone: str, sessions: tuple[int, ...]
) -> tuple[pd.Series, float]:
    """Return account values by day, and the first sample. Nights of days without trading are sampled
    too: where `sessions` are given, those alone count.
    """
    charts = object_row(f"{path}: charts", result.members("charts"))
    chart = member(charts, "Strategy Equity")
    lines = object_row(f"{chart.place}: series", chart.members("series"))
    points = member(lines, "Equity").items("values")
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

        row = CellRow(f"{place}[{number}]", cells, unit="key")
        if row.has("value"):
            yield row.unix_moment("time", zone), row.number("value")


def start_equity(result: CellRow, first: float) -> float:
    """Return the capital that a backtest began with."""
    statistics = result.cells.get("statistics")
    if not isinstance(statistics, Mapping) or "Start Equity" not in statistics:
        return first
    return object_row(f"{result.place}: statistics", statistics).number("Start Equity")
