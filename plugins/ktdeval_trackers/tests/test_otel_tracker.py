"""Traces of runs, by the SDK of OpenTelemetry with its exporter in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tracked_run import BROKEN, DONE, MODEL, PROMPT, REPLY, STEPS, interrupted_run, step, whole_run

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel: pip install '.[otel]'")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

from ktdeval_trackers.otel import CAPTURE, OtelTracker


class Collected:
    """What a tracker exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        meters = MeterProvider(metric_readers=[self.reader])
        self.now = 1_700_000_000_000_000_000
        self.tracker = OtelTracker(provider.get_tracer("t"), meters.get_meter("t"), self.clock)

    def clock(self) -> int:
        self.now += 1_000_000_000
        return self.now

    def track(self, events: Any) -> Collected:
        for event in events:
            self.tracker.ktdeval_event(event)

        return self

    @property
    def spans(self) -> Any:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]

    def points(self, metric: str) -> list[Any]:
        found = []
        data = self.reader.get_metrics_data()
        for resource in data.resource_metrics:
            for scope in resource.scope_metrics:
                for one in scope.metrics:
                    if one.name == metric:
                        found += one.data.data_points

        return found


@pytest.fixture
def collected(tmp_path: Path) -> Collected:
    return Collected().track(whole_run(tmp_path / "my-run"))


def test_a_run_is_one_trace_of_run_episode_step_and_call(collected: Collected) -> None:
    (run,) = collected.named("ktdeval run")
    by_id = {span.context.span_id: span for span in collected.spans}
    levels = set()
    for span in collected.spans:
        path = [span.name]
        while span.parent is not None:
            span = by_id[span.parent.span_id]
            path.append(span.name)

        levels.add(" < ".join(path))

    assert levels == {
        "ktdeval run",
        "invoke_agent react < ktdeval run",
        "step < invoke_agent react < ktdeval run",
        "chat gpt-4.1 < step < invoke_agent react < ktdeval run",
    }
    assert {span.context.trace_id for span in collected.spans} == {run.context.trace_id}
    assert run.attributes["ktdeval.run_state"] == "failed"
    assert run.attributes["ktdeval.run_name"] == "my-run"


def test_calls_have_the_attributes_of_the_conventions(collected: Collected) -> None:
    call = collected.named("chat gpt-4.1")[1]

    assert call.kind.name == "CLIENT"
    assert dict(call.attributes) == {
        gen_ai_attributes.GEN_AI_OPERATION_NAME: "chat",
        gen_ai_attributes.GEN_AI_PROVIDER_NAME: "openai",
        gen_ai_attributes.GEN_AI_REQUEST_MODEL: "gpt-4.1",
        gen_ai_attributes.GEN_AI_REQUEST_TEMPERATURE: 0.3,
        gen_ai_attributes.GEN_AI_REQUEST_MAX_TOKENS: 4096,
        gen_ai_attributes.GEN_AI_RESPONSE_MODEL: "gpt-4.1-2025-04-14",
        gen_ai_attributes.GEN_AI_RESPONSE_FINISH_REASONS: ("tool_calls",),
        gen_ai_attributes.GEN_AI_USAGE_INPUT_TOKENS: 100,
        gen_ai_attributes.GEN_AI_USAGE_OUTPUT_TOKENS: 20,
        "ktdeval.call_attempt": 1,
        "ktdeval.call_outcome": "answered",
        "ktdeval.call_cost_usd": 0.25,
    }
    assert call.end_time - call.start_time == 500_000_000


def test_a_step_spans_its_calls_and_has_the_nav(collected: Collected) -> None:
    steps = [span for span in collected.named("step") if "ktdeval.nav" in span.attributes]

    assert [span.attributes["ktdeval.nav"] for span in steps] == [
        step(number).nav for number in range(STEPS)
    ]
    assert all(span.start_time < span.end_time for span in steps)


def test_a_failed_call_and_its_episode_are_errors(collected: Collected) -> None:
    failed = collected.named("chat gpt-4.1")[-1]
    episodes = {
        span.attributes["ktdeval.episode_id"]: span
        for span in collected.named("invoke_agent react")
    }

    assert failed.attributes["error.type"] == "rate_limited"
    assert failed.status.status_code.name == "ERROR"
    assert episodes[BROKEN.id].status.description == "the model call failed"
    assert episodes[DONE.id].status.status_code.name == "UNSET"


def test_tokens_and_durations_are_metrics_and_kept_replies_are_not_counted(
    collected: Collected,
) -> None:
    tokens = {
        point.attributes[gen_ai_attributes.GEN_AI_TOKEN_TYPE]: point.sum
        for point in collected.points(gen_ai_metrics.GEN_AI_CLIENT_TOKEN_USAGE)
    }
    durations = collected.points(gen_ai_metrics.GEN_AI_CLIENT_OPERATION_DURATION)

    assert tokens == {"input": 100 * (STEPS - 1), "output": 20 * (STEPS - 1)}
    assert sum(point.count for point in durations) == STEPS, "four answered, one failed"
    assert MODEL.endswith(durations[0].attributes[gen_ai_attributes.GEN_AI_REQUEST_MODEL])


def test_messages_leave_only_where_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exported() -> str:
        spans = Collected().track(whole_run(tmp_path / "my-run")).spans
        return "".join(span.to_json() for span in spans)

    silent = exported()
    assert PROMPT not in silent
    assert REPLY not in silent

    monkeypatch.setenv(CAPTURE, "true")
    assert PROMPT in exported()
    call = Collected().track(whole_run(tmp_path / "my-run")).named("chat gpt-4.1")[1]
    assert json.loads(call.attributes[gen_ai_attributes.GEN_AI_INPUT_MESSAGES]) == [
        {"role": "user", "parts": [{"type": "text", "content": PROMPT}]}
    ]
    (answer,) = json.loads(call.attributes[gen_ai_attributes.GEN_AI_OUTPUT_MESSAGES])
    assert answer["finish_reason"] == "tool_calls"
    assert [part["type"] for part in answer["parts"]] == ["text", "tool_call"]


def test_an_interrupt_leaves_no_span_open(tmp_path: Path) -> None:
    spans = Collected().track(interrupted_run(tmp_path / "my-run", 2))

    assert len(spans.named("step")) == 3, "two steps, and the one that was under way"
    assert spans.named("ktdeval run")[0].attributes["ktdeval.run_state"] == "interrupted"


def test_a_resumed_episode_begins_at_its_next_step(tmp_path: Path) -> None:
    spans = Collected().track(whole_run(tmp_path / "my-run", recorded=3))
    (episode,) = [
        span
        for span in spans.named("invoke_agent react")
        if span.attributes["ktdeval.episode_id"] == DONE.id
    ]

    assert episode.attributes["ktdeval.steps_recorded"] == 3
    steps = [span for span in spans.named("step") if "ktdeval.nav" in span.attributes]
    assert [span.attributes["ktdeval.step"] for span in steps] == [3, 4]


def test_events_outside_of_a_run_are_ignored() -> None:
    assert Collected().track([step(0)]).spans == ()
