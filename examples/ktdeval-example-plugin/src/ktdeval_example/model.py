"""A keyless model: it looks at one ranking, buys what leads it and holds. It speaks the protocol
that a real model speaks.
"""

from __future__ import annotations

from ktdeval.api import ModelRequest, Reply
from ktdeval.harness import ModelTraits
from ktdeval.keyless import Conversation
from ktdeval.values import JsonValue

_INVESTED = 0.9  # of the NAV, once all names are held
_LARGEST_WEIGHT = 0.09  # of one name: below the limit of the task


class TopFactor:
    """Buys the first `names` of one factor's ranking in equal weights; what it holds by then it
    keeps.

    A pure function of the request: the conversation holds all that it needs, so it keeps no state.
    """

    traits = ModelTraits(is_free=True)  # it calls nobody

    def __init__(self, factor: str, names: int) -> None:
        self._factor = factor
        self._names = names

    def reply(self, request: ModelRequest) -> Reply:
        """Ask for the ranking once; then, when asked to, submit."""
        conversation = Conversation(request)
        if conversation.is_submission:
            reason = f"the leaders by {self._factor}"
            return conversation.submit(self._orders(conversation), reason)

        if "screen_candidates" in conversation.offered and not conversation.turns:
            ranking = {"factors": [self._factor], "k": self._names}
            return conversation.call([("screen_candidates", ranking)])

        return Reply("I have seen what I need.")

    def _orders(self, conversation: Conversation) -> list[dict[str, JsonValue]]:
        if not conversation.is_readable:
            return []

        held = {row["stock_id"] for row in conversation.holdings}
        weight = min(round(_INVESTED / self._names, 4), _LARGEST_WEIGHT)
        orders: list[dict[str, JsonValue]] = []
        for row in conversation.result_rows("screen_candidates", "candidates"):
            is_full = len(held) + len(orders) >= self._names
            if is_full or row["stock_id"] in held:
                continue

            orders.append(
                {
                    "stock_id": row["stock_id"],
                    "side": "BUY",
                    "confidence": 0.5,
                    "reason": f"among the first {self._names} by {self._factor}",
                    "target_weight": weight,
                }
            )

        return orders
