"""Runs as OpenTelemetry traces: `ktdeval run … --plugin ktdeval_trackers.otel`.

Each run is one trace: run > episode (`invoke_agent`) > step > call (`chat`) and tool
(`execute_tool`). Names follow the semantic conventions for generative AI, in the version given by
`SCHEMA_URL`. The conventions' metrics for tokens and durations are recorded, too, and each figure
on a card or in its episodes becomes a `gen_ai.evaluation.result` event. Everything goes to the
providers that are already set up, or by OTLP to `OTEL_EXPORTER_OTLP_ENDPOINT`. Messages, and the
arguments and results of tools, are sent only if
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is `true`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ktdeval
from ktdeval.harness import Message, Reply, ToolCall
from ktdeval.hookspecs import hookimpl
from ktdeval.task_api import (
    CallFinished,
    EpisodeFailed,
    EpisodeFinished,
    EpisodeSpec,
    EpisodeStarted,
    RunFinished,
    RunStarted,
    SampleFinished,
    StepFinished,
)
from ktdeval.values import JsonValue
from ktdeval_trackers.run_facts import (
    CACHED,
    card_figures,
    cards_of,
    episode_figures,
    missing,
)

try:
    from opentelemetry import _logs, metrics, trace
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode
except ImportError as error:
    raise missing(error, "opentelemetry.sdk", "otel") from error

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Variable that allows messages to be sent, as in OpenTelemetry's own instrumentations."""
SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"
"""Version of the conventions, as stated in `model/manifest.yaml` of their repository."""
_TIMEOUT = "OTEL_EXPORTER_OTLP_TIMEOUT"
_TIMEOUT_S = 3.0  #: maximum wait for a collector if `OTEL_EXPORTER_OTLP_TIMEOUT` is not set
#: histogram buckets, as in the conventions
_SECOND_BUCKETS = tuple(0.01 * 2**power for power in range(14))

#: Counts in `Usage`, under their names in the conventions
_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read.input_tokens",
    "cache_write_tokens": "cache_write.input_tokens",
    "reasoning_tokens": "reasoning.output_tokens",
}
#: Names of providers in the conventions, if they differ from ktdeval's names
_PROVIDERS = {
    "google": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}


@dataclass
class _EpisodeSpans:
    """Open spans of an episode."""

    episode: Span
    step: Span | None = None  #: None after the last step
    #: tool calls that have no result yet, each with the time of the reply that made it
    tools: dict[str, tuple[ToolCall, int]] = field(default_factory=dict)


class OtelTracker:
    """Turns events into spans. `given`: tracer, meter and logger; if they are not given, they are
    looked up when a run starts.
    """

    def __init__(
        self, given: tuple[Any, Any, Any] | None = None, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._given = given
        self._clock = clock
        self._tracer: Any = None
        self._logger: Any = None
        self._tokens: dict[str, Any] = {}
        self._durations: Any = None
        self._providers: list[Any] = []  # providers that were set up here
        self._run: Span | None = None
        self._episodes: dict[str, _EpisodeSpans] = {}
        #: spans of finished episodes, to which figures are attached
        self._ended: dict[str, Span] = {}

    def ktdeval_event(self, event: object) -> None:
        """Make the spans for one event. Events outside a run are ignored."""
        if isinstance(event, RunStarted):
            self._start(event)
        elif self._run is None:
            return

        match event:
            case EpisodeStarted():
                self._start_episode(event)
            case CallFinished():
                self._call(event)
            case StepFinished() | SampleFinished():
                self._end_step(event)
            case EpisodeFinished():
                self._end_episode(event.spec, "")
            case EpisodeFailed():
                self._end_episode(event.spec, event.error)
            case RunFinished():
                self._finish(event)

    def _start(self, event: RunStarted) -> None:
        tracer, meter, self._logger = self._given or (
            self._own_tracer(),
            self._own_meter(),
            self._own_logger(),
        )
        self._tracer = tracer
        for count, name in _COUNTS.items():
            self._tokens[count] = meter.create_counter(
                f"gen_ai.client.inference.usage.{name}", unit="{token}"
            )

        self._durations = meter.create_histogram(
            "gen_ai.client.inference.duration",
            unit="s",
            description="Duration of model calls.",
            explicit_bucket_boundaries_advisory=_SECOND_BUCKETS,
        )
        self._episodes = {}
        self._ended = {}
        self._run = tracer.start_span(
            "ktdeval run",
            attributes={
                "ktdeval.run_id": event.id,
                "ktdeval.run_name": Path(event.folder).name,
                "ktdeval.run_episodes": len(event.specs),
                "ktdeval.version": ktdeval.__version__,
            },
            start_time=self._clock(),
        )

    def _own_tracer(self) -> Any:
        """Return a tracer from the provider that is set up. If none is, return one from a provider
        that exports by OTLP.
        """
        provider: Any = trace.get_tracer_provider()
        if not isinstance(provider, TracerProvider):
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - not where a provider is set up
                OTLPSpanExporter,
            )

            provider = TracerProvider(resource=_resource())
            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=_timeout_s())))
            self._providers.append(provider)

        return provider.get_tracer("ktdeval", ktdeval.__version__, schema_url=SCHEMA_URL)

    def _own_meter(self) -> Any:
        """Return a meter from the provider that is set up. If none is, return one from a provider
        that exports by OTLP.
        """
        provider: Any = metrics.get_meter_provider()
        if not isinstance(provider, MeterProvider):
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - as above
                OTLPMetricExporter,
            )

            reader = PeriodicExportingMetricReader(OTLPMetricExporter(timeout=_timeout_s()))
            provider = MeterProvider(resource=_resource(), metric_readers=[reader])
            self._providers.append(provider)

        return provider.get_meter("ktdeval", ktdeval.__version__, schema_url=SCHEMA_URL)

    def _own_logger(self) -> Any:
        """Return a logger from the provider that is set up. If none is, return one from a provider
        that exports by OTLP.
        """
        provider: Any = _logs.get_logger_provider()
        if not isinstance(provider, LoggerProvider):
            from opentelemetry.exporter.otlp.proto.http._log_exporter import (  # noqa: PLC0415 - as above
                OTLPLogExporter,
            )

            provider = LoggerProvider(resource=_resource())
            exporter = OTLPLogExporter(timeout=_timeout_s())
            provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
            self._providers.append(provider)

        return provider.get_logger("ktdeval", ktdeval.__version__, schema_url=SCHEMA_URL)

    def _start_episode(self, event: EpisodeStarted) -> None:
        spec = event.spec
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": spec.agent,
            "ktdeval.episode_id": spec.id,
            "ktdeval.task": spec.task,
            "ktdeval.seed": spec.seed,
            "ktdeval.steps": event.total_steps,
            "ktdeval.steps_recorded": event.done_steps,
            **_model_attributes(spec.model),
        }
        if spec.window_name is not None:
            attributes["ktdeval.window"] = spec.window_name

        episode = self._tracer.start_span(
            f"invoke_agent {spec.agent}",
            context=trace.set_span_in_context(self._run) if self._run else None,
            kind=SpanKind.INTERNAL,
            attributes=attributes,
            start_time=self._clock(),
        )
        self._episodes[spec.id] = _EpisodeSpans(episode)
        if event.done_steps < event.total_steps:
            self._start_step(spec, event.done_steps)

    def _start_step(self, spec: EpisodeSpec, step: int) -> None:
        spans = self._episodes[spec.id]
        spans.step = self._tracer.start_span(
            "step",
            context=trace.set_span_in_context(spans.episode),
            attributes={"ktdeval.step": step},
            start_time=self._clock(),
        )

    def _end_step(self, event: StepFinished | SampleFinished) -> None:
        spans = self._episodes.get(event.spec.id)
        if spans is None or spans.step is None:
            return

        span = spans.step
        self._end_tools(spans, self._clock())
        span.set_attribute("ktdeval.provenance", event.provenance)
        span.set_attribute("ktdeval.tokens", event.tokens)
        if isinstance(event, StepFinished):
            span.set_attribute("ktdeval.nav", event.nav)
            span.set_attribute("ktdeval.currency", event.currency)
            span.set_attribute("ktdeval.orders", event.orders)
            span.set_attribute("ktdeval.rejections", event.rejections)

        if event.provenance == "error":
            span.set_status(Status(StatusCode.ERROR, "the model call failed"))

        span.end(self._clock())
        spans.step = None
        if event.step + 1 < event.total_steps:
            self._start_step(event.spec, event.step + 1)

    def _call(self, event: CallFinished) -> None:
        """Make the span for an attempt, which began before its event."""
        spans = self._episodes.get(event.spec.id)
        parent = self._run if spans is None else spans.step or spans.episode
        end = self._clock()
        start = end - round(event.latency_s * 1e9)
        if spans is not None:
            self._end_tools(spans, start, event.request.messages)
        names = _model_attributes(event.model)
        attributes = {
            "gen_ai.operation.name": "chat",
            "ktdeval.call_attempt": event.attempt,
            "ktdeval.call_outcome": event.outcome,
            **names,
            **_reply_attributes(event.reply),
        }
        params = event.request.params
        if params.temperature is not None:
            attributes["gen_ai.request.temperature"] = params.temperature
        if params.max_output_tokens is not None:
            attributes["gen_ai.request.max_tokens"] = params.max_output_tokens
        if event.cost_usd is not None:
            attributes["ktdeval.call_cost_usd"] = event.cost_usd
        if event.reply is None:
            attributes["error.type"] = event.outcome
        if _captures():
            attributes |= _content(event)

        span = self._tracer.start_span(
            f"chat {names['gen_ai.request.model']}",
            context=trace.set_span_in_context(parent) if parent else None,
            kind=SpanKind.CLIENT,
            attributes=attributes,
            start_time=start,
        )
        if event.reply is None:
            span.set_status(Status(StatusCode.ERROR, event.outcome))
        elif spans is not None:
            spans.tools = {call.id: (call, end) for call in event.reply.tool_calls}

        span.end(end)
        if event.outcome != CACHED:
            self._measure(event, names)

    def _end_tools(self, spans: _EpisodeSpans, end: int, messages: Sequence[Message] = ()) -> None:
        """Make spans for the tools that the last reply called. Each tool ran at some time between
        that reply and the next request, or the end of the step.
        """
        results = {message.tool_call_id: message.content for message in messages}
        for call, start in spans.tools.values():
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.name,
                "gen_ai.tool.call.id": call.id,
                "gen_ai.tool.type": "function",
            }
            if _captures():
                attributes["gen_ai.tool.call.arguments"] = call.arguments
                attributes["gen_ai.tool.call.result"] = results.get(call.id, "")

            span = self._tracer.start_span(
                f"execute_tool {call.name}",
                context=trace.set_span_in_context(spans.step or spans.episode),
                kind=SpanKind.INTERNAL,
                attributes=attributes,
                start_time=start,
            )
            span.end(max(start, end))

        spans.tools = {}

    def _measure(self, event: CallFinished, names: dict[str, str]) -> None:
        attributes = {"gen_ai.operation.name": "chat", **names}
        if event.reply is None:
            self._durations.record(event.latency_s, attributes | {"error.type": event.outcome})
            return

        self._durations.record(event.latency_s, attributes)
        attributes["gen_ai.token.modality"] = "text"
        for count, tokens in event.reply.usage.to_json().items():
            if tokens:
                self._tokens[count].add(tokens, attributes)

    def _evaluate(self, paths: Sequence[str]) -> None:
        """Make an event for each figure on the cards and in their episodes."""
        for card in cards_of(paths):
            self._log_figures(self._run, card_figures(card))
            for episode, figures in episode_figures(card):
                named = {f"{card.task.name}/{name}": value for name, value in figures.items()}
                self._log_figures(self._ended.get(episode), named)

    def _log_figures(self, span: Span | None, figures: Mapping[str, float]) -> None:
        context = None if span is None else trace.set_span_in_context(span)
        for name, value in figures.items():
            self._logger.emit(
                timestamp=self._clock(),
                context=context,
                event_name="gen_ai.evaluation.result",
                attributes={"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": value},
            )

    def _end_episode(self, spec: EpisodeSpec, error: str) -> None:
        spans = self._episodes.pop(spec.id, None)
        if spans is None:  # the episode was finished before this run
            return

        self._ended[spec.id] = spans.episode
        for span in (spans.step, spans.episode):
            if span is not None:
                if error:
                    span.set_status(Status(StatusCode.ERROR, error))

                span.end(self._clock())

    def _finish(self, event: RunFinished) -> None:
        self._evaluate(event.cards)
        for spans in self._episodes.values():  # an interrupt left these open
            for span in (spans.step, spans.episode):
                if span is not None:
                    span.end(self._clock())

        if self._run is not None:
            self._run.set_attribute("ktdeval.run_state", event.state)
            self._run.set_attribute("ktdeval.run_unfinished", event.unfinished)
            if event.state != "finished":
                self._run.set_status(Status(StatusCode.ERROR, event.state))

            self._run.end(self._clock())

        self._run = None
        self._episodes = {}
        providers, self._providers = self._providers, []
        for provider in providers:
            provider.shutdown()  # sends what is left


def _captures() -> bool:
    """Return whether messages may be sent."""
    return os.environ.get(CAPTURE, "").lower() == "true"


def _timeout_s() -> float | None:
    """Return the maximum wait for a collector. It is short, so that a run without a collector ends
    soon. If it is None, the exporter reads the variable itself.
    """
    return None if _TIMEOUT in os.environ else _TIMEOUT_S


def _resource() -> Resource:
    """Return the resource that the spans describe: `OTEL_SERVICE_NAME`, or ktdeval."""
    name = os.environ.get("OTEL_SERVICE_NAME", "ktdeval")
    return Resource.create({"service.name": name, "service.version": ktdeval.__version__})


def _model_attributes(name: str) -> dict[str, str]:
    """Return provider and model from a full name, PROVIDER/NAME."""
    provider, _, model = name.partition("/")
    return {
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": model or name,
    }


def _reply_attributes(reply: Reply | None) -> dict[str, Any]:
    if reply is None:
        return {}

    attributes: dict[str, Any] = {"gen_ai.response.finish_reasons": (reply.finish_reason,)}
    for count, tokens in reply.usage.to_json().items():
        if tokens or count in ("input_tokens", "output_tokens"):
            attributes[f"gen_ai.usage.{_COUNTS[count]}"] = tokens

    if reply.response_id:
        attributes["gen_ai.response.id"] = reply.response_id
    if reply.served_by:
        attributes["gen_ai.response.model"] = reply.served_by

    return attributes


def _content(event: CallFinished) -> dict[str, str]:
    """Return the messages in a call, in the format of the conventions."""
    sent = [_message(message) for message in event.request.messages]
    content = {"gen_ai.input.messages": json.dumps(sent, ensure_ascii=False)}
    if event.reply is not None:
        reply = event.reply
        answer = _message(reply.as_message())
        answer["finish_reason"] = reply.finish_reason
        content["gen_ai.output.messages"] = json.dumps([answer], ensure_ascii=False)

    return content


def _message(message: Message) -> dict[str, JsonValue]:
    parts: list[JsonValue] = []
    if message.tool_call_id is not None:
        parts.append(
            {
                "type": "tool_call_response",
                "id": message.tool_call_id,
                "response": message.content,
            }
        )
    elif message.content:
        parts.append({"type": "text", "content": message.content})

    for call in message.tool_calls:
        parts.append(
            {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        )

    return {"role": message.role, "parts": parts}


_TRACKER = OtelTracker()


@hookimpl
def ktdeval_event(event: object) -> None:
    """Make the spans for the events in a run."""
    _TRACKER.ktdeval_event(event)
