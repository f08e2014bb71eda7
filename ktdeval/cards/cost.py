"""What the tokens of a card's episodes cost: a function of the card's own usage and the price on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktdeval.calls.prices import Price
from ktdeval.cards.medians import aggregate
from ktdeval.fields import build
from ktdeval.harness.messages import USAGE_FIELDS, Usage
from ktdeval.jsonio import JsonValue

Entry = Mapping[str, JsonValue]

FREE = Price(0.0, 0.0, source="a model of this machine, which bills nothing")
"""The price of a model without a provider."""

NO_PRICE = "no price of the model is known; give one with --price or --price-table"


def usage_of(counts: Entry) -> Usage:
    """The tokens among the counts of an episode or a card."""
    return Usage(*(counts[name] for name in USAGE_FIELDS))


def cost(episodes: Sequence[Entry], price: Entry | None) -> dict[str, JsonValue]:
    """The `cost` of a trading card: `token_cost`, and what a dollar of it earned.

    Args:
        episodes: the card's episodes.
        price: `Price.to_json()`; None when none is known.
    """
    spent = token_cost(episodes, price)
    if price is None:
        return spent
    dollars = _dollars(episodes, price)
    gains = aggregate(_gain(episode, value) for episode, value in zip(episodes, dollars, strict=True))
    return {**spent, "return_per_usd": gains}


def token_cost(episodes: Sequence[Entry], price: Entry | None) -> dict[str, JsonValue]:
    """US dollars of the tokens that the replies of a card's finished episodes took, whether paid now or cached.

    Args:
        episodes: the card's episodes.
        price: `Price.to_json()`; None when none is known.
    """
    if price is None:
        return {"value": None, "reason": NO_PRICE}
    total = sum((usage_of(episode["usage"]) for episode in episodes), Usage())
    return {
        "value": _rate(price).cost(total),
        "currency": "USD",
        "price": dict(price),
        "per_episode": aggregate({"value": value, "n": 1} for value in _dollars(episodes, price)),
    }


def _dollars(episodes: Sequence[Entry], price: Entry) -> list[float]:
    return [_rate(price).cost(usage_of(episode["usage"])) for episode in episodes]


def _rate(price: Entry) -> Price:
    return build(Price, price, "cost.price")


def _gain(episode: Entry, dollars: float) -> Entry:
    """`total_return` of one episode by what it cost, shaped as a metric."""
    earned = episode["metrics"].get("total_return")
    if earned is None:
        return {"value": None, "n": 0, "reason": "metric total_return was not asked for"}
    if earned["value"] is None:
        return {"value": None, "n": 0, "reason": f"total_return is not defined: {earned['reason']}"}
    if dollars == 0:
        return {"value": None, "n": 0, "reason": "the episode cost nothing"}
    return {"value": earned["value"] / dollars, "n": 1}
