"""Invariants of a state at any time, computed from its records and not by the functions that
keep it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from ktdeval.errors import InvariantError
from ktdeval_qfinzero.pmb.broker import Broker
from ktdeval_qfinzero.pmb.broker_types import WORKING, Account, CashEntry, Order, Rules, Trade
from ktdeval_qfinzero.pmb.holding_events import OptionOver, PositionReplaced
from ktdeval_qfinzero.pmb.state_events import BrokerState


def check_invariants(broker: Broker) -> None:
    """Check everything, from the beginning; raises InvariantError for the first thing that does not
    hold.
    """
    state = broker.state
    units = _units(broker)
    entries: dict[str, list[CashEntry]] = defaultdict(list)

    for entry in state.cash_entries:
        entries[entry.account_id].append(entry)

    for account in state.accounts.values():
        _check_cash(account, entries[account.id])
        _check_units(account, units[account.id])
        _check_profit(account)

    for trade in state.trades:
        _check_trade(state, trade)

    _check_volume(state, state.trades)
    _check_orders(state, state.orders.values())
    moments = [trade.ts_ns for trade in state.trades]
    _require(
        moments == sorted(moments) and (not moments or moments[-1] <= state.now_ns),
        "trades go back in time",
    )
    running = [session.id for session in state.sessions.values() if session.status == "RUNNING"]
    _require(running == ([state.running] if state.running else []), "more than one session runs")


def _check_cash(account: Account, entries: Sequence[CashEntry]) -> None:
    """Cash is what was paid in and every movement since; what was paid for each purpose is the sum
    of its movements.
    """
    paid: Counter[str] = Counter()

    for entry in entries:
        paid[entry.kind] += entry.amount_e4

    _require(
        account.cash_e4 == account.initial_cash_e4 + paid.total(),
        f"{account.id}: cash is not its movements",
    )

    for kind, amount in (
        ("FEE", account.fees_e4),
        ("INTEREST", account.interest_e4),
        ("BORROW_FEE", account.borrow_fees_e4),
    ):
        _require(-paid[kind] == amount, f"{account.id}: {kind} is not the sum of what was paid")

    _require(
        paid["DIVIDEND"] == account.dividends_e4,
        f"{account.id}: dividends are not the sum of what was received",
    )


def _units(broker: Broker) -> dict[str, Counter[str]]:
    """Account id -> instrument id -> units that its trades, deliveries and splits brought."""
    units: dict[str, Counter[str]] = defaultdict(Counter)
    for trade in broker.state.trades:
        units[trade.account_id][trade.instrument.id] += (
            trade.qty if trade.side == "BUY" else -trade.qty
        )

    for data in (event.data for event in broker.log.events()):
        if isinstance(data, OptionOver):
            units[data.account_id][data.instrument] += data.change
            units[data.account_id][data.stock] += data.stock_change
        elif isinstance(data, PositionReplaced):
            units[data.account_id][data.instrument] -= data.qty_before
            units[data.account_id][data.becomes or data.instrument] += data.qty_after

    return units


def _check_units(account: Account, units: Counter[str]) -> None:
    """Positions are the sum of trades, deliveries and splits."""
    for name in units.keys() | account.positions.keys():
        held = account.positions[name].qty if name in account.positions else 0
        _require(
            held == units[name],
            f"{account.id}: the position in {name} is not the sum of its changes",
        )


def _check_profit(account: Account) -> None:
    """Equity is capital and profit, whatever the marks: they drop out of both sides, and costs
    stay.
    """
    cost = sum(position.cost_e4 for position in account.positions.values())
    realized = sum(position.realized_e4 for position in account.positions.values())
    paid = account.fees_e4 + account.interest_e4 + account.borrow_fees_e4
    result = account.initial_cash_e4 + realized + account.dividends_e4 - paid
    _require(
        account.cash_e4 + cost == result,
        f"{account.id}: cash and cost are not capital and realized profit",
    )

    for name, position in account.positions.items():
        _require(
            position.qty != 0 or position.cost_e4 == 0,
            f"{account.id}: the flat position in {name} has a cost",
        )


def _check_trade(state: BrokerState, trade: Trade) -> None:
    """A trade lies within its bar but for slippage and spread, keeps the order's limit and stop,
    and costs its fee.
    """
    order = state.orders[trade.order_id]
    rules = state.sessions[trade.session_id].rules
    where = f"trade {trade.id}"
    _require(trade.qty > 0 and trade.price_e4 > 0, f"{where}: quantity or price is not above 0")
    low, high = _price_range(trade, rules)
    _require(low <= trade.price_e4 <= high, f"{where}: its price is outside of its bar")

    if order.limit_e4 is not None:
        is_within_limit = (
            trade.price_e4 <= order.limit_e4
            if trade.side == "BUY"
            else trade.price_e4 >= order.limit_e4
        )
        _require(is_within_limit, f"{where}: it is beyond the order's limit")

    if order.stop_e4 is not None:
        _require(order.triggered, f"{where}: the order's stop was not reached")

    fees = rules.fees
    fee = (
        fees.stock_per_share_e4 if trade.instrument.kind == "STOCK" else fees.option_per_contract_e4
    )
    _require(trade.fee_e4 == trade.qty * fee, f"{where}: its fee is not that of the rules")
    _require(trade.ts_ns > order.accepted_ns, f"{where}: it is not after its order")


def _price_range(trade: Trade, rules: Rules) -> tuple[int, int]:
    """Least and greatest price: the bar's, widened by slippage, half the spread, and a cent of
    rounding.
    """
    fills = rules.fills
    half_bps = 2 * fills.slippage_bps + (
        fills.option_spread_bps if trade.instrument.kind == "OPTION" else 0
    )
    cent = 100 if half_bps else 0
    low = min(trade.bar.low_e4, trade.bar.open_e4) * max(0, 20_000 - half_bps) // 20_000 - cent

    return low, -(-max(trade.bar.high_e4, trade.bar.open_e4) * (20_000 + half_bps) // 20_000) + cent


def _check_volume(state: BrokerState, trades: Iterable[Trade]) -> None:
    """All fills of an instrument on one bar stay within its share of the volume."""
    taken: Counter[tuple[int, str, str]] = Counter()
    for trade in trades:
        key = trade.ts_ns, trade.session_id, trade.instrument.id
        taken[key] += trade.qty
        most = trade.bar.volume * state.sessions[trade.session_id].rules.fills.max_volume_pct // 100
        _require(taken[key] <= most, f"trade {trade.id}: its bar had no such volume left")


def _check_orders(state: BrokerState, orders: Iterable[Order]) -> None:
    """No order is filled beyond its quantity, and its state says what became of it."""
    for order in orders:
        _require(
            0 <= order.filled_qty <= order.qty,
            f"order {order.id}: it is filled beyond its quantity",
        )
        is_working = order.status in WORKING
        is_full = order.status == "FILLED"
        _require(
            is_working == (order.id in state.working),
            f"order {order.id}: it is {order.status}, and its place is wrong",
        )
        # Of an order that was cancelled, others of its group may have taken everything.
        is_over = order.open_qty == 0 and order.status != "CANCELLED"
        _require(
            is_full == is_over,
            f"order {order.id}: it is {order.status} with {order.open_qty} open",
        )


def _require(holds: bool, words: str) -> None:
    if not holds:
        raise InvariantError(f"broker: {words}")
