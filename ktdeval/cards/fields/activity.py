"""Activity in a card's episodes: decisions, failures, orders, tokens, drift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from ktdeval.cards.fields.base_types import add_counts, add_up, decode_part
from ktdeval.cards.fields.card_inputs import TradingSources
from ktdeval.cards.fields.episode_parts import Decisions, Finished, Orders, UsageCounts
from ktdeval.cards.fields.origin.fact_types import Calibration, Drift
from ktdeval.cards.fields.origin.recorded_facts import (
    AnyFacts,
    DerivationBasis,
    TradingFacts,
    rests_on,
)
from ktdeval.cards.fields.returns.medians import EpisodeMetric
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row, count, tally
from ktdeval.stats.calibration import calibration_table, judged_orders, pool
from ktdeval.trading.ledger import CountsRecord, StepRecord
from ktdeval.trading.types import PROVENANCES, Provenance

# ---- decisions


def gather_decisions(provenances: Iterable[Provenance]) -> Decisions:
    """Count the steps of an episode by who made the decision."""
    counts = Counter(provenances)
    return Decisions(**{provenance: counts[provenance] for provenance in PROVENANCES})


def derive_decisions(basis: DerivationBasis[AnyFacts]) -> Decisions:
    """Return the total decision counts over the finished episodes."""
    return add_up(Decisions, [episode.decisions for episode in basis.facts.episodes])


# ---- failures


def derive_failures(basis: DerivationBasis[AnyFacts]) -> dict[str, int]:
    """Return the total failure counts over the finished episodes."""
    return add_counts(episode.failures for episode in basis.facts.episodes)


# ---- orders


def gather_orders(steps: Iterable[StepRecord]) -> Orders:
    """Count the orders of an episode."""
    orders = list(chain.from_iterable(step.orders for step in steps))
    statuses = Counter[str](order.status for order in orders)
    rules = Counter(order.rule for order in orders if order.rule is not None)

    return Orders(
        submitted=len(orders),
        filled=statuses["filled"],
        partially_filled=statuses["partially_filled"],
        rejected=statuses["rejected"],
        rules=dict(sorted(rules.items())),
    )


def derive_orders(basis: DerivationBasis[TradingFacts]) -> Orders:
    """Return the total order counts over the finished episodes."""
    return total_orders(basis.facts)


def total_orders(facts: TradingFacts) -> Orders:
    """Return the total order counts over the finished episodes of a card's facts."""
    orders = [episode.orders for episode in facts.episodes]
    return add_up(Orders, orders, rules=add_counts(one.rules for one in orders))


def is_untraded(orders: Sequence[Orders]) -> bool:
    """Return whether episodes finished without a single order filled, even in part."""
    return bool(orders) and not any(one.is_any_filled for one in orders)


def order_rows(orders: Orders, facts: TradingFacts) -> Iterator[Row]:
    """Yield the rows on a card's orders."""
    statuses = {
        "filled": orders.filled,
        "partially_filled": orders.partially_filled,
        "rejected": orders.rejected,
    }
    in_all, _ = rests_on(facts)
    yield field_label("orders"), f"{orders.submitted:,} submitted: {tally(statuses)}{in_all}"
    yield field_label("orders.rules"), tally(orders.rules)


# ---- calibration


def gather_calibration(sources: TradingSources) -> Calibration:
    """Return the reliability table for the orders of all episodes that count towards the card's
    figures.
    """
    snapshot = sources.inputs.snapshot
    judged = pool(judged_orders(ledger, snapshot) for ledger in sources.pooled)
    return decode_part("calibration", calibration_table(judged), Calibration)


def calibration_text(calibration: Calibration, facts: TradingFacts) -> str:
    """Return a description of the orders behind a card's calibration."""
    excluded = {"no_fill": calibration.no_fill, "no_next_open": calibration.no_next_open}
    words = f"{count(calibration.n, 'order')} judged; left out: {tally(excluded)}"
    _, in_pooled = rests_on(facts)
    return f"{words}{in_pooled}"


# ---- tokens, tool calls and submissions


def gather_usage(records: Sequence[CountsRecord]) -> UsageCounts:
    """Return the total usage over an episode's steps or samples."""
    sums = {}
    for name in UsageCounts.__struct_fields__:
        sums[name] = sum(getattr(record, name) for record in records)
    return UsageCounts(**sums)


def episode_tokens(episode: Finished) -> EpisodeMetric:
    """Return the input and output tokens of an episode; null if the provider did not report token
    counts for every reply.
    """
    if episode.uncounted:
        return EpisodeMetric(value=None, n=0, reason=not_counted(episode.uncounted))
    return EpisodeMetric(value=episode.usage.input_tokens + episode.usage.output_tokens, n=1)


def not_counted(replies: int) -> str:
    """Return why a figure is missing: it depends on token counts, and the provider reported none
    for some replies.
    """
    return f"the provider did not count the tokens of {count(replies, 'reply')}"


def derive_usage(basis: DerivationBasis[AnyFacts]) -> UsageCounts:
    """Return the total usage over the finished episodes."""
    return add_up(UsageCounts, [episode.usage for episode in basis.facts.episodes])


def usage_rows(usage: UsageCounts, facts: AnyFacts) -> Iterator[Row]:
    """Yield the rows on research tool calls and tokens; on a scoring card, submissions replace the
    tool calls.
    """
    if facts.kind == "trading":
        words = f"{usage.tool_calls:,}, {usage.tool_calls_valid:,} valid"
        yield field_label("usage.tool_calls"), words
    else:
        yield field_label("usage.submissions"), f"{usage.submissions:,}"

    yield field_label("usage"), _token_words(usage, facts)


def _token_words(usage: UsageCounts, facts: AnyFacts) -> str:
    """Return the input and output tokens, and the number of replies without token counts."""
    inside = _parts_of(
        {
            "read from the provider's cache": usage.cache_read_tokens,
            "written to it": usage.cache_write_tokens,
        }
    )
    outside = _parts_of({"reasoning": usage.reasoning_tokens})
    text = f"{usage.input_tokens:,} in{inside}, {usage.output_tokens:,} out{outside}"
    uncounted = sum(episode.uncounted for episode in facts.episodes)
    if uncounted:
        text += f"; {not_counted(uncounted)}"

    return text


def _parts_of(counts: Mapping[str, int]) -> str:
    texts = [f"{number:,} {name}" for name, number in counts.items() if number]
    return f" ({', '.join(texts)})" if texts else ""


# ---- drift


def drift_text(drift: Drift, facts: AnyFacts) -> str:
    """Return a description of the drift; empty if the drift is unknown."""
    if drift.value is None:
        return ""

    questions = count(drift.prompts or 0, "question")
    words = f"{drift.value:.3f} between start and end over {questions},"
    words += f" {drift.noise:.3f} within one round (0 equal, 1 different)"
    if drift.served_by_changed:
        words += "; the provider named another model at the end"

    return words
