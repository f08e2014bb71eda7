"""Size of a step's conversation, measured without a model: task, mask, tools and agent are real,
but replies are made up.

The calls and tokens of a run's steps are estimated from this size, or from finished steps.
"""

from __future__ import annotations

import base64
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ktdeval.calls.costs.prompt_cache import PromptCacheRules
from ktdeval.calls.costs.prompt_size import (
    MAX_TOKENS,
    MIN_TOKENS,
    USUAL_TOKENS,
    BytesPerToken,
    PromptBytes,
    prompt_bytes,
)
from ktdeval.harness.agent import Decision, StepCounts
from ktdeval.harness.chat_messages import NO_TOOL, ModelRequest, Reply, ToolCall, ToolSpec
from ktdeval.harness.steps.step_session import TranscriptEntry
from ktdeval.harness.traits import ModelTraits
from ktdeval.market.rules.calendar import window_rows
from ktdeval.observation.state_rows import as_object
from ktdeval.runner.episodes.episode import TradingEpisodeRun
from ktdeval.runner.episodes.episode_execution import EpisodeFactory
from ktdeval.runner.episodes.episode_parts import EpisodeParts
from ktdeval.runner.records.episode_journal import Entry, JournalEntry
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.task_api.trading_task import Scene, Task
from ktdeval.task_api.traits import task_traits
from ktdeval.trading.ledger import CountsRecord, StepRecord
from ktdeval.trading.types import Order
from ktdeval.values.documents.strict_json import JsonValue, dumps_canonical

_VECTOR = base64.b64encode(b"\0\0\x80\x3f" + bytes(4 * 255)).decode()  # one 1.0 and 255 zeros
Schema = Mapping[str, Any]  # JSON Schema
_REMARK = "A remark that stands for what a model writes beside its calls. "


@dataclass(frozen=True, slots=True)
class AssumedBehaviour:
    """Assumed behaviour of a model within a step."""

    #: fraction of the task's research calls that the model makes; if it is strictly between 0 and 1
    #: and a scoring task declares `usual_tool_calls`, that number of calls is made instead
    research_share: float
    calls_a_turn: int  #: number of research calls per reply
    remark_bytes: int  #: length of the text that accompanies calls, which later requests include
    #: True if the first submission is valid, False if only the last attempt is
    valid: bool = True
    #: True if the model submits as soon as its research is done, where the task allows that
    submits_early: bool = True


LOW = AssumedBehaviour(research_share=0.0, calls_a_turn=1, remark_bytes=100)
TYPICAL = AssumedBehaviour(research_share=0.5, calls_a_turn=2, remark_bytes=400)
HIGH = AssumedBehaviour(research_share=1.0, calls_a_turn=1, remark_bytes=1600, valid=False)


NOTHING_SENT = PromptBytes()


@dataclass(frozen=True, slots=True)
class StepSize:
    """Size of one step as sent, where each request contains the whole conversation so far."""

    requests: int  #: number of model calls
    sent: PromptBytes  #: bytes in all requests
    seconds: float  #: time taken by agent, tools and mask
    #: number of research calls that failed because their arguments were only guesses
    failed_calls: int
    largest: PromptBytes = NOTHING_SENT  #: size of the request that has the most tokens
    asked: Sequence[ModelRequest] = field(default=(), repr=False)  #: requests, in order


class MeasuringModel:
    """Model that calls tools and submits according to an `AssumedBehaviour`, whatever it receives.
    It stores its requests and adds up their sizes.

    Its arguments are derived from the tools' schemas only. It therefore can't call a tool that
    needs a stock's handle, and calls other tools instead.
    """

    def __init__(self, behaviour: AssumedBehaviour, research_calls: int, attempts: int = 1) -> None:
        self._behaviour = behaviour
        self._attempts = 1 if behaviour.valid else attempts
        self._submissions = 0
        self._left = research_calls
        self._number = 0
        self.asked: list[ModelRequest] = []
        self.sent = PromptBytes()
        self.largest = PromptBytes()
        self.traits = ModelTraits(recorded_vectors=self._vectors, recorded_acts=lambda: None)

    @property
    def requests(self) -> int:
        """Number of requests received."""
        return len(self.asked)

    def reply(self, request: ModelRequest) -> Reply:
        """Count a request and answer it."""
        size = prompt_bytes(request)
        self.asked.append(request)
        self.sent += size
        self.largest = max(self.largest, size, key=lambda one: one.tokens(USUAL_TOKENS))

        if request.response_schema is not None:
            answer: JsonValue = {}
            if self._behaviour.valid:
                answer = self._answer(request.response_schema, request)
            return Reply(dumps_canonical(answer))

        forced = next((spec for spec in request.tools if spec.name == request.tool_choice), None)
        if forced is not None:
            calls = [self._submission(forced, request)]
        else:
            calls = list(self._research(request))
            if not calls and request.may_submit and self._behaviour.submits_early:
                submit = next(spec for spec in request.tools if spec.name == request.submit_tool)
                calls = [self._submission(submit, request)]

        remark = _filler_text(self._behaviour.remark_bytes)
        return Reply(remark, tuple(calls), "tool_calls" if calls else "stop")

    def _submission(self, tool: ToolSpec, request: ModelRequest) -> ToolCall:
        """Return a call to the submit tool, which is valid on the last assumed attempt."""
        self._submissions += 1
        is_valid = self._submissions % self._attempts == 0
        arguments: JsonValue = {}
        if is_valid:
            arguments = self._answer(tool.parameters, request)
        return self._call(tool.name, arguments)

    def _vectors(self, texts: Sequence[str]) -> list[str]:
        """Return a fixed vector for each text, so that planning needs no embedding service."""
        return [_VECTOR] * len(texts)

    def _answer(self, schema: Schema, request: ModelRequest) -> JsonValue:
        answer = example(schema, _filler_text(200))
        if "decisions" not in schema.get("properties", ()):
            return answer

        # one decision per shown asset
        decision = as_object(example(schema["properties"]["decisions"]["items"], _filler_text(80)))
        labels = () if request.state is None else request.state.candidates
        decisions = [{**decision, "stock_id": label} for label in labels]
        return {**as_object(answer), "decisions": decisions}

    def _research(self, request: ModelRequest) -> Iterator[ToolCall]:
        """Yield calls to research tools, if such calls are allowed."""
        if request.tool_choice == NO_TOOL:
            return

        tools = [spec for spec in request.tools if spec.name != request.submit_tool]
        offered: list[tuple[str, JsonValue]] = []
        for spec in tools:
            arguments = example(spec.parameters)
            if arguments is not None:
                offered.append((spec.name, arguments))

        if not offered:
            offered = [(spec.name, {}) for spec in tools]
        if not offered:
            return

        for _ in range(min(self._behaviour.calls_a_turn, self._left)):
            self._left -= 1
            name, arguments = offered[self._number % len(offered)]
            yield self._call(name, arguments)

    def _call(self, name: str, arguments: JsonValue) -> ToolCall:
        self._number += 1
        return ToolCall(f"call_{self._number}", name, dumps_canonical(arguments))


def example(schema: Schema, text: str | None = None) -> JsonValue:
    """Return the smallest value that a JSON Schema allows, using `text` for strings. None if a
    string is required and `text` is None.
    """
    smallest: JsonValue
    if "enum" in schema:
        smallest = schema["enum"][0]
        return smallest
    if "anyOf" in schema:
        return example(schema["anyOf"][0], text)

    kind = schema.get("type")
    if kind == "object":
        return _example_object(schema, text)
    if kind == "array":
        item = schema.get("items", {})
        items = [example(item, text) for _ in range(schema.get("minItems", 0))]
        return None if None in items else items
    if kind in ("integer", "number"):
        smallest = schema.get("minimum", 0)
        return smallest
    if _may_be_null(schema):
        return None
    if kind == "boolean":
        return False

    return text


def _example_object(schema: Schema, text: str | None) -> JsonValue:
    """Return an object with only the required members. None if a required member can't be
    generated.
    """
    if schema.get("minProperties", 0):
        return None

    members: dict[str, JsonValue] = {}
    for name in schema.get("required", ()):
        part = schema["properties"][name]
        members[name] = example(part, text)
        if members[name] is None and not _may_be_null(part):
            return None

    return members


def _may_be_null(schema: Schema) -> bool:
    kinds = schema.get("type")
    if kinds == "null" or (isinstance(kinds, list) and "null" in kinds):
        return True
    return any(map(_may_be_null, schema.get("anyOf", ())))


def measure_steps(
    spec: EpisodeSpec,
    task: Task,
    factory: EpisodeFactory,
    behaviour: AssumedBehaviour,
    steps: Sequence[int],
    scene: Scene | None = None,
) -> list[StepSize]:
    """Return the sizes of the given steps of an episode, in ascending order and without a warm-up.

    If the behaviour includes research, steps other than the episode's first start with as many
    positions as the task allows, and with the agent's memory from the step played before.
    Otherwise, steps start with neither. `scene`: see `EpisodeFactory.open`.
    """
    attempts = 1 + task.harness.schema_retries
    whole = replace(spec, limit=None)
    memory: JsonValue = None
    shown: tuple[str, ...] = ()

    played = list(steps)
    if behaviour.research_share and played[0]:
        played.insert(0, played[0] - 1)  # provides the memory for the first measured step

    sizes = []
    for step in played:
        model = MeasuringModel(behaviour, _research_calls(task, behaviour), attempts)
        episode = factory.open(whole, model, scene=scene)
        if isinstance(episode, TradingEpisodeRun):
            scene = episode.scene
            episode.has_warm_up = False
            if behaviour.research_share and step:
                invested = _with_positions(spec, factory.trading_parts(spec, model), step - 1)
                before = TranscriptEntry(step=step - 1, exchanges=(), submission=None)
                episode.resume(
                    [JournalEntry(step=invested, transcript=before, memory=memory, shown=shown)]
                )

        began = time.perf_counter()
        entry = episode.run_step(step)
        sizes.append(size_of(model, entry, time.perf_counter() - began))
        memory = entry.memory
        shown = entry.shown

    return sizes[-len(steps) :]


def _research_calls(task: Any, behaviour: AssumedBehaviour) -> int:
    usual_tool_calls = task_traits(task).usual_tool_calls
    if usual_tool_calls is not None and 0 < behaviour.research_share < 1:
        return usual_tool_calls()

    most: int = task.harness.max_tool_calls
    return round(behaviour.research_share * most)


def size_of(model: MeasuringModel, entry: Entry, seconds: float) -> StepSize:
    """Return the size of a step, as counted by its model."""
    failed = entry.step.tool_calls - entry.step.tool_calls_valid
    return StepSize(model.requests, model.sent, seconds, failed, model.largest, model.asked)


def _with_positions(spec: EpisodeSpec, parts: EpisodeParts, step: int) -> StepRecord:
    """Return the record of a step that buys as many positions as the task allows."""
    snapshot = parts.snapshot
    trading = parts.task.trading
    row = window_rows(snapshot.days, spec.span.first, spec.span.last)[0] - 1 + step
    weight = 0.9 * min(trading.max_weight, 1 / trading.max_positions)
    # more orders than positions, since some assets may not be tradable
    members = snapshot.member[row].nonzero()[0][: 2 * trading.max_positions]
    action = tuple(Order(int(asset), "BUY", 0.5, _filler_text(80), weight) for asset in members)

    return parts.bookkeeper(spec).book(
        step, Decision(action, "model", _filler_text(200)), StepCounts().record()
    )


def _filler_text(length: int) -> str:
    return (_REMARK * (length // len(_REMARK) + 1))[:length]


#: minimum number of finished steps, or of answered calls, for observations to replace assumptions
MIN_OBSERVED = 5


@dataclass(frozen=True)
class Scenario:
    """Assumptions about a model for which no calls have been observed.

    The typical duration of eight seconds per call is based on an 18-hour run with three times 548
    days and five calls per day.
    """

    behaviour: AssumedBehaviour  #: behaviour within a step
    bytes_per_token: BytesPerToken  #: bytes per prompt token
    reply_tokens: int | None  #: tokens per reply, including reasoning; None for the maximum allowed
    call_s: float  #: seconds per call

    def rate_of(self, size: StepSize, limits: CallLimits | None) -> StepRate:
        """Return the costs of a step of this size. `limits` is None for a local model, for which
        tokens are not counted.
        """
        if limits is None:
            return StepRate(size.requests, 0, 0, size.seconds)

        return StepRate(
            calls=size.requests,
            input_tokens=size.sent.tokens(self.bytes_per_token),
            output_tokens=size.requests * limits.reply_tokens(self),
            own_s=size.seconds,
        )


ASSUMED: Mapping[str, Scenario] = {
    "low": Scenario(LOW, MIN_TOKENS, reply_tokens=150, call_s=2.0),
    "typical": Scenario(TYPICAL, USUAL_TOKENS, reply_tokens=600, call_s=8.0),
    "high": Scenario(HIGH, MAX_TOKENS, reply_tokens=None, call_s=30.0),
}


@dataclass(frozen=True)
class StepRate:
    """Costs of one step: model calls, total tokens, and the seconds that agent, tools and mask take
    in addition to the calls.
    """

    calls: float
    input_tokens: float
    output_tokens: float
    own_s: float
    cache_read_tokens: float = 0.0  #: input tokens read from the provider's prompt cache
    #: input tokens written to the cache, if the cache is used as assumed
    cache_write_tokens: float = 0.0
    unread_tokens: float = 0.0  #: input tokens written to the cache if nothing is ever read from it

    def times(self, steps: int, before: StepRate) -> StepRate:
        """Return the costs of `steps` such steps, plus the costs `before`."""
        return StepRate(
            self.calls * steps + before.calls,
            self.input_tokens * steps + before.input_tokens,
            self.output_tokens * steps + before.output_tokens,
            self.own_s * steps + before.own_s,
            self.cache_read_tokens * steps + before.cache_read_tokens,
            self.cache_write_tokens * steps + before.cache_write_tokens,
            self.unread_tokens * steps + before.unread_tokens,
        )


NOTHING = StepRate(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class CallLimits:
    """Limits and observations for model calls: maximum reply tokens, maximum time, and latencies of
    answered calls.
    """

    max_output_tokens: int
    timeout_s: float
    latencies_s: Sequence[float] = ()
    #: None if prompts are not cached, or if it is unknown whether they are
    cache_rules: PromptCacheRules | None = None

    def reply_tokens(self, scenario: Scenario) -> int:
        """Return the number of tokens per reply in this scenario."""
        most = self.max_output_tokens
        return most if scenario.reply_tokens is None else min(scenario.reply_tokens, most)

    def call_s(self, scenario: Scenario) -> float:
        """Return the seconds per call: the observed mean or, if too few calls were observed, the
        scenario's assumption.
        """
        if len(self.latencies_s) >= MIN_OBSERVED:
            return statistics.fmean(self.latencies_s)
        return min(scenario.call_s, self.timeout_s)


class FinishedStep(NamedTuple):
    """Recorded step of a run."""

    record: CountsRecord
    entry: TranscriptEntry


def observed_rates(
    assumed: Mapping[str, StepRate], steps: Sequence[FinishedStep], *, are_counted: bool
) -> dict[str, StepRate]:
    """Return the costs of a step by scenario, based on at least `MIN_OBSERVED` finished steps: the
    mean, and the 10th and 90th percentiles.

    Unless `are_counted`, which means that a provider counted the tokens of every reply, token
    figures stay as assumed.
    """
    calls = _describe_spread([len(step.entry.exchanges) for step in steps])
    tokens_in = _describe_spread([step.record.input_tokens for step in steps])
    tokens_out = _describe_spread([step.record.output_tokens for step in steps])
    rates: dict[str, StepRate] = {}
    for name, rate in assumed.items():
        observed = replace(rate, calls=calls[name])
        if are_counted:
            observed = replace(
                _with_observed_cache(observed, tokens_in[name], steps),
                input_tokens=tokens_in[name],
                output_tokens=tokens_out[name],
            )

        rates[name] = observed

    return rates


def _with_observed_cache(
    rate: StepRate, input_tokens: float, steps: Sequence[FinishedStep]
) -> StepRate:
    """Return costs in which cached tokens have the share of the input that the provider
    reported.
    """
    whole = sum(step.record.input_tokens for step in steps)
    if not whole or not rate.input_tokens:
        return rate

    scale = input_tokens / whole
    return replace(
        rate,
        cache_read_tokens=scale * sum(step.record.cache_read_tokens for step in steps),
        cache_write_tokens=scale * sum(step.record.cache_write_tokens for step in steps),
        unread_tokens=rate.unread_tokens / rate.input_tokens * input_tokens,
    )


def _describe_spread(values: Sequence[float]) -> dict[str, float]:
    """Return the mean, with the 10th and 90th percentiles as low and high. If the values are so
    skewed that the mean lies outside this range, the range is widened to include it.
    """
    tenths = statistics.quantiles(values, n=10, method="inclusive")
    mean = statistics.fmean(values)
    return {"low": min(tenths[0], mean), "typical": mean, "high": max(tenths[-1], mean)}
