"""`builtin/random`: trades by the toss of a seeded coin. The zero that a strategy has to beat at its own turnover."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ktdeval.seeds import derive_seed
from ktdeval_models.base import KeylessModel, buyable
from ktdeval_models.conversation import Call, Conversation
from ktdeval_models.params import RandomParams
from ktdeval_models.portfolio import Intent

SCREENS = ("MOM_12_1", "-RV_60", "ILLIQ", "REV_ON", "-MOM_ID", "SKEW", "CORR_PV", "HIGH_52W", "-CV_VOL")


class RandomModel(KeylessModel):
    """Sells holdings and buys shown names at random. In memory_only the names shown are the universe, so it trades there too.

    Chance comes from the seed of the request alone. It derives one stream per phase of a step from it, and since the seed differs
    between calls, so does what it would do: only the submission counts.
    """

    def __init__(self, params: RandomParams) -> None:
        self.params = params

    def lookups(self, conversation: Conversation) -> Sequence[Call]:
        """Return the market, and a ranking by a factor drawn at random."""
        factor = SCREENS[int(_chance(conversation, "screen").integers(len(SCREENS)))]
        return [("get_market_context", {}), ("screen_candidates", {"factors": [factor], "k": 30})]

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """A few random sells and buys."""
        if not conversation.is_submission:
            return []
        chance = _chance(conversation, "orders")
        held = [row["stock_id"] for row in conversation.rows(conversation.state["positions"])]
        sells = [stock for stock in held if chance.random() < self.params.sell_probability]
        known = set(held)
        names = [stock for stock in _shown(conversation) if stock not in known]
        limits = conversation.state["constraints"]
        vacant = limits["max_positions"] - len(held) + len(sells)
        count = max(0, min(int(chance.integers(self.params.max_buys + 1)), len(names), vacant))
        picks = [names[place] for place in chance.permutation(len(names))[:count]]
        limit = min(self.params.largest_weight, limits["max_weight"])
        intents = [Intent(stock, "SELL", 0.0, _confidence(chance), "sold by the toss of a coin") for stock in sells]
        for stock in picks:
            weight = round(float(chance.uniform(limit / 4, limit)), 4)
            intents.append(Intent(stock, "BUY", weight, _confidence(chance), "bought by the toss of a coin"))
        return intents


def _shown(conversation: Conversation) -> list[str]:
    """Return the names that may be bought, as far as they are shown."""
    screened = conversation.rows(conversation.result("screen_candidates").get("candidates"))
    rows = screened or conversation.rows(conversation.state.get("candidates"))
    return [row["stock_id"] for row in buyable(rows)] if rows else list(conversation.state.get("universe", ()))


def _confidence(chance: np.random.Generator) -> float:
    return round(float(chance.uniform(0.4, 0.6)), 3)


def _chance(conversation: Conversation, purpose: str) -> np.random.Generator:
    return np.random.default_rng(derive_seed(conversation.request.params.seed, "random", purpose))
