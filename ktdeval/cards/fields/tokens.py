"""Tokens, tool calls and submissions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktdeval.cards.fields.base_types import add_up
from ktdeval.cards.fields.episode_parts import Finished, UsageCounts
from ktdeval.cards.fields.medians import EpisodeMetric
from ktdeval.cards.fields.recorded_facts import AnyFacts, DerivationBasis
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row, count
from ktdeval.trading.ledger import CountsRecord


def gather_usage(records: Sequence[CountsRecord]) -> UsageCounts:
    """Return the sums over the steps or samples of an episode."""
    sums = {}
    for name in UsageCounts.__struct_fields__:
        sums[name] = sum(getattr(record, name) for record in records)
    return UsageCounts(**sums)


def episode_tokens(episode: Finished) -> EpisodeMetric:
    """Return the tokens of an episode, in and out; null where the provider did not count those of
    every reply.
    """
    if episode.uncounted:
        return EpisodeMetric(value=None, n=0, reason=not_counted(episode.uncounted))
    return EpisodeMetric(value=episode.usage.input_tokens + episode.usage.output_tokens, n=1)


def not_counted(replies: int) -> str:
    """Return the reason of a figure that needs the tokens of replies which the provider did not
    count.
    """
    return f"the provider did not count the tokens of {count(replies, 'reply')}"


def derive_usage(basis: DerivationBasis[AnyFacts]) -> UsageCounts:
    """Return the sums over the finished episodes."""
    return add_up(UsageCounts, [episode.usage for episode in basis.facts.episodes])


def usage_rows(usage: UsageCounts, facts: AnyFacts) -> Iterator[Row]:
    """Yield the rows of research tool calls, or of submissions of a scoring card, and of tokens."""
    if facts.kind == "trading":
        words = f"{usage.tool_calls:,}, {usage.tool_calls_valid:,} valid"
        yield field_label("usage.tool_calls"), words
    else:
        yield field_label("usage.submissions"), f"{usage.submissions:,}"

    yield field_label("usage"), _token_words(usage, facts)


def _token_words(usage: UsageCounts, facts: AnyFacts) -> str:
    """Return the tokens in and out, and how many replies have no counts."""
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
