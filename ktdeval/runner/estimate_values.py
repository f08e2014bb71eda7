"""Estimate of a run: calls, tokens, money and time, by task and in total."""

from __future__ import annotations

import msgspec

from ktdeval.calls.costs.prices import Price
from ktdeval.calls.failures.context_refusals import Context
from ktdeval.calls.records.record import Spent
from ktdeval.harness.chat_messages import ToolProtocol
from ktdeval.values.documents.typed_json import Value


class Amount(Value, frozen=True):
    """Calls, tokens, money and time for some steps.

    `cost_usd` assumes that nothing is read from a provider's prompt cache. It is None if no price
    is known.
    """

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    hours: float
    cache_read_tokens: int = 0  #: input tokens that a provider's prompt cache would serve
    #: cost with a prompt cache; None if no price or no caching rules are known
    cached_cost_usd: float | None = None

    @property
    def tokens(self) -> int:
        """Number of tokens in prompts and replies."""
        return self.input_tokens + self.output_tokens


class Finished(Value, frozen=True):
    """Usage in a task's finished steps.

    `cost_usd` is the price of the tokens, whether they were paid for or came from a cache. It is
    None if a price or a count is unknown.
    """

    steps: int
    calls: int
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float | None


class TaskEstimate(Value, frozen=True):
    """Estimate for one task of a run."""

    name: str = msgspec.field(name="task")  #: name of the task
    episodes: int  #: number of planned episodes
    steps: int  #: number of planned steps
    finished: Finished  #: usage in the finished steps
    left: dict[str, Amount]  #: usage in the remaining steps, by scenario
    #: tokens in a step's largest prompt, by scenario; None for a local model
    largest_prompt: dict[str, int] | None
    is_observed: bool  #: whether `left` is based on finished steps instead of assumptions


class RunEstimate(Value, frozen=True):
    """Estimate of a run, as printed by `ktdeval plan`."""

    model: str  #: full name of the model
    #: protocol by which tools will be offered to the model; None for a local model
    protocol: ToolProtocol | None = msgspec.field(name="tool_protocol")
    context: Context | None  #: model context; None if unknown
    max_output_tokens: int  #: maximum number of tokens in a reply
    price: Price | None  #: token price of the model; None if unknown
    folder: str  #: run folder, which may not exist yet
    concurrency: int  #: number of episodes that run concurrently
    tasks: tuple[TaskEstimate, ...]  #: one entry per task
    left: dict[str, Amount]  #: remaining usage over all tasks, by scenario
    paid: Spent  #: usage of the run so far
    assumptions: tuple[str, ...]  #: assumptions behind the estimate, one sentence each
    #: what would stop the run, have it refused or distort its results, one sentence each
    warnings: tuple[str, ...]
