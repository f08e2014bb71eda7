"""How large a step's conversation is, without any model: the real task, mask, tools and agent, and replies made up to measure.

From that, or from finished steps, follows what one step of a run takes.
"""

from __future__ import annotations

import base64
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ktdeval.contracts.scoring import is_scoring
from ktdeval.contracts.spec import EpisodeSpec
from ktdeval.contracts.task import Task
from ktdeval.harness.agent import Decision, StepCounts
from ktdeval.harness.messages import ModelRequest, Reply, ToolCall, ToolSpec
from ktdeval.harness.reading import shown_state, table_rows
from ktdeval.harness.session import TranscriptEntry
from ktdeval.jsonio import JsonValue, dumps_canonical
from ktdeval.market.calendar import window_rows
from ktdeval.plugin_import import call_foreign
from ktdeval.runner.episode import EpisodeParts, TradingEpisode
from ktdeval.runner.execute import EpisodeFactory
from ktdeval.runner.journal import Entry, JournalEntry
from ktdeval.trading.ledger import CountsRecord, StepRecord
from ktdeval.trading.types import Order

_VECTOR = base64.b64encode(b"\0\0\x80\x3f" + bytes(4 * 255)).decode()  # a 1 and 255 zeros
_REMARK = "A remark that stands for what a model writes beside its calls. "


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a model is taken to go through a step."""

    #: share of the task's research calls that it makes; between 0 and 1, a scoring task's `usual_tool_calls` are made instead,
    #: where it has them
    research_share: float
    calls_a_turn: int  #: research calls in one reply
    remark_bytes: int  #: length of the text beside its calls, which later requests send again
    valid: bool = True  #: whether its first submission is valid; otherwise that of its last attempt is


LOW = Behaviour(research_share=0.0, calls_a_turn=1, remark_bytes=100)
TYPICAL = Behaviour(research_share=0.5, calls_a_turn=2, remark_bytes=400)
HIGH = Behaviour(research_share=1.0, calls_a_turn=1, remark_bytes=1600, valid=False)


@dataclass(frozen=True, slots=True)
class StepSize:
    """One step, as sent: every request holds the whole conversation before it."""

    requests: int  #: how often the model was asked
    prose_bytes: int  #: UTF-8 bytes of system prompts and tool descriptions, over all requests
    data_bytes: int  #: UTF-8 bytes of all other messages, over all requests
    seconds: float  #: what agent, tools and mask took
    failed_calls: int  #: research calls that were answered with an error, since their arguments could only be guessed


class MeasuringModel:
    """Model that asks for tools and submits by a `Behaviour`, whatever it receives, and adds up the sizes of its requests.
    Arguments come from the schemas alone, so a tool that needs a stock's handle is left out; the others stand for it.
    """

    def __init__(self, behaviour: Behaviour, research_calls: int, attempts: int = 1) -> None:
        self._behaviour = behaviour
        self._attempts = 1 if behaviour.valid else attempts
        self._submissions = 0
        self._left = research_calls
        self._number = 0
        self.requests = self.prose_bytes = self.data_bytes = 0

    def reply(self, request: ModelRequest) -> Reply:
        """Count one request and answer it."""
        self.requests += 1
        for message in request.messages:
            texts = [message.content, *(text for call in message.tool_calls for text in (call.name, call.arguments))]
            size = len("".join(texts).encode())
            if message.role == "system":
                self.prose_bytes += size
            else:
                self.data_bytes += size
        descriptions = (dumps_canonical([spec.name, spec.description, spec.parameters]) for spec in request.tools)
        self.prose_bytes += sum(len(text.encode()) for text in descriptions)
        if request.response_schema is not None:
            valid = self._behaviour.valid
            return Reply(dumps_canonical(self._answer(request.response_schema, request) if valid else {}))
        forced = next((spec for spec in request.tools if spec.name == request.tool_choice), None)
        calls: tuple[ToolCall, ...]
        if forced is not None:
            self._submissions += 1
            valid = self._submissions % self._attempts == 0
            calls = (self._call(forced.name, self._answer(forced.parameters, request) if valid else {}),)
        else:
            calls = tuple(self._research(request.tools))
        return Reply(_text(self._behaviour.remark_bytes), calls, "tool_calls" if calls else "stop")

    def recorded_vectors(self, texts: Sequence[str]) -> list[str]:
        """Return a vector for each text, so that no service is asked for a plan."""
        return [_VECTOR] * len(texts)

    def _answer(self, schema: Mapping[str, JsonValue], request: ModelRequest) -> JsonValue:
        answer = example(schema, _text(200))
        if "decisions" in schema.get("properties", ()):  # one for each asset shown
            decision = example(schema["properties"]["decisions"]["items"], _text(80))
            prompts = [message.content for message in reversed(request.messages) if message.role == "user"]
            candidates = next(filter(None, (table_rows(shown_state(prompt).get("candidates")) for prompt in prompts)), [])
            answer = {**answer, "decisions": [{**decision, "stock_id": row["stock_id"]} for row in candidates]}
        return answer

    def _research(self, tools: tuple[ToolSpec, ...]) -> Iterator[ToolCall]:
        offered = [(spec.name, arguments) for spec in tools if (arguments := example(spec.parameters)) is not None]
        offered = offered or [(spec.name, {}) for spec in tools]
        for _ in range(min(self._behaviour.calls_a_turn, self._left) if offered else 0):
            self._left -= 1
            name, arguments = offered[self._number % len(offered)]
            yield self._call(name, arguments)

    def _call(self, name: str, arguments: JsonValue) -> ToolCall:
        self._number += 1
        return ToolCall(f"call_{self._number}", name, dumps_canonical(arguments))


def example(schema: Mapping[str, JsonValue], text: str | None = None) -> JsonValue:
    """Return the smallest value that a JSON Schema allows; None where a text is required and there is none to write."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        if schema.get("minProperties", 0):
            return None
        parts = {name: schema["properties"][name] for name in schema.get("required", ())}
        members = {name: example(part, text) for name, part in parts.items()}
        return None if any(members[name] is None and not _may_be_null(part) for name, part in parts.items()) else members
    if kind == "array":
        items = [example(schema.get("items", {}), text) for _ in range(schema.get("minItems", 0))]
        return None if None in items else items
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    if _may_be_null(schema):
        return None
    return False if kind == "boolean" else text


def _may_be_null(schema: Mapping[str, JsonValue]) -> bool:
    return "null" in schema["type"] if isinstance(schema.get("type"), list) else False


def measure_step(spec: EpisodeSpec, task: Task, factory: EpisodeFactory, behaviour: Behaviour) -> StepSize:
    """Size of one step of an episode: its second, with as many positions as the task allows, or (without research) its first, in
    both cases without a warm-up.
    """
    research_calls, attempts = _research_calls(task, behaviour), 1 + task.harness.schema_retries
    first = MeasuringModel(behaviour, research_calls, attempts)
    whole = replace(spec, limit=None)
    episode = factory.open(whole, first)
    if isinstance(episode, TradingEpisode):
        episode.has_warm_up = False
    began = time.perf_counter()
    entry = episode.run_step(0)
    if behaviour.research_share == 0 or episode.total_steps == 1 or is_scoring(task):
        return _size(first, entry, time.perf_counter() - began)
    second = MeasuringModel(behaviour, research_calls, attempts)  # holding what the model may never be shown
    later = factory.open(whole, second)
    invested = _with_positions(spec, factory.trading_parts(spec, second))
    bought: Entry = JournalEntry[Any](step=invested, transcript=entry.transcript, memory=entry.memory)
    later.resume([bought])
    began = time.perf_counter()
    entry = later.run_step(1)
    return _size(second, entry, time.perf_counter() - began)


def measure_warm_up(spec: EpisodeSpec, factory: EpisodeFactory, step: StepSize) -> StepSize:
    """Size of what comes before the first step of an episode: the lessons of its task, if it has some and its agent learns. `step`
    is the first step without them, as measured for `LOW`.
    """
    model = MeasuringModel(LOW, 0)
    episode = factory.open(spec, model)
    if not isinstance(episode, TradingEpisode) or not episode.has_warm_up:
        return StepSize(0, 0, 0, 0.0, 0)
    began = time.perf_counter()
    whole = _size(model, episode.run_step(0), time.perf_counter() - began)
    return StepSize(
        whole.requests - step.requests,
        whole.prose_bytes - step.prose_bytes,
        max(0, whole.data_bytes - step.data_bytes),
        max(0.0, whole.seconds - step.seconds),
        0,
    )


def _research_calls(task: Any, behaviour: Behaviour) -> int:
    usual: int | None = getattr(task, "usual_tool_calls", None)
    if usual is not None and 0 < behaviour.research_share < 1:
        return usual
    most: int = task.harness.max_tool_calls
    return round(behaviour.research_share * most)


def _size(model: MeasuringModel, entry: Entry, seconds: float) -> StepSize:
    failed = entry.step.tool_calls - entry.step.tool_calls_valid
    return StepSize(model.requests, model.prose_bytes, model.data_bytes, seconds, failed)


def _with_positions(spec: EpisodeSpec, parts: EpisodeParts) -> StepRecord:
    snapshot, trading = parts.snapshot, parts.task.trading
    row = window_rows(snapshot.days, spec.span.first, spec.span.last)[0] - 1
    weight = 0.9 * min(trading.max_weight, 1 / trading.max_positions)
    members = snapshot.member[row].nonzero()[0][: 2 * trading.max_positions]  # some may not trade
    action = tuple(Order(int(asset), "BUY", 0.5, _text(80), weight) for asset in members)
    return parts.bookkeeper(spec).book(0, Decision(action, "model", _text(200)), StepCounts().record())


def _text(length: int) -> str:
    return (_REMARK * (length // len(_REMARK) + 1))[:length]


LEAST_OBSERVED = 5  #: Finished steps, or answered calls, from which on their own figures replace assumptions


@dataclass(frozen=True)
class Scenario:
    """Assumptions about a model without any observed call. Bytes a token were measured with the tokenizers cl100k_base and
    o200k_base on conversations of the built-in tasks: 3.9 in system prompts, 3.5 in tool descriptions, 1.9 to 2.7 in tables of
    figures, and 1.4 to 2.0 in these where each digit is a token of its own. Eight seconds a call are what an 18-hour run over three
    times 548 days leaves for each of five calls a day.
    """

    behaviour: Behaviour  #: how it goes through a step
    prose_bytes: float  #: UTF-8 bytes a token of system prompts and tool descriptions
    data_bytes: float  #: UTF-8 bytes a token of all other messages
    reply_tokens: int | None  #: tokens of a reply, reasoning included; None: as many as are allowed
    call_s: float  #: seconds of a call


ASSUMED: Mapping[str, Scenario] = {
    "low": Scenario(LOW, prose_bytes=4.2, data_bytes=2.7, reply_tokens=150, call_s=2.0),
    "typical": Scenario(TYPICAL, prose_bytes=3.7, data_bytes=2.3, reply_tokens=600, call_s=8.0),
    "high": Scenario(HIGH, prose_bytes=3.3, data_bytes=1.5, reply_tokens=None, call_s=30.0),
}


@dataclass(frozen=True)
class StepRate:
    """Costs of one step: model calls, tokens of all of them together, seconds."""

    calls: float
    input_tokens: float
    output_tokens: float
    seconds: float


@dataclass(frozen=True)
class CallLimits:
    """Bounds of a model call: its longest reply in tokens, its longest time, and how long calls took that were answered."""

    max_output_tokens: int
    timeout_s: float
    latencies_s: Sequence[float] = ()

    def reply_tokens(self, scenario: Scenario) -> int:
        """Tokens of a reply in this scenario."""
        most = self.max_output_tokens
        return most if scenario.reply_tokens is None else min(scenario.reply_tokens, most)

    def call_s(self, scenario: Scenario) -> float:
        """Seconds of a call: as observed, else as assumed in this scenario."""
        if len(self.latencies_s) >= LEAST_OBSERVED:
            return statistics.fmean(self.latencies_s)
        return min(scenario.call_s, self.timeout_s)


def measure_scenarios(spec: EpisodeSpec, task: Task, factory: EpisodeFactory) -> dict[str, StepSize]:
    """Measure a step of one episode by scenario. Raises PluginError: task, agent or tool fail at it."""
    where = f"task {spec.task}, agent {spec.agent}: a step can't be measured"
    behaviours = {name: scenario.behaviour for name, scenario in ASSUMED.items()}
    return {name: call_foreign(measure_step, where, spec, task, factory, one) for name, one in behaviours.items()}


def assumed_rates(sizes: Mapping[str, StepSize], limits: CallLimits | None) -> dict[str, StepRate]:
    """Costs of a step by the assumptions of each scenario; without limits: a model of this machine, which answers at once."""
    rates = {}
    for name, scenario in ASSUMED.items():
        size = sizes[name]
        if limits is None:
            rates[name] = StepRate(size.requests, 0, 0, size.seconds)
            continue
        rates[name] = StepRate(
            calls=size.requests,
            input_tokens=size.prose_bytes / scenario.prose_bytes + size.data_bytes / scenario.data_bytes,
            output_tokens=size.requests * limits.reply_tokens(scenario),
            seconds=size.requests * limits.call_s(scenario) + size.seconds,
        )
    return rates


def observed_rates(
    steps: Sequence[CountsRecord], transcript: Sequence[TranscriptEntry], sizes: Mapping[str, StepSize], limits: CallLimits | None
) -> dict[str, StepRate]:
    """Costs of a step as finished ones had (at least `LEAST_OBSERVED`): mean, tenth and ninetieth percentiles."""
    calls = _spread([len(entry.exchanges) for entry in transcript])
    tokens_in, tokens_out = (_spread([getattr(record, name) for record in steps]) for name in ("input_tokens", "output_tokens"))
    return {
        name: StepRate(
            calls=calls[name],
            input_tokens=tokens_in[name],
            output_tokens=tokens_out[name],
            seconds=sizes[name].seconds + (0.0 if limits is None else calls[name] * limits.call_s(scenario)),
        )
        for name, scenario in ASSUMED.items()
    }


def with_assumed_tokens(observed: Mapping[str, StepRate], assumed: Mapping[str, StepRate]) -> dict[str, StepRate]:
    """Return observed rates with the tokens that are assumed, where a provider did not count those of every reply."""
    return {
        name: replace(rate, input_tokens=assumed[name].input_tokens, output_tokens=assumed[name].output_tokens)
        for name, rate in observed.items()
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    """Mean with the tenth and ninetieth percentiles, widened to include it where the values are skewed."""
    tenths, mean = statistics.quantiles(values, n=10, method="inclusive"), statistics.fmean(values)
    return {"low": min(tenths[0], mean), "typical": mean, "high": max(tenths[-1], mean)}
