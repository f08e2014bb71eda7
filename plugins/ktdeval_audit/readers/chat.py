"""Chat messages as JSON lines: conversations, single messages, or requests with their responses, in
the forms of OpenAI and Anthropic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktdeval.values import JsonValue
from ktdeval_audit.log_files import LogRecord
from ktdeval_audit.log_types import AgentLog, LogFill, LoggedDecision, LogText
from ktdeval_audit.readers.claude_code import is_event
from ktdeval_audit.readers.messages import (
    flat_fields,
    is_message,
    message_texts,
    recorded_fills,
)

name = "chat"
_BODIES = ("request", "body", "kwargs", "params", "input", "inputs")
_RESPONSES = ("response", "completion", "output", "result", "reply", "outputs")
_LISTS = ("messages", "conversation", "conversations", "history", "input", "transcript")
_THREADS = ("conversation_id", "thread_id", "session_id", "episode_id", "trace_id", "run_id")


def recognises(records: Sequence[LogRecord]) -> bool:
    """Whether the first record is a message, or holds a list of them, and is no run or span."""
    if not records:
        return False

    first = records[0].value
    if isinstance(first, list):
        return bool(first) and (is_message(first[0]) or bool(_messages(first[0])))
    if not isinstance(first, Mapping):
        return False
    if {"run_type", "resourceSpans", "samples", "eval", "span_id", "spanId"} & first.keys():
        return False
    if "context" in first and "attributes" in first:
        return False
    if is_event(first):
        return False
    return is_message(first) or bool(_messages(first))


def read(records: Sequence[LogRecord], source: str) -> AgentLog:
    """Return each conversation as a decision; single messages are joined by their thread."""
    values = list(_values(records))
    decisions: list[LoggedDecision] = []
    threads: dict[str, list[tuple[int, LogRecord]]] = {}
    for number, record in enumerate(values):
        if is_message(record.value):
            threads.setdefault(_thread_of(record.value), []).append((number, record))
        elif _messages(record.value):
            decisions.append(_conversation(record, number))

    decisions += [_join_thread(thread, members) for thread, members in threads.items()]
    left_out = len(values) - len(decisions) - sum(map(len, threads.values())) + len(threads)
    notes: tuple[str, ...] = ()
    if left_out:
        notes = (f"{left_out} records hold no message and were left out.",)

    with_texts = tuple(decision for decision in decisions if decision.texts)
    return AgentLog(kind=name, source=source, decisions=with_texts, notes=notes)


def _values(records: Sequence[LogRecord]) -> Iterator[LogRecord]:
    """Yield records, of a JSON list its items. A list of messages is one conversation."""
    for record in records:
        if not isinstance(record.value, list):
            yield record
        elif record.value and is_message(record.value[0]):
            yield LogRecord({"messages": record.value}, record.line)
        else:
            for item in record.value:
                yield LogRecord(item, record.line)


def _messages(value: JsonValue) -> Sequence[JsonValue]:
    """Return the messages of a record, also of the request in it; none where it has none."""
    if not isinstance(value, Mapping):
        return ()

    bodies = [value]
    for key in _BODIES:
        body = value.get(key)
        if isinstance(body, Mapping):
            bodies.append(body)

    for body in bodies:
        for key in _LISTS:
            messages = body.get(key)
            if isinstance(messages, list) and any(map(is_message, messages)):
                return messages
    return ()


def _conversation(record: LogRecord, number: int) -> LoggedDecision:
    value = record.value
    assert isinstance(value, Mapping)
    texts = [*_system(value, record.line)]
    for index, message in enumerate(_messages(value)):
        texts += message_texts(message, f"message {index}", record.line)

    texts += _response(value, record.line)
    return LoggedDecision(
        name=_name_of(value) or f"conversation {number}",
        texts=tuple(texts),
        fields=flat_fields(value),
        models=_models(value),
        fills=tuple(recorded_fills(value, "record", record.line)),
        line=record.line,
    )


def _system(value: Mapping[str, JsonValue], line: int | None) -> Iterator[LogText]:
    """Yield the system prompt that stands beside the messages, as Anthropic and OpenAI take it."""
    for body in (value, *(value.get(key) for key in _BODIES)):
        if not isinstance(body, Mapping):
            continue

        for key in ("system", "instructions", "system_prompt"):
            yield from message_texts({"role": "system", "content": body.get(key)}, key, line)


def _response(value: Mapping[str, JsonValue], line: int | None) -> Iterator[LogText]:
    """Yield the texts of a response that stands beside its request."""
    for key in (*_RESPONSES, "choices"):
        found = value.get(key)
        if isinstance(found, str):
            yield from message_texts({"role": "assistant", "content": found}, key, line)
        elif isinstance(found, Mapping):
            if "content" in found or "tool_calls" in found:
                yield from message_texts({"role": "assistant", **found}, key, line)
            yield from _choices(found.get("choices"), key, line)
            yield from _items(found.get("output"), key, line)
        elif key == "choices":
            yield from _choices(found, key, line)
        elif key == "output":
            yield from _items(found, key, line)


def _choices(value: JsonValue, place: str, line: int | None) -> Iterator[LogText]:
    if isinstance(value, list):
        for choice in value:
            if isinstance(choice, Mapping):
                yield from message_texts(choice.get("message"), place, line)


def _items(value: JsonValue, place: str, line: int | None) -> Iterator[LogText]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, Mapping):
                yield from message_texts({"role": "assistant", **item}, f"{place}[{index}]", line)


def _name_of(value: Mapping[str, JsonValue]) -> str:
    for key in ("id", "custom_id", *_THREADS):
        found = value.get(key)
        if isinstance(found, str | int):
            return str(found)[:80]
    return ""


def _models(value: Mapping[str, JsonValue]) -> tuple[str, ...]:
    names = []
    for body in (value, *(value.get(key) for key in (*_BODIES, *_RESPONSES, "metadata"))):
        if isinstance(body, Mapping) and isinstance(body.get("model"), str):
            names.append(str(body["model"]))
    return tuple(dict.fromkeys(names))


def _thread_of(value: JsonValue) -> str:
    if isinstance(value, Mapping):
        for key in _THREADS:
            if isinstance(value.get(key), str | int):
                return str(value[key])[:80]
    return ""


def _join_thread(thread: str, members: Sequence[tuple[int, LogRecord]]) -> LoggedDecision:
    """Return the messages of one thread as a decision."""
    texts: list[LogText] = []
    models: list[str] = []
    fields: dict[str, JsonValue] = {}
    fills: list[LogFill] = []
    for number, record in members:
        place = f"message {number}"
        texts += message_texts(record.value, place, record.line)
        fills += recorded_fills(record.value, place, record.line)
        if isinstance(record.value, Mapping):
            models += _models(record.value)
            if len(members) == 1:
                fields = flat_fields(record.value)

    return LoggedDecision(
        name=thread or "conversation",
        texts=tuple(texts),
        fields=fields,
        models=tuple(dict.fromkeys(models)),
        fills=tuple(fills),
        line=members[0][1].line,
    )
