"""Estimate for a grid as typed values, printed by `ktdeval plan PLAN --json` and read by a launch.

A launch imports no code that computes, so these types are in a module without it.
"""

from __future__ import annotations

from ktdeval.values import Value

#: Names of the three scenarios in each estimate, as in `ktdeval plan`
SCENARIOS = ("low", "typical", "high")


class Amount(Value):
    """Calls, tokens, money and time of some episodes. `cost_usd` is that if nothing is read from
    prompt caches; null where no price is known.
    """

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    hours: float
    cache_read_tokens: int = 0  #: input that prompt caches of providers would serve
    #: cost if they do; that of models without a price of cached tokens is `cost_usd`
    cached_cost_usd: float | None = None


class ModelEstimate(Value):
    """What is left of one model's episodes."""

    name: str  #: label of the model, or `total`
    episodes: int  #: to be run
    is_free: bool  #: whether it asks no provider
    #: by scenario (low, typical, high); `cost_usd` is null if no price is known
    left: dict[str, Amount]


class GridEstimate(Value):
    """What is left of a grid. Hours are those of all calls one after another, divided by the
    episodes at once.
    """

    models: tuple[ModelEstimate, ...]
    total: ModelEstimate
    concurrency: int
    pruned: int  #: episodes that rules leave out
    assumptions: tuple[str, ...]  #: assumptions behind the figures, one sentence each
    warnings: tuple[str, ...]

    @property
    def costs_money(self) -> bool:
        """True if any model calls a provider, at whatever price."""
        return any(model.episodes and not model.is_free for model in self.models)
