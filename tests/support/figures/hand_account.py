"""An account kept by hand, day by day: trades, interest, margin calls, splits, closes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ktdeval.testing import snapshot_of_days, step_record
from ktdeval.trading import Ledger, StepRecord

CASH = 100_000  #: 1,000.00
A, B = "600001.SH", "600006.SH"
MARKET = snapshot_of_days([A, B], [[10.0, 10.0]] * 9)


@dataclass
class Account:
    """An account kept by hand: each day's events change its cash and shares."""

    cash: int = CASH
    shares: dict[str, int] = field(default_factory=dict)
    steps: list[StepRecord] = field(default_factory=list)
    orders: list[dict[str, Any]] = field(default_factory=list)
    charges: list[dict[str, Any]] = field(default_factory=list)
    actions: list[dict[str, Any]] = field(default_factory=list)

    def move(self, code: str, shares: int) -> None:
        self.shares[code] = self.shares.get(code, 0) + shares

    def trade(self, code: str, shares: int, money: int, fee: int = 0) -> None:
        """Buy shares for money, or sell them (fewer than none) for it."""
        side = "BUY" if shares > 0 else "SELL"
        self.orders.append(
            {
                "code": code,
                "stock_id": None,
                "side": side,
                "confidence": 0.6,
                "reason": "by hand",
                "target_weight": None,
                "shares": abs(shares),
                "status": "filled",
                "rule": None,
                "message": "",
                "filled_shares": abs(shares),
                "price_ticks": 1,
                "notional_minor": money,
                "fee_minor": fee,
            }
        )
        self.move(code, shares)
        self.cash += (money if shares < 0 else -money) - fee

    def charge(self, kind: str, code: str, shares: int, cash: int, fee: int = 0) -> None:
        """Pay interest, or close shares by a margin call; `cash` includes the fee."""
        self.charges.append(
            {
                "kind": kind,
                "code": code,
                "shares": shares,
                "price_ticks": 1,
                "cash_minor": cash,
                "fee_minor": fee,
            }
        )
        self.cash += cash
        if kind == "margin_call":
            self.move(code, shares)

    def split(self, code: str, after: int, cash: int) -> None:
        before = self.shares[code]
        self.actions.append(
            {
                "code": code,
                "ratio": 2.0,
                "shares_before": before,
                "shares_after": after,
                "cash_minor": cash,
            }
        )
        self.shares[code] = after
        self.cash += cash

    def close(self, prices: Mapping[str, int], **fields: Any) -> None:
        """End the day at these prices of a share, in minor units."""
        held = {code: shares for code, shares in sorted(self.shares.items()) if shares}
        positions: list[dict[str, Any]] = []
        for code, shares in held.items():
            value = shares * prices[code]
            positions.append(
                {
                    "code": code,
                    "shares": shares,
                    "locked": 0,
                    "price_ticks": 1,
                    "value_minor": value,
                }
            )

        worth = sum(position["value_minor"] for position in positions)
        self.steps.append(
            step_record(
                MARKET,
                len(self.steps),
                len(self.steps) + 1,
                orders=self.orders,
                charges=self.charges,
                corporate_actions=self.actions,
                positions=positions,
                cash_minor=self.cash,
                holdings_minor=worth,
                nav_minor=self.cash + worth,
                open_nav_minor=CASH,
                **fields,
            )
        )
        self.orders, self.charges, self.actions = [], [], []

    @property
    def ledger(self) -> Ledger:
        return Ledger({"seed": 1}, CASH, self.steps)


def sold_in_two_parts() -> Account:
    """The examples of both modules: 10 bought at 20.00, 4 sold at 23.00, 6 at 22.00."""
    account = Account()
    account.trade(A, 10, 20_000, fee=100)
    account.close({A: 2_100})
    account.trade(A, -4, 9_200, fee=200)
    account.close({A: 2_200})
    account.trade(A, -6, 13_200, fee=100)
    account.close({A: 2_300})
    return account
