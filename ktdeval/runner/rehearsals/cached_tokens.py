"""Prompt tokens of a run that the provider's prompt cache would serve, based on measured steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from ktdeval.calls.costs.prompt_cache import CachedTokens, PromptCache
from ktdeval.harness.chat_messages import ModelRequest
from ktdeval.runner.rehearsals.conversation_size import (
    NOTHING,
    CallLimits,
    Scenario,
    StepRate,
    StepSize,
)


@dataclass(frozen=True)
class CachedShares:
    """Cached tokens per input token in the steps of a task. Other fields of the rates are 0."""

    later: StepRate = NOTHING  #: in steps that follow another step
    first: StepRate = NOTHING  #: in the first step of an episode

    def of_step(self, rate: StepRate) -> StepRate:
        """Return the costs of a later step, including its cached tokens."""
        return with_cached(rate, self.later)

    def of_first(self, rate: StepRate) -> StepRate:
        """Return by how much an episode's first step differs from a later step with the same calls
        and tokens. Only cached tokens differ.
        """
        scale = rate.input_tokens
        first = self.first.cache_read_tokens - self.later.cache_read_tokens
        written = self.first.cache_write_tokens - self.later.cache_write_tokens
        return replace(NOTHING, cache_read_tokens=scale * first, cache_write_tokens=scale * written)


def with_cached(rate: StepRate, share: StepRate) -> StepRate:
    """Return costs with cached tokens added. `share`: cached tokens per input token."""
    return replace(
        rate,
        cache_read_tokens=rate.input_tokens * share.cache_read_tokens,
        cache_write_tokens=rate.input_tokens * share.cache_write_tokens,
        unread_tokens=rate.input_tokens * share.unread_tokens,
    )


def cached_shares(
    sizes: Sequence[StepSize], scenario: Scenario, limits: CallLimits | None
) -> CachedShares:
    """Return the cached share of the input for consecutive measured steps.

    Only earlier requests in the same episode can be read from the cache. All shares are zero if no
    cache rules are known.
    """
    steps = [size.asked for size in sizes]
    first = sum((cached_tokens([step], scenario, limits) for step in steps), CachedTokens())
    later = first
    if len(steps) > 1:
        # treat each measured step as following another: the first one follows the last
        again = cached_tokens([steps[-1], *steps], scenario, limits)
        alone = cached_tokens(steps[-1:], scenario, limits)
        later = again.without(alone)

    return CachedShares(share_of(later), share_of(first))


def share_of(tokens: CachedTokens) -> StepRate:
    """Return cached tokens per input token; zero without input."""
    if not tokens.total:
        return NOTHING

    return replace(
        NOTHING,
        cache_read_tokens=tokens.read / tokens.total,
        cache_write_tokens=tokens.written / tokens.total,
        unread_tokens=tokens.unread / tokens.total,
    )


def cached_tokens(
    steps: Sequence[Sequence[ModelRequest]], scenario: Scenario, limits: CallLimits | None
) -> CachedTokens:
    """Return the cached tokens when consecutive steps send their requests to an initially empty
    cache; zero if no cache rules are known.

    Requests are spaced by the assumed duration of a call.
    """
    total = CachedTokens()
    if limits is None or limits.cache_rules is None:
        return total

    cache = PromptCache(limits.cache_rules, scenario.bytes_per_token)
    call_s = limits.call_s(scenario)
    for number, request in enumerate(chain.from_iterable(steps)):
        total += cache.ask(request, number * call_s)

    return total
