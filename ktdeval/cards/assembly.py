"""Cards assembled from their fields: built, recomputed, checked and shown as rows, field by field.

Building a card derives fields from its facts, and checking it does so again, so a reader can trust
a headline without the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeVar

from msgspec.structs import replace

from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.fields.all_fields import CardField, fields_of
from ktdeval.cards.fields.base_types import Problem
from ktdeval.cards.fields.card_inputs import (
    CardInputs,
    CardSources,
    ScoringInputs,
    scoring_sources,
    trading_sources,
)
from ktdeval.cards.fields.fact_types import Definition
from ktdeval.cards.fields.metrics import define_metrics
from ktdeval.cards.fields.recorded_facts import DerivationBasis, ScoringFacts, TradingFacts
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row
from ktdeval.values.progress_reports import Tell, tell_nobody

AnyCard = TradingCard | ScoringCard

C = TypeVar("C", TradingCard, ScoringCard)


def assemble_card(
    declared: type[C],
    facts_type: type[TradingFacts] | type[ScoringFacts],
    sources: CardSources,
    definitions: Mapping[str, Definition] | None = None,
) -> C:
    """Return a card: its facts are gathered from the records of a run, and its other fields are
    derived from these facts. `definitions`: definitions of the metrics. Raises as `build_card`
    does.
    """
    fields = fields_of(sources.KIND)
    gathered: dict[str, Any] = {}
    for field in fields:
        if field.gather is not None:
            gathered[field.name] = field.gather(sources)

    facts = facts_type(**{name: gathered[name] for name in facts_type.__struct_fields__})
    basis = DerivationBasis(facts, sources.inputs.price, definitions or {})
    return declared(**gathered, **_derive_fields(fields, basis))


def derive_fields(card: C) -> C:
    """Recompute the fields of a card that are derived from its facts, the definitions of its
    metrics and its price.
    """
    definitions: Mapping[str, Definition] = {}
    if isinstance(card, TradingCard):
        definitions = card.metrics

    basis = DerivationBasis(card, card.cost.price or None, definitions)
    return replace(card, **_derive_fields(fields_of(card.kind), basis))


def _derive_fields(fields: list[CardField], basis: DerivationBasis[Any]) -> dict[str, Any]:
    return {field.name: field.derive(basis) for field in fields if field.derive is not None}


def card_problems(card: AnyCard) -> Iterator[Problem]:
    """Yield internal contradictions of a card, in the order in which the fields depend on each
    other.
    """
    for field in fields_of(card.kind):
        yield from field.problems(getattr(card, field.name), card)


def card_rows(card: AnyCard, table: Literal["run", "activity"]) -> Iterator[Row]:
    """Yield the rows of one table of a printed card."""
    for field in fields_of(card.kind):
        if field.table != table:
            continue

        value = getattr(card, field.name)
        text = field.text(value, card)
        if text:
            yield field_label(field.name), text

        yield from field.rows(value, card)


def build_card(inputs: CardInputs, tell: Tell = tell_nobody) -> TradingCard:
    """Build the result card of one evaluation (one task, model and agent over windows and seeds).
    `tell` is called for each episode before its metrics are computed.

    Two calls with equal inputs give equal cards, whatever the order of specs, ledgers, metrics and
    missing episodes; only `provenance` is passed through unchanged. Raises CardError if the inputs
    contradict each other (a spec for another task or snapshot, a planned episode that is neither
    finished nor missing, a ledger that does not cover its window, two metrics with the same name, a
    value that is not strict JSON); PluginError if a metric returned something other than a
    `MetricValue`, or a value outside its range.
    """
    sources = trading_sources(inputs, tell)
    definitions = define_metrics(inputs.metrics, sources.years)
    return assemble_card(TradingCard, TradingFacts, sources, definitions)


def build_scoring_card(inputs: ScoringInputs) -> ScoringCard:
    """Build the result card of one evaluation on a scoring task (one task, model and agent over
    windows and seeds).

    Two calls with equal inputs give equal cards, whatever the order of specs, episodes and missing
    episodes; only `provenance` is passed through unchanged. Raises CardError if the inputs
    contradict each other (a spec for another task or snapshot, a planned episode that is neither
    finished nor missing, an episode whose answers do not cover its samples, a value that is not
    strict JSON); PluginError if the task's scores are not the ones that it defines, or are not
    scores.
    """
    return assemble_card(ScoringCard, ScoringFacts, scoring_sources(inputs))
