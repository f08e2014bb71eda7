"""Step records: a booked fill day as JSON and back, in true identities. Shared by runs and by replays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktdeval.errors import StoreError
from ktdeval.harness.agent import Decision
from ktdeval.jsonio import JsonValue
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.trading.account import Settlement, open_account, value_fen
from ktdeval.trading.config import TradingConfig
from ktdeval.trading.ledger import StepRecord
from ktdeval.trading.tape import TradingDay
from ktdeval.trading.types import Account, Action, Order, Outcome, Position


def step_record(
    snapshot: MarketSnapshot,
    step: int,
    decision: Decision,
    counts: Mapping[str, JsonValue],
    day: TradingDay,
    settlement: Settlement,
) -> StepRecord:
    """The record of one step.

    Args:
        snapshot: gives codes and days.
        step: 0, 1, 2 …
        decision: what was decided, and by whom.
        counts: the step's counts (`StepCounts.to_json`).
        day: the fill day.
        settlement: how it was booked.
    """
    return {
        "step": step,
        "decided_on": str(snapshot.days[day.row - 1]),
        "filled_on": str(snapshot.days[day.row]),
        "provenance": decision.provenance,
        **counts,
        "overall_reason": decision.overall_reason,
        "orders": _orders(snapshot.codes, decision, settlement.outcomes),
        "corporate_actions": [
            {
                "code": snapshot.codes[change.asset],
                "ratio": change.ratio,
                "shares_before": change.shares_before,
                "shares_after": change.shares_after,
                "cash_fen": change.cash_fen,
            }
            for change in settlement.corporate_actions
        ],
        "positions": _positions(snapshot.codes, settlement.after, day.close_ticks),
        "cash_fen": settlement.after.cash_fen,
        "holdings_fen": settlement.holdings_fen,
        "nav_fen": settlement.nav_fen,
        "open_nav_fen": settlement.open_nav_fen,
    }


def _orders(codes: Sequence[str], decision: Decision, outcomes: Sequence[Outcome]) -> list[JsonValue]:
    rows: list[JsonValue] = []
    for place, (order, outcome) in enumerate(zip(decision.action, outcomes, strict=True)):
        rows.append(
            {
                "code": None if order.asset is None else codes[order.asset],
                "stock_id": decision.stock_ids[place] if order.asset is None and decision.stock_ids else None,
                "side": order.side,
                "confidence": order.confidence,
                "reason": order.reason,
                "target_weight": order.target_weight,
                "shares": order.shares,
                "status": outcome.status,
                "rule": outcome.rule,
                "message": outcome.message,
                "filled_shares": outcome.shares,
                "price_ticks": outcome.price_ticks,
                "notional_fen": outcome.notional_fen,
                "fee_fen": outcome.fee_fen,
            }
        )
    return rows


def _positions(codes: Sequence[str], account: Account, ticks: Sequence[int]) -> list[JsonValue]:
    """Positions at the close; ascending columns are ascending codes."""
    return [
        {
            "code": codes[asset],
            "shares": position.shares,
            "locked": position.locked,
            "price_ticks": ticks[asset],
            "value_fen": value_fen(position.shares, ticks[asset]),
        }
        for asset, position in sorted(account.positions.items())
    ]


def recorded_action(snapshot: MarketSnapshot, record: StepRecord) -> Action:
    """The orders of a record, as the executor takes them.

    Raises:
        StoreError: a code that is no asset of the snapshot.
    """
    for row in record["orders"]:
        if row["code"] is not None and row["code"] not in snapshot.asset_index:
            raise StoreError(f"step {record['step']}: {row['code']} is no asset of snapshot {snapshot.meta.name}")
    return tuple(
        Order(
            None if row["code"] is None else snapshot.asset_index[row["code"]],
            row["side"],
            row["confidence"],
            row["reason"],
            row["target_weight"],
            row["shares"],
        )
        for row in record["orders"]
    )


def recorded_decision(snapshot: MarketSnapshot, record: StepRecord) -> Decision:
    """The decision that a record tells of."""
    stock_ids = tuple(row["stock_id"] or "" for row in record["orders"])
    return Decision(recorded_action(snapshot, record), record["provenance"], record["overall_reason"], stock_ids)


def account_after(snapshot: MarketSnapshot, record: StepRecord | None, config: TradingConfig) -> Account:
    """The account at the close of a record's fill day; the opening account when there is no record."""
    if record is None:
        return open_account(config)
    positions = {snapshot.asset_index[row["code"]]: Position(row["shares"], row["locked"]) for row in record["positions"]}
    return Account(record["cash_fen"], positions)
