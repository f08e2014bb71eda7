"""What a card says of all its episodes together, derived from its own entries and from nothing else.

Building a card works these parts out, and checking one does so again: a reader can trust a headline without the records.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import UNSET
from msgspec.structs import asdict

from ktdeval.calls.prices import Price
from ktdeval.cards.card import Evaluation, ScoringFacts, TradingEpisode, TradingFacts
from ktdeval.cards.parts import (
    Coverage,
    Decisions,
    EpisodeMetric,
    Finished,
    Interval,
    Line,
    PriceEntry,
    Rankable,
    TokenCost,
    TradingCost,
    UsageCounts,
)
from ktdeval.harness.messages import USAGE_FIELDS, Usage
from ktdeval.typed import Value, to_plain

P = TypeVar("P", bound=Value)

LEAST_DECIDED_PERCENT = 95
"""Share of the planned steps that the model must have decided itself. Below it a card shows holds of the engine, not the model."""

PLACEBO_SOURCE = "placebo of snapshot "
"""How the source of a placebo market begins."""

WEAK = frozenset({"limited", "few answers", "few guesses"})
"""Labels of an attached card whose bounds rest on too little to call a mask certified."""

FREE = Price(0.0, 0.0, source="a model of this machine, which bills nothing")
"""The price of a model without a provider."""

NO_PRICE = "no price of the model is known; give one with --price or --price-table"


# ---- figures over episodes


def aggregate(entries: Iterable[EpisodeMetric | Line]) -> Line:
    """Median of a metric over episodes, with an interval.

    The interval is the interquartile range from two episodes on (linear between order statistics), and a single episode's own.
    Episodes where the metric is undefined are left out and counted by reason; where it is undefined in all, the value is null.
    """
    values: list[int | float] = []
    own: Any = UNSET
    reasons: Counter[str] = Counter()
    for entry in entries:
        if entry.value is None:
            reasons[str(entry.reason)] += 1
        else:
            values.append(entry.value)
            own = entry.interval
    if not values:
        return Line(value=None, n=0, undefined=dict(reasons), reason="; ".join(sorted(reasons)) or "no finished episode")
    if len(values) > 1:
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        own = Interval(kind="interquartile", low=low + 0.0, high=high + 0.0)
    return Line(value=statistics.median(values) + 0.0, n=len(values), undefined=dict(reasons), interval=own)


def add_up(kind: type[P], parts: Iterable[P], **others: Any) -> P:
    """Sum of counts, field by field but for `others`."""
    given = list(parts)
    names = [name for name in kind.__struct_fields__ if name not in others]
    return kind(**{name: sum(getattr(part, name) for part in given) for name in names}, **others)


def add_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Sums by name, of every name that occurs."""
    totals: Counter[str] = Counter()
    for count in counts:
        totals.update(count)
    return {name: totals[name] for name in sorted(totals)}


def totals(episodes: Sequence[Finished]) -> dict[str, Any]:
    """`decisions`, `failures` and `usage` of a card."""
    return {
        "decisions": add_up(Decisions, (episode.decisions for episode in episodes)),
        "failures": add_counts(episode.failures for episode in episodes),
        "usage": add_up(UsageCounts, (episode.usage for episode in episodes)),
    }


# ---- plan and ranking


def coverage_of(card: TradingFacts | ScoringFacts, planned: int, decided: int) -> Coverage:
    """Coverage of a card.

    Args:
        card: its episodes.
        planned: steps of the whole plan.
        decided: steps that the model decided.
    """
    return Coverage(
        episodes_planned=len(card.episodes) + len(card.missing_episodes),
        episodes_finished=len(card.episodes),
        steps_planned=planned,
        steps=sum(episode.steps for episode in card.episodes),
        steps_decided=decided,
    )


def planned_steps(card: TradingFacts) -> int:
    """Steps of the whole plan, missing episodes included: the days of each episode's window, or the limit where that is less."""
    days = {window.name: window.days for window in card.windows}
    windows = [episode.window for episode in card.episodes] + [episode.window for episode in card.missing_episodes]
    return sum(min(days[window], card.limit or days[window]) for window in windows)


def labels(card: Evaluation, coverage: Coverage) -> list[str]:
    """Labels that a reader must see before any figure. Only a card that can have a certificate is said to lack one."""
    is_uncertified = isinstance(card, TradingFacts) and card.task.mask != "bright" and not _is_certified(card)
    conditions = {
        "synthetic": card.snapshot is not None and card.snapshot.synthetic,
        "placebo": is_placebo(card),
        "limited": card.limit is not None,
        "incomplete": coverage.episodes_finished < coverage.episodes_planned,
        "low coverage": has_low_coverage(coverage),
        "mask not certified": is_uncertified,
        "no adjustment factor": card.snapshot is not None and not card.snapshot.has_factor,
    }
    return [label for label, holds in conditions.items() if holds]


def _is_certified(card: TradingFacts) -> bool:
    """Whether a mask was attacked in earnest: by a whole probe set, with answers that name something."""
    return card.certificate.value is not None and not WEAK & set(card.certificate.labels)


def has_low_coverage(coverage: Coverage) -> bool:
    """Whether the model decided less than `LEAST_DECIDED_PERCENT` of the planned steps."""
    return 100 * coverage.steps_decided < LEAST_DECIDED_PERCENT * coverage.steps_planned


def is_placebo(card: Evaluation) -> bool:
    """Whether the market was made from another one so that true selection is zero by construction."""
    return card.snapshot is not None and card.snapshot.source.startswith(PLACEBO_SOURCE)


def rankable(card: Evaluation, coverage: Coverage, step: str = "step") -> Rankable:
    """Whether the card is rankable, with every reason why it is not.

    A synthetic market is no reason: such cards are ranked among themselves.

    Args:
        card: its market and limit.
        coverage: of the card.
        step: what a step is called.
    """
    planned, finished = coverage.episodes_planned, coverage.episodes_finished
    reasons = []
    if is_placebo(card):
        reasons.append("the market is a placebo, on which there is nothing to select")
    if card.limit is not None:
        reasons.append(f"every episode was cut after {card.limit:,} {step}{'' if card.limit == 1 else 's'}")
    if finished < planned:
        reasons.append(f"{planned - finished:,} of {planned:,} episodes did not finish")
    if has_low_coverage(coverage):
        share = f"{decided_percent(coverage)} % of {coverage.steps_planned:,} {step}s"
        reasons.append(f"the model decided {share}; {LEAST_DECIDED_PERCENT} % are needed")
    return Rankable(value=not reasons, reasons=reasons)


def decided_percent(coverage: Coverage) -> str:
    """Share of the planned steps that the model decided, in per cent, rounded down so that 94.96 does not read as 95."""
    tenths = 1000 * coverage.steps_decided // max(coverage.steps_planned, 1)
    return f"{tenths // 10}.{tenths % 10}"


# ---- costs


def token_cost(episodes: Sequence[Finished], price: PriceEntry | None) -> TokenCost:
    """US dollars of the tokens that the replies of a card's finished episodes took, whether paid now or cached."""
    if price is None:
        return TokenCost(value=None, reason=NO_PRICE)
    dollars = list(_dollars(episodes, price))
    total = sum((_tokens(episode.usage) for episode in episodes), Usage())
    per_episode = aggregate(EpisodeMetric(value=value, n=1) for value in dollars)
    return TokenCost(value=_rate(price).cost(total), currency="USD", price=price, per_episode=per_episode)


def trading_cost(episodes: Sequence[TradingEpisode], price: PriceEntry | None) -> TradingCost:
    """Token cost of a trading card, and what a dollar of it earned."""
    spent = token_cost(episodes, price)
    gains: Any = UNSET
    if price is not None:
        dollars = _dollars(episodes, price)
        gains = aggregate(_gain(episode, value) for episode, value in zip(episodes, dollars, strict=True))
    return TradingCost(**asdict(spent), return_per_usd=gains)


def _tokens(usage: UsageCounts) -> Usage:
    return Usage(*(getattr(usage, name) for name in USAGE_FIELDS))


def _dollars(episodes: Iterable[Finished], price: PriceEntry) -> Iterator[float]:
    return (_rate(price).cost(_tokens(episode.usage)) for episode in episodes)


def _rate(price: PriceEntry) -> Price:
    return Price(**to_plain(price))


def _gain(episode: TradingEpisode, dollars: float) -> EpisodeMetric:
    """`total_return` of one episode by what it cost."""
    earned = episode.metrics.get("total_return")
    if earned is None:
        return EpisodeMetric(value=None, n=0, reason="metric total_return was not asked for")
    if earned.value is None:
        return EpisodeMetric(value=None, n=0, reason=f"total_return is not defined: {earned.reason}")
    if dollars == 0:
        return EpisodeMetric(value=None, n=0, reason="the episode cost nothing")
    return EpisodeMetric(value=earned.value / dollars, n=1)
