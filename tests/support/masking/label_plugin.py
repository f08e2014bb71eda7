"""Models for the tests of what labels and memory are worth: one that looks at labels, one with
moods, one that remembers.

What a model remembers, and its mood, come from the environment: as parameters they would make it
another model.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ktdeval.harness import ModelTraits
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.keyless import (
    Call,
    Conversation,
    Intent,
    KeylessModel,
    Ranking,
    Sizing,
    buyable,
    rebalance,
)
from ktdeval.values import derive_seed
from ktdeval_models.builtin_models import RankModel
from ktdeval_models.params import RankParams

# what a model's own chance depends on: another in each run, as a provider's is
MOOD = "LABEL_PLUGIN_MOOD"
MEMORY = "LABEL_PLUGIN_MEMORY"  # file: {ISO day: codes that rise from then on}
NAMES = 8
WEIGHT = 0.09


class LowLabels(KeylessModel):
    """Likes low numbers: holds those of the shown names whose labels sort first."""

    def lookups(self, conversation: Conversation) -> Sequence[Call]:
        """A ranking, whose order it does not care for."""
        return [("screen_candidates", {"factors": ["return_20d_pct"], "k": 30})]

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Sell what is no longer among the first, buy what is."""
        rows = self.sort(
            conversation,
            conversation.rows(conversation.result("screen_candidates").get("candidates")),
        )

        if not rows:
            return []

        lowest = frozenset(row["stock_id"] for row in rows[: 2 * NAMES])
        sizing = Sizing.equal(conversation, NAMES, 0.9, (0.0, 1.5))

        return rebalance(conversation, Ranking(buyable(rows), lowest, "its label"), sizing)

    def sort(self, conversation: Conversation, rows: list[Any]) -> list[Any]:
        """The rows in the order of its taste."""
        return sorted(rows, key=lambda row: str(row["stock_id"]))


class Moody(LowLabels):
    """Takes names of the ranking by mood, and never looks at a label."""

    @property
    def traits(self) -> ModelTraits:
        return replace(super().traits, draws_chance=True)

    def sort(self, conversation: Conversation, rows: list[Any]) -> list[Any]:
        """Another order in each mood and at each step."""
        day = len(conversation.state["positions"]["rows"]), conversation.state["account"]["nav_cny"]
        chance = np.random.default_rng(
            derive_seed(
                0, os.environ.get(MOOD, ""), conversation.request.chance_seed, *map(str, day)
            )
        )

        return [rows[index] for index in chance.permutation(len(rows))]


class Memory(RankModel):
    """Buys the lowest 20-day returns, unless it recognises a day and codes: then it buys what it
    remembers to have risen.
    """

    def __init__(self, remembers: bool) -> None:
        super().__init__("return_20d_pct", True, RankParams(positions=10, keep_rank=20))
        self._risen: dict[str, list[str]] = (
            json.loads(Path(os.environ[MEMORY]).read_text()) if remembers else {}
        )

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """The remembered names where there are any; else what the figures say."""
        day = str(conversation.state["day"])
        known = [since for since in self._risen if since <= day] if day[:1].isdigit() else []
        risen = self._risen[max(known)] if known else []
        shown = {
            row["stock_id"]
            for row in conversation.rows(conversation.result("screen_candidates").get("candidates"))
        }

        if not risen or shown.isdisjoint(chain.from_iterable(self._risen.values())):
            return super().plan(conversation)

        held = {row["stock_id"] for row in conversation.rows(conversation.state["positions"])}

        return [
            Intent(code, "BUY", WEIGHT, 0.9, "remembered to have risen")
            for code in risen
            if code not in held
        ]


@hookimpl
def ktdeval_models() -> list[Spec]:
    return [
        Spec("test/low_labels", lambda name: LowLabels(), "holds the lowest labels"),
        Spec("test/moody", lambda name: Moody(), "chooses by mood"),
        Spec("test/memory", lambda name: Memory(True), "remembers what rose"),
        Spec("test/amnesia", lambda name: Memory(False), "the same without the memory"),
    ]
