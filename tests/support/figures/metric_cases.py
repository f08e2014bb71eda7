"""Small markets and ledgers, written by hand, that the tests of metrics and cards share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ktdeval.market.snapshots.snapshot import MarketSnapshot, SnapshotMeta
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.values import content_hash, from_plain

CODES = ("009001.SZ", "609001.SH")
DAYS = np.array(
    ["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-08", "2024-01-09"],
    dtype="datetime64[D]",
)
BENCHMARK = np.array([100.0, 101.0, 99.0, 99.0, 102.0, 103.0])
TASK: Mapping[str, Any] = {
    "name": "blinded_open_research",
    "version": "1",
    "harness": {"max_tool_calls": 12},
    "sources": ["KTD-Fin"],
}


def market(
    opens: Sequence[Sequence[float]] | None = None,
    factor: Sequence[Sequence[float]] | None = None,
    benchmark: Sequence[float] | np.ndarray = BENCHMARK,
    synthetic: bool = True,
    has_factor: bool = True,
) -> MarketSnapshot:
    """Six days of two assets; opens default to 10 + day for the first asset and 20 - day for the
    second.
    """
    shape = (len(DAYS), len(CODES))
    rows = [[10.0 + day, 20.0 - day] for day in range(len(DAYS))] if opens is None else opens
    prices = np.array(rows, dtype=float).reshape(shape)
    meta = SnapshotMeta("tiny", "written by hand", synthetic, has_factor, "000300.SH")

    return MarketSnapshot(
        meta=meta,
        days=DAYS.copy(),
        codes=CODES,
        names=("Amber Kiln 1", "Basalt Loom 2"),
        industries=("Kilns", "Looms"),
        **{name: prices.copy() for name in ("open", "high", "low", "close")},
        volume=np.full(shape, 1e6),
        amount=np.full(shape, 1e7),
        factor=np.ones(shape) if factor is None else np.array(factor, dtype=float),
        member=np.ones(shape, dtype=bool),
        indices={"000300.SH": np.array(benchmark, dtype=float)},
        index_names={"000300.SH": "CSI300"},
        id=content_hash({"benchmark": [repr(level) for level in benchmark], "opens": repr(rows)}),
    )


def order(
    code: str | None = CODES[0],
    side: str = "BUY",
    confidence: float = 0.6,
    filled: int = 100,
    **changes: Any,
) -> dict[str, Any]:
    """An order record; rejected under rule `cash` when nothing is filled."""
    record: dict[str, Any] = {
        "code": code,
        "stock_id": None,
        "side": side,
        "confidence": confidence,
        "reason": "because of its momentum",
        "target_weight": 0.05,
        "shares": None,
        "status": "filled" if filled else "rejected",
        "rule": None if filled else "cash",
        "message": "",
        "filled_shares": filled,
        "price_ticks": 100_000,
        "notional_minor": filled * 1000,
        "fee_minor": 500 if filled else 0,
    }
    return record | changes


def step(
    number: int, cash_minor: int, holdings: Mapping[str, int] | None = None, **changes: Any
) -> dict[str, Any]:
    """A step record filled on day `number + 1` of the market; `holdings` maps code -> value in
    fen.
    """
    held = dict(sorted((holdings or {}).items()))
    value = sum(held.values())
    positions = [
        {"code": code, "shares": 100, "locked": 0, "price_ticks": 100_000, "value_minor": fen}
        for code, fen in held.items()
    ]
    counts = (
        "tool_calls tool_calls_valid unmask_attempts reasoning_tokens cache_read_tokens"
        " cache_write_tokens"
    )
    record: dict[str, Any] = dict.fromkeys(counts.split(), 0) | {
        "step": number,
        "decided_on": str(DAYS[number]),
        "filled_on": str(DAYS[number + 1]),
        "provenance": "model",
        "failures": {},
        "submissions": 1,
        "input_tokens": 10,
        "output_tokens": 2,
        "overall_reason": "",
        "orders": [],
        "corporate_actions": [],
        "charges": [],
        "positions": positions,
        "cash_minor": cash_minor,
        "holdings_minor": value,
        "nav_minor": cash_minor + value,
        "open_nav_minor": cash_minor + value,
    }

    return record | changes


def spec(
    seed: int = 0,
    limit: int | None = None,
    window: Window | None = None,
    snapshot: str = "",
    **changes: Any,
) -> EpisodeSpec:
    """The spec of an episode over the last five days of the market."""
    fields: dict[str, Any] = {
        "task": TASK["name"],
        "task_version": TASK["version"],
        "task_hash": content_hash(TASK),
        "snapshot": snapshot or market().id,
        "mask": "blinded",
        "mode": "open_research",
        "window": window or Window("long", "2024-01-03", "2024-01-09"),
        "model": "builtin/momentum",
        "model_args": {},
        "agent": "react",
        "agent_args": {},
        "call": {"temperature": 0.7},
        "seed": seed,
        "limit": limit,
    }
    return EpisodeSpec(**(fields | changes))


def ledger(
    steps: Sequence[Mapping[str, Any]],
    initial_cash_minor: int = 1000,
    of: EpisodeSpec | None = None,
) -> Ledger:
    """A ledger of given steps."""
    return Ledger(
        (of or spec()).to_json(),
        initial_cash_minor,
        from_plain(list(steps), list[StepRecord], "step records"),
    )


def nav_ledger(navs: Sequence[int], initial_cash_minor: int = 1000) -> Ledger:
    """A ledger whose NAV is given and held half in cash, half in the first asset."""
    return ledger(
        [
            step(k, nav - nav // 2, {CODES[0]: nav // 2} if nav > 1 else {})
            for k, nav in enumerate(navs)
        ],
        initial_cash_minor,
    )
