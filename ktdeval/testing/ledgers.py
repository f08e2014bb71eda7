"""Ledgers for tests of metrics, without running an episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ktdeval.errors import ConfigError
from ktdeval.jsonio import JsonValue
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.typed import from_plain

INITIAL_CASH_FEN = 100_000_000

_QUIET_STEP: Mapping[str, JsonValue] = {
    "provenance": "model",
    "failures": {},
    "tool_calls": 0,
    "tool_calls_valid": 0,
    "submissions": 1,
    "unmask_attempts": 0,
    "input_tokens": 0,
    "output_tokens": 0,
    "reasoning_tokens": 0,
    "cache_read_tokens": 0,
    "cache_write_tokens": 0,
    "overall_reason": "nothing to do",
    "orders": [],
    "corporate_actions": [],
    "positions": [],
    "cash_fen": INITIAL_CASH_FEN,
    "holdings_fen": 0,
    "nav_fen": INITIAL_CASH_FEN,
    "open_nav_fen": INITIAL_CASH_FEN,
}


def step_record(snapshot: MarketSnapshot, step: int, row: int, **fields: Any) -> StepRecord:
    """One step filled on `row` (decided on the row before): a hold in cash, but for `fields`.

    Raises:
        TypeError: `fields`, named as in files, are not those of a step record.
    """
    days = {"decided_on": str(snapshot.days[row - 1]), "filled_on": str(snapshot.days[row])}
    try:
        return from_plain({"step": step, **days, **_QUIET_STEP, **fields}, StepRecord, "step record", ConfigError)
    except ConfigError as error:
        raise TypeError(str(error)) from error


def ledger_of(steps: Sequence[StepRecord]) -> Ledger:
    """Return a ledger of these steps that began with CNY 1,000,000."""
    return Ledger(spec={"task": "test", "seed": 0}, initial_cash_minor=INITIAL_CASH_FEN, steps=tuple(steps))


def sample_ledgers(snapshot: MarketSnapshot) -> dict[str, Ledger]:
    """Legal ledgers that a metric must bear, by what is peculiar about them. The snapshot needs ten days."""
    first = len(snapshot.days) - 9
    quiet = [step_record(snapshot, step, first + step) for step in range(8)]
    failed = [
        step_record(snapshot, step, first + step, provenance="fallback", overall_reason="", failures={"bad_json": 4}, submissions=4)
        for step in range(8)
    ]
    return {
        "a single step": ledger_of(quiet[:1]),
        "cash throughout": ledger_of(quiet),
        "every step failed": ledger_of(failed),
        "one name bought and held": ledger_of(_bought_and_held(snapshot, first)),
    }


def _bought_and_held(snapshot: MarketSnapshot, first: int) -> list[StepRecord]:
    code, shares, price_ticks, fee_fen = snapshot.codes[0], 1000, 100_000, 500
    notional = price_ticks * shares // 100
    cash = INITIAL_CASH_FEN - notional - fee_fen
    order = {
        "code": code, "stock_id": None, "side": "BUY", "confidence": 0.7, "reason": "a reason long enough", "target_weight": None,
        "shares": shares, "status": "filled", "rule": None, "message": "", "filled_shares": shares, "price_ticks": price_ticks,
        "notional_fen": notional, "fee_fen": fee_fen,
    }  # fmt: skip
    refused = {
        **order,
        "status": "rejected",
        "rule": "cash",
        "message": "no cash",
        "filled_shares": 0,
        "price_ticks": 0,
        "notional_fen": 0,
        "fee_fen": 0,
    }
    steps = []
    for step in range(8):
        mark = price_ticks + 500 * step * (-1) ** step
        value = mark * shares // 100
        steps.append(
            step_record(
                snapshot,
                step,
                first + step,
                orders=[order, refused] if step == 0 else [],
                positions=[
                    {"code": code, "shares": shares, "locked": shares if step == 0 else 0, "price_ticks": mark, "value_fen": value}
                ],
                cash_fen=cash,
                holdings_fen=value,
                nav_fen=cash + value,
                open_nav_fen=INITIAL_CASH_FEN if step == 0 else cash + value,
            )
        )
    return steps
