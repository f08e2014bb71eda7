"""Build, recompute, check and display cards, one field at a time.

A card's derived fields are computed from its facts when it is built, and again when it is checked.
A reader can therefore trust a headline figure without access to the run's records.
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
from ktdeval.cards.fields.origin.fact_types import Definition
from ktdeval.cards.fields.origin.recorded_facts import DerivationBasis, ScoringFacts, TradingFacts
from ktdeval.cards.fields.origin.task import is_identifiable_by_prices
from ktdeval.cards.fields.returns.metrics import define_metrics
from ktdeval.cards.fields.words import field_label, read_words
from ktdeval.cards.recomputation_diff import BY_PRICES
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
    """Return a card: gather its facts from the records of a run, then derive its other fields from
    the facts. `definitions` are the metric definitions. Raises the same errors as `build_card`.
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
    """Recompute a card's derived fields from its facts, its price and its metric definitions."""
    definitions: Mapping[str, Definition] = {}
    if isinstance(card, TradingCard):
        definitions = card.metrics

    basis = DerivationBasis(card, card.cost.price or None, definitions)
    return replace(card, **_derive_fields(fields_of(card.kind), basis))


def with_label_of_task(card: TradingCard) -> TradingCard:
    """Return a card with the label that follows from its task's mask and mode alone, and that cards
    lack which were written before it existed.
    """
    if BY_PRICES in card.labels or not is_identifiable_by_prices(card.task):
        return card

    order = list(read_words().labels)
    later = order[order.index(BY_PRICES) + 1 :]
    place = next((k for k, label in enumerate(card.labels) if label in later), len(card.labels))
    labels = [*card.labels[:place], BY_PRICES, *card.labels[place:]]
    return replace(card, labels=labels)


def _derive_fields(fields: list[CardField], basis: DerivationBasis[Any]) -> dict[str, Any]:
    return {field.name: field.derive(basis) for field in fields if field.derive is not None}


def card_problems(card: AnyCard) -> Iterator[Problem]:
    """Yield contradictions within a card. Each field is checked after the fields on which it
    depends.
    """
    for field in fields_of(card.kind):
        yield from field.problems(getattr(card, field.name), card)


def card_rows(card: AnyCard, table: Literal["run", "activity"]) -> Iterator[Row]:
    """Yield the rows of one table on a printed card."""
    for field in fields_of(card.kind):
        if field.table != table:
            continue

        value = getattr(card, field.name)
        text = field.text(value, card)
        if text:
            yield field_label(field.name), text

        yield from field.rows(value, card)


def build_card(inputs: CardInputs, tell: Tell = tell_nobody) -> TradingCard:
    """Build the result card of one evaluation: one task, model and agent over windows and seeds.
    `tell` is called for each episode before its metrics are computed.

    Equal inputs give equal cards, regardless of the order of specs, ledgers, metrics and missing
    episodes; `provenance` is passed through unchanged.

    Raises CardError if the inputs contradict each other: a spec belongs to another task or
    snapshot, a planned episode is neither finished nor missing, a ledger does not cover its window,
    two metrics have the same name, or a value is not strict JSON. Raises PluginError if a metric
    returns something other than a `MetricValue`, or a value outside its range.
    """
    sources = trading_sources(inputs, tell)
    definitions = define_metrics(inputs.metrics, sources.years)
    return assemble_card(TradingCard, TradingFacts, sources, definitions)


def build_scoring_card(inputs: ScoringInputs) -> ScoringCard:
    """Build the result card of one evaluation on a scoring task: one task, model and agent over
    windows and seeds.

    Equal inputs give equal cards, regardless of the order of specs, episodes and missing episodes;
    `provenance` is passed through unchanged.

    Raises CardError if the inputs contradict each other: a spec belongs to another task or
    snapshot, a planned episode is neither finished nor missing, an episode's answers do not cover
    its samples, or a value is not strict JSON. Raises PluginError if the task returns scores that
    it does not define, omits one that it defines, or returns something that is not a score.
    """
    return assemble_card(ScoringCard, ScoringFacts, scoring_sources(inputs))
