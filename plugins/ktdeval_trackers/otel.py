"""Runs as traces of OpenTelemetry: `ktdeval run … --plugin ktdeval_trackers.otel`.

One trace a run: run > episode (`invoke_agent`) > step > call (`chat`), with the attributes of the
semantic conventions for generative AI, and their metrics of tokens and durations. Spans go to the
provider that is set up already, or by OTLP to `OTEL_EXPORTER_OTLP_ENDPOINT`. Messages leave only
where `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is `true`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ktdeval
from ktdeval.harness import Message, Reply
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
from ktdeval_trackers.run_facts import CACHED, missing

try:
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode
except ImportError as error:
    raise missing("the SDK of OpenTelemetry", "otel") from error

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Variable that lets messages leave, as of OpenTelemetry's own instrumentations."""
_TIMEOUT = "OTEL_EXPORTER_OTLP_TIMEOUT"
_TIMEOUT_S = 3.0  #: longest wait for a collector where `OTEL_EXPORTER_OTLP_TIMEOUT` is not set
_TOKEN_BUCKETS = tuple(float(4**power) for power in range(14))  #: as the conventions say
_SECOND_BUCKETS = tuple(0.01 * 2**power for power in range(14))  #: as the conventions say

#: Providers as the conventions name them, where ktdeval's name differs
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


class OtelTracker:
    """Makes spans of events. `tracer` and `meter` are looked up when a run starts, unless given."""

    def __init__(
        self, tracer: Any = None, meter: Any = None, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._given = (tracer, meter)
        self._clock = clock
        self._tracer: Any = None
        self._tokens: Any = None
        self._durations: Any = None
        self._providers: list[Any] = []  # that were set up here
        self._run: Span | None = None
        self._episodes: dict[str, _EpisodeSpans] = {}

    def ktdeval_event(self, event: object) -> None:
        """Make spans of one event; those outside of a run are ignored."""
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
        tracer, meter = self._given
        if tracer is None:
            tracer = self._own_tracer()
            meter = self._own_meter()

        self._tracer = tracer
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
        )
        self._durations = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECOND_BUCKETS,
        )
        self._episodes = {}
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
        """Return the tracer of the provider that is set up, or of one that exports by OTLP."""
        provider: Any = trace.get_tracer_provider()
        if not isinstance(provider, TracerProvider):
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - not where a provider is set up
                OTLPSpanExporter,
            )

            provider = TracerProvider(resource=_resource())
            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=_timeout_s())))
            self._providers.append(provider)

        return provider.get_tracer("ktdeval", ktdeval.__version__)

    def _own_meter(self) -> Any:
        """Return the meter of the provider that is set up, or of one that exports by OTLP."""
        provider: Any = metrics.get_meter_provider()
        if not isinstance(provider, MeterProvider):
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - as above
                OTLPMetricExporter,
            )

            reader = PeriodicExportingMetricReader(OTLPMetricExporter(timeout=_timeout_s()))
            provider = MeterProvider(resource=_resource(), metric_readers=[reader])
            self._providers.append(provider)

        return provider.get_meter("ktdeval", ktdeval.__version__)

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
        """Make the span of an attempt, which began before its event."""
        spans = self._episodes.get(event.spec.id)
        parent = self._run if spans is None else spans.step or spans.episode
        end = self._clock()
        names = _model_attributes(event.model)
        attributes = {
            "gen_ai.operation.name": "chat",
            "ktdeval.call_attempt": event.attempt,
            "ktdeval.call_outcome": event.outcome,
            "gen_ai.request.temperature": event.request.params.temperature,
            "gen_ai.request.max_tokens": event.request.params.max_output_tokens,
            **names,
            **_reply_attributes(event.reply),
        }
        if event.cost_usd is not None:
            attributes["ktdeval.call_cost_usd"] = event.cost_usd
        if event.reply is None:
            attributes["error.type"] = event.outcome
        if os.environ.get(CAPTURE, "").lower() == "true":
            attributes |= _content(event)

        span = self._tracer.start_span(
            f"chat {names['gen_ai.request.model']}",
            context=trace.set_span_in_context(parent) if parent else None,
            kind=SpanKind.CLIENT,
            attributes=attributes,
            start_time=end - round(event.latency_s * 1e9),
        )
        if event.reply is None:
            span.set_status(Status(StatusCode.ERROR, event.outcome))

        span.end(end)
        if event.outcome != CACHED:
            self._measure(event, names)

    def _measure(self, event: CallFinished, names: dict[str, str]) -> None:
        attributes = {"gen_ai.operation.name": "chat", **names}
        if event.reply is None:
            self._durations.record(event.latency_s, attributes | {"error.type": event.outcome})
            return

        self._durations.record(event.latency_s, attributes)
        usage = event.reply.usage
        for kind, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            self._tokens.record(tokens, attributes | {"gen_ai.token.type": kind})

    def _end_episode(self, spec: EpisodeSpec, error: str) -> None:
        spans = self._episodes.pop(spec.id, None)
        if spans is None:  # it was finished before this run
            return

        for span in (spans.step, spans.episode):
            if span is not None:
                if error:
                    span.set_status(Status(StatusCode.ERROR, error))

                span.end(self._clock())

    def _finish(self, event: RunFinished) -> None:
        for spans in self._episodes.values():  # an interrupt left them open
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


def _timeout_s() -> float | None:
    """Return the longest wait for a collector: a short one, so that a run without a collector ends
    soon. None leaves it to the exporter, which reads the variable.
    """
    return None if _TIMEOUT in os.environ else _TIMEOUT_S


def _resource() -> Resource:
    """Return what the spans are of: `OTEL_SERVICE_NAME`, or ktdeval."""
    name = os.environ.get("OTEL_SERVICE_NAME", "ktdeval")
    return Resource.create({"service.name": name, "service.version": ktdeval.__version__})


def _model_attributes(name: str) -> dict[str, str]:
    """Return provider and model of a full name, PROVIDER/NAME."""
    provider, _, model = name.partition("/")
    return {
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": model or name,
    }


def _reply_attributes(reply: Reply | None) -> dict[str, Any]:
    if reply is None:
        return {}

    attributes: dict[str, Any] = {
        "gen_ai.response.finish_reasons": (reply.finish_reason,),
        "gen_ai.usage.input_tokens": reply.usage.input_tokens,
        "gen_ai.usage.output_tokens": reply.usage.output_tokens,
    }
    if reply.served_by:
        attributes["gen_ai.response.model"] = reply.served_by

    return attributes


def _content(event: CallFinished) -> dict[str, str]:
    """Return the messages of a call in the form of the conventions."""
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
    """Make spans of the events of a run."""
    _TRACKER.ktdeval_event(event)
