"""Ledgers for testing metrics without running an episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ktdeval.errors import ConfigError
from ktdeval.harness.chat_messages import USAGE_FIELDS
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.documents.typed_json import from_plain

INITIAL_CASH_MINOR = 100_000_000

_QUIET_STEP: Mapping[str, JsonValue] = {
    **dict.fromkeys(
        ("tool_calls", "tool_calls_valid", "unmask_attempts", "holdings_minor", *USAGE_FIELDS), 0
    ),
    **dict.fromkeys(("cash_minor", "nav_minor", "open_nav_minor"), INITIAL_CASH_MINOR),
    **{name: [] for name in ("orders", "corporate_actions", "charges", "positions")},
    "provenance": "model",
    "failures": {},
    "submissions": 1,
    "overall_reason": "nothing to do",
}


def step_record(snapshot: MarketSnapshot, step: int, row: int, **fields: Any) -> StepRecord:
    """Return a step filled on the day `row` and decided on the day before.

    The step holds cash, except for `fields`, which are named as in files. Raises TypeError if a
    field is not a field of step records.

    Example:
        step_record(snapshot, 0, 1, nav_minor=101_000_000).filled_on  # 2024-01-03
    """
    days = {"decided_on": str(snapshot.days[row - 1]), "filled_on": str(snapshot.days[row])}
    try:
        return from_plain(
            {"step": step, **days, **_QUIET_STEP, **fields}, StepRecord, "step record", ConfigError
        )
    except ConfigError as error:
        raise TypeError(str(error)) from error


def ledger_of(steps: Sequence[StepRecord]) -> Ledger:
    """Return a ledger with these steps and an initial cash of CNY 1,000,000.

    Example:
        ledger_of([step_record(snapshot, step, step + 1) for step in range(2)]).nav
    """
    return Ledger(
        spec={"task": "test", "seed": 0}, initial_cash_minor=INITIAL_CASH_MINOR, steps=tuple(steps)
    )


def sample_ledgers(snapshot: MarketSnapshot) -> dict[str, Ledger]:
    """Return valid ledgers for checks of metrics, keyed by what is special about them. The snapshot
    must have at least ten days.
    """
    first = len(snapshot.days) - 9
    failed = {
        "provenance": "fallback",
        "overall_reason": "",
        "failures": {"bad_json": 4},
        "submissions": 4,
    }
    quiet = [step_record(snapshot, step, first + step) for step in range(8)]

    return {
        "a single step": ledger_of(quiet[:1]),
        "cash throughout": ledger_of(quiet),
        "every step failed": ledger_of(
            [step_record(snapshot, step, first + step, **failed) for step in range(8)]
        ),
        "one name bought and held": ledger_of(
            [_bought_and_held(snapshot, step, first + step) for step in range(8)]
        ),
    }


def _bought_and_held(snapshot: MarketSnapshot, step: int, row: int) -> StepRecord:
    code = snapshot.codes[0]
    shares = 1000
    price_ticks = 100_000
    fee_minor = 500
    notional = price_ticks * shares // 100
    cash = INITIAL_CASH_MINOR - notional - fee_minor
    order = {
        "code": code,
        "stock_id": None,
        "side": "BUY",
        "target_weight": None,
        "shares": shares,
        "confidence": 0.7,
    }
    fill = {
        "filled_shares": shares,
        "price_ticks": price_ticks,
        "notional_minor": notional,
        "fee_minor": fee_minor,
    }
    order |= {
        "reason": "a reason long enough",
        "status": "filled",
        "rule": None,
        "message": "",
        **fill,
    }
    refused = {
        **order,
        **dict.fromkeys(fill, 0),
        "status": "rejected",
        "rule": "cash",
        "message": "no cash",
    }
    mark = price_ticks + 500 * step * (-1) ** step
    value = mark * shares // 100
    locked = shares if step == 0 else 0

    return step_record(
        snapshot,
        step,
        row,
        orders=[order, refused] if step == 0 else [],
        positions=[
            {
                "code": code,
                "shares": shares,
                "locked": locked,
                "price_ticks": mark,
                "value_minor": value,
            }
        ],
        cash_minor=cash,
        holdings_minor=value,
        nav_minor=cash + value,
        open_nav_minor=INITIAL_CASH_MINOR if step == 0 else cash + value,
    )
