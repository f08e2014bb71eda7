"""Coverage: how much of the plan was run, and how many of its steps the model decided."""

from __future__ import annotations

from collections.abc import Iterator

from ktdeval.cards.fields.base_types import Count
from ktdeval.cards.fields.origin.recorded_facts import AnyFacts, DerivationBasis
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row, count, percent
from ktdeval.values.documents.typed_json import Value

MIN_DECIDED_PERCENT = 95
"""Minimum share of the planned steps that the model itself must have decided. Below it, a card
shows forced holds, not the model.
"""


class Coverage(Value, frozen=True):
    """Share of the plan that was run, and that the model decided; a scoring task's step is a
    sample.
    """

    episodes_planned: Count
    episodes_finished: Count
    steps_planned: Count  #: steps of the whole plan, including missing episodes
    steps: Count  #: steps of the finished episodes
    #: number of these that the model decided, or samples with a valid answer from it
    steps_decided: Count

    @property
    def missing(self) -> int:
        """Number of planned episodes that did not finish."""
        return self.episodes_planned - self.episodes_finished

    @property
    def is_low(self) -> bool:
        """Return whether the model decided too few of the planned steps."""
        return 100 * self.steps_decided < MIN_DECIDED_PERCENT * self.steps_planned

    @property
    def is_undecided(self) -> bool:
        """Return whether there are finished episodes, but the model decided none of their steps."""
        return self.steps > 0 and self.steps_decided == 0

    @property
    def decided_percent(self) -> str:
        """Return the share of the planned steps that the model decided, in per cent, rounded down
        so that 94.96 is not shown as 95.
        """
        tenths = 1000 * self.steps_decided // max(self.steps_planned, 1)
        return f"{tenths // 10}.{tenths % 10}"


def derive_coverage(basis: DerivationBasis[AnyFacts]) -> Coverage:
    """Return how much of the plan was run and decided, computed from the episodes."""
    facts = basis.facts
    return Coverage(
        episodes_planned=len(facts.episodes) + len(facts.missing_episodes),
        episodes_finished=len(facts.episodes),
        steps_planned=facts.planned_steps,
        steps=sum(episode.steps for episode in facts.episodes),
        steps_decided=facts.decided_steps,
    )


def coverage_rows(coverage: Coverage, facts: AnyFacts) -> Iterator[Row]:
    """Yield the row on how much of the plan was run, and how much the model decided."""
    step = facts.STEP
    share = ""
    if coverage.steps:
        share = f" = {percent(coverage.steps_decided / coverage.steps)}"
    if coverage.steps < coverage.steps_planned:
        share += f"; {count(coverage.steps_planned, step)} planned"

    yield "episodes", f"{coverage.episodes_finished:,} of {coverage.episodes_planned:,} finished"
    decided = f"{coverage.steps_decided:,} of {count(coverage.steps, step)}"
    yield field_label("coverage"), f"{decided} decided by the model{share}"
