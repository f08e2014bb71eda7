"""Boards written by hand, as their layout says: rules, cards, submissions, records and verdicts,
apart from what writes them in the suite; and typed cards made from JSON that has only what a test
is about.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ktdeval.values import content_hash, dumps_pretty, load_yaml
from ktdeval_board.board_entries import BoardEntry
from ktdeval_board.layout import BoardFolder, CardFiles
from support.board.forged_board import (
    put_card as put_card,
    put_json as put_json,
    put_records as put_records,
)
from support.figures.card_cases import PROVENANCE, typed

_FRAMES = load_yaml(Path(__file__).with_suffix(".yaml"))
"""What the cards of tests do not tell: of a card, its market and an episode."""


def framed(card: Mapping[str, Any]) -> dict[str, Any]:
    """A trading card's JSON with the fields that a test does not tell."""
    frame = copy.deepcopy(_FRAMES)
    frame["card"]["provenance"]["environment"] = PROVENANCE["environment"]
    made = {**frame["card"], **card, "snapshot": {**frame["market"], **card["snapshot"]}}
    episode = frame["episode"]
    made["episodes"] = [
        {**episode, **each, "usage": {**episode["usage"], **each["usage"]}}
        for each in card["episodes"]
    ]
    made["metrics"] = {
        name: {"value": 0.0, "n": 1, "undefined": {}, **each}
        for name, each in card["metrics"].items()
    }

    return made


def changed(entry: BoardEntry, change: Callable[[dict[str, Any]], object]) -> BoardEntry:
    """An entry whose card is changed; it keeps its id."""
    plain = entry.card.plain
    change(plain)
    return replace(entry, card=typed(plain))


def files_of(folder: BoardFolder, card: Mapping[str, Any], card_id: str = "") -> CardFiles:
    """Where a card belongs, by its JSON."""
    names = (str(card[part]["name"]) for part in ("task", "model", "agent"))
    return folder.card_files(*names, card_id=card_id or content_hash(card))


def card_of(run: Path) -> dict[str, Any]:
    """The one card of a run."""
    (path,) = (run / "cards").glob("*.json")
    card: dict[str, Any] = json.loads(path.read_text())
    return card


def made_on(run: Path, day: str) -> Path:
    """Let the cards of a run state this day, whatever the clock says; return the run."""
    for path in (run / "cards").glob("*.json"):
        card = json.loads(path.read_text())
        card["provenance"]["created_at"] = f"{day}T00:00:00+00:00"
        path.write_text(dumps_pretty(card))

    return run


def submission_of(card: Mapping[str, Any], card_id: str, **facts: Any) -> dict[str, Any]:
    """The JSON of a submission with what one must say, and further `facts`."""
    return {
        "schema_version": 1,
        "card": card_id,
        "submitter": {"name": "A tester", "contact": "tester@example.org"},
        "model": {
            "name": card["model"]["name"],
            "cutoff_date": "none",
            "cutoff_source": "a fixed rule has none",
        },
        "agent": {"name": card["agent"]["name"]},
        "attempts": {"runs": 1},
        "submitted_on": "2026-03-01",
        "statement": True,
        **facts,
    }


def verdict_of(
    card_id: str, division: str, tier: str = "re-executed", **facts: Any
) -> dict[str, Any]:
    """The JSON of a verdict of the board's check."""
    return {
        "schema_version": 1,
        "card": card_id,
        "division": division,
        "tier": tier,
        "checked_on": "2026-03-01",
        "suite_version": "0.1.0",
        "episodes": 1,
        "steps": 1,
        "notes": [],
        "rerun": None,
        **facts,
    }


def division_of(
    card: Mapping[str, Any], name: str = "blinded", snapshot: str = "market", **facts: Any
) -> dict[str, Any]:
    """The division of a `board.yaml` that a card is of."""
    task = {
        "task": card["task"]["name"],
        "version": card["task"]["version"],
        "hash": card["task"]["hash"],
    }
    windows = [
        {"name": window["name"], "first": window["first"], "last": window["last"]}
        for window in card["windows"]
    ]

    return {
        "id": name,
        **task,
        "snapshot": snapshot,
        "windows": windows,
        "seeds": list(card["seeds"]),
        **facts,
    }


def rules_of(card: Mapping[str, Any], data: str, **facts: Any) -> dict[str, Any]:
    """The content of a `board.yaml` whose one division a card is of; `data`: what its market is
    read from.
    """
    return {
        "name": "small",
        "title": "A small board",
        "market": "synthetic",
        "snapshots": [{"name": "market", "id": card["snapshot"]["id"], "data": data}],
        "divisions": [division_of(card)],
        "baselines": [{"model": "builtin/equal_weight"}],
        **facts,
    }
