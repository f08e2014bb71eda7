"""Models that count items in their prompts: `RecallModel` counts votes for words in news,
`TallyModel` counts the views of desks.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from ktdeval.harness import ModelRequest, ModelTraits, Reply, table_rows
from ktdeval.keyless import (
    Certain,
    Conversation,
    Intent,
    KeylessModel,
    equal_first,
    standing,
    table_columns,
)

MAX_WORDS = 24  #: maximum number of words in a memory, which is short
_SIDES = {"BUY": 1, "SELL": -1}
_VOTES = re.compile(r"^- M(\d+): .*\bvotes: ([a-z0-9+ -]*)", re.MULTILINE)
_VOTE = re.compile(r"([a-z]+)([+-]\d+)")
_WORD = re.compile(r"\b[a-z]{4,}\b")


class RecallModel(KeylessModel):
    """Model that learns during a warm-up which words in the news precede BUY rather than SELL.

    It decides by the votes of the words in today's news. It reads only its prompt: the votes are in
    the newest memory that contains any, and the model writes them into each reason. It learns
    nothing and does not trade if the agent does not remember, if there are no lessons, or if it is
    shown several assets at once.
    """

    needs = (
        "news of one asset, and lessons of a warm-up from an agent that remembers, such as finmem"
    )

    @property
    def traits(self) -> ModelTraits:
        """Traits of a rule-based model that learns in a warm-up."""
        return replace(super().traits, needs_lessons=True)

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Return whether the model is shown news about a single asset, and was shown the outcomes
        of earlier news.
        """
        if not any("outcomes" in asked.state for asked in conversations):
            return False

        decisions = [asked.state for asked in conversations if asked.is_submission]
        return any(
            "news" in state and len(table_rows(state.get("candidates"))) == 1 for state in decisions
        )

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request."""
        conversation = Conversation(request)
        outcomes = conversation.rows(conversation.state.get("outcomes"))
        if conversation.is_submission or len(outcomes) != 1:
            return super().reply(request)

        votes = Counter(_votes(conversation))
        side = _SIDES.get(outcomes[0]["label"], 0)
        if side:
            for word in _news_words(conversation):
                votes[word] += side

        return Reply(_votes_text(votes))

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Take the side for which the words in today's news vote. Without votes, hold no position."""
        rows = conversation.rows(conversation.state.get("candidates"))
        if len(rows) != 1:
            return []

        stock = rows[0]["stock_id"]
        weight = 0.0
        for row in conversation.rows(conversation.state["positions"]):
            if row["stock_id"] == stock:
                weight = row["weight"]

        votes = _votes(conversation)
        vote = sum(votes.get(word, 0) for word in _news_words(conversation))
        limits = conversation.state["constraints"]
        side = 0
        if vote > 0:
            side = 1
        elif vote < 0 and limits.get("short_sales", False):
            side = -1

        reason = "the words of today's news call for"
        order: Literal["BUY", "SELL"]
        if side and side * weight <= 0:
            order = "BUY" if side > 0 else "SELL"
            target = side * float(limits["max_weight"])
            return [Intent(stock, order, target, 0.6, f"{reason} {order}")]

        if weight and not side:
            order = "SELL" if weight > 0 else "BUY"
            return [Intent(stock, order, 0.0, 0.5, f"{reason} nothing")]

        return []

    def explain_intents(self, conversation: Conversation, intents: Sequence[Intent]) -> str:
        """Return the votes as the overall reason, so that the agent remembers them."""
        votes = _votes(conversation)
        if not votes:
            return self.summary(intents)
        return _votes_text(votes)


def _news_words(conversation: Conversation) -> set[str]:
    """Return the words in today's news, and the sentiments of the news, without figures and
    handles.
    """
    words: set[str] = set()
    for row in conversation.documents:
        sentiment = row.get("sentiment") or ""
        words.update(_WORD.findall(f"{row['text']} {sentiment}".lower()))

    return words - {"asset", "stock"}


def _votes(conversation: Conversation) -> Mapping[str, int]:
    """Return the votes in the prompt's newest memory that contains any."""
    memories = _VOTES.findall(conversation.day_message)
    _, newest = max(memories, key=lambda memory: int(memory[0]), default=("", ""))
    return {word: int(vote) for word, vote in _VOTE.findall(newest)}


def _votes_text(votes: Mapping[str, int]) -> str:
    """Return the votes as text, strongest first."""
    strongest = [(word, vote) for word, vote in votes.items() if vote]
    strongest.sort(key=lambda pair: (-abs(pair[1]), pair[0]))
    return "votes: " + " ".join(f"{word}{vote:+d}" for word, vote in strongest[:MAX_WORDS])


# ---- views

_VIEWED = {"rise": 1, "fall": -1}
_DOCUMENT_VIEW = re.compile(r"\bto (rise|fall) by the next close\b")
_REPORTED_VIEW = re.compile(r"^View of (.+) on (\S+): (rise|fall)$", re.MULTILINE)

Views = Mapping[tuple[str, str], int]


class TallyModel(KeylessModel):
    """Model that counts the views of desks and follows the majority.

    It reads only its prompt: documents worded as in the market `synthetic_views`, and reports that
    other team roles wrote in this model's wording. In a role that does not submit, it reports each
    view that it knows, once for each desk and asset. In its submission it takes the majority's side
    for each asset. Without a majority it decides HOLD, or has no position if the task asks for
    orders.
    """

    needs = "candidates, and documents in the words of the market synthetic_views"

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Return whether prompts show candidates and at least one desk's view."""
        if not table_columns(conversations, "candidates"):
            return False
        return any(map(_views, conversations))

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request."""
        conversation = Conversation(request)
        if conversation.is_submission or conversation.offered:
            return super().reply(request)

        views = _views(conversation)
        if not views:
            return Reply("No view is known to me.")

        lines = ["Views known to me, by desk:"]
        for (desk, asset), side in sorted(views.items()):
            direction = "rise" if side > 0 else "fall"
            lines.append(f"View of {desk} on {asset}: {direction}")

        return Reply("\n".join(lines))

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Take the majority's side for each asset, with equal weights."""
        views = _views(conversation)
        state = conversation.state
        rows = conversation.rows(state.get("candidates"))
        held = {row["stock_id"]: row for row in conversation.rows(state["positions"])}
        limits = state["constraints"]
        names = max(1, min(len(rows), int(limits.get("max_positions", len(rows)))))
        part = min(float(limits["max_weight"]), 1.0 / names)
        shorts = bool(state["constraints"].get("short_sales"))
        groups = []

        for group in standing(rows):
            changes = []
            for row in group:
                stock = row["stock_id"]
                tally = sum(side for (_, asset), side in views.items() if asset == stock)
                weight = float(held[stock]["weight"]) if stock in held else 0.0
                side = (tally > 0) - (tally < 0 and shorts)
                if side * weight > 0 or not (side or weight):
                    continue

                buys = side > 0 or weight < 0
                reason = f"{abs(tally)} more desks are on this side"
                changes.append(Intent(stock, "BUY" if buys else "SELL", side * part, 0.6, reason))

            groups.append(changes)

        if "hold" in state["constraints"]:  # decisions have no weight to divide
            return [intent for changes in groups for intent in changes]

        certain = Certain(conversation)
        return equal_first([_affordable_orders(changes, part, certain) for changes in groups])


def _affordable_orders(changes: Sequence[Intent], part: float, certain: Certain) -> list[Intent]:
    """Return the orders for names with equal figures, with weights that the cash covers. Either all
    orders that open a position are included, or none, so that these names are treated alike.
    """
    opened = [intent for intent in changes if intent.target_weight]
    if len(opened) < 2:
        return list(changes)

    share = certain.share(part, len(opened))
    orders = []
    for intent in changes:
        if not intent.target_weight:
            orders.append(intent)
        elif share:
            weight = math.copysign(share, intent.target_weight)
            orders.append(replace(intent, target_weight=weight))

    return orders


def _views(conversation: Conversation) -> Views:
    """Return views, keyed by desk and asset label, from documents and today's role reports."""
    views: dict[tuple[str, str], int] = {}
    for message in conversation.request.messages:
        if message.role != "user":
            continue

        for desk, asset, direction in _REPORTED_VIEW.findall(message.content):
            views[desk, asset] = _VIEWED[direction]

    for row in conversation.documents:
        match = _DOCUMENT_VIEW.search(str(row["text"]))
        if match is not None:
            for asset in row["stock_ids"]:
                views[str(row["source"]), str(asset)] = _VIEWED[match[1]]

    return views
