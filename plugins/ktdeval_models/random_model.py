"""Built-in model that trades at random, from a seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import groupby
from typing import Any, Literal

import numpy as np

from ktdeval.harness import ModelRequest, ModelTraits, Reply
from ktdeval.keyless import (
    Call,
    Certain,
    Conversation,
    Intent,
    KeylessModel,
    Ranking,
    Row,
    buyable,
    equal_first,
    holdable,
    is_offered,
    places_of,
    standing,
    table_columns,
    worth,
)
from ktdeval.values import JsonValue, derive_seed, whole_groups
from ktdeval_models.params import RandomParams
from ktdeval_models.question_answers import question_form, random_answer

SCREENS = (
    "MOM_12_1",
    "-RV_60",
    "ILLIQ",
    "REV_ON",
    "-MOM_ID",
    "SKEW",
    "CORR_PV",
    "HIGH_52W",
    "-CV_VOL",
)
MAX_PARTS = 20  # maximum number of parts into which an account is divided to size random buys


class RandomModel(KeylessModel):
    """Model that sells holdings and buys shown names at random, from a seed.

    It is the baseline that a strategy must beat at the same turnover.

    In the `memory_only` setting the names shown are the universe, so it draws labels. Elsewhere it
    draws from names ordered by their figures; names with identical figures are drawn together.
    Draws depend only on `ModelRequest.chance_seed`, with a separate stream for each phase of a
    step. The seed differs between the calls in a step, so only the orders in the submission matter.
    """

    needs = (
        "names to draw from: candidates or a universe in the prompt, or the tool screen_candidates"
    )

    def __init__(self, params: RandomParams) -> None:
        self.params = params

    @property
    def traits(self) -> ModelTraits:
        """Traits of a rule-based model that draws at random."""
        return replace(super().traits, draws_chance=True)

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request. A question gets a random choice."""
        form = question_form(request)
        if form is None:
            return super().reply(request)

        conversation = Conversation(request)
        answer = random_answer(form, _chance(conversation, "answer"))
        return conversation.call([(form.name, answer)])

    def _step_problem(self, requests: Sequence[ModelRequest]) -> str | None:
        """Return the parent's problem; a question needs no account."""
        if any(question_form(request) is not None for request in requests):
            return None
        return super()._step_problem(requests)

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Return whether names are shown, or can be looked up."""
        return names_are_shown(conversations) or is_offered(conversations, "screen_candidates")

    def lookups(self, conversation: Conversation) -> Sequence[Call]:
        """Return the calls for the market and for a ranking by a random factor."""
        index = int(_chance(conversation, "screen").integers(len(SCREENS)))
        screen: dict[str, JsonValue] = {"factors": [SCREENS[index]], "k": 30}
        return [("get_market_context", {}), ("screen_candidates", screen)]

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Return a few random sells and buys."""
        if not conversation.is_submission:
            return []

        # The order of the draws affects every recorded result.
        chance = _chance(conversation, "orders")
        state = conversation.state
        held = conversation.holdings
        sells = []
        for group in _by_worth(held):
            if chance.random() < self.params.sell_probability:
                sells.append(group)

        names = self._names(conversation, set(stock_ids(held)))
        vacant = state["constraints"]["max_positions"] - len(held) + sum(map(len, sells))
        buys = int(chance.integers(self.params.max_buys + 1))
        count = max(0, min(buys, len(names), vacant))
        drawn = [names[index] for index in chance.permutation(len(names))[:count]]
        picks = list(whole_groups(drawn, vacant))

        intents = []
        for group in sells:
            confidence = _confidence(chance)
            for row in group:
                side: Literal["BUY", "SELL"] = "SELL" if row["weight"] >= 0 else "BUY"
                reason = "sold by the toss of a coin"
                intents.append(Intent(row["stock_id"], side, 0.0, confidence, reason))

        return [*intents, *self._bought(conversation, picks, chance)]

    def _names(self, conversation: Conversation, held: Set[str]) -> list[list[str]]:
        """Return groups of names that are not held and may be bought.

        They are in the screen's order. Without a screen, they are ordered by their figures.
        """
        result = conversation.result("screen_candidates")
        screened = conversation.result_rows("screen_candidates", "candidates")
        candidates = conversation.rows(conversation.state.get("candidates"))
        groups: Sequence[Sequence[Row]]
        if screened:
            groups = Ranking(buyable(screened), None, "", screened_places(result)).groups
        elif candidates:
            groups = standing(buyable(candidates))
        else:
            universe = conversation.state.get("universe", ())
            return [[stock] for stock in universe if stock not in held]

        fresh = []
        for group in groups:
            stocks = [stock for stock in stock_ids(group) if stock not in held]
            if stocks:
                fresh.append(stocks)

        return fresh

    def _bought(
        self,
        conversation: Conversation,
        picks: Sequence[Sequence[str]],
        chance: np.random.Generator,
    ) -> list[Intent]:
        """Return orders that open positions, long or short, with random weights.

        Names with identical figures get the same weight.
        """
        limits = conversation.state["constraints"]
        certain = Certain(conversation)
        limit = min(self._largest_weight(conversation), limits["max_weight"])
        shorts = 0.0
        if limits.get("short_sales"):
            shorts = self.params.short_probability or 0.0

        bought = []

        for group in picks:
            weight = round(float(chance.uniform(limit / 4, limit)) / len(group), 4)
            # If short sales are not allowed, no number is drawn, so that draws in such markets stay
            # the same.
            is_short = bool(shorts) and chance.random() < shorts
            confidence = _confidence(chance)
            if len(group) > 1 and not certain.takes(weight * len(group), len(group)):
                continue

            if is_short:
                order = Intent("", "SELL", -weight, confidence, "sold short by the toss of a coin")
            else:
                order = Intent("", "BUY", weight, confidence, "bought by the toss of a coin")

            bought.append([replace(order, stock_id=stock) for stock in group])

        return equal_first(bought)

    def _largest_weight(self, conversation: Conversation) -> float:
        """Return the upper bound of the weights. It is the parameter if set. Otherwise it makes the
        average buy an equal share of the account among the names that can be held, with at most
        `MAX_PARTS` shares.
        """
        if self.params.largest_weight is not None:
            return self.params.largest_weight

        # Weights are uniform on [1/4, 1] times this bound, so their mean is 5/8 of the bound: one
        # part.
        return 1.6 / max(1, min(MAX_PARTS, holdable(conversation)))


def _by_worth(held: Sequence[Row]) -> list[list[Row]]:
    """Return holdings in the order shown, in groups of adjacent holdings with the same weight and
    value.
    """
    return [list(group) for _, group in groupby(held, key=worth)]


def screened_places(result: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the shared rank of each name that the screen reports as equal to others in all
    figures.
    """
    groups = []
    for stocks in result.get("equal", ()):
        groups.append([{"stock_id": stock} for stock in stocks])

    return places_of(groups)


def names_are_shown(conversations: Sequence[Conversation]) -> bool:
    """Return whether prompts show a table of candidates, or a submission prompt shows a
    universe.
    """
    if table_columns(conversations, "candidates"):
        return True
    universes = [asked.state.get("universe") for asked in conversations if asked.is_submission]
    return any(universes)


def _confidence(chance: np.random.Generator) -> float:
    return round(float(chance.uniform(0.4, 0.6)), 3)


def _chance(conversation: Conversation, purpose: str) -> np.random.Generator:
    return np.random.default_rng(derive_seed(conversation.request.chance_seed, "random", purpose))


def stock_ids(rows: Iterable[Row]) -> list[str]:
    """Return the names in rows, in their order."""
    return [row["stock_id"] for row in rows]
