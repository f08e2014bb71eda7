"""Calls, tokens, cost and answers by the role in a team that made the call and the model that was
called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import asdict

from ktdeval.calls.costs.prices import PriceEntry
from ktdeval.cards.fields.base_types import NonNegative, Problem
from ktdeval.cards.fields.coverage import MIN_DECIDED_PERCENT
from ktdeval.cards.fields.episode_parts import Finished, RoleUsage
from ktdeval.cards.fields.origin.fact_types import FurtherModelPart
from ktdeval.cards.fields.origin.recorded_facts import AnyFacts, DerivationBasis
from ktdeval.cards.fields.replies.reply_sums import add_roles
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row, count, dollars
from ktdeval.harness.chat_messages import Usage
from ktdeval.harness.steps.step_record import SILENT_ROLE


class RoleCost(RoleUsage, frozen=True, kw_only=True):
    """Calls of one role to one model over a card's finished episodes, and their cost."""

    #: cost of the tokens in US dollars, paid now or cached; null if the price or the tokens are
    #: unknown
    usd: NonNegative | None


# ---- roles without an answer


@dataclass(frozen=True, slots=True)
class RoleTurns:
    """Turns of one role of a team, whichever model it called."""

    role: str
    turns: int  #: 1 or more
    silent: int  #: number of these without a usable answer

    @property
    def is_silent(self) -> bool:
        """Return whether the role answered in fewer of its turns than a model must decide steps
        (`MIN_DECIDED_PERCENT`): the decisions then are not those of the team.
        """
        return 100 * (self.turns - self.silent) < MIN_DECIDED_PERCENT * self.turns

    @property
    def words(self) -> str:
        """Description such as `bull 3 of 43`: turns without an answer, of all turns."""
        return f"{self.role} {self.silent:,} of {self.turns:,}"


def turns_of_roles(usages: Iterable[RoleUsage]) -> list[RoleTurns]:
    """Return the turns of each role that had one, in the order of first occurrence; empty for older
    records, which do not count turns.
    """
    turns: dict[str, RoleTurns] = {}
    for usage in usages:
        known = turns.get(usage.role, RoleTurns(usage.role, 0, 0))
        turns[usage.role] = RoleTurns(
            usage.role, known.turns + usage.turns, known.silent + usage.silent
        )

    return [role for role in turns.values() if role.turns]


def episode_turns(episodes: Iterable[Finished]) -> list[RoleTurns]:
    """Return the turns of each role over episodes."""
    usages: list[RoleUsage] = []
    for episode in episodes:
        usages += episode.roles

    return turns_of_roles(usages)


def silent_reason(turns: Sequence[RoleTurns]) -> str:
    """Return the reason against ranking a team of which roles were silent; empty if none was."""
    silent = sum(role.is_silent for role in turns)
    if not silent:
        return ""

    return (
        f"{silent:,} of {count(len(turns), 'role')} answered in fewer than"
        f" {MIN_DECIDED_PERCENT} % of their turns"
    )


def turn_words(turns: Sequence[RoleTurns]) -> str:
    """Return how many turns of roles had no answer, and whose, most silent first."""
    silent = [role for role in turns if role.silent]
    silent.sort(key=lambda role: role.silent / role.turns, reverse=True)
    total = count(sum(role.turns for role in turns), "turn")
    if not silent:
        return f"{total} of {count(len(turns), 'role')}, all answered"

    listed = ", ".join(role.words for role in silent)
    return f"{sum(role.silent for role in silent):,} of {total} without an answer: {listed}"


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

        yield from _turn_problems(where, episode)
        total = sum((usage.tokens for usage in episode.roles), Usage())
        if total != episode.usage.tokens:
            yield where, "do not add up to the tokens of the episode"
        if sum(usage.uncounted for usage in episode.roles) != episode.uncounted:
            yield where, "do not add up to the uncounted replies of the episode"


def _turn_problems(where: tuple[str | int, ...], episode: Finished) -> Iterator[Problem]:
    """Yield a problem if a role has fewer turns than silent ones, or if the silent turns are not
    the episode's failures of this kind.
    """
    for number, usage in enumerate(episode.roles):
        if usage.silent > usage.turns:
            yield (*where, number, "silent"), f"is more than the role's {usage.turns} turns"

    silent = sum(usage.silent for usage in episode.roles)
    if silent != episode.failures.get(SILENT_ROLE, 0):
        yield where, f"have {silent} silent turns, which differs from the episode's failures"


# ---- wording


def role_rows(costs: Sequence[RoleCost], facts: AnyFacts) -> Iterator[Row]:
    """Yield a row on the turns of roles, and rows with the tokens and cost of each model if the
    card has several models.
    """
    turns = turns_of_roles(costs)
    if turns:
        yield field_label("roles.silent"), turn_words(turns)

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
