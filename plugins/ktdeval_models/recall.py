"""A model that learns from what its prompt remembers: it counts which words of news came before rises and falls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from ktdeval.harness import ModelRequest, Reply
from ktdeval.keyless import Conversation, Intent, KeylessModel

MOST_WORDS = 24  #: kept: a memory is short
_SIDES = {"BUY": 1, "SELL": -1}
_VOTES = re.compile(r"^- M(\d+): .*\bvotes: ([a-z0-9+ -]*)", re.MULTILINE)
_VOTE, _WORD = re.compile(r"([a-z]+)([+-]\d+)"), re.compile(r"\b[a-z]{4,}\b")


class RecallModel(KeylessModel):
    """Says of each day of a warm-up how often each word of its news has come before a label of BUY rather than SELL, and decides by
    these votes on the words of today's news.

    It knows nothing but its prompt: the votes are read from the newest memory in it that has some, and written into each reason.
    Without an agent that remembers, without lessons, and of several assets at once it learns nothing, and does nothing.
    """

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request."""
        conversation = Conversation(request)
        outcomes = conversation.rows(conversation.state.get("outcomes"))
        if conversation.is_submission or len(outcomes) != 1:
            return super().reply(request)
        votes, side = Counter(_votes(conversation)), _SIDES.get(outcomes[0]["label"], 0)
        for word in _words(conversation) if side else ():
            votes[word] += side
        return Reply(_told(votes))

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Take the side that the words of today's news vote for; no position where they do not vote, or there is no news."""
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
        """Return the overall reason: what it knows, for the next step to be remembered."""
        votes = _votes(conversation)
        return _told(votes) if votes else self.summary(intents)


def _words(conversation: Conversation) -> set[str]:
    """Words of today's news, without figures and handles."""
    news = conversation.rows(conversation.state.get("news"))
    return {word for row in news for word in _WORD.findall(str(row["text"]).lower()) if word not in ("asset", "stock")}


def _votes(conversation: Conversation) -> Mapping[str, int]:
    """Votes of the newest memory in the prompt that has some."""
    prompts = [
        message.content for message in conversation.request.messages if message.role == "user" and "```json" in message.content
    ]
    found = _VOTES.findall(prompts[-1].partition("```json")[0]) if prompts else []
    return {word: int(vote) for word, vote in _VOTE.findall(max(found, key=lambda one: int(one[0]))[1])} if found else {}


def _told(votes: Mapping[str, int]) -> str:
    """Votes in words, the strongest first."""
    strongest = sorted(((word, vote) for word, vote in votes.items() if vote), key=lambda one: (-abs(one[1]), one[0]))
    return "votes: " + " ".join(f"{word}{vote:+d}" for word, vote in strongest[:MOST_WORDS])
