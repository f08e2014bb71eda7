"""A model that counts views: it takes the side of most desks whose view its prompt shows or another role reported."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ktdeval.harness import ModelRequest, Reply
from ktdeval.keyless import Conversation, Intent, KeylessModel

_SIDES = {"rise": 1, "fall": -1}
_DOCUMENT_VIEW = re.compile(r"\bto (rise|fall) by the next close\b")
_REPORTED_VIEW = re.compile(r"^View of (.+) on (\S+): (rise|fall)$", re.MULTILINE)

Views = Mapping[tuple[str, str], int]


class TallyModel(KeylessModel):
    """Uses its prompt only: documents in the words of the market `synthetic_views`, and reports of other roles of a team in this
    model's own words. As a role that does not submit, it reports each view that it knows, once for each desk and asset. In its
    submission it takes the side of the majority in each asset; without a majority it decides HOLD, or if the task asks for orders,
    holds no position.
    """

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
        intents = []
        for stock in (row["stock_id"] for row in rows):
            tally = sum(side for (_, asset), side in views.items() if asset == stock)
            weight = float(held[stock]["weight"]) if stock in held else 0.0
            side = (tally > 0) - (tally < 0 and bool(state["constraints"].get("short_sales")))
            if side * weight > 0 or not (side or weight):
                continue
            buys = side > 0 or weight < 0
            intents.append(Intent(stock, "BUY" if buys else "SELL", side * part, 0.6, f"{abs(tally)} more desks are on this side"))
        return intents


def _views(conversation: Conversation) -> Views:
    """Return views by desk and asset label: those of documents, and those that a role reported on this day."""
    views: dict[tuple[str, str], int] = {}
    for message in conversation.request.messages:
        if message.role == "user":
            views |= {(desk, asset): _SIDES[word] for desk, asset, word in _REPORTED_VIEW.findall(message.content)}
    for row in conversation.rows(conversation.state.get("news")):
        if word := _DOCUMENT_VIEW.search(str(row["text"])):
            views |= {(str(row["source"]), str(asset)): _SIDES[word[1]] for asset in row["stock_ids"]}
    return views
