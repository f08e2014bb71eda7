"""Figures of a card over all its episodes, derived from its own entries and from nothing else.

Building a card computes these parts, and checking one does so again: a reader can trust a headline without the records.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import UNSET
from msgspec.structs import asdict

from ktdeval.calls.prices import Price
from ktdeval.cards import parts
from ktdeval.cards.card import Evaluation, ScoringFacts, TradingEpisode, TradingFacts
from ktdeval.cards.cutoff import cutoff_labels
from ktdeval.cards.parts import Coverage, EpisodeMetric, Finished, Interval, Line, PriceEntry, TokenCost, TradingCost
from ktdeval.cards.table import count
from ktdeval.harness.messages import USAGE_FIELDS, Usage
from ktdeval.stats.metric import never_in
from ktdeval.typed import Value

P = TypeVar("P", bound=Value)

NO_PRICE = "no price of the model is known; give one with --price or --price-table"

LEAST_DECIDED_PERCENT = 95
"""Share of the planned steps that the model must have decided itself. Below it, a card shows forced holds, not the model."""

PLACEBO_SOURCE = "placebo of snapshot "  #: How the source of a placebo market begins

NEVER_TRADED = "the model never traded: none of its orders was filled in any episode"
"""Reason against a rank of a card whose account never held anything: its 0 % is no decision that can be compared."""

WEAK = frozenset({"limited", "control incomplete", "few answers", "few guesses"})
"""Labels of an attached card whose bounds rest on too little to call a mask certified."""


def derive_common(card: TradingFacts | ScoringFacts) -> dict[str, Any]:
    """Return sums, coverage, labels and ranking of a card, which every kind of evaluation derives from its episodes."""
    decisions = add_up(parts.Decisions, (episode.decisions for episode in card.episodes))
    if isinstance(card, ScoringFacts):
        planned = sum(episode.steps for episode in card.episodes) + sum(episode.steps for episode in card.missing_episodes)
        decided, step = sum(episode.answered for episode in card.episodes), "sample"
    else:
        windows = [episode.window for episode in card.episodes] + [episode.window for episode in card.missing_episodes]
        planned = sum(planned_steps(card, window) for window in windows)
        decided, step = decisions.model + decisions.model_after_retry, "step"
    coverage = Coverage(
        episodes_planned=len(card.episodes) + len(card.missing_episodes),
        episodes_finished=len(card.episodes),
        steps_planned=planned,
        steps=sum(episode.steps for episode in card.episodes),
        steps_decided=decided,
    )
    return {
        "decisions": decisions,
        "failures": add_counts(episode.failures for episode in card.episodes),
        "usage": add_up(parts.UsageCounts, (episode.usage for episode in card.episodes)),
        "coverage": coverage,
        "labels": _labels(card, coverage),
        "rankable": _rankable(card, coverage, step),
    }


# ---- figures over episodes


def aggregate(entries: Iterable[EpisodeMetric | Line]) -> Line:
    """Return the median of a metric over episodes, with an interval. The interval is the interquartile range from two episodes on
    (linear between order statistics), and a single episode's own. Episodes where the metric is undefined are left out and counted
    by reason; where it is undefined in all, the value is null. Never is not undefined: an episode that never reaches the figure
    counts as later than any number, and a median among those is null, with how many there are as its reason.
    """
    all_entries = list(entries)
    defined = [(entry.ordered, entry.interval) for entry in all_entries if entry.ordered is not None]
    reasons = Counter(str(entry.reason) for entry in all_entries if entry.ordered is None)
    if not defined:
        return Line(value=None, n=0, undefined=dict(reasons), reason="; ".join(sorted(reasons)) or "no finished episode")
    values = sorted(value for value, _ in defined)
    times = sum(map(math.isinf, values))
    never = never_in(times, len(values))
    rest: dict[str, Any] = {"n": len(values), "never": times or UNSET, "undefined": dict(reasons)}
    middle, interval = statistics.median(values), defined[0][1]
    if len(values) > 1:
        ends = [_quartile(values, quarter) for quarter in (1, 3)]
        if all(map(math.isfinite, ends)):
            interval = Interval(kind="interquartile", low=ends[0] + 0.0, high=ends[1] + 0.0)
        else:
            interval = Interval(kind="interquartile", low=None, high=None, reason=never)
    if math.isinf(middle):
        return Line(value=None, reason=never, **rest)
    return Line(value=middle + 0.0, interval=interval, **rest)


def _quartile(ordered: Sequence[float], quarter: int) -> float:
    """Return a quartile, linear between order statistics: to the last bit as `statistics.quantiles` of finite values has it."""
    index, rest = divmod(quarter * (len(ordered) - 1), 4)
    return ordered[index] if rest == 0 else (ordered[index] * (4 - rest) + ordered[index + 1] * rest) / 4


def add_up(kind: type[P], counts: Iterable[P], **others: Any) -> P:
    """Return the sum of counts, field by field except for `others`."""
    records = list(counts)
    names = [name for name in kind.__struct_fields__ if name not in others]
    return kind(**{name: sum(getattr(one, name) for one in records) for name in names}, **others)


def add_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums by name, of every name that occurs."""
    totals: Counter[str] = Counter()
    for each in counts:
        totals.update(each)
    return dict(sorted(totals.items()))


# ---- plan and ranking


def planned_steps(card: TradingFacts, window: str) -> int:
    """Return the steps of an episode of a window: its days, or the limit where that is less."""
    days = next(one.days for one in card.windows if one.name == window)
    return min(days, card.limit or days)


def _labels(card: Evaluation, coverage: Coverage) -> list[str]:
    """Return the labels that a reader must see before any figure. Only a card that can have a certificate can lack one. A mask is
    certified when it was attacked by a whole probe set, with answers that name something. The card claims this; holders of the
    attacks' runs can verify it.
    """
    is_uncertified = (
        isinstance(card, TradingFacts)
        and card.task.mask != "bright"
        and (card.certificate.value is None or not WEAK.isdisjoint(card.certificate.labels))
    )
    conditions = {
        "synthetic": card.snapshot is not None and card.snapshot.synthetic,
        "placebo": _is_placebo(card),
        "limited": card.limit is not None,
        "incomplete": coverage.episodes_finished < coverage.episodes_planned,
        "low coverage": _has_low_coverage(coverage),
        "never traded": never_traded(card),
        **cutoff_labels(card),
        "mask not certified": is_uncertified,
        "certificate claimed": isinstance(card, TradingFacts) and card.certificate.value is not None and not is_uncertified,
        "no entity list": _has_plain_texts(card),
        "no adjustment factor": card.snapshot is not None and not card.snapshot.has_factor,
    }
    return [label for label, holds in conditions.items() if holds]


def _has_low_coverage(coverage: Coverage) -> bool:
    return 100 * coverage.steps_decided < LEAST_DECIDED_PERCENT * coverage.steps_planned


def never_traded(card: Evaluation) -> bool:
    """Whether a trading card has finished episodes, and in none of them an order was filled, even in part."""
    if not isinstance(card, TradingFacts) or not card.episodes:
        return False
    return not any(episode.orders.filled or episode.orders.partially_filled for episode in card.episodes)


def _has_plain_texts(card: Evaluation) -> bool:
    """Return whether assets are hidden in a market whose documents come without a list of words that give these away."""
    hides_assets = isinstance(card, TradingFacts) and card.task.mask in ("stock_blind", "blinded")
    return hides_assets and card.snapshot is not None and card.snapshot.documents == "no entity list"


def _is_placebo(card: Evaluation) -> bool:
    """Whether the market was made from another one so that true selection is zero by construction."""
    return card.snapshot is not None and card.snapshot.source.startswith(PLACEBO_SOURCE)


def _rankable(card: Evaluation, coverage: Coverage, step: str) -> parts.Rankable:
    """Return whether the card is rankable, with every reason against it; cards of synthetic markets are ranked on their own."""
    planned, finished = coverage.episodes_planned, coverage.episodes_finished
    reasons = []
    if _is_placebo(card):
        reasons.append("the market is a placebo, on which there is nothing to select")
    if card.limit is not None:
        reasons.append(f"every episode was cut after {count(card.limit, step)}")
    if finished < planned:
        reasons.append(f"{planned - finished:,} of {planned:,} episodes did not finish")
    if _has_low_coverage(coverage):
        share = f"{decided_percent(coverage)} % of {coverage.steps_planned:,} {step}s"
        reasons.append(f"the model decided {share}; {LEAST_DECIDED_PERCENT} % are needed")
    if never_traded(card):
        reasons.append(NEVER_TRADED)
    return parts.Rankable(value=not reasons, reasons=reasons)


def decided_percent(coverage: Coverage) -> str:
    """Return the share of the planned steps that the model decided, in per cent, rounded down so that 94.96 does not read as 95."""
    tenths = 1000 * coverage.steps_decided // max(coverage.steps_planned, 1)
    return f"{tenths // 10}.{tenths % 10}"


# ---- costs


def token_cost(episodes: Sequence[Finished], pooled: Sequence[Finished], price: PriceEntry | None) -> TokenCost:
    """Return the US dollars of the tokens of the replies of a card's finished episodes, whether paid now or cached; those of an
    episode are a median over the pooled ones.
    """
    if price is None:
        return TokenCost(value=None, reason=NO_PRICE)
    per_episode = aggregate(episode_cost(episode, price) for episode in pooled)
    uncounted = sum(episode.uncounted for episode in episodes)
    if uncounted:  # a sum of the others would look like all
        return TokenCost(value=None, reason=not_counted(uncounted), currency="USD", price=price, per_episode=per_episode)
    total = sum((_tokens(episode) for episode in episodes), Usage())
    return TokenCost(value=usage_cost(total, price), currency="USD", price=price, per_episode=per_episode)


def trading_cost(episodes: Sequence[TradingEpisode], pooled: Sequence[TradingEpisode], price: PriceEntry | None) -> TradingCost:
    """Return the token cost of a trading card, with the return per dollar of it."""
    gains: Any = UNSET
    if price is not None:
        gains = aggregate(_gain(episode, price) for episode in pooled)
    return TradingCost(**asdict(token_cost(episodes, pooled, price)), return_per_usd=gains)


def _tokens(episode: Finished) -> Usage:
    return Usage(*(getattr(episode.usage, name) for name in USAGE_FIELDS))


def episode_cost(episode: Finished, price: PriceEntry | None) -> EpisodeMetric:
    """Return the US dollars of the tokens of an episode's replies, whether paid now or cached; null where price or tokens are not
    known.
    """
    if price is None:
        return EpisodeMetric(value=None, n=0, reason=NO_PRICE)
    if episode.uncounted:
        return EpisodeMetric(value=None, n=0, reason=not_counted(episode.uncounted))
    return EpisodeMetric(value=usage_cost(_tokens(episode), price), n=1)


def episode_tokens(episode: Finished) -> EpisodeMetric:
    """Return the tokens of an episode, in and out; null where the provider did not count those of every reply."""
    if episode.uncounted:
        return EpisodeMetric(value=None, n=0, reason=not_counted(episode.uncounted))
    return EpisodeMetric(value=episode.usage.input_tokens + episode.usage.output_tokens, n=1)


def not_counted(replies: int) -> str:
    """Return the reason of a figure that needs the tokens of replies which the provider did not count."""
    return f"the provider did not count the tokens of {count(replies, 'reply')}"


def usage_cost(usage: Usage, price: PriceEntry) -> float:
    """Return the US dollars of the tokens of one or more calls."""
    return Price(**asdict(price)).cost(usage)


def _gain(episode: TradingEpisode, price: PriceEntry) -> EpisodeMetric:
    """Return `total_return` of one episode per dollar of its cost."""
    earned, cost = episode.metrics.get("total_return"), episode_cost(episode, price)
    if earned is None:
        reason = "metric total_return was not asked for"
    elif earned.value is None:
        reason = f"total_return is not defined: {earned.reason}"
    elif cost.value is None:
        reason = str(cost.reason)
    elif cost.value:
        return EpisodeMetric(value=earned.value / cost.value, n=1)
    else:
        reason = "the episode cost nothing"
    return EpisodeMetric(value=None, n=0, reason=reason)
