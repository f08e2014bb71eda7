"""Payloads shared by observations and tools: account, positions, performance, bars, and candidate
tables.

A table is `{"columns": [...], "rows": [[...], ...]}`. Column names are given once, which takes half
the tokens of a list of objects. Names carry the units: `_cny` is yuan (prices per share), `_pct` is
per cent. Weights are fractions of NAV.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Literal

import numpy as np

from ktdeval.masking import (
    AssetRef,
    DayRef,
    OwnFigure,
    Payload,
    Price,
    SectorRef,
    Shares,
    figure,
    filled_table,
    prepare_payload,
    table,
)
from ktdeval.trading import BOOK_NAV, CorporateActionRecord, OrderRecord, StepRecord
from ktdeval.values import first_of, whole_groups
from ktdeval_ktdfin.market_day import FACTOR_NAMES, MEASURE_NAMES, TICKS_PER_CNY, MarketDay
from ktdeval_ktdfin.step_view import EpisodeStage, ResearchStep

BAR_COLUMNS = (
    "day",
    "open_cny",
    "high_cny",
    "low_cny",
    "close_cny",
    "volume_shares",
    "amount_cny",
    "return_pct",
)
POSITION_COLUMNS = (
    "stock_id",
    "board",
    "shares",
    "locked_shares",
    "last_close_cny",
    "value_cny",
    "weight",
    "member",
    "status",
)
EVENT_COLUMNS = ("stock_id", "share_ratio", "shares_before", "shares_after", "cash_cny")
BOOK_POSITION_COLUMNS = ("stock_id", "weight")
BOOK_ORDER_COLUMNS = ("stock_id", "side", "target_weight")
WORKING_COLUMNS = ("stock_id", "side", "shares")
ORDER_COLUMNS = (
    *BOOK_ORDER_COLUMNS,
    "shares",
    "status",
    "rule",
    "filled_shares",
    "fill_price_cny",
    "cost_cny",
    "limit_cny",  # only in tasks with limit orders
)
_PARTS: tuple[Literal["open", "high", "low", "close"], ...] = ("open", "high", "low", "close")
LIMITS = (
    "max_positions",
    "max_weight",
    "lot_shares",
    "star_min_shares",
    "buy_fee_bps",
    "sell_fee_bps",
    "min_fee_cny",
)
TODAY_COLUMNS = ("open_cny", "high_cny", "low_cny", "close_cny", "volume_shares", "amount_cny")
FEATURE_COLUMNS = (
    "stock_id",
    "board",
    "sector",
    "status",
    *TODAY_COLUMNS,
    *MEASURE_NAMES,
    *FACTOR_NAMES,
)


def cny(fen: int) -> Payload:
    """Convert an account's amount from fen to CNY."""
    return OwnFigure(fen / 100)


def weight(fen: int, nav_fen: int) -> float:
    """Return a value as a fraction of NAV, rounded to four decimals."""
    if nav_fen <= 0:
        return 0.0
    return round(fen / nav_fen, 4)


def price(asset: int, value: Any, day: int | None, times: float = 1.0) -> Payload:
    """Return a close as a payload, multiplied by `times`; null without a price."""
    number = float(value)
    if math.isnan(number):
        return None
    return Price(asset, number, day, times=times)


def last_close(step: ResearchStep, asset: int) -> Payload:
    """Return the last close in today's share terms; null before the first bar."""
    return price(asset, step.marks_cny[asset], step.view.bar_row(asset, step.view.day))


def account(step: ResearchStep) -> Payload:
    """Return cash, holdings and NAV at this close."""
    return {
        "cash_cny": cny(step.account.cash_minor),
        "holdings_cny": cny(step.nav_fen - step.account.cash_minor),
        "nav_cny": cny(step.nav_fen),
        "cash_weight": weight(step.account.cash_minor, step.nav_fen),
        "positions_held": len(step.account.positions),
    }


def positions(step: ResearchStep) -> Payload:
    """Return the holdings, largest first. `locked_shares` were bought today (T+1) and can be sold
    from the next open onwards.
    """
    rows = []
    for asset, value in step.held_fen.items():
        held = step.account.positions[asset]
        row = (
            AssetRef(asset),
            str(step.view.boards[asset]),
            Shares(asset, held.shares),
            # KTD-Fin Appendix B: portfolio_state includes T+1 locks.
            Shares(asset, held.locked),
            last_close(step, asset),
            cny(value),
            weight(value, step.nav_fen),
            bool(step.member[asset]),
            step.status(asset),
        )
        rows.append(row)

    return table(POSITION_COLUMNS, rows)


def performance(step: ResearchStep) -> Payload:
    """Return the returns of the portfolio and the benchmark since the first decision, in per cent.

    If market-wide figures are omitted, only the portfolio's return is given.
    """
    stage = step.stage
    day = step.view.day
    own = (step.nav_fen / (stage.trading.initial_cash * 100) - 1.0) * 100.0
    if stage.lens.mask.leaves_out_whole_market:
        return {"portfolio_return_pct": round(own, 3)}

    benchmark = step.benchmark_return(stage.lens.base_row) * 100.0
    today = DayRef(day)

    return {
        "portfolio_return_pct": round(own, 3),
        "benchmark_return_pct": today.figure(round(benchmark, 3)),
        "excess_return_pct": today.figure(round(own - benchmark, 3)),
        "benchmark_return_1d_pct": today.figure(
            round(step.benchmark_return(max(day - 1, 0)) * 100.0, 3)
        ),
    }


def constraints(step: ResearchStep) -> dict[str, Payload]:
    """Return the task's limits as numbers, which the system prompt explains."""
    trading = step.stage.trading
    return {
        **{name: getattr(trading, name) for name in LIMITS},
        "price_limit_pct": step.stage.price_limit_pct,
        "min_reason_chars": step.stage.harness.min_reason_chars,
    }


def last_step(step: ResearchStep, record: StepRecord) -> Payload:
    """Return the outcomes of the previous step's orders, filled on this day. An invalid `stock_id`
    is shown as null.
    """
    stage = step.stage
    payload: dict[str, Payload] = {
        **_list_decisions(record),
        "orders": _order_table(stage, record.orders, step.view.day),
    }
    if record.corporate_actions:
        events = [_event_row(stage, event) for event in record.corporate_actions]
        payload["splits_and_dividends"] = table(EVENT_COLUMNS, events)
    if record.carried:
        payload["carried"] = _order_table(stage, record.carried, step.view.day)

    return payload | _working(stage, record)


def _list_decisions(record: StepRecord) -> dict[str, Payload]:
    return {"decided_by": record.provenance, "failures": dict(record.failures)}


def _order_table(stage: EpisodeStage, orders: Sequence[OrderRecord], day: int) -> Payload:
    columns = ORDER_COLUMNS if stage.trading.limit_orders else ORDER_COLUMNS[:-1]
    return filled_table(
        columns, [_order_row(stage, order, day)[: len(columns)] for order in orders]
    )


def _working(stage: EpisodeStage, record: StepRecord) -> dict[str, Payload]:
    """Return the unfilled remainders of orders that are still working on the next day; may be
    empty.
    """
    rows = []
    for rest in record.working:
        asset = stage.code_column[rest.code]
        rows.append((AssetRef(asset), rest.side, Shares(asset, rest.shares)))

    if not rows:
        return {}
    return {"working": table(WORKING_COLUMNS, rows)}


def _order_row(stage: EpisodeStage, order: OrderRecord, day: int) -> Sequence[Payload]:
    """Return the values of `ORDER_COLUMNS` for an order, in shares and CNY."""
    asset = stage.code_column.get(order.code or "")
    if asset is None:
        return (*_book_order_row(stage, order), None, order.status, order.rule, 0, None, 0, None)

    ordered = None
    if order.shares is not None:
        ordered = Shares(asset, order.shares)

    fill_price = None
    if order.filled_shares:
        fill_price = Price(asset, order.price_ticks / TICKS_PER_CNY, day, "open")

    limit = None
    if order.limit_ticks is not None:
        limit = Price(asset, order.limit_ticks / TICKS_PER_CNY)

    return (
        *_book_order_row(stage, order),
        ordered,
        order.status,
        order.rule,
        Shares(asset, order.filled_shares),
        fill_price,
        cny(order.fee_minor),
        limit,
    )


def _event_row(stage: EpisodeStage, event: CorporateActionRecord) -> Sequence[Payload]:
    asset = stage.code_column[event.code]
    return (
        AssetRef(asset),
        OwnFigure(event.ratio),
        Shares(asset, event.shares_before),
        Shares(asset, event.shares_after),
        cny(event.cash_minor),
    )


# ---- the account at book value (`ktdeval.runner.episodes.book_account`)


def account_at_book(step: ResearchStep) -> Payload:
    """Return cash as the remainder of the ordered weights, and the number of holdings."""
    account = step.account
    return {
        "cash_weight": account.cash_minor / BOOK_NAV,
        "positions_held": len(account.positions),
    }


def positions_at_book(step: ResearchStep) -> Payload:
    """Return the holdings with their ordered weights, largest first."""
    positions = step.account.positions

    def by_weight(asset: int) -> tuple[int, int]:
        return -positions[asset].shares, int(step.stage.rank[asset])

    rows = []
    for asset in sorted(positions, key=by_weight):
        rows.append((AssetRef(asset), positions[asset].shares / BOOK_NAV))

    return table(BOOK_POSITION_COLUMNS, rows)


def last_step_at_book(step: ResearchStep, record: StepRecord) -> Payload:
    """Return the previous step's orders, without their outcomes."""
    rows = [_book_order_row(step.stage, order) for order in record.orders]
    return {**_list_decisions(record), "orders": table(BOOK_ORDER_COLUMNS, rows)}


def _book_order_row(stage: EpisodeStage, order: OrderRecord) -> Sequence[Payload]:
    """Return the values of `BOOK_ORDER_COLUMNS`, the first of `ORDER_COLUMNS`, for an order."""
    asset = stage.code_column.get(order.code or "")
    # The submitted text is not repeated, since it may be an identity that the mask hides.
    label = None if asset is None else AssetRef(asset)
    return (label, order.side, order.target_weight)


def bars(step: ResearchStep, asset: int, lookback: int) -> Payload:
    """Return an asset's daily bars, oldest first, without days that have no bar. Prices are
    unadjusted; returns are adjusted.
    """
    adjusted = step.shown_view.adjusted_close[:, asset]
    known = np.flatnonzero(np.isfinite(adjusted))
    first = int(np.searchsorted(known, step.view.day + 1 - lookback))
    rows = []

    for index in range(first, len(known)):
        row = int(known[index])
        change: Payload = None
        if index:  # an asset's first bar has no return
            since = int(known[index - 1])
            value = figure((adjusted[row] / adjusted[since] - 1.0) * 100.0)
            if value is not None:
                change = AssetRef(asset).change_pct(value, row, since)

        rows.append((DayRef(row), *_bar(step, asset, row), change))

    return table(BAR_COLUMNS, rows)


def _bar(step: ResearchStep, asset: int, row: int) -> tuple[Payload, ...]:
    """Return one day's open, high, low, close, volume and amount."""
    view = step.view
    prices: list[Payload] = []
    for part in _PARTS:
        value = float(getattr(view, part)[row, asset])
        prices.append(None if math.isnan(value) else Price(asset, value, row, part))

    volume = Shares(asset, float(view.volume[row, asset]), row)
    traded = figure(view.amount[row, asset])
    amount: Payload = None
    if traded is not None:
        amount = AssetRef(asset).figure(traded, "amount_cny", row)

    return (*prices, volume, amount)


def identity(step: ResearchStep, asset: int) -> tuple[Payload, ...]:
    """Return an asset's `stock_id`, board, sector and status."""
    return (
        AssetRef(asset),
        str(step.view.boards[asset]),
        SectorRef(step.view.industries[asset]),
        step.status(asset),
    )


def features(step: ResearchStep, assets: Iterable[int]) -> Payload:
    """Return today's bar, recent returns and all factors, with one row per asset."""
    rows: list[Payload] = []
    if not step.stage.lens.shares_prepared_texts:
        rows += [_feature_row(step, asset) for asset in assets]
    else:
        texts = step.market.feature_rows
        for asset in assets:
            if asset not in texts:
                texts[asset] = prepare_payload(_feature_row(step, asset))
            rows.append(texts[asset])

    return {"columns": list(FEATURE_COLUMNS), "rows": rows}


def _feature_row(step: ResearchStep, asset: int) -> Sequence[Payload]:
    """Return an asset's row, which contains only market figures."""
    figures = [step.show_figure(name, asset) for name in (*MEASURE_NAMES, *FACTOR_NAMES)]
    return (*identity(step, asset), *_bar(step, asset, step.view.day), *figures)


def factor_union(step: ResearchStep, most: int) -> list[int]:
    """Return the fixed candidate list: the union of each factor's top k, for the largest k at which
    the union has at most `most` names.

    Assets that are equal in all figures are either all included or all omitted. The list is in the
    episode's shuffled order, so that no factor is favoured. If even k = 1 gives too many names,
    factors are used in their documented order until the list is full.
    """
    chosen = step.market.once(("factor union", most), partial(_factor_union, most))
    return sorted(chosen, key=step.stage.rank.__getitem__)


def _factor_union(most: int, market: MarketDay) -> Sequence[int]:
    """Return the assets in the fixed candidate list."""
    rankings = []
    for name in FACTOR_NAMES:
        values = market.dims[name]
        rankings.append(market.rank_groups([values], market.candidates & np.isfinite(values)))

    longest = max(sum(map(len, ranking)) for ranking in rankings)
    chosen: list[int] = []
    for k in range(1, longest + 1):
        groups = _top_groups(rankings, k)
        assets = list(chain.from_iterable(groups))
        if len(assets) > most:
            return chosen or first_of(groups, most)

        chosen = assets

    return chosen


def _top_groups(rankings: Sequence[Sequence[Sequence[int]]], k: int) -> list[Sequence[int]]:
    """Return the groups within the top k of each ranking, each group once."""
    union: dict[int, Sequence[int]] = {}
    for ranking in rankings:
        for group in whole_groups(ranking, k):
            union[min(group)] = group

    return list(union.values())
