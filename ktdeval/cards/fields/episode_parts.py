"""Parts of each episode on a card: decisions, orders, tokens, roles and software."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from ktdeval.cards.fields.base_types import Count, Counts, Day, EpisodeId, Name
from ktdeval.cards.fields.returns.medians import EpisodeMetric
from ktdeval.harness.chat_messages import USAGE_FIELDS, Usage
from ktdeval.harness.external.external_acts import Isolation
from ktdeval.trading.stale_values import StaleHoldings
from ktdeval.values.documents.typed_json import Value


class Decisions(Value, frozen=True, omit_defaults=True):
    """Steps by the source of their decision."""

    model: Count
    model_after_retry: Count
    fallback: Count
    error: Count
    elected: Count = 0  #: absent if no vote was held

    @property
    def by_model(self) -> int:
        """Number of steps decided by the model or by a majority of voters."""
        return self.model + self.model_after_retry + self.elected

    @property
    def steps(self) -> int:
        """Total number of steps."""
        return self.by_model + self.fallback + self.error


class Orders(Value, frozen=True):
    """Orders by outcome."""

    submitted: Count
    filled: Count
    partially_filled: Count
    rejected: Count
    rules: Counts  #: rejected and cut orders by rule

    @property
    def is_any_filled(self) -> bool:
        """Return whether an order was filled, even in part."""
        return bool(self.filled or self.partially_filled)

    @property
    def main_rejection(self) -> tuple[str, int] | None:
        """Return the rule that rejected more than half of the orders, with their number; None if
        there is no such rule. An order that was cut by a rule counts as filled.
        """
        for rule, affected in self.rules.items():
            rejected = affected - self.partially_filled
            if 2 * rejected > self.submitted:
                return rule, rejected
        return None


class UsageCounts(Value, frozen=True):
    """Tokens, tool calls and submissions."""

    input_tokens: Count
    output_tokens: Count
    reasoning_tokens: Count
    cache_read_tokens: Count
    cache_write_tokens: Count
    tool_calls: Count
    tool_calls_valid: Count
    submissions: Count

    @property
    def tokens(self) -> Usage:
        """The token counts without the rest, in the form used to compute prices."""
        return Usage(
            self.input_tokens,
            self.output_tokens,
            self.reasoning_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
        )


class RoleUsage(Value, frozen=True, kw_only=True, omit_defaults=True):
    """Calls of one role to one model."""

    role: str = ""  #: absent if no role of a team made a call
    #: the additional model, by the agent's name for it; absent: the card's own model
    model: str = ""
    calls: Count
    failed: Count = 0  #: calls without a reply
    empty: Count = 0  #: replies with neither text nor tool calls
    turns: Count = 0  #: turns of the role; absent in older records
    silent: Count = 0  #: number of these without a usable answer
    uncounted: Count = 0  #: replies whose tokens the provider did not count
    input_tokens: Count = 0
    output_tokens: Count = 0
    reasoning_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0

    @property
    def tokens(self) -> Usage:
        """Tokens in the role's replies, where the provider counted them."""
        return Usage(*(getattr(self, name) for name in USAGE_FIELDS))


class Served(Value, frozen=True, kw_only=True, omit_defaults=True):
    """Replies of one model, by the answering model that its provider named."""

    #: the additional model, by the agent's name for it; absent: the card's own model
    model: str = ""
    name: str = ""  #: the answering model, as the provider names it; absent if it names none
    replies: Annotated[int, Meta(ge=1)]
    #: number of these for which the provider reports a lookup
    looked_up: Count = 0
    #: settings with their values that an agent's own program sent and that the model received;
    #: absent if none
    own_settings: list[str] = field(default_factory=list)
    #: settings that it sent but that could not be applied to the model; absent if none
    not_applied: list[str] = field(default_factory=list)


def tokens_of_further(usages: Iterable[RoleUsage]) -> dict[str, Usage]:
    """Return the tokens used by each additional model that was called."""
    tokens: dict[str, Usage] = {}
    for usage in usages:
        if usage.model:
            tokens[usage.model] = tokens.get(usage.model, Usage()) + usage.tokens

    return tokens


StepCount = Annotated[int, Meta(ge=1)]


class Maker(Value, frozen=True):
    """Software that ran a step; equal makers run equal code."""

    ktdeval: Name  #: version of ktdeval
    #: hash of the code of ktdeval and all its plugins
    code: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
    python: Name  #: version of Python


class StepMaker(Maker, frozen=True):
    """Software that ran some steps of an episode."""

    steps: StepCount  #: number of steps that it ran

    @property
    def maker(self) -> Maker:
        """The software without the number of steps: versions of ktdeval, code and Python."""
        return Maker(ktdeval=self.ktdeval, code=self.code, python=self.python)


class MissingEpisode(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A planned episode without a complete record."""

    id: EpisodeId
    window: Name | None = None  #: absent if the task needs no market
    seed: int
    error: Name


class Finished(Value, frozen=True, kw_only=True, omit_defaults=True):
    """Fields of every finished episode: one window, one seed."""

    id: EpisodeId
    window: Name | None = None  #: absent if the task needs no market
    seed: int
    decisions: Decisions
    failures: Counts  #: failures by kind
    usage: UsageCounts
    #: replies whose tokens the provider did not count, so that usage lacks them; none for a free
    #: model
    uncounted: Count = 0
    #: calls by role and model; absent if no role of a team made a call
    roles: list[RoleUsage] = field(default_factory=list)
    #: replies by requested model and answering model; absent if no provider reports it
    served: list[Served] = field(default_factory=list)
    #: on cards written before `deciders` existed: steps of an external agent, by kind of sandbox
    isolation: dict[Isolation, StepCount] = field(default_factory=dict)
    #: software that ran its steps; absent in records without it
    made_by: list[StepMaker] = field(default_factory=list)


class MissingTradingEpisode(MissingEpisode, frozen=True):
    """A planned episode without a complete ledger."""

    window: Name


class TradingEpisode(Finished, frozen=True, kw_only=True):
    """A finished episode of a trading task."""

    window: Name
    steps: Annotated[int, Meta(ge=1)]
    first_day: Day  #: first fill day
    last_day: Day  #: last fill day
    #: NAV at the last close, in minor units of the snapshot's currency
    final_nav_minor: int
    orders: Orders
    #: holdings at the last close that had no bar on that day; absent if there are none
    stale: StaleHoldings | UnsetType = UNSET
    metrics: dict[str, EpisodeMetric]


class ScoringEpisode(Finished, frozen=True):
    """A finished episode of a scoring task."""

    steps: Count  #: number of samples
    answered: Count  #: samples with a valid answer from the model


class MissingScoringEpisode(MissingEpisode, frozen=True):
    """A planned episode without all its answers."""

    steps: Count  #: number of samples that it would have
