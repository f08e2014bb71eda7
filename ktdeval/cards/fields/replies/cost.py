"""Cost in US dollars of the tokens in a card's replies, and the return per dollar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Literal

from msgspec import UNSET, UnsetType

from ktdeval.calls.costs.prices import FREE, PriceEntry as PriceEntry, is_free_price
from ktdeval.cards.fields.activity import derive_usage, not_counted
from ktdeval.cards.fields.base_types import Figure, Name, NonNegative, Problem
from ktdeval.cards.fields.episode_parts import Finished, RoleUsage, tokens_of_further
from ktdeval.cards.fields.origin.recorded_facts import (
    AnyFacts,
    DerivationBasis,
    Evaluation,
    TradingFacts,
)
from ktdeval.cards.fields.replies.calls import Calls, ModelCalls, batch_problem
from ktdeval.cards.fields.returns.medians import EpisodeMetric, Line, aggregate
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row, dollars, percent
from ktdeval.harness.chat_messages import USAGE_FIELDS, Usage
from ktdeval.values.documents.typed_json import Value

NO_PRICE = "no price of the model is known; give one with --price or --price-table"

# a sum that exceeds another by this factor is larger whatever the summation order
_ROUNDING = 1 + 1e-9

NO_FURTHER_PRICE = "no price of a further model is known; give one with --price-table"


class TokenCost(Figure, Value, frozen=True, kw_only=True):
    """Cost in US dollars of the tokens in the replies of the finished episodes, cached or not; null
    if the price or the tokens are unknown.
    """

    NEEDED: ClassVar[tuple[str, ...]] = ("currency", "per_episode", "price")

    value: NonNegative | None
    currency: Literal["USD"] | UnsetType = UNSET
    price: PriceEntry | UnsetType = UNSET
    per_episode: Line | UnsetType = UNSET  #: US dollars per episode
    reason: Name | UnsetType = UNSET


class TradingCost(TokenCost, frozen=True, kw_only=True):
    """Cost in US dollars of the tokens, and the return that it bought."""

    NEEDED: ClassVar[tuple[str, ...]] = (*TokenCost.NEEDED, "return_per_usd")

    #: total_return of an episode divided by its cost in US dollars
    return_per_usd: Line | UnsetType = UNSET


# ---- derived from the episodes and the price


@dataclass(frozen=True, slots=True)
class CardPrices:
    """Prices of a card's models; None for a price that is not known."""

    own: PriceEntry | None
    #: prices of additional models, by the names that the agent uses for them
    further: Mapping[str, PriceEntry | None]

    def cost(self, usage: Usage, roles: Iterable[RoleUsage]) -> float | None:
        """Return the cost of the tokens in US dollars; None if a price is not known. `roles` lists
        the calls by role: calls to additional models are charged at the prices of those models.
        """
        own = usage
        total = 0.0
        for model, tokens in tokens_of_further(roles).items():
            price = self.further.get(model)
            if price is None:
                return None

            total += price.cost(tokens)
            own = own.minus(tokens)

        return None if self.own is None else total + self.own.cost(own)


def card_prices(facts: Evaluation, own: PriceEntry | None) -> CardPrices:
    """Return the prices of a card's models. `own` is the price of the card's own model."""
    return CardPrices(own, {model.asked_as: model.price for model in facts.further_models})


def derive_cost(basis: DerivationBasis[AnyFacts]) -> TokenCost:
    """Return the cost in US dollars of the tokens in the replies of a card's finished episodes,
    whether paid now or cached. For a trading card, also return the return per dollar.
    """
    facts = basis.facts
    prices = card_prices(facts, basis.price)
    kind = TradingCost if isinstance(facts, TradingFacts) else TokenCost
    if basis.price is None:
        return kind(value=None, reason=NO_PRICE)

    costs = [episode_cost(episode, prices) for episode in facts.pooled]
    parts: dict[str, Any] = {
        "currency": "USD",
        "price": basis.price,
        "per_episode": aggregate(costs),
    }
    if isinstance(facts, TradingFacts):
        total_returns = [episode.metrics.get("total_return") for episode in facts.pooled]
        parts["return_per_usd"] = aggregate(map(_gain, total_returns, costs))

    uncounted = sum(episode.uncounted for episode in facts.episodes)
    if uncounted:  # a partial sum would look like the sum over all replies
        return kind(value=None, reason=not_counted(uncounted), **parts)

    usage = derive_usage(basis).tokens
    roles = chain.from_iterable(episode.roles for episode in facts.episodes)
    total = prices.cost(usage, roles)
    if total is None:
        return kind(value=None, reason=NO_FURTHER_PRICE, **parts)
    return kind(value=total, **parts)


def episode_cost(episode: Finished, prices: CardPrices) -> EpisodeMetric:
    """Return the cost in US dollars of the tokens in an episode's replies, whether paid now or
    cached; null if the price or the tokens are unknown.
    """
    if prices.own is None:
        return EpisodeMetric(value=None, n=0, reason=NO_PRICE)
    if episode.uncounted:
        return EpisodeMetric(value=None, n=0, reason=not_counted(episode.uncounted))

    cost = prices.cost(episode.usage.tokens, episode.roles)
    if cost is None:
        return EpisodeMetric(value=None, n=0, reason=NO_FURTHER_PRICE)
    return EpisodeMetric(value=cost, n=1)


def _gain(total_return: EpisodeMetric | None, cost: EpisodeMetric) -> EpisodeMetric:
    """Return an episode's `total_return` per dollar of cost."""
    if total_return is None:
        reason = "metric total_return was not asked for"
    elif total_return.value is None:
        reason = f"total_return is not defined: {total_return.reason}"
    elif cost.value is None:
        reason = str(cost.reason)
    elif cost.value:
        return EpisodeMetric(value=total_return.value / cost.value, n=1)
    else:
        reason = "the episode cost nothing"

    return EpisodeMetric(value=None, n=0, reason=reason)


# ---- checks


def cost_problems(cost: TokenCost, facts: AnyFacts) -> Iterator[Problem]:
    """Yield a problem if the price is inconsistent with how the model was called."""
    calls = facts.provenance.calls
    if calls is not None and (problem := batch_problem(calls, cost.price or None)):
        yield ("provenance", "calls", "batched"), problem

    is_asked = facts.request_settings is not None
    if is_asked and isinstance(cost.price, PriceEntry) and is_free_price(cost.price):
        yield ("cost", "price"), f"is that of {FREE.source}, though sent_as says that one is asked"


# ---- wording


def uncounted_tokens(card: Evaluation, cost: TokenCost) -> str:
    """Return why a card's cost is an underestimate if the price is known but some tokens were not
    counted; otherwise empty.
    """
    calls = card.provenance.calls
    is_partial = cost.value is not None and calls is not None and calls.paid_usd is None
    return "the provider did not count the tokens of every reply" if is_partial else ""


def _long_prompts(facts: Evaluation, price: PriceEntry | UnsetType) -> str:
    """Return why a card's cost is an underestimate if some paid prompts were long; otherwise empty.
    The cost prices all tokens at the rates for short prompts.
    """
    calls = facts.provenance.calls
    if calls is None or not price or not price.tiers:
        return ""

    own: Calls | ModelCalls = calls.models.get(facts.model.name, calls)
    tokens = Usage(*(own.tokens.get(name, 0) for name in USAGE_FIELDS))
    if own.paid_usd is None or own.paid_usd <= price.cost(tokens) * _ROUNDING:
        return ""
    return f"prompts of over {price.tiers[0].above:,} tokens cost more"


def cost_rows(cost: TokenCost, facts: AnyFacts) -> Iterator[Row]:
    """Yield the rows on cost, price and return per dollar."""
    unpaid = uncounted_tokens(facts, cost) or _long_prompts(facts, cost.price)
    yield field_label("cost"), _cost_words(cost, unpaid)
    if not cost.value or not cost.price:
        return

    yield field_label("cost.price"), _price_words(cost.price)
    if isinstance(cost, TradingCost) and cost.return_per_usd:
        words = f"not known: {unpaid}" if unpaid else _gain_words(cost.return_per_usd)
        yield field_label("cost.return_per_usd"), words


def _cost_words(cost: TokenCost, unpaid: str) -> str:
    each = cost.per_episode
    if cost.value is None or not each:
        return f"not known: {cost.reason}"

    words = f"{dollars(cost.value)} USD"
    if each.n >= 2:
        words += f", {dollars(each.value or 0.0)} USD an episode (median)"

    return f"at least {words}: {unpaid}" if unpaid else words


def _gain_words(gain: Line) -> str:
    if gain.value is None:
        return f"not defined: {gain.reason}"

    words = percent(gain.value, "+,.4g")
    return f"{words} (median over episodes)" if gain.n > 1 else words


def _price_words(price: PriceEntry) -> str:
    """Return a price with its date and source."""
    parts = [f"{price.input:g} in", f"{price.output:g} out"]
    if price.batch is True:
        parts[0] = f"batch: {parts[0]}"
    if price.cache_read is not None:
        parts.append(f"{price.cache_read:g} cache read")
    if price.cache_write is not None:
        parts.append(f"{price.cache_write:g} cache write")

    words = f"{', '.join(parts)} USD a million tokens"
    if price.tiers:
        words += f" of prompts of up to {price.tiers[0].above:,} tokens; longer ones cost more"

    day = f"as of {price.as_of}" if price.as_of else ""
    origin = ", ".join(filter(None, (day, price.source)))
    return f"{words} ({origin})" if origin else words
