"""State shown at a close: the account as booked, and the listed assets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from ktdeval.harness import StanceRule, Standing
from ktdeval.market import FloatArray, MarketView, Venue, duty_rows, session_groups
from ktdeval.masking import AssetRef, Payload, Price, Shares, filled_table, table
from ktdeval.trading import OrderRecord, PositionRecord, StepRecord, bar_of_fill
from ktdeval.values import first_of, group_by_place, places
from ktdeval_markets.episode_setting import MarketStage

Part = Literal["open", "high", "low", "close"]
PARTS: tuple[Part, ...] = ("open", "high", "low", "close")  #: prices in a bar
LIQUIDITY_DAYS = 20
POSITION_COLUMNS = (
    "stock_id",
    "shares",
    "locked_shares",
    "last_close",
    "value",
    "weight",
    "member",
    "status",
)
ORDER_COLUMNS = (
    "stock_id",
    "side",
    "target_weight",
    "shares",
    "status",
    "rule",
    "filled_shares",
    "fill_price",
    "cost",
    "limit",  # only in tasks with limit orders
)
WORKING_COLUMNS = ("stock_id", "side", "shares")
CHARGE_COLUMNS = ("stock_id", "kind", "shares", "cash")
DUTY_COLUMNS = ("venue", "board", "kind", "side", "bps", "per_share", "most")


# ---- the account


def account(stage: MarketStage, last: StepRecord | None) -> Payload:
    """Return cash, holdings and NAV as booked at the last close."""
    initial = stage.initial_minor
    cash = nav = initial
    holdings = 0
    held = 0
    if last is not None:
        cash = last.cash_minor
        holdings = last.holdings_minor
        nav = last.nav_minor
        held = len(last.positions)

    return {
        "cash": stage.money(cash),
        "holdings": stage.money(holdings),
        "nav": stage.money(nav),
        "cash_weight": _weight(cash, nav),
        "portfolio_return_pct": round((nav / initial - 1.0) * 100.0, 3),
        "positions_held": held,
    }


def positions(stage: MarketStage, view: MarketView, last: StepRecord | None) -> Payload:
    """Return long and short positions, the largest first."""
    if last is None:
        return table(POSITION_COLUMNS, [])

    def by_size(held: PositionRecord) -> tuple[int, int]:
        return -abs(held.value_minor), stage.rank(held.code)

    rows = []
    for held in sorted(last.positions, key=by_size):
        asset, scale = stage.scale(held.code)
        close_row = view.bar_row(asset, view.day)
        row = (
            AssetRef(asset),
            Shares(asset, held.shares / scale.steps_per_unit),
            Shares(asset, held.locked / scale.steps_per_unit),
            Price(asset, held.price_ticks / scale.ticks_per_unit, close_row),
            stage.money(held.value_minor),
            _weight(held.value_minor, last.nav_minor),
            bool(view.member[view.day, asset]),
            status(view, asset),
        )
        rows.append(row)

    return table(POSITION_COLUMNS, rows)


def _weight(minor: int, nav_minor: int) -> float:
    """Return a value as a fraction of NAV, rounded to four decimals."""
    return round(minor / nav_minor, 4) if nav_minor > 0 else 0.0


def standings(
    stage: MarketStage, last: StepRecord | None, shown: Sequence[int]
) -> dict[int, Standing]:
    """Return the state of each asset before a decision: the amount that can be invested after
    costs, the weight of the position, and the fraction of the position that the last step closed.
    """
    standing = dict[int, Standing]()
    for asset in shown:
        weight = 0.0
        closed = 0.0
        position = _position(last, stage.snapshot.codes[asset])
        if last is not None and position is not None:
            value = abs(position.value_minor)
            if last.nav_minor > 0:
                weight = value / last.nav_minor
            closed = _closed_share(last, position)

        fees = stage.rules.venues[asset].fees
        standing[asset] = Standing(StanceRule.compute_invested(fees, weight), weight, closed)

    return standing


def _position(last: StepRecord | None, code: str) -> PositionRecord | None:
    if last is None:
        return None
    return next((held for held in last.positions if held.code == code), None)


def _closed_share(last: StepRecord, position: PositionRecord) -> float:
    """Return the fraction of a position that the last step closed. Both the closed and the
    remaining part are valued at the closing prices of the last step.
    """
    value = abs(position.value_minor)
    closing_side = "SELL" if position.shares > 0 else "BUY"
    sold = 0
    for order in last.fills:
        if order.code == position.code and order.side == closing_side:
            sold += order.notional_minor

    if not sold or not value:
        return 0.0
    return sold / (sold + value)


# ---- the last step


def last_step(stage: MarketStage, record: StepRecord, day: int) -> Payload:
    """Return the outcomes of the previous step's orders, which were filled up to the close of row
    `day`, and the venue's charges. An invalid `stock_id` is null.
    """
    payload: dict[str, Payload] = {
        "decided_by": record.provenance,
        "failures": dict(record.failures),
        "orders": _order_table(stage, record.orders, day),
    }
    if record.charges:
        payload["charges"] = _charges(stage, record)
    if record.carried:
        payload["carried"] = _order_table(stage, record.carried, day)
    if record.working:
        payload["working"] = _working(stage, record)

    return payload


def _working(stage: MarketStage, record: StepRecord) -> Payload:
    """Return the unfilled remainders of orders that are still working on the next day."""
    rows = []
    for rest in record.working:
        asset, scale = stage.scale(rest.code)
        rows.append((AssetRef(asset), rest.side, Shares(asset, rest.shares / scale.steps_per_unit)))

    return table(WORKING_COLUMNS, rows)


def _charges(stage: MarketStage, record: StepRecord) -> Payload:
    rows = []
    for charge in sorted(record.charges or (), key=lambda charge: stage.rank(charge.code)):
        asset, scale = stage.scale(charge.code)
        shares = Shares(asset, charge.shares / scale.steps_per_unit)
        rows.append((AssetRef(asset), charge.kind, shares, stage.money(charge.cash_minor)))

    return table(CHARGE_COLUMNS, rows)


def _order_table(stage: MarketStage, orders: Sequence[OrderRecord], day: int) -> Payload:
    columns = ORDER_COLUMNS if stage.trading.limit_orders else ORDER_COLUMNS[:-1]
    return filled_table(
        columns, [_order_row(stage, order, day)[: len(columns)] for order in orders]
    )


def _order_row(stage: MarketStage, order: OrderRecord, day: int) -> Sequence[Payload]:
    """Return the values of `ORDER_COLUMNS` for an order, in the units of the asset's venue."""
    if order.code is None:
        # The submitted text is not repeated, since it may be an identity that the mask hides.
        return (
            *(None, order.side, order.target_weight),
            *(None, order.status, order.rule),
            *(0, None, 0, None),
        )

    asset, scale = stage.scale(order.code)
    ordered = None
    if order.shares is not None:
        ordered = Shares(asset, order.shares / scale.steps_per_unit)

    price = None
    if order.filled_shares:
        bar = bar_of_fill(scale, day)
        price = Price(asset, order.price_ticks / scale.ticks_per_unit, *bar)

    limit = None
    if order.limit_ticks is not None:
        limit = Price(asset, order.limit_ticks / scale.ticks_per_unit)

    return (
        AssetRef(asset),
        order.side,
        order.target_weight,
        ordered,
        order.status,
        order.rule,
        Shares(asset, order.filled_shares / scale.steps_per_unit),
        price,
        stage.money(order.fee_minor),
        limit,
    )


# ---- the day's duties


def duties(venues: Iterable[Venue], day: np.datetime64) -> Payload:
    """Return the duties due on a day's fills. They reveal the date, so they may be shown only under
    masks that show dates.
    """
    rows = []
    for venue in venues:
        for row in duty_rows()[venue.name]:
            if row.first <= day <= row.last and (row.bps or row.per_unit):
                board = None if row.board is None else str(row.board)
                figures = (row.bps, row.per_unit, row.most)
                rows.append((venue.name, board, row.kind, row.side, *figures))

    return table(DUTY_COLUMNS, rows)


# ---- the assets listed


def find_closed(stage: MarketStage, view: MarketView, shown: Sequence[int]) -> frozenset[int]:
    """Return the assets whose orders can't be filled today, because orders fill at this close but
    the asset does not trade.
    """
    venues = stage.rules.venues
    at_this_close = [asset for asset in shown if venues[asset].fill == "same_close"]
    return frozenset(asset for asset in at_this_close if status(view, asset) != "trading")


def status(view: MarketView, asset: int) -> str:
    """Return `trading`, `closed` (no trade on the day) or `not_listed` at this close."""
    has_close = np.isfinite(view.close[view.day, asset])
    if has_close and view.volume[view.day, asset] != 0:
        return "trading"

    had_close = np.isfinite(view.close[:, asset]).any()
    return "closed" if had_close else "not_listed"


def list_assets(
    stage: MarketStage, view: MarketView, last: StepRecord | None, most: int
) -> list[int]:
    """Return members and held assets in the episode's own order. If there are too many to show,
    held assets take precedence, then the most traded ones.

    Ties in trading are broken by the volumes and prices of the day. Assets that are still tied are
    all shown or all omitted.
    """
    day = view.day
    records = last.positions if last else ()
    held = {stage.snapshot.asset_index[position.code] for position in records}
    # plain values, which Python reads faster than the elements of an array
    is_listed = view.member[day].tolist()
    for asset in held:
        is_listed[asset] = True

    assets = [asset for asset in stage.lens.order if is_listed[asset]]
    if stage.only:
        assets = [asset for asset in assets if asset in stage.only]
    if len(assets) <= most:
        return assets

    figures = stage.lens.figures.as_shown(view)
    keys = [_traded_values(figures), *(getattr(figures, name)[day] for name in ("volume", *PARTS))]
    is_held = [float(asset in held) for asset in assets]
    columns = np.array(assets)
    placed = places([is_held, *(key[columns] for key in keys)])
    chosen = set(first_of(group_by_place(assets, placed), most))

    return [asset for asset in assets if asset in chosen]


def _traded_values(view: MarketView) -> FloatArray:
    """Return the [N] value traded in the last sessions of each asset's exchange."""
    traded = np.zeros(len(view.codes))
    for group in session_groups(view):
        volume = group.latest(view.volume, LIQUIDITY_DAYS)
        close = group.latest(view.close, LIQUIDITY_DAYS)
        traded[group.columns] = np.nan_to_num(volume * close).sum(axis=0)

    return traded
