"""Spans in traces from OpenTelemetry (with OpenInference or GenAI attributes), MLflow, Langfuse,
LangSmith and Phoenix. These formats have the same facts at different paths.

Sources: OpenInference semantic conventions (arize-ai.github.io/openinference/spec), OpenTelemetry
semantic conventions for generative AI (opentelemetry.io/docs/specs/semconv/gen-ai).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktdeval.values import JsonValue
from ktdeval_audit.log_types import LogText, Role
from ktdeval_audit.readers.fields import first_at, flat_fields, parse_text
from ktdeval_audit.readers.texts import TextReader
from ktdeval_audit.readers.words import part_of, plain_word

_TRACES = ("context.trace_id", "traceId", "trace_id", "root_span_id")
_IDS = ("context.span_id", "spanId", "span_id", "id")
_PARENTS = (
    "parent_id",
    "parentSpanId",
    "parent_span_id",
    "parentObservationId",
    "parent_observation_id",
    "parent_run_id",
    "parent",
)
_STARTS = (
    "dotted_order",
    "startTimeUnixNano",
    "start_time_unix_nano",
    "start_time_ns",
    "startTime",
    "start_time",
    "started_at",
    "timestamp",
)
_KINDS = (
    "attributes.openinference.span.kind",
    "span_kind",
    "attributes.mlflow.spanType",
    "span_type",
    "run_type",
    "attributes.langfuse.observation.type",
    "attributes.traceloop.span.kind",
    "attributes.gen_ai.operation.name",
    "span_attributes.type",
    "type",
)
_MODEL_KINDS = frozenset(["llm", "generation", "chatmodel", "chat", "completion", "textcompletion"])
_TOOL_KINDS = frozenset(["tool", "retriever", "executetool", "function"])
_TOOL_NAME = re.compile(
    r"(?:tool|get|fetch|search|web|look|query|load|retriev|read|quote|price|news)", re.IGNORECASE
)
#: paths of a model's request and reply: paths of messages come first, followed by paths of any
#: value
_SENT = (
    "attributes.llm.input_messages",
    "attributes.gen_ai.input.messages",
    "attributes.gen_ai.prompt",
)
_REPLIED = (
    "attributes.llm.output_messages",
    "attributes.gen_ai.output.messages",
    "attributes.gen_ai.completion",
)
_INPUTS = (
    "input",
    "inputs",
    "attributes.mlflow.spanInputs",
    "attributes.input.value",
    "attributes.traceloop.entity.input",
    "attributes.langfuse.observation.input",
    "attributes.gcp.vertex.agent.llm_request",
)
_OUTPUTS = (
    "output",
    "outputs",
    "attributes.mlflow.spanOutputs",
    "attributes.output.value",
    "attributes.gen_ai.tool.call.result",
    "attributes.traceloop.entity.output",
    "attributes.langfuse.observation.output",
    "attributes.gcp.vertex.agent.llm_response",
    "attributes.gcp.vertex.agent.tool_response",
)
_METADATA = (
    "metadata",
    "extra.metadata",
    "attributes.metadata",
    "attributes.llm.invocation_parameters",
)
_OTLP_KINDS = ("stringValue", "intValue", "doubleValue", "boolValue")
_MARKS = ("attributes", "input", "inputs", "output", "outputs")


@dataclass(frozen=True, kw_only=True)
class Span:
    """A span in a trace."""

    value: Mapping[str, JsonValue]  #: attributes, nested by name
    id: str
    trace: str
    parent: str  #: id of the parent span; empty for a root span
    start: str  #: start time, as text that sorts in chronological order
    kind: str
    line: int | None

    @property
    def asks_a_model(self) -> bool:
        """Return whether the span is a model call."""
        if self.kind in _MODEL_KINDS:
            return True
        return first_at(self.value, (*_SENT, *_REPLIED)) is not None

    @property
    def is_tool(self) -> bool:
        """Return whether the span is marked as a tool call."""
        return self.kind in _TOOL_KINDS

    def fields(self) -> dict[str, JsonValue]:
        """Return a span's fields by dotted name, without its texts. A tool's arguments are omitted,
        because they are not facts about the decision.
        """
        own = {key: item for key, item in self.value.items() if part_of(key) is None}
        facts = flat_fields(own)
        paths = _METADATA if self.is_tool else (*_METADATA, *_INPUTS)
        for path in paths:
            found = parse_text(first_at(self.value, (path,)))
            facts |= flat_fields(found, f"{path.removeprefix('attributes.')}.")
        return facts


def is_span(value: JsonValue) -> bool:
    """Return whether an object is a span: it belongs to a trace, or it is a LangSmith run."""
    if not isinstance(value, Mapping):
        return False
    if {"run_type", "inputs"} <= value.keys() or "context.trace_id" in value:
        return True
    return first_at(value, _TRACES) is not None and any(key in value for key in _MARKS)


def read_span(value: Mapping[str, JsonValue], line: int | None) -> Span:
    """Parse a span in any of the supported formats."""
    nested = _nest(value)
    attributes = nested.get("attributes")
    nested["attributes"] = _nest(_otlp_pairs(attributes))
    identity = str(first_at(nested, _IDS) or "")[:40]
    kind = plain_word(str(parse_text(first_at(nested, _KINDS)) or ""))
    if first_at(nested, ("attributes.gen_ai.tool.name",)) is not None:
        kind = "tool"
    return Span(
        value=nested,
        id=identity,
        trace=str(first_at(nested, _TRACES) or identity)[:60],
        parent=str(first_at(nested, _PARENTS) or ""),
        # right-justified, so that nanoseconds sort as numbers
        start=str(first_at(nested, _STARTS) or "").rjust(20),
        kind=kind,
        line=line,
    )


def trace_texts(spans: Sequence[Span]) -> Iterator[LogText]:
    """Yield the texts in a trace: the requests to models, their replies, and the results of tools.

    If no model was called, or if requests or replies are missing, those of the root span are used.
    """
    parents = {span.parent for span in spans}
    found: list[LogText] = []
    for span in spans:
        if span.asks_a_model:
            found += _model_texts(span)
        elif span.is_tool or _looks_like_a_tool(span, parents):
            found += _tool_texts(span)

    roles = {text.role for text in found}
    tops = [span for span in spans if not (span.parent or span.asks_a_model or span.is_tool)]
    for span in tops:
        if "prompt" not in roles:
            yield from _side_texts(span, _INPUTS, "prompt")

    yield from found
    for span in tops:
        if "reply" not in roles:
            yield from _side_texts(span, _OUTPUTS, "reply")


def _looks_like_a_tool(span: Span, parents: set[str]) -> bool:
    """Return whether a span of unknown kind has no children and is named like a tool."""
    is_leaf = bool(span.parent) and span.id not in parents
    return is_leaf and _TOOL_NAME.match(str(span.value.get("name"))) is not None


def _model_texts(span: Span) -> Iterator[LogText]:
    reader = TextReader(span.line)
    instructions = first_at(span.value, ("attributes.gen_ai.system_instructions",))
    place = f"span {span.id}/gen_ai.system_instructions"
    yield from reader.texts(parse_text(instructions), "prompt", place)
    yield from _side_texts(span, (*_SENT, *_INPUTS), "prompt")
    yield from _event_texts(span)
    yield from _side_texts(span, (*_REPLIED, *_OUTPUTS), "reply")


def _side_texts(span: Span, paths: Sequence[str], role: Role) -> Iterator[LogText]:
    """Yield the texts at the first path that has texts."""
    for path in paths:
        value = parse_text(first_at(span.value, (path,)))
        place = f"span {span.id}/{path.removeprefix('attributes.')}"
        reader = TextReader(span.line)
        found = list(reader.whole(value, role, place))
        if found:
            yield from found
            return


def _tool_texts(span: Span) -> Iterator[LogText]:
    reader = TextReader(span.line)
    documents = first_at(span.value, ("attributes.retrieval.documents.document.content",))
    for path in _OUTPUTS:
        value = first_at(span.value, (path,))
        if isinstance(value, str) and value.startswith('"'):
            value = parse_text(value)
        place = f"span {span.id}/{path.removeprefix('attributes.')}"
        yield from reader.results(value, place)
    if documents is not None:
        retrieved = first_at(span.value, ("attributes.retrieval.documents",))
        yield from reader.whole(retrieved, "tool", f"span {span.id}/retrieval.documents")


def _event_texts(span: Span) -> Iterator[LogText]:
    """Yield the texts in events such as `gen_ai.user.message`."""
    events = span.value.get("events")
    for event in events if isinstance(events, list) else ():
        if not isinstance(event, Mapping):
            continue

        name = str(event.get("name", ""))
        system, _, writer = name.partition(".")
        if system != "gen_ai" or not writer:
            continue

        role = "assistant" if writer.startswith("choice") else writer.partition(".")[0]
        attributes = _otlp_pairs(event.get("attributes"))
        content = first_at(attributes, ("content", "gen_ai.event.content"))
        parsed = parse_text(content)
        body = parsed if isinstance(parsed, Mapping) else {"content": content}
        place = f"span {span.id}/{name}"
        yield from TextReader(span.line).texts({"role": role, **body}, None, place)


# ---- attributes


def _otlp_pairs(value: JsonValue) -> dict[str, JsonValue]:
    """Return attributes by name, given an object or an OTLP list of key-value pairs."""
    if isinstance(value, Mapping):
        return dict(value)

    attributes: dict[str, JsonValue] = {}
    for item in value if isinstance(value, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get("key"), str):
            attributes[str(item["key"])] = _otlp_value(item.get("value"))
    return attributes


def _otlp_value(value: JsonValue) -> JsonValue:
    """Return the plain value of an OTLP `AnyValue`."""
    plain = first_at(value, _OTLP_KINDS)
    if plain is not None:
        return plain

    items = first_at(value, ("arrayValue.values",))
    if isinstance(items, list):
        return [_otlp_value(item) for item in items]
    return _otlp_pairs(first_at(value, ("kvlistValue.values",))) or None


def _nest(flat: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return an object in which dotted keys are nested. For example, `a.0.b` becomes `b` in the
    first item of `a`.

    If a key is nested below a key that already has a value, it keeps its dots.
    """
    nested: dict[str, Any] = {}
    for key in sorted(flat, key=_by_number):
        *heads, last = key.split(".")
        holder: Any = nested
        for head in heads:
            holder = holder.setdefault(head, {}) if isinstance(holder, dict) else None
        if isinstance(holder, dict):
            holder.setdefault(last, flat[key])
        else:
            nested[key] = flat[key]
    return {key: _as_lists(value) for key, value in nested.items()}


def _by_number(key: str) -> list[tuple[int, str]]:
    return [(int(part) if part.isdecimal() else -1, part) for part in key.split(".")]


def _as_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value

    inner = {key: _as_lists(item) for key, item in value.items()}
    if inner and all(map(str.isdecimal, inner)):
        return list(inner.values())
    return inner
