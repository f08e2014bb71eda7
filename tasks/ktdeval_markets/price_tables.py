"""Price tables: figures for the listed assets, their last sessions and bars, and the outcome of a
warm-up day.

A figure over n days covers the asset's own sessions: days on which the asset has a bar, not days on
which only other assets in the market trade.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.market import FloatArray, MarketView, bar_rows, board_of
from ktdeval.masking import AssetRef, DayRef, Payload, Price, Shares, figure, filled_table, table
from ktdeval_markets.episode_setting import MarketStage
from ktdeval_markets.shown_state import PARTS, Part, status

DRAWDOWN_DAYS = 60
VOLATILITY_DAYS = 20
RETURN_DAYS = (1, 5, 20, 60)
SESSIONS = 10  #: number of sessions searched for the last one with minute bars
VOLATILITY = "volatility_20d_pct"
DRAWDOWN = "drawdown_60d_pct"
ASSET_COLUMNS = (
    "stock_id",
    "kind",
    "board",
    "status",
    *PARTS,
    "volume",
    *(f"return_{days}d_pct" for days in RETURN_DAYS),
    VOLATILITY,
    DRAWDOWN,
)
IntArray = npt.NDArray[np.intp]
LAST_CLOSE = "last_close"  #: column added to the assets table if an asset has no close on the day
INTRADAY_COLUMNS = ("stock_id", "day", "session_pct", *PARTS, "volume")
#: columns omitted if a market has only closes, or has no boards
OPTIONAL_COLUMNS = ("board", "open", "high", "low", "volume")
HISTORY_COLUMNS = ("stock_id", "day", *PARTS, "volume")
OUTCOME_COLUMNS = ("stock_id", "next_day", "change_pct", "label")


# ---- figures of the day


def assets(stage: MarketStage, view: MarketView, shown: Sequence[int]) -> Payload:
    """Return the figures of the assets shown."""
    figures = stage.lens.figures.as_shown(view)
    rows = [_asset_row(stage, view, figures, asset) for asset in shown]
    if np.isfinite(view.close[view.day, list(shown)]).all():
        return filled_table(ASSET_COLUMNS, rows, OPTIONAL_COLUMNS)

    # On days when an exchange is closed, positions are valued at their last price.
    with_last = []
    for row, asset in zip(rows, shown, strict=True):
        with_last.append((*row, _last_close(view, asset)))

    return filled_table((*ASSET_COLUMNS, LAST_CLOSE), with_last, OPTIONAL_COLUMNS)


def _asset_row(
    stage: MarketStage, view: MarketView, figures: MarketView, asset: int
) -> Sequence[Payload]:
    """Return an asset's figures, computed from the market view `figures`."""
    day = view.day
    ref = AssetRef(asset)
    sessions = bar_rows(view, asset)
    closes = figures.adjusted_close[sessions, asset]
    returns = [_return_pct(ref, sessions, closes, days) for days in RETURN_DAYS]
    volatility = _volatility_pct(closes)
    drawdown = _drawdown_pct(closes)

    return (
        ref,
        stage.snapshot.kinds[asset],
        _board(stage, asset),
        status(view, asset),
        *(_bar_price(view, asset, day, part, 1.0) for part in PARTS),
        Shares(asset, float(view.volume[day, asset]), day),
        *returns,
        None if volatility is None else ref.figure(volatility, VOLATILITY, day),
        None if drawdown is None else ref.figure(drawdown, DRAWDOWN, day),
    )


def _board(stage: MarketStage, asset: int) -> str | None:
    """Return the board that defines an asset's lots and price limits; None if the asset's venue has
    no boards.
    """
    if not stage.rules.venues[asset].has_boards:
        return None
    return str(board_of(stage.snapshot.codes[asset]))


def _return_pct(ref: AssetRef, sessions: IntArray, closes: FloatArray, days: int) -> Payload:
    """Return the change in the close over the last `days` sessions, in per cent; None if the
    history is too short.
    """
    if len(closes) <= days:
        return None

    change = figure((closes[-1] / closes[-1 - days] - 1.0) * 100.0)
    if change is None:
        return None
    return ref.change_pct(change, int(sessions[-1]), int(sessions[-1 - days]))


def _volatility_pct(closes: FloatArray) -> float | None:
    """Return the volatility of daily returns, in per cent; None if the history is too short."""
    recent = closes[-1 - VOLATILITY_DAYS :]
    moves = recent[1:] / recent[:-1] - 1.0
    if len(moves) < VOLATILITY_DAYS:
        return None
    return figure(np.std(moves, ddof=1) * 100.0)


def _drawdown_pct(closes: FloatArray) -> float | None:
    """Return the distance of the last close from the highest recent close, in per cent; None
    without a close.
    """
    recent = closes[-DRAWDOWN_DAYS:]
    if not len(recent):
        return None
    return figure((recent[-1] / recent.max() - 1.0) * 100.0)


def _bar_price(view: MarketView, asset: int, day: int, part: Part, times: float) -> Payload:
    """Return one price of a bar, or None if it is missing. The factor `times` converts the price
    into another day's share terms.
    """
    value = float(getattr(view, part)[day, asset] * times)
    if value != value:
        return None
    return Price(asset, value, day, part)


def _last_close(view: MarketView, asset: int) -> Payload:
    """Return the last known close in today's share terms; None before the first close."""
    row = view.bar_row(asset, view.day)
    if row is None:
        return None

    in_shares_of_today = view.factor[row, asset] / view.factor[view.day, asset]
    return Price(asset, float(view.close[row, asset] * in_shares_of_today), row, "close")


# ---- the last session


def intraday(stage: MarketStage, view: MarketView, shown: Sequence[int]) -> Payload:
    """Return the last session of each asset shown, split into parts of equal length. Short days
    have as many parts as full ones.
    """
    rows = list[Sequence[Payload]]()
    for asset in shown:
        session = _last_session(view, asset)
        if session is not None:
            day, bars = session
            rows += _session(asset, day, bars, stage.session_parts(asset))

    return table(INTRADAY_COLUMNS, rows)


def _last_session(view: MarketView, asset: int) -> tuple[int, Any] | None:
    """Return the row and minute bars of the last session with minute bars among the latest
    `SESSIONS` sessions.
    """
    for day in bar_rows(view, asset)[: -1 - SESSIONS : -1].tolist():
        bars = view.minutes(view.codes[asset], day)
        if len(bars):
            return day, bars

    return None


def _session(asset: int, day: int, bars: Any, parts: int) -> Iterator[Sequence[Payload]]:
    """Yield one row for each part of a session.

    A bar's prices belong to the part in which the bar ends. Its volume is split among the parts
    that it overlaps, in proportion to time. A part in which no bar ends carries the previous price.
    """
    ends = bars["ends_at"].astype(np.int64)
    length = np.diff(ends).min() if len(ends) > 1 else 1
    start = ends[0] - length
    size = (ends[-1] - start) / parts

    # bar times, in units of parts
    until = (ends - start) / size
    since = (ends - length - start) / size
    part_of_price = np.ceil(until - 1e-9).astype(np.int64) - 1
    price_before = float(bars["open"][0])

    for part in range(parts):
        chunk = bars[part_of_price == part]
        quoted = (price_before,) * 4
        if len(chunk):
            high = chunk["high"].max()
            low = chunk["low"].min()
            quoted = (chunk["open"][0], high, low, chunk["close"][-1])

        price_before = float(quoted[-1])
        prices = []
        for name, value in zip(PARTS, quoted, strict=True):
            prices.append(Price(asset, float(value), day, name))

        inside = np.minimum(until, part + 1) - np.maximum(since, part)
        shares = np.clip(inside, 0.0, None) / (until - since)
        volume = float((shares * bars["volume"])[shares > 0].sum())
        elapsed_pct = figure((part + 1) / parts * 100.0, 3)
        yield (AssetRef(asset), DayRef(day), elapsed_pct, *prices, Shares(asset, volume, day))


# ---- daily bars


def history(stage: MarketStage, view: MarketView, shown: Sequence[int]) -> Payload:
    """Return the last bars of each asset shown, oldest first, without days on which the asset does
    not trade.

    Prices and volumes are in the share terms of the decision day, so that splits cause no jumps and
    the last bar equals the one in the assets table. The oldest bars show only their close if the
    task says so.
    """
    rows = list[Sequence[Payload]]()
    for asset in shown:
        sessions = bar_rows(view, asset)
        traded = sessions[view.volume[sessions, asset] != 0]
        factors = view.factor[:, asset] / view.factor[view.day, asset]

        days = traded[-stage.history :].tolist()
        older = len(days) - stage.history + stage.older_closes
        for number, day in enumerate(days):
            prices = [_bar_price(view, asset, day, part, factors[day]) for part in PARTS]
            volume: Payload = Shares(asset, float(view.volume[day, asset] / factors[day]), day)
            if number < older:
                prices[:-1] = [None] * (len(PARTS) - 1)
                volume = None

            rows.append((AssetRef(asset), DayRef(day), *prices, volume))

    return filled_table(HISTORY_COLUMNS, rows, OPTIONAL_COLUMNS)


# ---- outcomes of a day


def outcomes(
    view: MarketView, day: int, shown: Sequence[int], inverted: bool
) -> list[Sequence[Payload]]:
    """Return each asset's price change from its close on row `day` to its next known close, and the
    action that would have profited. If `inverted`, the opposite of both is shown.
    """
    rows = list[Sequence[Payload]]()
    for asset in shown:
        path = view.adjusted_close[day:, asset]
        later_closes = np.flatnonzero(np.isfinite(path[1:])) + 1
        if not np.isfinite(path[0]) or not len(later_closes):
            continue

        later = int(later_closes[0])
        since, until = (later, 0) if inverted else (0, later)
        change = float(path[until] / path[since] - 1.0)
        ref = AssetRef(asset)
        change_pct = ref.change_pct(figure(change * 100.0) or 0.0, day + until, day + since)
        rows.append((ref, DayRef(day + later), change_pct, _action(change)))

    return rows


def _action(change: float) -> str:
    """Return the action that would have profited from a price change."""
    if change > 0:
        return "BUY"
    if change < 0:
        return "SELL"
    return "HOLD"
