"""Cards as JSON whose derived fields are recomputed after a change, as a forger would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ktdeval.cards import card_kinds, derive_card, plan_of
from ktdeval.task_api import Window
from ktdeval.values import content_hash, from_plain

Value = dict[str, Any]


def derived_fields(card: Mapping[str, Any]) -> Value:
    """Return a card's JSON with all derived fields recomputed."""
    derived: Value = derive_card(_typed_card(card)).plain
    return derived


def _typed_card(card: Mapping[str, Any]) -> Any:
    kind = card_kinds(card["kind"])[card["kind"]]
    return from_plain(dict(card), kind.type, "card")


def renewed_card(card: Value) -> Value:
    """Return a card with all derived fields recomputed: hash, ids, record names and totals."""
    card["task"]["hash"] = content_hash(card["task"]["config"])
    facts = _typed_card(card)
    plan = plan_of(facts)
    windows = {each.name: Window(each.name, each.first, each.last) for each in facts.windows}
    names = {}
    for episode in [*card["episodes"], *card["missing_episodes"]]:
        window = windows.get(episode.get("window"))
        new = replace(plan, window=window, seed=episode["seed"]).id
        names[episode["id"]] = new
        episode["id"] = new

    artefacts = {}
    for path, digest in card["artefacts"].items():
        old = path.split("/")[1]
        if old in names:
            artefacts[path.replace(old, names[old])] = digest

    card["artefacts"] = artefacts
    return {**card, **derived_fields(card)}
