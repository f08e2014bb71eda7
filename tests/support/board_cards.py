"""Cards for the tests of boards: their files, and typed cards made from JSON that has only what a test is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ktdeval.cards import ScoringCard, TradingCard
from ktdeval.jsonio import content_hash
from ktdeval.typed import from_plain
from ktdeval_board.entries import Card, Entry
from ktdeval_board.layout import BoardFolder, CardFiles

_DAY = "2024-01-01"
_SHA = "a" * 64
_COUNTS = {"submitted": 0, "filled": 0, "partially_filled": 0, "rejected": 0, "rules": {}}
_USAGE = dict.fromkeys(
    ("input_tokens", "output_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens", "tool_calls",
     "tool_calls_valid", "submissions"), 0,
)  # fmt: skip
_NONE = {"value": None, "reason": "not told here"}
_FRAME: Mapping[str, Any] = {
    "schema_version": 1,
    "sent_as": None,
    "drift": _NONE,
    "artefacts": {},
    "provenance": {"created_at": f"{_DAY}T00:00:00", "suite_version": "0", "source_revision": None, "wall_time_s": None,
                   "environment": {}, "calls": None},
    "missing_episodes": [],
    "calibration": {"bins": [], "n": 0, "no_fill": 0, "no_next_open": 0},
    "certificate": _NONE,
    "coverage": dict.fromkeys(("episodes_planned", "episodes_finished", "steps_planned", "steps", "steps_decided"), 1),
    "usage": _USAGE,
    "orders": _COUNTS,
    "attribution": _NONE,
}  # fmt: skip
_MARKET = {"name": "market", "source": "a test", "has_factor": True, "repairs": [], "benchmark": "000300", "assets": 2,
           "first_day": _DAY, "last_day": _DAY}  # fmt: skip


def typed(card: Mapping[str, Any]) -> Card:
    """The typed card of a card's JSON, which need not follow from its own episodes."""
    return from_plain(dict(card), TradingCard if card["kind"] == "trading" else ScoringCard, "card")


def framed(card: Mapping[str, Any]) -> dict[str, Any]:
    """A trading card's JSON with the fields that a test does not tell."""
    made = {**_FRAME, **card, "snapshot": {**_MARKET, **card["snapshot"]}}
    made["episodes"] = [
        {"failures": {}, "final_nav_fen": 100, "orders": _COUNTS, **each, "usage": {**_USAGE, **each["usage"]}}
        for each in card["episodes"]
    ]
    made["metrics"] = {name: {"value": 0.0, "n": 1, "undefined": {}, **each} for name, each in card["metrics"].items()}
    return made


def changed(entry: Entry, change: Callable[[dict[str, Any]], object]) -> Entry:
    """An entry whose card is changed; it keeps its id."""
    plain = entry.card.plain
    change(plain)
    return replace(entry, card=typed(plain))


def files_of(folder: BoardFolder, card: Mapping[str, Any], card_id: str = "") -> CardFiles:
    """Where a card belongs, by its JSON."""
    names = (str(card[part]["name"]) for part in ("task", "model", "agent"))
    return folder.card_files(*names, card_id=card_id or content_hash(card))


def submission_of(card: Mapping[str, Any], card_id: str, **facts: Any) -> dict[str, Any]:
    """The JSON of a submission with what one must say, and further `facts`."""
    return {
        "schema_version": 1,
        "card": card_id,
        "submitter": {"name": "A tester", "contact": "tester@example.org"},
        "model": {"name": card["model"]["name"], "cutoff_date": None, "cutoff_source": "a fixed rule has none"},
        "agent": {"name": card["agent"]["name"]},
        "attempts": {"runs": 1},
        "submitted_on": "2026-03-01",
        "statement": True,
        **facts,
    }
