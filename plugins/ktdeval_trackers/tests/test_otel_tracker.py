"""Traces of runs, by the SDK of OpenTelemetry: in memory, and by OTLP to a server that decodes them."""

from __future__ import annotations

import gzip
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from tracked_run import (
    BROKEN,
    DONE,
    MODEL,
    PROMPT,
    REPLY,
    STEPS,
    interrupted_run,
    step,
    whole_run,
)

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel: pip install '.[otel]'")

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from ktdeval.cards import load_card
from ktdeval_trackers.otel import CAPTURE, SCHEMA_URL, OtelTracker
from ktdeval_trackers.run_facts import card_figures


class Collected:
    """What a tracker exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        meters = MeterProvider(metric_readers=[self.reader])
        self.now = 1_700_000_000_000_000_000
        given = (provider.get_tracer("t"), meters.get_meter("t"), LoggerProvider().get_logger("t"))
        self.tracker = OtelTracker(given, self.clock)

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
        "execute_tool submit_action < step < invoke_agent react < ktdeval run",
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
        gen_ai_attributes.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: 60,
        gen_ai_attributes.GEN_AI_RESPONSE_ID: "chatcmpl-1",
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
    counted = {"input": 100, "output": 20, "cache_read.input": 60}
    for kind, tokens in counted.items():
        (point,) = collected.points(f"gen_ai.client.inference.usage.{kind}_tokens")
        assert point.value == tokens * (STEPS - 1)

    durations = collected.points("gen_ai.client.inference.duration")
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


class Collector(BaseHTTPRequestHandler):
    """An OTLP receiver: it decodes what is posted, or refuses it."""

    kinds: ClassVar = {
        "/v1/traces": ExportTraceServiceRequest,
        "/v1/metrics": ExportMetricsServiceRequest,
        "/v1/logs": ExportLogsServiceRequest,
    }
    received: ClassVar[dict[str, Any]] = {}

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)

        request = self.kinds[self.path].FromString(body)
        self.received[self.path] = MessageToDict(request)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        """Print nothing."""


def test_a_collector_decodes_spans_metrics_and_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    tracker = OtelTracker()
    for event in whole_run(tmp_path / "my-run"):
        tracker.ktdeval_event(event)

    server.shutdown()
    scopes = {
        part: Collector.received[f"/v1/{path}"][f"resource{part}"][0][f"scope{part}"][0]
        for path, part in (("traces", "Spans"), ("metrics", "Metrics"), ("logs", "Logs"))
    }
    assert {scope["schemaUrl"] for scope in scopes.values()} == {SCHEMA_URL}

    spans = {span["spanId"]: span["name"] for span in scopes["Spans"]["spans"]}
    events = scopes["Logs"]["logRecords"]
    assert {event["eventName"] for event in events} == {"gen_ai.evaluation.result"}
    assert {spans[event["spanId"]] for event in events} == {"ktdeval run", "invoke_agent react"}

    figures = card_figures(load_card(next((tmp_path / "my-run").rglob("cards/*.json"))))
    sent = {}
    for event in events:
        if spans[event["spanId"]] == "ktdeval run":
            name, score = (part["value"] for part in event["attributes"])
            sent[name["stringValue"]] = score["doubleValue"]

    assert sent == figures
