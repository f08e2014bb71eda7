"""Estimate for a grid as typed values, printed by `ktdeval plan PLAN --json` and read by a launch.

A launch does not import code that computes, so these types are in a separate module.
"""

from __future__ import annotations

from ktdeval.values import Value

#: names of the three scenarios in each estimate, as in `ktdeval plan`
SCENARIOS = ("low", "typical", "high")


class Amount(Value):
    """Calls, tokens, money and time for some episodes. `cost_usd` is the cost if nothing is read
    from prompt caches; null without a known price.
    """

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    hours: float
    cache_read_tokens: int = 0  #: input tokens that the providers' prompt caches would serve
    #: cost if they are read from caches; equals `cost_usd` for models without a price for cached
    #: tokens
    cached_cost_usd: float | None = None


class ModelEstimate(Value):
    """Work that remains for one model."""

    name: str  #: label of the model, or `total`
    episodes: int  #: number of episodes to be run
    is_free: bool  #: whether the model calls no provider
    #: amounts by scenario (low, typical, high); `cost_usd` is null if no price is known
    left: dict[str, Amount]
    #: whether all its episodes wait for their batches concurrently, however many there are
    is_batched: bool = False


class GridEstimate(Value):
    """Work that remains in a grid. Hours are those of all calls made one after another, divided by
    the number of concurrent episodes, or those of the longest episode of a model in batches.
    """

    models: tuple[ModelEstimate, ...]
    total: ModelEstimate
    concurrency: int
    pruned: int  #: number of episodes that rules omit
    assumptions: tuple[str, ...]  #: assumptions behind the figures, one sentence each
    warnings: tuple[str, ...]

    @property
    def costs_money(self) -> bool:
        """True if any model calls a provider, at whatever price."""
        return any(model.episodes and not model.is_free for model in self.models)
