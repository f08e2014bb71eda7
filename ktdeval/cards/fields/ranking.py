"""Ranking: whether a card may be ranked, and every reason against it."""

from __future__ import annotations

from ktdeval.cards.fields.basics import Name
from ktdeval.cards.fields.coverage import LEAST_DECIDED_PERCENT, Coverage
from ktdeval.cards.fields.words import Words
from ktdeval.cards.table import count
from ktdeval.values.typed import Value

NEVER_TRADED = "the model never traded: none of its orders was filled in any episode"
"""Reason against ranking a card whose account never held anything: its return of 0 % is not a
decision that can be compared.
"""


class Rankable(Value, frozen=True):
    """Whether the card may stand in a ranking, and every reason why not."""

    value: bool
    reasons: list[Name]

    @property
    def words(self) -> str:
        """One line for readers."""
        return "rankable" if self.value else f"not rankable: {'; '.join(self.reasons)}"


def derive_rankable(
    coverage: Coverage,
    limit: int | None,
    step: str,
    *,
    is_placebo: bool,
    never_traded: bool,
    never_ranked: str = "",
) -> Rankable:
    """Return whether a card is rankable, with every reason against it; `step` names a step. Cards
    of synthetic markets are ranked on their own. `never_ranked`: why the task's cards never are.
    """
    reasons = []
    if never_ranked:
        reasons.append(never_ranked)

    if is_placebo:
        reasons.append("the market is a placebo, on which there is nothing to select")

    if limit is not None:
        reasons.append(f"every episode was cut after {count(limit, step)}")

    if coverage.missing > 0:
        planned = coverage.episodes_planned
        reasons.append(f"{coverage.missing:,} of {planned:,} episodes did not finish")

    if coverage.is_low:
        share = f"{coverage.decided_percent} % of {coverage.steps_planned:,} {step}s"
        reasons.append(f"the model decided {share}; {LEAST_DECIDED_PERCENT} % are needed")

    if never_traded:
        reasons.append(NEVER_TRADED)

    return Rankable(value=not reasons, reasons=reasons)


WORDS = {
    "rankable": Words(
        "rankable",
        "",
        "whether the card may be ranked, with every reason why not",
        "cards.md#what-may-be-ranked",
    ),
}
