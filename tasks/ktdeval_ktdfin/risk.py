"""Pre-trade check: target weights put to the executor itself, on a day that opens at the last closes."""

from __future__ import annotations

from collections.abc import Mapping

from ktdeval.masking import AssetRef, Payload, Shares
from ktdeval.trading import Account, Order, Outcome, Position, Side, execute
from ktdeval_ktdfin.step import Step
from ktdeval_ktdfin.tables import cny, table, weight

PLAN_COLUMNS = ("stock_id", "side", "weight_now", "weight_target", "shares", "amount_cny", "cost_cny", "violation")


def check_plan(step: Step, target_weights: Mapping[int, float]) -> Payload:
    """Test target weights (asset -> weight of NAV) against the rules. Holdings that are not named stay as they are.

    Returns:
        `plan`: one row a name, in the order given, as it would be filled; `violation` is the rule that would reject or cut the
            order, or null.
        `projected`: the account after these fills.
        `violations`: how many orders break a rule.
    """
    orders = {asset: Order(asset, _side(step, asset, target), 0.5, "", target) for asset, target in target_weights.items()}
    # Everything held can be sold at the next open.
    account = Account(step.account.cash_fen, {asset: Position(held.shares) for asset, held in step.account.positions.items()})
    after, fills = execute(account, step.next_day_at_closes, tuple(orders.values()), step.stage.trading)
    outcomes = dict(zip(orders, fills, strict=True))
    nav = step.nav_fen
    values = [step.value_fen(asset, position.shares) for asset, position in after.positions.items()]
    return {
        "plan": table(PLAN_COLUMNS, (_row(step, asset, order, outcomes[asset]) for asset, order in orders.items())),
        "violations": sum(outcome.rule is not None for outcome in fills),
        "projected": {
            "cash_cny": cny(after.cash_fen),
            "cash_weight": weight(after.cash_fen, nav),
            "positions_held": len(values),
            "largest_weight": weight(max(values, default=0), nav),
            "traded_weight": weight(sum(outcome.notional_fen for outcome in fills), nav),
            "costs_cny": cny(sum(outcome.fee_fen for outcome in fills)),
        },
        "limits": {"max_positions": step.stage.trading.max_positions, "max_weight": step.stage.trading.max_weight},
    }


def _side(step: Step, asset: int, target: float) -> Side:
    """Return what it takes to reach a weight: a sale where the holding is worth more than it, else a purchase."""
    return "SELL" if target * step.nav_fen < step.held_fen.get(asset, 0) else "BUY"


def _row(step: Step, asset: int, order: Order, outcome: Outcome) -> tuple[Payload, ...]:
    return (
        AssetRef(asset), order.side, weight(step.held_fen.get(asset, 0), step.nav_fen), order.target_weight,
        Shares(asset, outcome.shares), cny(outcome.notional_fen), cny(outcome.fee_fen), outcome.rule,
    )  # fmt: skip
