"""Previews: what an order would do to an account, tried on a copy of the workspace."""

from __future__ import annotations

import msgspec

from ktdeval_qfinzero.access.terminal import types
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.operations import Plain
from ktdeval_qfinzero.pmb.account_views import account_shown, dollars, maybe_dollars
from ktdeval_qfinzero.pmb.arguments import PlaceOrder
from ktdeval_qfinzero.pmb.broker_types import Bar, Fill, Order
from ktdeval_qfinzero.pmb.engine_state import Engine
from ktdeval_qfinzero.pmb.placement import expected_price, read_spec
from ktdeval_qfinzero.pmb.tick_execution import PendingExecution, execute
from ktdeval_qfinzero.timestamps import moment_text


def preview(workspace: Workspace, given: Plain) -> types.Preview:
    """Try an order on a copy of the workspace: whether the broker accepts it, and what it costs.
    Raises ServiceError where placing it would.
    """
    engine = workspace.broker.engine
    copied = workspace.copy()
    done = copied.broker.execute("order.place", given)

    trial = copied.broker.engine
    order = trial.state.orders[done.id]
    is_rejected = order.status == "REJECTED"
    reason = order.reason or None
    reserve_e4 = trial.state.reserves.get(order.id, 0)
    placed = _funds(trial, order.account_id)

    rules = trial.state.sessions[order.session_id].rules
    spec = read_spec(trial.hours, msgspec.convert(given, PlaceOrder).order)
    price_e4 = expected_price(spec, trial.marks(), rules.fills)
    value_e4 = None
    filled = None
    if price_e4 is not None:
        value_e4 = price_e4 * order.qty * order.instrument.multiplier
        if done.events and _fill(trial, order, price_e4):
            filled = _funds(trial, order.account_id)

    return types.Preview(
        as_of_ts=moment_text(engine.now_ns),
        accepted=not is_rejected,
        reason=reason,
        idempotent=not done.events,
        price=maybe_dollars(price_e4),
        value=maybe_dollars(value_e4),
        fee=dollars(rules.fees.trade_e4(order.instrument, order.qty)),
        reserve=dollars(reserve_e4),
        before=_funds(engine, order.account_id),
        placed=placed,
        filled=filled,
    )


def _fill(engine: Engine, order: Order, price_e4: int) -> bool:
    """Fill an order that works at a price, and return whether the account could carry that."""
    if order.id not in engine.state.working:
        return False

    bar = Bar(price_e4, price_e4, price_e4, price_e4, order.qty)
    execution = PendingExecution(order, Fill(order.open_qty, price_e4), bar)
    now_ns = engine.now_ns
    return execute(engine, [execution], engine.marks(), now_ns, now_ns)


def _funds(engine: Engine, account_id: str) -> types.Funds:
    account = account_shown(engine, engine.state.accounts[account_id])
    return types.Funds(
        cash=account.cash,
        equity=account.equity,
        buying_power=account.buying_power,
        reserved=account.reserved,
    )
