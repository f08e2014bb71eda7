"""Bookkeeping of an episode: decisions settled into step records, in true identities. Shared by runs and by replays."""

from __future__ import annotations

from collections.abc import Sequence

from ktdeval.errors import StoreError
from ktdeval.harness.agent import Decision
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.trading.account import Settlement, open_account, value_fen
from ktdeval.trading.config import TradingConfig
from ktdeval.trading.executor import settle
from ktdeval.trading.ledger import CorporateActionRecord, CountsRecord, OrderRecord, PositionRecord, StepRecord
from ktdeval.trading.market_tape import MarketTape, TradingDay
from ktdeval.trading.types import Account, Order, Outcome, Position


class Bookkeeper:
    """Account of an episode from step to step: settles each decision at the next opens and writes it down. `account`: at the last
    close; `last`: record of the step before; None before the first. `snapshot`: the true market; `tape`: the snapshot under
    `trading`; `trading`: the task's trading rules; `base_row`: row of the first decision's day.
    """

    def __init__(self, snapshot: MarketSnapshot, tape: MarketTape, trading: TradingConfig, base_row: int) -> None:
        self.account = open_account(trading)
        self.last: StepRecord | None = None
        self._snapshot = snapshot
        self._tape = tape
        self._trading = trading
        self._base_row = base_row

    def resume(self, last: StepRecord) -> None:
        """Take up the account at the close of a record's fill day."""
        columns = self._snapshot.asset_index
        positions = {columns[held.code]: Position(held.shares, held.locked) for held in last.positions}
        self.account, self.last = Account(last.cash_minor, positions), last

    def book(self, step: int, decision: Decision, counts: CountsRecord) -> StepRecord:
        """Settle a decision and return its record. Raises InvariantError: the books don't add up."""
        row = self._base_row + step
        day = self._tape.day(row + 1)
        booked = settle(self.account, day, decision.action, self._trading, row)
        codes, days = self._snapshot.codes, self._snapshot.days
        self.account = booked.after
        self.last = StepRecord(
            **{name: getattr(counts, name) for name in CountsRecord.__struct_fields__},
            step=step,
            decided_on=str(days[row]),
            filled_on=str(days[row + 1]),
            provenance=decision.provenance,
            overall_reason=decision.overall_reason,
            orders=_orders(codes, decision, booked.outcomes),
            corporate_actions=tuple(
                CorporateActionRecord(
                    code=codes[change.asset],
                    ratio=change.ratio,
                    shares_before=change.shares_before,
                    shares_after=change.shares_after,
                    cash_minor=change.cash_fen,
                )
                for change in booked.corporate_actions
            ),
            positions=_positions(codes, booked, day),
            cash_minor=booked.after.cash_fen,
            holdings_minor=booked.holdings_fen,
            nav_minor=booked.nav_fen,
            open_nav_minor=booked.open_nav_fen,
        )
        return self.last


def _orders(codes: Sequence[str], decision: Decision, outcomes: Sequence[Outcome]) -> tuple[OrderRecord, ...]:
    return tuple(
        OrderRecord(
            code=None if order.asset is None else codes[order.asset],
            stock_id=decision.stock_ids[place] if order.asset is None and decision.stock_ids else None,
            side=order.side,
            confidence=order.confidence,
            reason=order.reason,
            target_weight=order.target_weight,
            shares=order.shares,
            status=outcome.status,
            rule=outcome.rule,
            message=outcome.message,
            filled_shares=outcome.shares,
            price_ticks=outcome.price_ticks,
            notional_minor=outcome.notional_fen,
            fee_minor=outcome.fee_fen,
        )
        for place, (order, outcome) in enumerate(zip(decision.action, outcomes, strict=True))
    )


def _positions(codes: Sequence[str], booked: Settlement, day: TradingDay) -> tuple[PositionRecord, ...]:
    """Positions at the close; ascending columns are ascending codes."""
    ticks = day.close_ticks
    return tuple(
        PositionRecord(
            code=codes[asset],
            shares=held.shares,
            locked=held.locked,
            price_ticks=ticks[asset],
            value_minor=value_fen(held.shares, ticks[asset]),
        )
        for asset, held in sorted(booked.after.positions.items())
    )


def recorded_decision(snapshot: MarketSnapshot, record: StepRecord) -> Decision:
    """Return the decision that a record was made from. Raises StoreError: an order's code is not an asset of the snapshot."""
    columns = snapshot.asset_index
    for order in record.orders:
        if order.code is not None and order.code not in columns:
            raise StoreError(f"step {record.step}: {order.code} is no asset of snapshot {snapshot.meta.name}")
    action = tuple(
        Order(
            None if order.code is None else columns[order.code],
            order.side,  # type: ignore[arg-type]  # a side that is none is rejected by the executor
            order.confidence,
            order.reason,
            order.target_weight,
            order.shares,
        )
        for order in record.orders
    )
    return Decision(action, record.provenance, record.overall_reason, tuple(order.stock_id or "" for order in record.orders))
