"""Calls, tokens and cost by the role in a team that made the call and the model that was called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import asdict

from ktdeval.calls.prices import PriceEntry
from ktdeval.cards.fields.base_types import NonNegative, Problem
from ktdeval.cards.fields.episode_parts import Finished, RoleUsage
from ktdeval.cards.fields.fact_types import FurtherModelPart
from ktdeval.cards.fields.recorded_facts import AnyFacts, DerivationBasis
from ktdeval.cards.table_types import Row, dollars
from ktdeval.harness.chat_messages import USAGE_FIELDS, Usage

_SUMMED = ("calls", "failed", "empty", "uncounted", *USAGE_FIELDS)


class RoleCost(RoleUsage, frozen=True, kw_only=True):
    """Calls of one role to one model over a card's finished episodes, and their cost."""

    #: cost of the tokens in US dollars, paid now or cached; null if the price or the tokens are
    #: unknown
    usd: NonNegative | None


def add_roles(usages: Iterable[RoleUsage]) -> list[RoleUsage]:
    """Return the totals by role and model, in the order of first occurrence."""
    sums: dict[tuple[str, str], dict[str, int]] = {}
    for usage in usages:
        total = sums.setdefault((usage.role, usage.model), dict.fromkeys(_SUMMED, 0))
        for name in _SUMMED:
            total[name] += getattr(usage, name)

    return [RoleUsage(role=role, model=model, **total) for (role, model), total in sums.items()]


# ---- derived


def derive_roles(basis: DerivationBasis[AnyFacts]) -> list[RoleCost]:
    """Return calls and cost by role and model, over the finished episodes."""
    facts = basis.facts
    return role_costs(facts.episodes, basis.price, facts.further_models)


def role_costs(
    episodes: Sequence[Finished], price: PriceEntry | None, models: Sequence[FurtherModelPart]
) -> list[RoleCost]:
    """Return calls and cost by role and model, over the given episodes; empty if no role is
    recorded.
    """
    prices: dict[str, PriceEntry | None] = {"": price}
    for model in models:
        prices[model.asked_as] = model.price

    usages: list[RoleUsage] = []
    for episode in episodes:
        usages += episode.roles

    costs = []
    for usage in add_roles(usages):
        own = prices.get(usage.model)
        usd = None
        if own is not None and not usage.uncounted:
            usd = own.cost(usage.tokens)

        costs.append(RoleCost(**asdict(usage), usd=usd))

    return costs


# ---- checks


def role_problems(costs: Sequence[RoleCost], facts: AnyFacts) -> Iterator[Problem]:
    """Yield a problem if an episode's calls by role do not add up to its total, or if a role called
    a model that is not on the card.
    """
    known = {"", *(model.asked_as for model in facts.further_models)}
    for index, episode in enumerate(facts.episodes):
        where = ("episodes", index, "roles")
        for number, usage in enumerate(episode.roles):
            if usage.model not in known:
                yield (*where, number, "model"), "is not a model of the card"

        if not episode.roles:
            continue

        total = sum((usage.tokens for usage in episode.roles), Usage())
        if total != episode.usage.tokens:
            yield where, "do not add up to the tokens of the episode"
        if sum(usage.uncounted for usage in episode.roles) != episode.uncounted:
            yield where, "do not add up to the uncounted replies of the episode"


# ---- wording


def role_rows(costs: Sequence[RoleCost], facts: AnyFacts) -> Iterator[Row]:
    """Yield a row with the tokens and cost of each model if the card has several models."""
    by_model: dict[str, list[RoleCost]] = {}
    for cost in costs:
        by_model.setdefault(cost.model, []).append(cost)

    if not any(by_model):
        return

    for model, parts in by_model.items():
        total = sum((part.tokens for part in parts), Usage())
        usd = sum_known([part.usd for part in parts])
        words = f"{total.input_tokens:,} in, {total.output_tokens:,} out"
        words += ", cost not known" if usd is None else f", {dollars(usd)} USD"
        yield f"tokens of {model or facts.model.name}", words


def sum_known(amounts: Iterable[float | None]) -> float | None:
    """Return the total of amounts in US dollars; None if any amount is unknown."""
    total = 0.0
    for amount in amounts:
        if amount is None:
            return None
        total += amount

    return total
