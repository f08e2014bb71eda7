"""Models that count what their prompt holds: words of news by what came of them, from the memories in it, and views of desks."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from ktdeval.harness import ModelRequest, Reply, table_rows
from ktdeval.keyless import Certain, Conversation, Intent, KeylessModel, equal_first, standing, table_columns

MOST_WORDS = 24  #: kept: a memory is short
_SIDES = {"BUY": 1, "SELL": -1}
_VOTES = re.compile(r"^- M(\d+): .*\bvotes: ([a-z0-9+ -]*)", re.MULTILINE)
_VOTE, _WORD = re.compile(r"([a-z]+)([+-]\d+)"), re.compile(r"\b[a-z]{4,}\b")


class RecallModel(KeylessModel):
    """Counts over the days of a warm-up how often each word of the news came before a label of BUY rather than SELL, and decides by
    these votes on the words of today's news.

    It uses its prompt only: the votes are read from the newest memory in it that has some, and written into each reason.
    Without an agent that remembers, without lessons, or with several assets at once, it learns nothing and does not trade.
    """

    needs_lessons = True
    needs = "news of one asset, and lessons of a warm-up from an agent that remembers, such as finmem"

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Whether it is shown news of one asset, and was shown what came of earlier news."""
        learns = any("outcomes" in asked.state for asked in conversations)
        decides = [asked.state for asked in conversations if asked.is_submission]
        is_of_one = any("news" in state and len(table_rows(state.get("candidates"))) == 1 for state in decides)
        return learns and is_of_one

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request."""
        conversation = Conversation(request)
        outcomes = conversation.rows(conversation.state.get("outcomes"))
        if conversation.is_submission or len(outcomes) != 1:
            return super().reply(request)
        votes, side = Counter(_votes(conversation)), _SIDES.get(outcomes[0]["label"], 0)
        for word in _words(conversation) if side else ():
            votes[word] += side
        return Reply(_listed(votes))

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Take the side that the words of today's news vote for; no position without votes or without news."""
        rows = conversation.rows(conversation.state.get("candidates"))
        if len(rows) != 1:
            return []
        stock, votes, limits = rows[0]["stock_id"], _votes(conversation), conversation.state["constraints"]
        held = {row["stock_id"]: row["weight"] for row in conversation.rows(conversation.state["positions"])}
        vote = sum(votes.get(word, 0) for word in _words(conversation))
        side = (vote > 0) - (vote < 0 and limits.get("short_sales", False))
        weight = held.get(stock, 0.0)
        word: Literal["BUY", "SELL"] = "BUY" if side > 0 else "SELL"
        if side and side * weight <= 0:
            return [Intent(stock, word, side * float(limits["max_weight"]), 0.6, f"the words of today's news call for {word}")]
        gone = Intent(stock, "SELL" if weight > 0 else "BUY", 0.0, 0.5, "the words of today's news call for nothing")
        return [gone] if weight and not side else []

    def explained(self, conversation: Conversation, intents: Sequence[Intent]) -> str:
        """Return the overall reason: the votes, so that the agent remembers them for the next step."""
        votes = _votes(conversation)
        return _listed(votes) if votes else self.summary(intents)


def _words(conversation: Conversation) -> set[str]:
    """Words of today's news, without figures and handles."""
    news = conversation.rows(conversation.state.get("news"))
    return {word for row in news for word in _WORD.findall(str(row["text"]).lower()) if word not in ("asset", "stock")}


def _votes(conversation: Conversation) -> Mapping[str, int]:
    """Return the votes of the newest memory in the prompt that has some."""
    prompts = [
        message.content for message in conversation.request.messages if message.role == "user" and "```json" in message.content
    ]
    memories = _VOTES.findall(prompts[-1].partition("```json")[0]) if prompts else []
    newest = max(memories, key=lambda memory: int(memory[0]), default=("", ""))
    return {word: int(vote) for word, vote in _VOTE.findall(newest[1])}


def _listed(votes: Mapping[str, int]) -> str:
    """Return the votes as text, the strongest first."""
    strongest = sorted(((word, vote) for word, vote in votes.items() if vote), key=lambda pair: (-abs(pair[1]), pair[0]))
    return "votes: " + " ".join(f"{word}{vote:+d}" for word, vote in strongest[:MOST_WORDS])


# ---- views

_VIEWED = {"rise": 1, "fall": -1}
_DOCUMENT_VIEW = re.compile(r"\bto (rise|fall) by the next close\b")
_REPORTED_VIEW = re.compile(r"^View of (.+) on (\S+): (rise|fall)$", re.MULTILINE)

Views = Mapping[tuple[str, str], int]


class TallyModel(KeylessModel):
    """Uses its prompt only: documents in the words of the market `synthetic_views`, and reports of other roles of a team in this
    model's own words. As a role that does not submit, it reports each view that it knows, once for each desk and asset. In its
    submission it takes the side of the majority in each asset; without a majority it decides HOLD, or if the task asks for orders,
    holds no position.
    """

    needs = "candidates, and documents in the words of the market synthetic_views"

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Whether candidates are shown, and in some prompt a view of a desk."""
        return bool(table_columns(conversations, "candidates")) and any(map(_views, conversations))

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request."""
        conversation = Conversation(request)
        if conversation.is_submission or conversation.offered:
            return super().reply(request)
        views = sorted(_views(conversation).items())
        lines = [f"View of {desk} on {asset}: {'rise' if side > 0 else 'fall'}" for (desk, asset), side in views]
        return Reply("\n".join(["Views known to me, by desk:", *lines]) if lines else "No view is known to me.")

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Hold each asset on the side of its majority, in equal parts."""
        views, state = _views(conversation), conversation.state
        rows = conversation.rows(state.get("candidates"))
        held = {row["stock_id"]: row for row in conversation.rows(state["positions"])}
        part = min(float(state["constraints"]["max_weight"]), 1.0 / max(len(rows), 1))
        shorts = bool(state["constraints"].get("short_sales"))
        groups = []
        for group in standing(rows):
            changes = []
            for stock in (row["stock_id"] for row in group):
                tally = sum(side for (_, asset), side in views.items() if asset == stock)
                weight = float(held[stock]["weight"]) if stock in held else 0.0
                side = (tally > 0) - (tally < 0 and shorts)
                if side * weight > 0 or not (side or weight):
                    continue
                buys = side > 0 or weight < 0
                reason = f"{abs(tally)} more desks are on this side"
                changes.append(Intent(stock, "BUY" if buys else "SELL", side * part, 0.6, reason))
            groups.append(changes)
        if "hold" in state["constraints"]:  # decisions have no weight to share
            return [intent for changes in groups for intent in changes]
        certain = Certain(conversation)
        return equal_first([_shared(changes, part, certain) for changes in groups])


def _shared(changes: Sequence[Intent], part: float, certain: Certain) -> list[Intent]:
    """Return the orders on equal names with weights that there is cash for, all or none of those that open a position."""
    opened = [intent for intent in changes if intent.target_weight]
    if len(opened) < 2:
        return [*changes]
    share = certain.share(part, len(opened))
    sized = [intent._replace(target_weight=math.copysign(share, intent.target_weight)) for intent in opened]
    by_stock = {intent.stock_id: intent for intent in sized}
    return [by_stock.get(intent.stock_id, intent) for intent in changes if share or intent.stock_id not in by_stock]


def _views(conversation: Conversation) -> Views:
    """Return views by desk and asset label: those of documents, and those that a role reported on this day."""
    views: dict[tuple[str, str], int] = {}
    for message in conversation.request.messages:
        if message.role == "user":
            views |= {(desk, asset): _VIEWED[word] for desk, asset, word in _REPORTED_VIEW.findall(message.content)}
    for row in conversation.rows(conversation.state.get("news")):
        if word := _DOCUMENT_VIEW.search(str(row["text"])):
            views |= {(str(row["source"]), str(asset)): _VIEWED[word[1]] for asset in row["stock_ids"]}
    return views
