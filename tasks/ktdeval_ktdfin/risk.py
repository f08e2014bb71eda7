"""The pre-trade check: target weights against the rules, estimated at the last closes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ktdeval.api import AssetRef, Payload, Shares
from ktdeval_ktdfin.step import Step
from ktdeval_ktdfin.tables import cny, table, weight

PLAN_COLUMNS = ("stock_id", "side", "weight_now", "weight_target", "shares", "amount_cny", "cost_cny", "violation")


@dataclass(slots=True)
class _Plan:
    """Cash and shares as the plan is carried out in thought: sells first, then buys, each in the order given."""

    step: Step
    cash_fen: int
    shares: dict[int, int]
    costs_fen: int = 0
    traded_fen: int = 0
    rows: dict[int, tuple[Payload, ...]] = field(default_factory=dict)

    def trade(self, asset: int, target: float) -> None:
        """Judge one target weight and, if no rule forbids it, carry it out."""
        held, price = self.shares.get(asset, 0), self.step.mark_ticks(asset)
        wanted = int(target * self.step.nav_fen * 100 / price) if price else 0
        side = "BUY" if wanted > held else "SELL" if wanted < held else "NONE"
        change, rule = self._buy(asset, wanted, target) if side == "BUY" else self._sell(asset, wanted)
        amount, cost = self._cost(asset, abs(change), side)
        if rule is None and side == "BUY" and amount + cost > self.cash_fen:
            rule = "cash"
        done = rule is None and change != 0
        if done:
            self.cash_fen += (amount if side == "SELL" else -amount) - cost
            self.costs_fen += cost
            self.traded_fen += amount
            self.shares[asset] = held + change
            if not self.shares[asset]:
                del self.shares[asset]
        nav = self.step.nav_fen
        self.rows[asset] = (
            AssetRef(asset), side, weight(self.step.held_fen.get(asset, 0), nav), target,
            Shares(asset, abs(change)) if done else 0, cny(amount) if done else 0, cny(cost) if done else 0, rule,
        )  # fmt: skip

    def _buy(self, asset: int, wanted: int, target: float) -> tuple[int, str | None]:
        step, lot = self.step, self.step.stage.trading.lot_shares
        held = self.shares.get(asset, 0)
        change = (wanted // lot * lot - held) // lot * lot
        rule = None
        if not step.member[asset]:
            rule = "universe"
        elif not step.has_bar[asset]:
            rule = "suspended"
        elif step.limit_up[asset]:
            rule = "price_limit"
        elif not held and len(self.shares) >= step.stage.trading.max_positions:
            rule = "position_limit"
        elif target > step.stage.trading.max_weight:
            rule = "weight_limit"
        elif change < step.stage.min_buy_shares[asset]:
            rule = "lot"
        return change, rule

    def _sell(self, asset: int, wanted: int) -> tuple[int, str | None]:
        step, lot = self.step, self.step.stage.trading.lot_shares
        held = self.shares.get(asset, 0)
        change = wanted // lot * lot - held
        if wanted == held:
            return 0, "target"
        if not step.has_bar[asset]:
            return change, "suspended"
        return change, "price_limit" if step.limit_down[asset] else None

    def _cost(self, asset: int, shares: int, side: str) -> tuple[int, int]:
        trading = self.step.stage.trading
        amount = self.step.value_fen(asset, shares)
        bps = trading.buy_fee_bps if side == "BUY" else trading.sell_fee_bps
        return amount, max(round(amount * bps / 10_000), round(trading.min_fee_cny * 100))


def check_plan(step: Step, target_weights: Mapping[int, float]) -> Payload:
    """Test target weights (asset -> weight of NAV) against the rules. Holdings that are not named stay as they are.

    Returns:
        `plan`: one row a name, in the order given; `violation` is the rule that would reject the order, or null.
        `projected`: the account after the orders without a violation.
        `violations`: how many orders break a rule.
    """
    plan = _Plan(step, step.account.cash_fen, {asset: position.shares for asset, position in step.account.positions.items()})
    nav = step.nav_fen

    def is_sell(asset: int) -> bool:
        return target_weights[asset] * nav < step.held_fen.get(asset, 0)

    # `sorted` is stable: sells come first, and within a side the order given is kept.
    for asset in sorted(target_weights, key=lambda asset: not is_sell(asset)):
        plan.trade(asset, target_weights[asset])
    values = {asset: step.value_fen(asset, shares) for asset, shares in plan.shares.items()}
    rules = [plan.rows[asset][-1] for asset in target_weights]
    return {
        "plan": table(PLAN_COLUMNS, (plan.rows[asset] for asset in target_weights)),
        "violations": sum(rule is not None for rule in rules),
        "projected": {
            "cash_cny": cny(plan.cash_fen),
            "cash_weight": weight(plan.cash_fen, nav),
            "positions_held": len(values),
            "largest_weight": weight(max(values.values(), default=0), nav),
            "traded_weight": weight(plan.traded_fen, nav),
            "costs_cny": cny(plan.costs_fen),
        },
        "limits": {"max_positions": step.stage.trading.max_positions, "max_weight": step.stage.trading.max_weight},
    }
