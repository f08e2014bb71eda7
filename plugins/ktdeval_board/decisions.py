"""Orders and holdings by day, derived from a card's records: for the portfolio pages, and to set two agents side by side."""

from __future__ import annotations

import unicodedata

from ktdeval.cards import TradingCard
from ktdeval.jsonio import JsonValue
from ktdeval.runner import RunFolder
from ktdeval.trading import OrderRecord, StepRecord
from ktdeval.typed import from_plain
from ktdeval_board.derived import Decisions
from ktdeval_board.series import episode_spec, rounded

WHY_LENGTH, REASON_LENGTH, _CODE_LENGTH = 300, 160, 40
_TICKS_PER_CNY = 10_000
_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
"""Categories of characters that show nothing, end lines or turn text round: a page could seem to say something else."""


def make_decisions(run: RunFolder, card_id: str, card: TradingCard) -> Decisions:
    """Make the decisions of a trading card; equal records give equal values."""
    episodes: list[JsonValue] = []
    for entry in card.episodes:
        ledger = run.load_ledger(episode_spec(run, entry.id))
        steps = [_step(step) for step in ledger.steps]
        episodes.append({"id": entry.id, "window": entry.window, "seed": entry.seed, "steps": steps})
    return from_plain(rounded({"schema_version": 1, "card": card_id, "episodes": episodes}), Decisions, "decisions")


def plain_line(text: str, length: int) -> str:
    """A model's words on one line without characters that are not seen, cut to a length with an ellipsis."""
    seen = "".join(" " if unicodedata.category(character) in _UNSEEN else character for character in text)
    line = " ".join(seen.split())
    return line if len(line) <= length else f"{line[: length - 1].rstrip()}…"


def _step(step: StepRecord) -> JsonValue:
    nav = step.nav_minor
    held = sorted(step.positions, key=lambda position: (-position.value_minor, position.code))
    return {
        "day": step.filled_on,
        "decided_on": step.decided_on,
        "by": step.provenance,
        "why": plain_line(step.overall_reason, WHY_LENGTH),
        "orders": [_order(order) for order in step.orders],
        "holdings": [[position.code, position.value_minor / nav if nav > 0 else 0.0] for position in held],
    }


def _order(order: OrderRecord) -> JsonValue:
    return {
        "code": plain_line(order.code or order.stock_id or "?", _CODE_LENGTH) or "?",
        "side": order.side,
        "asked": asked(order),
        "filled": order.filled_shares,
        "price": order.price_ticks / _TICKS_PER_CNY if order.filled_shares else None,
        "status": order.status,
        "rule": order.rule,
        "reason": plain_line(order.reason, REASON_LENGTH),
    }


def asked(order: OrderRecord) -> str:
    """Return what an order of a step record asked for, in words: the target weight, or shares."""
    weight, shares = order.target_weight, order.shares
    if weight is not None:
        return f"{100.0 * weight:.4g} %"
    return "1 share" if shares == 1 else f"{shares} shares"
