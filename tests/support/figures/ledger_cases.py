"""A small ledger of version 2, worked by hand: fractional shares sold short, interest, a margin
call.
"""

from __future__ import annotations

from typing import Any

from ktdeval.testing import snapshot_of_days, step_record
from ktdeval.trading import Ledger, Scale
from ktdeval.trading.ledger import StepRecord
from ktdeval.values import from_plain, to_plain

_PRICE = 3_000_000  #: ticks of 1/10,000 USD: 300 USD


def short_ledger() -> Ledger:
    """1,000 USD: 1.5 shares are sold short at 300, 0.5 bought back; a call buys 0.1 more, for 30
    USD and 1 USD of costs.
    """
    record = to_plain(step_record(snapshot_of_days(["600001.SH"], [[10.0], [10.5], [10.5]]), 0, 1))
    steps = [record | {"step": 0} | _sold(), record | {"step": 1} | _covered()]

    return Ledger(
        {"seed": 1},
        100_000,
        [from_plain(step, StepRecord, "record") for step in steps],
        "USD",
        100,
        252,
        {"TSLA": Scale(10_000, 10_000)},
    )


def _order(side: str, steps: int, notional: int, target: float | None) -> dict[str, Any]:
    return {
        "code": "TSLA",
        "stock_id": None,
        "side": side,
        "confidence": 0.6,
        "reason": "by hand",
        "target_weight": target,
        "shares": steps if target is None else None,
        "status": "filled",
        "rule": None,
        "message": "",
        "filled_shares": steps,
        "price_ticks": _PRICE,
        "notional_minor": notional,
        "fee_minor": 100,
    }


def _position(steps: int) -> dict[str, Any]:
    return {
        "code": "TSLA",
        "shares": steps,
        "locked": 0,
        "price_ticks": _PRICE,
        "value_minor": steps * 3,
    }


def _sold() -> dict[str, Any]:
    money = {
        "cash_minor": 144_900,
        "holdings_minor": -45_000,
        "nav_minor": 99_900,
        "open_nav_minor": 100_000,
    }
    return {
        "orders": [_order("SELL", 15_000, 45_000, -0.45)],
        "positions": [_position(-15_000)],
        "charges": [],
        **money,
    }


def _covered() -> dict[str, Any]:
    charge = {"code": "TSLA", "price_ticks": _PRICE}
    charges = [
        charge | {"kind": "borrow", "shares": -10_000, "cash_minor": -12, "fee_minor": 0},
        charge | {"kind": "margin_call", "shares": 1_000, "cash_minor": -3_100, "fee_minor": 100},
    ]
    money = {
        "cash_minor": 123_000,
        "holdings_minor": -27_000,
        "nav_minor": 96_000,
        "open_nav_minor": 96_500,
    }

    return {
        "orders": [_order("BUY", 5_000, 15_000, None)],
        "positions": [_position(-9_000)],
        "charges": charges,
        **money,
    }
