"""Cards built from small hand-written ledgers, for the tests of cards."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from metric_cases import CODES, TASK, ledger, market, order, spec, step

from ktdeval.cards.build import CardInputs, build_card
from ktdeval.runner.spec import EpisodeSpec
from ktdeval.stats.panel import panel_metrics
from ktdeval.trading.ledger import Ledger

PROVENANCE = {
    "created_at": "2026-01-02T03:04:05+00:00",
    "suite_version": "0.1.0",
    "source_revision": None,
    "wall_time_s": 1.5,
    "environment": {"python": "3.11"},
}


def episode(of: EpisodeSpec) -> Ledger:
    """A ledger of up to five days, with retries, rejections and tool failures; the gain depends on the seed."""
    steps = []
    for number in range(of.limit or 5):
        orders = [order(confidence=0.55 + 0.05 * number), order(CODES[1], "SELL", 0.7, filled=0, rule="price_limit")]
        retried: dict[str, Any] = {"failures": {"schema": 1}, "provenance": "model_after_retry"} if number == 2 else {}
        holdings = {CODES[0]: 300 + 7 * number + 20 * number * of.seed, CODES[1]: 200}
        steps.append(step(number, 500, holdings, orders=orders, tool_calls=4, tool_calls_valid=3, submissions=2, **retried))
    return ledger(steps, 1000, of)


def inputs(seeds: Sequence[int] = (0,), failed: Collection[int] = (), limit: int | None = None, **changes: Any) -> CardInputs:
    """Inputs of a card over one window; episodes of `failed` seeds have no ledger."""
    specs = [spec(seed, limit) for seed in seeds]
    fields: dict[str, Any] = {
        "task": TASK,
        "task_hash": specs[0].task_hash,
        "model": {"name": "builtin/momentum", "args": {}},
        "agent": {"name": "react", "args": {}},
        "call": {"temperature": 0.7},
        "rules": "strict",
        "snapshot": market(),
        "specs": specs,
        "ledgers": [episode(each) for each in specs if each.seed not in failed],
        "metrics": panel_metrics(),
        "artefacts": {"episodes/x/ledger.parquet": "a" * 64},
        "missing_episodes": [{"id": each.id, "error": "the model\ncall failed"} for each in specs if each.seed in failed],
        "provenance": PROVENANCE,
    }
    return CardInputs(**(fields | changes))


def card(seeds: Sequence[int] = (0,), failed: Collection[int] = (), limit: int | None = None, **changes: Any) -> dict[str, Any]:
    """A card over one window."""
    return build_card(inputs(seeds, failed, limit, **changes))
