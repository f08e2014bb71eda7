"""Rank eligibility: whether a card may be ranked, and every reason why not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktdeval.cards.fields.base_types import Name
from ktdeval.cards.fields.coverage import MIN_DECIDED_PERCENT, Coverage, derive_coverage
from ktdeval.cards.fields.knowledge.deciders import foreign_reason, unranked_reasons
from ktdeval.cards.fields.knowledge.warning_labels import derive_labels, hides_something
from ktdeval.cards.fields.origin.fact_types import DECIDERS
from ktdeval.cards.fields.origin.plan import NOT_RECORDED, is_declared
from ktdeval.cards.fields.origin.recorded_facts import AnyFacts, DerivationBasis, TradingFacts
from ktdeval.cards.fields.origin.task import BY_ACCOUNT, never_ranked
from ktdeval.cards.fields.replies.roles import episode_turns, silent_reason
from ktdeval.cards.fields.returns.assumptions import DECIDED_PRICE_REASON
from ktdeval.cards.fields.returns.rank_correlation import BEYOND_SKILL
from ktdeval.cards.table_types import count
from ktdeval.values.documents.typed_json import Value

NEVER_TRADED = "the model never traded: none of its orders was filled in any episode"
"""Reason against ranking a card whose account never held anything: its return of 0 % is not the
result of comparable decisions.
"""

TOLD_BY_ACCOUNT = (
    "its account shows money, from which prices follow, and so the stocks and days that it hides"
)
"""Reason against ranking a card of a task that hides prices but shows amounts of money that follow
from them.
"""


OWN_KEY_ALONE = (
    "in memory_only, a program is ranked only where the board itself ran it with a key of its own"
)
"""End of the reason against ranking a card of a program in a task that shows no figure of the market:
there, whoever knows the key knows every asset.
"""

MEMORY_ONLY = "memory_only"  #: mode that shows no figure of the market

MAY_BE_RANKED = "may be ranked"  #: wording for readers


class Rankable(Value, frozen=True):
    """Whether the card may be ranked, and every reason why not."""

    value: bool
    reasons: list[Name]

    @property
    def words(self) -> str:
        """One-line description for readers."""
        if self.value:
            return MAY_BE_RANKED
        return f"may not be ranked: {'; '.join(self.reasons)}"


def derive_rankable(basis: DerivationBasis[AnyFacts]) -> Rankable:
    """Return whether a card may be ranked, and every reason why not. Cards for synthetic markets
    are ranked separately.
    """
    facts = basis.facts
    coverage = derive_coverage(basis)
    reasons = []
    reason = never_ranked(facts.task.config)
    if reason:
        reasons.append(reason)

    if facts.task.config.get(BY_ACCOUNT):
        reasons.append(TOLD_BY_ACCOUNT)

    if is_declared(facts.model.name):
        reasons.append(NOT_RECORDED)

    if facts.snapshot is not None and facts.snapshot.is_placebo:
        reasons.append("the market is a placebo, on which there is nothing to select")

    reasons += _coverage_reasons(facts, coverage)
    reasons += could_know_reasons(facts)
    if hides_something(facts):
        reasons += map(foreign_reason, facts.foreign)

    if isinstance(facts, TradingFacts):
        reasons += _trading_reasons(facts, derive_labels(basis))

    return Rankable(value=not reasons, reasons=reasons)


def could_know_reasons(facts: AnyFacts) -> list[str]:
    """Return the reasons for which a card is not ranked as blinded because of who decided; empty if
    its task hides nothing, or if nobody who decided could know the market.

    They do not depend on what a card says of its own rank.
    """
    if not hides_something(facts):
        return []
    return [*unranked_reasons(facts.deciders, facts.episodes), *_key_reasons(facts)]


def _key_reasons(facts: AnyFacts) -> Iterator[str]:
    """Yield a reason for each program whose files could hold what a mask key reveals. Deciders that
    are never ranked have their own reasons.
    """
    if facts.task.mode != MEMORY_ONLY:
        return

    for decider in facts.deciders:
        if DECIDERS[decider.kind].ranked == "after its registration":
            yield f"{decider.name} could have brought what the mask key reveals; {OWN_KEY_ALONE}"


def _coverage_reasons(facts: AnyFacts, coverage: Coverage) -> Iterator[str]:
    """Yield the reasons in what was not run, not decided by the model, or not answered by a role."""
    if facts.limit is not None:
        yield f"every episode was cut after {count(facts.limit, facts.STEP)}"

    if coverage.missing > 0:
        planned = coverage.episodes_planned
        yield f"{coverage.missing:,} of {planned:,} episodes did not finish"

    if coverage.is_low:
        share = f"{coverage.decided_percent} % of {coverage.steps_planned:,} {facts.STEP}s"
        yield f"the model decided {share}; {MIN_DECIDED_PERCENT} % are needed"

    silent = silent_reason(episode_turns(facts.episodes))
    if silent:
        yield silent


def _trading_reasons(facts: TradingFacts, labels: Sequence[str]) -> Iterator[str]:
    """Yield the reasons that only a trading card can have."""
    if facts.assumptions and facts.assumptions.is_unfair:
        yield DECIDED_PRICE_REASON

    if "never traded" in labels:
        yield NEVER_TRADED

    if "beyond skill" in labels:
        yield BEYOND_SKILL
