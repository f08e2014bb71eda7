"""Card of a trading task: a pure function of recorded episodes, their market and the metrics asked
for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec import UNSET
from msgspec.structs import asdict, replace

from ktdeval.calls.prices import PriceEntry
from ktdeval.cards.card import TradingCard, TradingFacts
from ktdeval.cards.derive import derive_common
from ktdeval.cards.fields.attribution import METRIC as ATTRIBUTED, derive_attribution
from ktdeval.cards.fields.basics import Problem, add_counts
from ktdeval.cards.fields.calibration import gather_calibration
from ktdeval.cards.fields.certificate import NO_ATTACHMENT
from ktdeval.cards.fields.cost import card_prices, trading_cost
from ktdeval.cards.fields.coverage import Coverage
from ktdeval.cards.fields.cutoff import cutoff_problems
from ktdeval.cards.fields.decisions import gather_decisions
from ktdeval.cards.fields.episode_parts import MissingTradingEpisode, TradingEpisode
from ktdeval.cards.fields.episodes import missing_specs, trading_episode_problems
from ktdeval.cards.fields.labels import TradingConditions
from ktdeval.cards.fields.metrics import (
    define_metrics,
    derive_metrics,
    gather_metrics,
    metric_problems,
)
from ktdeval.cards.fields.orders import gather_orders, is_untraded, sum_orders
from ktdeval.cards.fields.parts import Attachment, Definition
from ktdeval.cards.fields.reference import gather_references, reference_problems
from ktdeval.cards.fields.roles import role_costs
from ktdeval.cards.fields.task import gather_trading_task
from ktdeval.cards.fields.tokens import gather_usage
from ktdeval.cards.fields.windows import WindowDays, excluded_windows, planned_days, planned_steps
from ktdeval.cards.inputs import EvaluationInputs, common_facts, ordered_plan
from ktdeval.errors import CardError
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.stats.designs import left_out_windows
from ktdeval.stats.metric import Metric, RuleSet
from ktdeval.tasks.spec import EpisodeSpec, Window
from ktdeval.trading.ledger import Ledger
from ktdeval.values.fields import build
from ktdeval.values.told import Tell, tell_nobody


@dataclass(frozen=True, kw_only=True)
class CardInputs(EvaluationInputs):
    """Inputs of the card of a trading task."""

    snapshot: MarketSnapshot
    rules: RuleSet  #: rule set of the metrics
    #: the finished episodes, in any order; each belongs to one of `specs` by the id of its `spec`
    ledgers: Sequence[Ledger]
    metrics: Sequence[Metric]  #: metric objects to apply; names are unique
    #: plugin of each metric by its name, for messages
    plugins: Mapping[str, str] = field(default_factory=dict)
    certificate: Attachment = NO_ATTACHMENT  #: statement of the attached card


def build_card(inputs: CardInputs, tell: Tell = tell_nobody) -> TradingCard:
    """Build the result card of one evaluation (one task, model and agent over windows and seeds).
    `tell` is told of each episode before its metrics are computed.

    Two calls with equal inputs give equal cards whatever the order of specs, ledgers, metrics and
    missing episodes; only `provenance` is passed through as it is. Raises CardError: the inputs
    contradict each other (a spec of another task or snapshot, a planned episode that is neither
    finished nor missing, a ledger that does not cover its window, two metrics of one name, a value
    that is not strict JSON); PluginError: a metric returned something else than a `MetricValue`, or
    a value outside its range.
    """
    planned = ordered_plan(inputs)
    days = planned_days(planned, inputs.snapshot, planned[0].limit)
    units = {window: inputs.snapshot.units_of(own) for window, own in days.items()}
    years = sorted({each["days_a_year"] for each in units.values()})
    definitions = define_metrics(inputs.metrics, years)

    ledgers = _ledgers_by_id(inputs, planned, days, units)
    finished = [spec for spec in planned if spec.id in ledgers]
    # Every finished episode of a window covers the same days.
    by_window = {spec.span.name: ledgers[spec.id] for spec in finished}
    excluded = _excluded_windows(by_window, years[-1])
    pooled = [ledgers[spec.id] for spec in finished if spec.span.name not in excluded]
    missing = missing_specs(planned, ledgers.keys(), inputs.missing_episodes, "a ledger")

    episodes = []
    for done, spec in enumerate(finished):
        tell(spec.label, done, len(finished))
        episodes.append(_gather_episode(spec, ledgers[spec.id], inputs))

    facts = TradingFacts(
        kind="trading",
        task=gather_trading_task(planned[0], inputs.task),
        **common_facts(inputs, planned, days),
        rules=inputs.rules,
        episodes=episodes,
        missing_episodes=[_gather_missing(spec, error) for spec, error in missing],
        reference=gather_references(by_window, inputs.snapshot),
        calibration=gather_calibration(pooled, inputs.snapshot),
        certificate=inputs.certificate,
    )
    return TradingCard(**asdict(facts), **_derived(facts, definitions, inputs.price))


def derive_trading(card: TradingCard) -> TradingCard:
    """Recompute the fields that follow from the episodes of a card, the definitions of its metrics
    and its price.
    """
    return replace(card, **_derived(card, card.metrics, card.cost.price or None))


def _derived(
    card: TradingFacts, definitions: Mapping[str, Definition], price: PriceEntry | None
) -> dict[str, Any]:
    """Return the fields of a card that follow from others."""
    episodes = card.episodes
    spans = {episode.window: (episode.first_day, episode.last_day) for episode in episodes}
    excluded = excluded_windows(spans, card.snapshot.days_a_year)
    pooled = [episode for episode in episodes if episode.window not in excluded]
    metrics = [episode.metrics for episode in pooled]
    orders = [episode.orders for episode in episodes]
    conditions = TradingConditions(card.task.mask, card.certificate, is_untraded(orders))
    cost = trading_cost(
        [episode.tokens for episode in episodes],
        [episode.tokens for episode in pooled],
        card_prices(card, price),
        [own.get("total_return") for own in metrics],
    )

    return {
        **derive_common(card, _coverage(card), "step", conditions),
        "attribution": derive_attribution(
            [own[ATTRIBUTED] for own in metrics if ATTRIBUTED in own]
        ),
        "cost": cost,
        "left_out": excluded or UNSET,
        "metrics": derive_metrics(definitions, metrics),
        "orders": sum_orders(orders),
        "roles": role_costs(episodes, price, card.further_models),
    }


def _coverage(card: TradingFacts) -> Coverage:
    windows = [episode.window for episode in card.episodes]
    missing = [episode.window for episode in card.missing_episodes]
    planned = [planned_steps(card.windows, each, card.limit) for each in (*windows, *missing)]
    return Coverage(
        episodes_planned=len(planned),
        episodes_finished=len(windows),
        steps_planned=sum(planned),
        steps=sum(episode.steps for episode in card.episodes),
        steps_decided=sum(episode.decisions.by_model for episode in card.episodes),
    )


def trading_problems(card: TradingCard) -> Iterator[Problem]:
    """Yield contradictions in lengths, metrics and references of a card's episodes."""
    for index, episode in enumerate(card.episodes):
        steps = planned_steps(card.windows, episode.window, card.limit)
        yield from trading_episode_problems(index, episode, steps)
        yield from metric_problems(index, episode.metrics, card.metrics)

    yield from reference_problems(card.reference, [episode.window for episode in card.episodes])
    yield from cutoff_problems(card.knowledge_cutoff, card.windows, card.limit)


# ---- from ledgers


def _gather_episode(spec: EpisodeSpec, ledger: Ledger, inputs: CardInputs) -> TradingEpisode:
    """Return the card's entry of one finished episode."""
    steps = ledger.steps
    nav = steps[-1].nav_minor

    return TradingEpisode(
        id=spec.id,
        window=spec.span.name,
        seed=spec.seed,
        steps=len(steps),
        first_day=steps[0].filled_on,
        last_day=steps[-1].filled_on,
        final_nav_minor=nav,
        decisions=gather_decisions(step.provenance for step in steps),
        failures=add_counts(step.failures for step in steps),
        orders=gather_orders(steps),
        usage=gather_usage(steps),
        uncounted=inputs.uncounted.get(spec.id, 0),
        roles=list(inputs.roles.get(spec.id, ())),
        made_by=list(inputs.makers.get(spec.id, ())),
        metrics=gather_metrics(
            inputs.metrics, inputs.plugins, ledger, inputs.snapshot, inputs.rules
        ),
    )


def _gather_missing(spec: EpisodeSpec, error: str) -> MissingTradingEpisode:
    return MissingTradingEpisode(id=spec.id, window=spec.span.name, seed=spec.seed, error=error)


def _excluded_windows(by_window: Mapping[str, Ledger], days_a_year: int) -> Mapping[str, str]:
    """Return the windows that are excluded from figures over episodes, from a ledger of each."""
    spans = {}
    for window, ledger in by_window.items():
        spans[window] = (ledger.steps[0].filled_on, ledger.steps[-1].filled_on)

    return left_out_windows(spans, days_a_year)


def _ledgers_by_id(
    inputs: CardInputs,
    planned: Sequence[EpisodeSpec],
    days: WindowDays,
    units: Mapping[Window, Mapping[str, object]],
) -> dict[str, Ledger]:
    """Return ledgers by the id of their episode. Raises CardError: one does not cover its days,
    since a part must not pass for the whole.
    """
    specs = {spec.id: spec for spec in planned}
    ledgers: dict[str, Ledger] = {}
    for ledger in inputs.ledgers:
        identity = build(EpisodeSpec, ledger.spec, "ledger spec").id
        if identity not in specs:
            raise CardError(f"a ledger belongs to episode {identity}, which the plan does not have")
        if identity in ledgers:
            raise CardError(f"episode {identity} has two ledgers")

        spec = specs[identity]
        market_units = units[spec.span]
        own_units = {name: getattr(ledger, name) for name in market_units}
        if own_units != market_units:
            raise CardError(
                f"the ledger of episode {identity} has the units {own_units}, its market"
                f" {market_units}"
            )

        expected = days[spec.span]
        if not np.array_equal(ledger.days, expected):
            raise CardError(
                f"episode {spec.id} ({spec.label}): the ledger has {len(ledger.steps)} steps that"
                f" are not the {len(expected)} trading days of its window; resume the run, or list"
                " the episode as missing"
            )

        ledgers[identity] = ledger

    return ledgers
