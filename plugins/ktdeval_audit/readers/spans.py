"""Spans of OpenTelemetry, as OTLP JSON or a JSON object a line, with the attributes of OpenInference
or of the GenAI semantic conventions. A trace is a decision.

Sources: OpenInference semantic conventions (arize-ai.github.io/openinference/spec), OpenTelemetry
semantic conventions for generative AI (opentelemetry.io/docs/specs/semconv/gen-ai).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktdeval.values import JsonValue, loads_untrusted
from ktdeval_audit.log_files import MAX_LEVELS, LogRecord, objects_in
from ktdeval_audit.log_types import AgentLog, LogFill, LoggedDecision, LogText, Role
from ktdeval_audit.readers.messages import flat_fields, message_texts, recorded_fills

name = "spans"
_MODELS = ("llm.model_name", "gen_ai.response.model", "gen_ai.request.model")
_MESSAGE_LISTS: tuple[tuple[str, Role], ...] = (
    ("gen_ai.system_instructions", "prompt"),
    ("gen_ai.input.messages", "prompt"),
    ("gen_ai.output.messages", "reply"),
)
_INDEXED = re.compile(
    r"(llm\.(?:input|output)_messages|gen_ai\.(?:prompt|completion))\.([0-9]{1,6})\.(.+)"
)
_CONTENT = re.compile(r"(?:message\.)?(?:content|contents\.[0-9]+\.message_content\.text)")
_ARGUMENTS = re.compile(r"(?:message\.)?tool_calls\.[0-9]+\.(?:tool_call\.function\.)?arguments")
_JSON_FIELDS = ("metadata", "llm.invocation_parameters")
_VALUE_KINDS = ("stringValue", "intValue", "doubleValue", "boolValue")


@dataclass(frozen=True)
class _Span:
    """One span: its ids, start, attributes and line."""

    id: str
    trace: str
    name: str
    start: str
    attributes: Mapping[str, JsonValue]
    events: Sequence[tuple[str, Mapping[str, JsonValue]]]
    line: int | None


def recognises(records: Sequence[LogRecord]) -> bool:
    """Whether the first record is an OTLP export, or a span with a trace and attributes."""
    if not records or not isinstance(records[0].value, Mapping | list):
        return False

    first: JsonValue = records[0].value
    if isinstance(first, list) and first:
        first = first[0]
    if not isinstance(first, Mapping):
        return False
    return "resourceSpans" in first or "resource_spans" in first or _is_span(first)


def read(records: Sequence[LogRecord], source: str) -> AgentLog:
    """Return each trace as a decision, its spans in the order in which they began."""
    traces: dict[str, list[_Span]] = {}
    for record in records:
        for span in _spans(record):
            traces.setdefault(span.trace, []).append(span)

    decisions = []
    for trace, spans in traces.items():
        decision = _decision(trace, sorted(spans, key=lambda span: span.start))
        if decision.texts:
            decisions.append(decision)

    left_out = len(traces) - len(decisions)
    notes = (f"{left_out} traces have no text and were left out.",) if left_out else ()
    return AgentLog(kind=name, source=source, decisions=tuple(decisions), notes=notes)


# ---- spans of both forms


def _is_span(value: Mapping[str, JsonValue]) -> bool:
    has_trace = (
        "traceId" in value or "trace_id" in value or isinstance(value.get("context"), Mapping)
    )
    return has_trace and "attributes" in value


def _spans(record: LogRecord) -> Iterator[_Span]:
    for item in objects_in(record.value):
        if _is_span(item):
            yield _span(item, record.line)

        for resource in _items(item, "resourceSpans", "resource_spans"):
            for scope in _items(resource, "scopeSpans", "scope_spans"):
                for span in _items(scope, "spans", "spans"):
                    yield _span(span, record.line)


def _items(value: Mapping[str, JsonValue], *names: str) -> Iterator[Mapping[str, JsonValue]]:
    for key in dict.fromkeys(names):
        found = value.get(key)
        if isinstance(found, list):
            for item in found:
                if isinstance(item, Mapping):
                    yield item


def _span(value: Mapping[str, JsonValue], line: int | None) -> _Span:
    context = value.get("context")
    ids = {**value, **context} if isinstance(context, Mapping) else value
    start = value.get(
        "startTimeUnixNano", value.get("start_time", value.get("start_time_unix_nano"))
    )
    events = []
    for event in _items(value, "events"):
        events.append((str(event.get("name", "")), _attributes(event.get("attributes"))))

    return _Span(
        id=str(ids.get("spanId", ids.get("span_id", "")))[:40],
        trace=str(ids.get("traceId", ids.get("trace_id", "")))[:60],
        name=str(value.get("name", ""))[:80],
        start=str(start).rjust(20),  # nanoseconds as text sort as numbers
        attributes=_attributes(value.get("attributes")),
        events=events,
        line=line,
    )


def _attributes(value: JsonValue) -> dict[str, JsonValue]:
    """Return attributes by name: an object, or a list of keys with values as in OTLP."""
    if isinstance(value, Mapping):
        return dict(value)

    attributes: dict[str, JsonValue] = {}
    if isinstance(value, list):
        for item in value:
            if isinstance(item, Mapping) and isinstance(item.get("key"), str):
                attributes[str(item["key"])] = _otlp_value(item.get("value"))
    return attributes


def _otlp_value(value: JsonValue) -> JsonValue:
    """Return the plain value of an OTLP `AnyValue`."""
    if not isinstance(value, Mapping):
        return value

    for kind in _VALUE_KINDS:
        if kind in value:
            return value[kind]

    array = value.get("arrayValue")
    if isinstance(array, Mapping) and isinstance(array.get("values"), list):
        return [_otlp_value(item) for item in array["values"]]  # type: ignore[union-attr]

    pairs = value.get("kvlistValue")
    if isinstance(pairs, Mapping):
        return _attributes(pairs.get("values"))
    return None


# ---- a trace as a decision


def _decision(trace: str, spans: Sequence[_Span]) -> LoggedDecision:
    texts: list[LogText] = []
    fields: dict[str, JsonValue] = {}
    models: list[str] = []
    fills: list[LogFill] = []
    seen: set[tuple[Role, str]] = set()

    for span in spans:
        fields |= _fields(span)
        models += [str(span.attributes[key]) for key in _MODELS if key in span.attributes]
        for key in _JSON_FIELDS:
            fills += recorded_fills(
                _parse_attribute(span.attributes.get(key)), f"span {span.id}", span.line
            )

        # Each call repeats the messages before it, and a chain repeats those of its calls.
        for text in _span_texts(span):
            if (text.role, text.text) not in seen:
                seen.add((text.role, text.text))
                texts.append(text)

    return LoggedDecision(
        name=f"trace {trace}",
        texts=tuple(texts),
        fields=fields,
        models=tuple(dict.fromkeys(models)),
        fills=tuple(fills),
        line=spans[0].line,
    )


def _fields(span: _Span) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {}
    for key, value in span.attributes.items():
        if key in _JSON_FIELDS:
            fields |= flat_fields(_parse_attribute(value), f"{key}.")
        elif not _INDEXED.fullmatch(key):
            fields |= flat_fields({key: value})
    return fields


def _span_texts(span: _Span) -> Iterator[LogText]:
    yield from _indexed_texts(span)
    for key, _ in _MESSAGE_LISTS:
        for index, message in enumerate(_list_objects(span.attributes.get(key))):
            role = {"role": "system"} if key == "gen_ai.system_instructions" else {}
            place = f"span {span.id}/{key}[{index}]"
            yield from message_texts({**role, **message}, place, span.line)

    for event, attributes in span.events:
        yield from _event_texts(span, event, attributes)

    kind = str(span.attributes.get("openinference.span.kind", "")).upper()
    is_tool = kind in ("TOOL", "RETRIEVER") or "gen_ai.tool.name" in span.attributes
    for key in ("output.value", "gen_ai.tool.call.result"):
        value = span.attributes.get(key)
        if isinstance(value, str) and is_tool:
            yield _text(span, "tool", value, key)

    for key, value in span.attributes.items():
        is_document = key.startswith("retrieval.documents.") and key.endswith("document.content")
        if is_document and isinstance(value, str):
            yield _text(span, "tool", value, key)


def _indexed_texts(span: _Span) -> Iterator[LogText]:
    """Yield the texts of messages whose parts are attributes with their index in the name."""
    messages: dict[tuple[str, int], dict[str, JsonValue]] = {}
    for key, value in span.attributes.items():
        match = _INDEXED.fullmatch(key)
        if match is not None:
            messages.setdefault((match[1], int(match[2])), {})[match[3]] = value

    for (kind, index), parts in sorted(messages.items(), key=lambda item: item[0]):
        is_output = kind in ("llm.output_messages", "gen_ai.completion")
        own = parts.get("message.role", parts.get("role", "assistant" if is_output else "user"))
        for part, value in parts.items():
            if not isinstance(value, str):
                continue

            role = str(own)
            if _ARGUMENTS.fullmatch(part):
                role = "assistant"
            elif not _CONTENT.fullmatch(part):
                continue

            place = f"span {span.id}/{kind}.{index}"
            yield from message_texts({"role": role, "content": value}, place, span.line)


def _event_texts(span: _Span, event: str, attributes: Mapping[str, JsonValue]) -> Iterator[LogText]:
    """Yield the texts of an event such as `gen_ai.user.message`."""
    words = event.split(".")
    if words[0] != "gen_ai" or len(words) < len(("gen_ai", "user", "message")):
        return

    place = f"span {span.id}/{event}"
    role = "assistant" if words[1] == "choice" else words[1]
    for key in ("content", "gen_ai.event.content"):
        value = attributes.get(key)
        parsed = _parse_attribute(value)
        if isinstance(parsed, Mapping):
            yield from message_texts({"role": role, **parsed}, place, span.line)
        elif isinstance(value, str):
            yield from message_texts({"role": role, "content": value}, place, span.line)


def _text(span: _Span, role: Role, text: str, key: str) -> LogText:
    return LogText(role=role, text=text, place=f"span {span.id}/{key}", line=span.line)


def _list_objects(value: JsonValue) -> Iterator[Mapping[str, JsonValue]]:
    parsed = _parse_attribute(value)
    if isinstance(parsed, list):
        for item in parsed:
            if isinstance(item, Mapping):
                yield item


def _parse_attribute(value: JsonValue) -> JsonValue:
    """Return the JSON in an attribute; the value itself where it is none."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return loads_untrusted(value, MAX_LEVELS)
    except ValueError:
        return value
