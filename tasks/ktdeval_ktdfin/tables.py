"""Payloads shared by observations and tools: account, positions, performance, bars, candidate tables.

A table is `{"columns": [...], "rows": [[...], ...]}`: column names are given once, which halves the tokens of a list of objects.
Units are in the names: `_cny` yuan (prices per share), `_pct` per cent; weights are fractions of NAV.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from ktdeval.masking import AssetRef, DayRef, OwnFigure, Payload, Price, SectorRef, Shares, figure, table
from ktdeval.ties import first_of, whole_groups
from ktdeval.trading import CorporateActionRecord, OrderRecord, StepRecord
from ktdeval_ktdfin.step import FACTOR_NAMES, MEASURE_NAMES, TICKS_PER_CNY, Stage, Step, ranked

BAR_COLUMNS = ("day", "open_cny", "high_cny", "low_cny", "close_cny", "volume_shares", "amount_cny", "return_pct")
POSITION_COLUMNS = ("stock_id", "board", "shares", "locked_shares", "last_close_cny", "value_cny", "weight", "member", "status")
ORDER_COLUMNS = ("stock_id", "side", "target_weight", "shares", "status", "rule", "filled_shares", "fill_price_cny", "cost_cny")
EVENT_COLUMNS = ("stock_id", "share_ratio", "shares_before", "shares_after", "cash_cny")
_PARTS: tuple[Literal["open", "high", "low", "close"], ...] = ("open", "high", "low", "close")
LIMITS = ("max_positions", "max_weight", "lot_shares", "star_min_shares", "buy_fee_bps", "sell_fee_bps", "min_fee_cny")
TODAY_COLUMNS = ("open_cny", "high_cny", "low_cny", "close_cny", "volume_shares", "amount_cny")
FEATURE_COLUMNS = ("stock_id", "board", "sector", "status", *TODAY_COLUMNS, *MEASURE_NAMES, *FACTOR_NAMES)


def cny(fen: int) -> Payload:
    """CNY of an account from fen."""
    return OwnFigure(fen / 100)


def weight(fen: int, nav_fen: int) -> float:
    """Return a value as a fraction of NAV, to four decimals."""
    return round(fen / nav_fen, 4) if nav_fen > 0 else 0.0


def price(asset: int, value: Any, day: int | None, times: float = 1.0) -> Payload:
    """Return a price that is a close, or `times` one, as a payload; null where there is none."""
    number = float(value)
    return Price(asset, number, day, times=times) if number == number else None


def last_close(step: Step, asset: int) -> Payload:
    """Return the last close in today's terms, null before the first bar."""
    return price(asset, step.marks_cny[asset], step.view.bar_row(asset, step.view.day))


def account(step: Step) -> Payload:
    """Cash, holdings and NAV at this close."""
    return {
        "cash_cny": cny(step.account.cash_minor),
        "holdings_cny": cny(step.nav_fen - step.account.cash_minor),
        "nav_cny": cny(step.nav_fen),
        "cash_weight": weight(step.account.cash_minor, step.nav_fen),
        "positions_held": len(step.account.positions),
    }


def positions(step: Step) -> Payload:
    """Holdings, largest first. `locked_shares` were bought this day (T+1) and can be sold from the next open on."""
    rows = []
    for asset, value in step.held_fen.items():
        held = step.account.positions[asset]
        name = (AssetRef(asset), str(step.view.boards[asset]))
        worth = (last_close(step, asset), cny(value), weight(value, step.nav_fen))
        shares = (Shares(asset, held.shares), Shares(asset, held.locked))
        rows.append((*name, *shares, *worth, bool(step.member[asset]), step.status(asset)))
    return table(POSITION_COLUMNS, rows)


def performance(step: Step) -> Payload:
    """Returns since the first decision, of the portfolio and of the benchmark, in per cent."""
    stage, day = step.stage, step.view.day
    own = (step.nav_fen / (stage.trading.initial_cash * 100) - 1.0) * 100.0
    benchmark, today = step.benchmark_return(stage.lens.base_row) * 100.0, DayRef(day)
    return {
        "portfolio_return_pct": round(own, 3),
        "benchmark_return_pct": today.figure(round(benchmark, 3)),
        "excess_return_pct": today.figure(round(own - benchmark, 3)),
        "benchmark_return_1d_pct": today.figure(round(step.benchmark_return(max(day - 1, 0)) * 100.0, 3)),
    }


def constraints(step: Step) -> dict[str, Payload]:
    """Return the limits of the task as numbers; the system prompt says what they mean."""
    trading = step.stage.trading
    return {
        **{name: getattr(trading, name) for name in LIMITS},
        "price_limit_pct": step.stage.price_limit_pct,
        "min_reason_chars": step.stage.harness.min_reason_chars,
    }


def last_step(step: Step, record: StepRecord) -> Payload:
    """Return the outcomes of the previous step's orders, filled on this day. A stock_id that was no asset shows as null."""
    stage, day = step.stage, step.view.day
    payload: dict[str, Payload] = {
        "decided_by": record.provenance,
        "failures": dict(record.failures),
        "orders": table(ORDER_COLUMNS, (_order_row(stage, order, day) for order in record.orders)),
    }
    if record.corporate_actions:
        payload["splits_and_dividends"] = table(EVENT_COLUMNS, (_event_row(stage, event) for event in record.corporate_actions))
    return payload


def _order_row(stage: Stage, order: OrderRecord, day: int) -> Sequence[Payload]:
    asset = None if order.code is None else stage.code_column.get(order.code)
    head, tail = (order.side, order.target_weight), (order.status, order.rule)
    if asset is None:  # what was submitted is not repeated: it may be an identity that the mask hides
        return (None, *head, None, *tail, 0, None, 0)
    ordered = None if order.shares is None else Shares(asset, order.shares)
    price = Price(asset, order.price_ticks / TICKS_PER_CNY, day, "open") if order.filled_shares else None
    return (AssetRef(asset), *head, ordered, *tail, Shares(asset, order.filled_shares), price, cny(order.fee_minor))


def _event_row(stage: Stage, event: CorporateActionRecord) -> Sequence[Payload]:
    asset = stage.code_column[event.code]
    shares = (Shares(asset, event.shares_before), Shares(asset, event.shares_after))
    return (AssetRef(asset), OwnFigure(event.ratio), *shares, cny(event.cash_minor))


def bars(step: Step, asset: int, lookback: int) -> Payload:
    """Daily bars of one asset, oldest first; days without a bar are left out. Prices unadjusted, returns adjusted."""
    adjusted = step.view.adjusted_close[:, asset]
    known = np.flatnonzero(np.isfinite(adjusted))
    first = int(np.searchsorted(known, step.view.day + 1 - lookback))
    rows = []
    for index in range(first, len(known)):
        row, change = int(known[index]), None
        if index:  # an asset's first bar has no change
            since = int(known[index - 1])
            value = figure((adjusted[row] / adjusted[since] - 1.0) * 100.0)
            change = None if value is None else AssetRef(asset).change_pct(value, row, since)
        rows.append((DayRef(row), *_bar(step, asset, row), change))
    return table(BAR_COLUMNS, rows)


def _bar(step: Step, asset: int, row: int) -> tuple[Payload, ...]:
    """open, high, low, close, volume, amount of one day."""
    view = step.view
    prices = ((part, float(getattr(view, part)[row, asset])) for part in _PARTS)
    amount = figure(view.amount[row, asset])
    return (
        *(Price(asset, value, row, part) if value == value else None for part, value in prices),
        Shares(asset, float(view.volume[row, asset]), row),
        None if amount is None else AssetRef(asset).figure(amount, "amount_cny", row),
    )


def identity(step: Step, asset: int) -> tuple[Payload, ...]:
    """stock_id, board, sector and status of an asset."""
    return (AssetRef(asset), str(step.view.boards[asset]), SectorRef(step.view.industries[asset]), step.status(asset))


def features(step: Step, assets: Iterable[int]) -> Payload:
    """Today's bar, recent returns and all factors, one row an asset."""
    names, day = (*MEASURE_NAMES, *FACTOR_NAMES), step.view.day
    rows = ((*identity(step, asset), *_bar(step, asset, day), *(step.shown(name, asset) for name in names)) for asset in assets)
    return table(FEATURE_COLUMNS, rows)


def factor_union(step: Step, most: int) -> list[int]:
    """Return the fixed candidate list: the union of each factor's top k, with the largest k whose union has at most `most` names.
    Assets that are equal in all figures are in it all or none. Order is that of the episode's shuffle, so that it favours no
    factor. Where even k = 1 gives too many, factors are taken in their documented order until the list is full.
    """
    rankings = [ranked(step, [step.dims[name]], step.candidates & np.isfinite(step.dims[name])) for name in FACTOR_NAMES]
    chosen: list[int] = []
    for k in range(1, max((sum(map(len, ranking)) for ranking in rankings), default=0) + 1):
        union = {min(group): group for ranking in rankings for group in whole_groups(ranking, k)}
        assets = [asset for group in union.values() for asset in group]
        if len(assets) > most:
            chosen = chosen or first_of(union.values(), most)
            break
        chosen = assets
    return sorted(chosen, key=lambda asset: step.stage.rank[asset])
