"""Runs exported from LangSmith, as JSON lines or a JSON list. A trace is a decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktdeval.values import JsonValue, dumps_compact
from ktdeval_audit.log_files import LogRecord, objects_in
from ktdeval_audit.log_types import AgentLog, LogFill, LoggedDecision, LogText, Role
from ktdeval_audit.readers.messages import (
    flat_fields,
    is_message,
    message_texts,
    recorded_fills,
)

name = "langsmith"
_TOOLS = ("tool", "retriever")


def recognises(records: Sequence[LogRecord]) -> bool:
    """Whether the first record is a run with a type, inputs and outputs."""
    first = next(_runs(records), None)
    return first is not None and {"run_type", "inputs"} <= first[0].keys()


def read(records: Sequence[LogRecord], source: str) -> AgentLog:
    """Return each trace as a decision, its runs in their dotted order."""
    traces: dict[str, list[tuple[Mapping[str, JsonValue], int | None]]] = {}
    for run, line in _runs(records):
        trace = run.get("trace_id") or run.get("id") or "trace"
        traces.setdefault(str(trace)[:60], []).append((run, line))

    decisions = []
    for trace, runs in traces.items():
        decision = _decision(trace, sorted(runs, key=_order))
        if decision.texts:
            decisions.append(decision)

    return AgentLog(kind=name, source=source, decisions=tuple(decisions))


def _runs(records: Sequence[LogRecord]) -> Iterator[tuple[Mapping[str, JsonValue], int | None]]:
    for record in records:
        value = record.value
        if isinstance(value, Mapping) and isinstance(value.get("runs"), list):
            value = value["runs"]

        for item in objects_in(value):
            yield item, record.line


def _order(item: tuple[Mapping[str, JsonValue], int | None]) -> tuple[str, str]:
    run = item[0]
    return str(run.get("dotted_order", "")), str(run.get("start_time", ""))


def _decision(
    trace: str, runs: Sequence[tuple[Mapping[str, JsonValue], int | None]]
) -> LoggedDecision:
    texts: list[LogText] = []
    fields: dict[str, JsonValue] = {}
    models: list[str] = []
    fills: list[LogFill] = []
    seen: set[tuple[Role, str]] = set()

    for run, line in runs:
        place = f"run {str(run.get('id', ''))[:40]}"
        extra = run.get("extra")
        for key, value in (("inputs", run.get("inputs")), ("metadata", _metadata(extra))):
            fields |= flat_fields(value, f"{key}.")

        models += _models(extra)
        fills += recorded_fills(run.get("outputs"), f"{place}/outputs", line)
        for text in _run_texts(run, place, line):
            if (text.role, text.text) not in seen:
                seen.add((text.role, text.text))
                texts.append(text)

    return LoggedDecision(
        name=f"trace {trace}",
        texts=tuple(texts),
        fields=fields,
        models=tuple(dict.fromkeys(models)),
        fills=tuple(fills),
        line=runs[0][1],
    )


def _metadata(extra: JsonValue) -> JsonValue:
    return extra.get("metadata") if isinstance(extra, Mapping) else None


def _models(extra: JsonValue) -> Iterator[str]:
    if not isinstance(extra, Mapping):
        return

    for part, keys in (
        ("metadata", ("ls_model_name",)),
        ("invocation_params", ("model", "model_name")),
    ):
        values = extra.get(part)
        if not isinstance(values, Mapping):
            continue

        for key in keys:
            if isinstance(values.get(key), str):
                yield str(values[key])


def _run_texts(run: Mapping[str, JsonValue], place: str, line: int | None) -> Iterator[LogText]:
    if run.get("run_type") in _TOOLS:
        output = run.get("outputs")
        if isinstance(output, Mapping) and len(output) == 1:
            output = next(iter(output.values()))

        text = output if isinstance(output, str) else dumps_compact(output)
        yield LogText(role="tool", text=text, place=f"{place}/outputs", line=line)
        return

    if run.get("run_type") != "llm":
        return  # a chain repeats the texts of its calls

    yield from _messages(run.get("inputs"), f"{place}/inputs", line, "user")
    yield from _messages(run.get("outputs"), f"{place}/outputs", line, "assistant")


def _messages(value: JsonValue, place: str, line: int | None, role: str) -> Iterator[LogText]:
    """Yield the texts of messages and prompts at any depth of a run's inputs or outputs."""
    if is_message(value):
        yield from message_texts(value, place, line)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _messages(item, f"{place}[{index}]", line, role)
    elif isinstance(value, Mapping):
        if is_message(value.get("message")):
            yield from message_texts(value["message"], f"{place}.message", line)
            return

        for key in ("messages", "prompts", "generations", "choices", "text", "output", "content"):
            if key in value:
                yield from _messages(value[key], f"{place}.{key}", line, role)
    elif isinstance(value, str):
        yield from message_texts({"role": role, "content": value}, place, line)
