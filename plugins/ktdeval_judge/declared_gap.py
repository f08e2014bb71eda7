"""The account that a file itself declares, next to the executed one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ktdeval.attribution import (
    GAP_CAUSES,
    AccountFill,
    AccountPath,
    GapCause,
    account_gap,
    book_fills,
    declared_nav,
    filled_forward,
)
from ktdeval.market import MarketSnapshot
from ktdeval.trading import Ledger
from ktdeval_judge.declared import Declared, DeclaredBooks
from ktdeval_judge.document import DeclaredGap, NavPart, NavReport
from ktdeval_judge.implied_nav import implied_nav
from ktdeval_judge.market_plan import MarketPlan, columns_of, iso_day

_CAUSE_OF_NAV: Mapping[str, GapCause] = {
    "costs": "fees",
    "fitted_fee": "fees",
    "declared_fees": "fees",
    "rebalancing": "lots_and_limits",
    "sizing": "lots_and_limits",
    "limits": "lots_and_limits",
    "lots": "lots_and_limits",
    "fill_at_declared": "price_and_moment",
    "fill_at_open": "price_and_moment",
    "fill_at_close": "price_and_moment",
    "fill_at_decision": "price_and_moment",
    "fill_before_decision": "price_and_moment",
    "dividends": "corporate_actions",
    "remainder": "residual",
}
"""Cause in `ktdeval_judge.nav_parts` -> cause of the gap between accounts."""


@dataclass(frozen=True)
class _Days:
    """Rows of a judgement, with the prices of the assets that either account holds."""

    first_row: int
    days: Any  #: [T]
    columns: Mapping[int, int]  #: column of the market -> column of `closes`
    closes: Any  #: [T, N] the last known close, unadjusted
    factors: Any  #: [T, N]

    def index_of(self, day: int) -> int:
        """Return the row of the first session on or after a day; 0 before the first row."""
        return int(np.searchsorted(self.days, np.datetime64(iso_day(day), "D")))


def declared_gap(
    declared: Declared,
    made: MarketPlan,
    ledger: Ledger,
    snapshot: MarketSnapshot,
    nav: NavReport | None,
) -> DeclaredGap | None:
    """Return the gap between the declared and the executed account, by cause. Return None if the
    file declares no account.
    """
    if declared.books is None and declared.values is not None:
        return None if nav is None else _gap_of_nav(nav, ledger)
    if declared.books is None and made.trades is None:
        return None

    days = _days_of(declared, made, ledger, snapshot)
    source = "trades"
    if declared.books is not None:
        source = "books"
        path = _path_of_books(declared.books, days, snapshot)
    else:
        path = _path_of_trades(made, days, snapshot, float(ledger.nav[0]))

    found = account_gap(path, _executed_path(ledger, days, snapshot), days.closes, made.left_out)
    gaps = np.abs(found.gap)
    largest = int(np.nanargmax(gaps))
    parts = []
    for cause in GAP_CAUSES:
        parts.append(NavPart(cause=cause, value=_in_cents(found.parts[cause][-1])))
    return DeclaredGap(
        source=source,
        day=str(days.days[-1]),
        declared_value=_in_cents(found.declared[-1]),
        executed_value=_in_cents(found.executed[-1]),
        parts=tuple(parts),
        largest_gap=_in_cents(gaps[largest]),
        largest_gap_day=str(days.days[largest]),
        largest_residual=_in_cents(found.largest_residual),
    )


def _in_cents(money: float) -> float:
    """Return money without the float errors of its sum: coins need more digits than cents."""
    return round(float(money), 6) + 0.0


def _gap_of_nav(nav: NavReport, ledger: Ledger) -> DeclaredGap:
    """Return the gap to a claimed account value, scaled to the executed account's first value."""
    first = float(ledger.nav[0])
    sums = dict.fromkeys(GAP_CAUSES, 0.0)
    for part in nav.parts:
        sums[_CAUSE_OF_NAV[part.cause]] += part.value * first

    day = ledger.steps[-1].filled_on
    declared_value = first * (1.0 + nav.claimed_return)
    executed_value = first * (1.0 + nav.executed_return)
    return DeclaredGap(
        source="nav",
        day=day,
        declared_value=_in_cents(declared_value),
        executed_value=_in_cents(executed_value),
        parts=tuple(NavPart(cause=cause, value=_in_cents(sums[cause])) for cause in GAP_CAUSES),
        largest_gap=_in_cents(abs(declared_value - executed_value)),
        largest_gap_day=day,
    )


def _days_of(
    declared: Declared, made: MarketPlan, ledger: Ledger, snapshot: MarketSnapshot
) -> _Days:
    codes = set(made.plan.codes)
    if declared.books is not None:
        codes.update(declared.books.codes)
    if made.trades is not None:
        codes.update(snapshot.codes[column] for column in made.trades["column"])
    for step in ledger.steps:
        codes.update(str(order.code) for order in step.fills if order.filled_shares)

    columns = sorted({column for code in codes for column in columns_of(code, snapshot)})
    first = made.first_row
    last = first + len(ledger.steps)
    closes = np.nan_to_num(filled_forward(snapshot.close[: last + 1, columns]))
    return _Days(
        first_row=first,
        days=snapshot.days[first : last + 1],
        columns={column: number for number, column in enumerate(columns)},
        closes=closes[first:],
        factors=snapshot.factor[first : last + 1, columns],
    )


# ---- declared


def _path_of_books(books: DeclaredBooks, days: _Days, snapshot: MarketSnapshot) -> AccountPath:
    count = len(books.days)
    holdings = np.zeros((count, len(days.columns)))
    for number, code in enumerate(books.codes):
        (column,) = columns_of(code, snapshot)  # the plan has found every code that is held
        holdings[:, days.columns[column]] += books.shares[:, number]

    rows = [days.index_of(day) for day in books.days]
    shown = np.searchsorted(rows, np.arange(len(days.days)), side="right") - 1
    shown = np.maximum(shown, 0)
    values = declared_nav(books.cash[shown], holdings[shown], days.closes)

    references = days.closes[np.minimum(rows, len(days.days) - 1)]
    decisions = [iso_day(day) for day in books.decided]
    fills = book_fills(books.cash, holdings, rows, decisions, references)
    within = tuple(fill for fill in fills if fill.row < len(days.days))
    return AccountPath(fills=within, values=values)


def _path_of_trades(
    made: MarketPlan, days: _Days, snapshot: MarketSnapshot, cash: float
) -> AccountPath:
    last_row = days.first_row + len(days.days) - 1
    values = implied_nav(made.trades, snapshot, cash, days.first_row, last_row)
    fills = []
    for each in made.trades.itertuples():
        shares = float(each.shares) * (1.0 if each.side == "buy" else -1.0)
        fee = float(getattr(each, "fee", 0.0))
        fill = AccountFill(
            row=int(each.row) - days.first_row,
            asset=days.columns[int(each.column)],
            shares=shares,
            paid=shares * float(each.price),
            fee=fee if fee == fee else 0.0,
            decision=_decision_of(each, snapshot),
        )
        fills.append(fill)

    return AccountPath(fills=(*fills, *_reinvested_shares(fills, days)), values=values)


def _decision_of(trade: Any, snapshot: MarketSnapshot) -> str:
    """Return the ISO day at whose close a trade's order is decided."""
    if hasattr(trade, "planned"):
        return str(snapshot.days[int(trade.planned)])
    return iso_day(int(getattr(trade, "decided", trade.day)))


def _reinvested_shares(fills: Sequence[AccountFill], days: _Days) -> Iterator[AccountFill]:
    """Yield the shares by which holdings grow with the factor, as in the implied account value."""
    growth = days.factors[1:] / days.factors[:-1]
    for row in np.flatnonzero((growth != 1.0).any(axis=1)) + 1:
        held = np.zeros(len(days.columns))
        for fill in fills:
            if fill.row < row:
                grown = days.factors[row - 1, fill.asset] / days.factors[fill.row, fill.asset]
                held[fill.asset] += fill.shares * grown
        for asset in np.flatnonzero(held * (growth[row - 1] - 1.0)):
            gained = float(held[asset] * (growth[row - 1, asset] - 1.0))
            yield AccountFill(int(row), int(asset), gained, 0.0)


# ---- executed


def _executed_path(ledger: Ledger, days: _Days, snapshot: MarketSnapshot) -> AccountPath:
    fills: list[AccountFill] = []
    for row, step in enumerate(ledger.steps, start=1):
        for order in step.fills:
            if order.filled_shares:
                fills.append(_fill_of(order, row, step.decided_on, ledger, days, snapshot))
        for action in step.corporate_actions:
            steps = ledger.scale(action.code).steps_per_unit
            gained = (action.shares_after - action.shares_before) / steps
            asset = days.columns[snapshot.asset_index[action.code]]
            fills.append(
                AccountFill(row, asset, gained, -action.cash_minor / ledger.minor_per_unit)
            )
        for charge in step.charges:
            asset = days.columns[snapshot.asset_index[charge.code]]
            shares = 0.0
            if charge.kind == "margin_call":
                shares = charge.shares / ledger.scale(charge.code).steps_per_unit
            fee = charge.costs_minor / ledger.minor_per_unit
            paid = -charge.cash_minor / ledger.minor_per_unit - fee
            fills.append(AccountFill(row, asset, shares, paid, fee, "margin call"))

    return AccountPath(fills=tuple(fills), values=np.asarray(ledger.nav, dtype=np.float64))


def _fill_of(
    order: Any, row: int, decided_on: str, ledger: Ledger, days: _Days, snapshot: MarketSnapshot
) -> AccountFill:
    sign = 1.0 if order.side == "BUY" else -1.0
    return AccountFill(
        row=row,
        asset=days.columns[snapshot.asset_index[order.code]],
        shares=sign * order.filled_shares / ledger.scale(order.code).steps_per_unit,
        paid=sign * order.notional_minor / ledger.minor_per_unit,
        fee=order.fee_minor / ledger.minor_per_unit,
        decision=decided_on,
    )
