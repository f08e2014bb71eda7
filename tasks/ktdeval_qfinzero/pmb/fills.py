"""Making trades of fills: the account is checked again at the price of the fill, then the book is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.financing import settlement_day
from ktdeval_qfinzero.pmb.margin import Circumstances, Problem, WantedTrade, order_problem
from ktdeval_qfinzero.pmb.types import Bar, FeeRules, Fill, Instrument, Order


@dataclass(frozen=True, slots=True)
class Execution:
    """A fill that is about to happen to an order, and the bar that it happens on."""

    order: Order
    fill: Fill
    bar: Bar


def fee_e4(instrument: Instrument, qty: int, fees: FeeRules) -> int:
    """Fee of a trade."""
    return qty * (fees.stock_per_share_e4 if instrument.kind == "STOCK" else fees.option_per_contract_e4)


def execute(engine: Engine, executions: Sequence[Execution], marks: Mapping[str, int], now_ns: int) -> bool:
    """Fill an order, or all legs of a spread; where the account can't bear it any more, cancel instead.

    Args:
        engine: of the broker.
        executions: one, or one for each leg.
        marks: before the tick.
        now_ns: the tick.

    Returns:
        Whether it was filled.
    """
    problem = None if executions[0].order.forced else _problem(engine, executions, marks, now_ns)
    if problem is not None:
        for execution in executions:
            reason = f"{problem.code}: {problem.words}"
            engine.journal.emit(now_ns, "ORDER_CANCELLED", order_id=execution.order.id, reason=reason, replaced_by="")
        return False
    settles = settlement_day(engine.day).isoformat()
    for execution in executions:
        order, fill, bar = execution.order, execution.fill, execution.bar
        fees = engine.book.sessions[order.session_id].rules.fees
        engine.journal.emit(
            now_ns,
            "TRADE",
            trade_id=f"trd-{len(engine.book.trades) + 1:06d}",
            order_id=order.id,
            qty=fill.qty,
            price_e4=fill.price_e4,
            fee_e4=fee_e4(order.instrument, fill.qty, fees),
            settles=settles,
            bar=[bar.open_e4, bar.high_e4, bar.low_e4, bar.close_e4, bar.volume],
        )
    return True


def _problem(engine: Engine, executions: Sequence[Execution], marks: Mapping[str, int], now_ns: int) -> Problem | None:
    order = executions[0].order
    session = engine.book.sessions[order.session_id]
    prices = {execution.order.instrument.id: execution.fill.price_e4 for execution in executions}
    wanted = tuple(
        WantedTrade(
            execution.order.instrument,
            execution.order.side,
            execution.fill.qty,
            execution.fill.price_e4,
            fee_e4(execution.order.instrument, execution.fill.qty, session.rules.fees),
        )
        for execution in executions
    )
    sold = (trade.instrument.symbol for trade in wanted if trade.side == "SELL" and trade.instrument.kind == "STOCK")
    circumstances = Circumstances(engine.day, engine.reference.borrowable(sold, now_ns))
    return order_problem(engine.book.accounts[order.account_id], wanted, {**marks, **prices}, session.rules, circumstances)
