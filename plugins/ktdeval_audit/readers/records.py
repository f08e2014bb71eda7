"""Decisions in the records of a log, whichever program wrote them.

A record is unwrapped until a span, a message or a record with texts is reached. Spans of a trace,
and messages of a thread, are one decision; a record that holds a whole conversation is one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ktdeval.values import JsonValue
from ktdeval_audit.log_files import LogRecord, objects_in
from ktdeval_audit.log_types import LogFill, LoggedDecision, LogText, Role
from ktdeval_audit.readers.fields import first_at, flat_fields, recorded_fills, values_at
from ktdeval_audit.readers.forms import CHAT, LogForm, form_named
from ktdeval_audit.readers.spans import Span, is_span, read_span, trace_texts
from ktdeval_audit.readers.texts import REPEATS, TextReader, read_each_once
from ktdeval_audit.readers.words import (
    holds_messages,
    is_message,
    kind_of,
    part_of,
    plain_word,
    role_of,
)

_THREADS = (
    "conversation_id",
    "thread_id",
    "session_id",
    "sessionId",
    "episode_id",
    "trace_id",
    "run_id",
)
_NAMES = ("id", "custom_id", "trajectory_id", *_THREADS)
_MODEL_HOLDERS = (
    "",
    "request.",
    "body.",
    "kwargs.",
    "params.",
    "input.",
    "inputs.",
    "response.",
    "completion.",
    "output.",
    "result.",
    "metadata.",
    "message.",
    "messages.",
    "payload.",
    "agent.",
    "steps.",
    "subagent_trajectories.steps.",
    "eval.",
    "extra.invocation_params.",
    "serialized.kwargs.",
    "attributes.gen_ai.response.",
    "attributes.gen_ai.request.",
    "attributes.llm.",
)
_MODEL_NAMES = ("model", "model_name", "modelVersion")
_MODELS = (
    *(f"{holder}{name}" for holder in _MODEL_HOLDERS for name in _MODEL_NAMES),
    "extra.metadata.ls_model_name",
    "metadata.ls_model_name",
)
_SYNTHETIC = "<synthetic>"  # Claude Code's own words on an error, of no model
_DEEPEST = 5  # levels of wrappers
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SAMPLES = "samples/"


@dataclass(frozen=True)
class Item:
    """A span, a message, or a record with texts."""

    value: Mapping[str, JsonValue]
    line: int | None
    fields: Mapping[str, JsonValue]  #: of what wraps it


@dataclass
class LogReading:
    """Decisions of a log, and what was left out."""

    decisions: list[LoggedDecision] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_decisions(records: Sequence[LogRecord], form: LogForm) -> LogReading:
    """Return the decisions of a log, in the order in which they begin."""
    items = [item for record in _unpack(records) for item in _items_of(record, form)]
    groups: dict[tuple[str, str], list[Item]] = {}
    thread = ""
    for number, item in enumerate(items):
        if form.has_spans and is_span(item.value):
            trace = read_span(item.value, item.line).trace
            groups.setdefault(("trace", trace), []).append(item)
        elif _is_fragment(item.value):
            thread = _text_at(item.value, _THREADS) or thread
            groups.setdefault(("thread", thread), []).append(item)
        else:
            groups[("record", str(number))] = [item]

    reading = LogReading()
    unread: Counter[str] = Counter()
    for (kind, key), members in groups.items():
        if kind == "trace":
            decision = _trace(key, members, form)
        else:
            decision = _conversation((kind, key), members, form, reading.notes, unread)
        if decision.texts:
            reading.decisions.append(decision)

    if unread:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(unread.items()))
        reading.notes.append(f"Records without a text were left out: {counts}.")
    reading.notes = list(dict.fromkeys(reading.notes))
    return reading


# ---- from records to items


def _unpack(records: Sequence[LogRecord]) -> Iterator[tuple[LogRecord, dict[str, JsonValue]]]:
    """Yield records, of an archive its samples with the header's fields."""
    header: dict[str, JsonValue] = {}
    for record in records:
        if record.member == "header.json":
            header = flat_fields(record.value)

    for record in records:
        if not record.member or record.member.startswith(_SAMPLES):
            yield record, header


def _items_of(found: tuple[LogRecord, dict[str, JsonValue]], form: LogForm) -> Iterator[Item]:
    record, fields = found
    if form.items is None:
        yield from _items(record.value, record.line, fields, form, 0)
        return

    is_member = bool(record.member)
    for value in objects_in(record.value):
        inherited = {**fields, **flat_fields(value.get("eval"), "eval.")}
        inner = value if is_member or not form.items else value.get(form.items)
        for item in objects_in(inner):
            yield Item(item, record.line, inherited)


def _items(
    value: JsonValue,
    line: int | None,
    fields: Mapping[str, JsonValue],
    form: LogForm,
    level: int,
) -> Iterator[Item]:
    if isinstance(value, list):
        if value and is_message(value[0]) and not is_event(value[0]) and level < 2:
            yield Item({"messages": value}, line, fields)
            return
        for item in value:
            yield from _items(item, line, fields, form, level)
    elif isinstance(value, Mapping):
        yield from _items_in_object(value, line, fields, form, level)


def _items_in_object(
    value: Mapping[str, JsonValue],
    line: int | None,
    fields: Mapping[str, JsonValue],
    form: LogForm,
    level: int,
) -> Iterator[Item]:
    if form.has_spans and is_span(value):
        yield Item(value, line, fields)
        for key in ("child_runs", "children"):
            yield from _items(value.get(key), line, fields, form, level + 1)
        return

    has_texts = any(part_of(key) for key in value)
    if has_texts and not _wraps_items(value, form):
        yield Item(value, line, fields)
        return

    if level >= _DEEPEST:
        return

    below = {**fields, **flat_fields(value)}
    if form.has_spans and _is_root(value):
        yield Item({**value, "trace_id": value.get("id")}, line, fields)
    columns = _rows_of_columns(value)
    if columns:
        yield from _items(columns, line, fields, form, level + 1)
        return
    for key, inner in value.items():
        named = {"day": key} if _DAY.fullmatch(key) else {}
        yield from _items(inner, line, {**below, **named}, form, level + 1)


def is_event(value: JsonValue) -> bool:
    """Whether a value is one event of a session, which says of which one."""
    return isinstance(value, Mapping) and bool({"session_id", "sessionId"} & value.keys())


def _wraps_items(value: JsonValue, form: LogForm, level: int = 0) -> bool:
    """Whether an object holds spans, or a list of records that hold messages."""
    if level >= _DEEPEST or not isinstance(value, Mapping):
        return False

    for inner in value.values():
        first = inner[0] if isinstance(inner, list) and inner else inner
        if not isinstance(first, Mapping):
            continue
        if form.has_spans and (is_span(first) or _wraps_items(first, form, level + 1)):
            return True
        is_list = isinstance(inner, list)
        if is_list and not is_message(first) and role_of(first) is None and holds_messages(first):
            return True
    return False


def _is_root(value: Mapping[str, JsonValue]) -> bool:
    """Whether an object is a trace with what it was asked and replied."""
    return "id" in value and any(key in value for key in ("input", "output"))


def _rows_of_columns(value: Mapping[str, JsonValue]) -> list[JsonValue]:
    """Return the rows of a table that was written as columns by row; none where it is no such."""
    columns = list(value.values())
    keys = [set(column) for column in columns if isinstance(column, Mapping)]
    if len(keys) < max(2, len(columns)) or any(each != keys[0] for each in keys):
        return []

    rows: list[JsonValue] = []
    for row in columns[0]:  # type: ignore[union-attr]
        rows.append({name: column[row] for name, column in value.items()})  # type: ignore[index]
    return rows


def _is_fragment(value: Mapping[str, JsonValue]) -> bool:
    """Whether a record is a part of a conversation: a message, an event, or new messages."""
    if any(plain_word(key) == "newmessages" for key in value):
        return True
    if holds_messages(value):
        return False
    return is_message(value) or is_event(value) or isinstance(value.get("type"), str)


# ---- from items to decisions


def _trace(key: str, members: Sequence[Item], form: LogForm) -> LoggedDecision:
    spans = sorted((read_span(item.value, item.line) for item in members), key=_start)
    fields: dict[str, JsonValue] = {}
    for item in members:
        fields |= item.fields
    for span in spans:
        fields |= span.fields()

    items = [Item(span.value, span.line, {}) for span in spans]
    return _as_decision(("trace", key), items, list(trace_texts(spans)), form, fields)


def _start(span: Span) -> str:
    return span.start


def _conversation(
    group: tuple[str, str],
    members: Sequence[Item],
    form: LogForm,
    notes: list[str],
    unread: Counter[str],
) -> LoggedDecision:
    texts: list[LogText] = []
    for number, item in enumerate(members):
        reader = TextReader(item.line, item.value.get("attachments"))
        place = f"message {number}" if len(members) > 1 else ""
        found = list(reader.texts(item.value, None, place))
        texts += found
        notes += reader.notes
        if not found and kind_of(item.value) not in REPEATS:
            unread[_unread_kind(item.value)] += 1

    fields: dict[str, JsonValue] = {}
    if len(members) == 1:
        fields = {**members[0].fields, **_own_fields(members[0].value, form)}
    return _as_decision(group, members, texts, form, fields)


def _as_decision(
    group: tuple[str, str],
    members: Sequence[Item],
    texts: Sequence[LogText],
    form: LogForm,
    fields: Mapping[str, JsonValue],
) -> LoggedDecision:
    kind, key = group
    if kind == "record":
        key = _text_at(members[0].value, _NAMES) or f"conversation {key}"

    fills: list[LogFill] = []
    for item in members:
        fills += recorded_fills(item.value, "record", item.line)
    return LoggedDecision(
        name=f"{form.title}{key}" if key else "conversation",
        texts=read_each_once(texts),
        fields=fields,
        models=_models_of(members),
        fills=tuple(fills),
        line=members[0].line,
    )


def _own_fields(value: Mapping[str, JsonValue], form: LogForm) -> dict[str, JsonValue]:
    if form.fields_at:
        return flat_fields(first_at(value, (form.fields_at,)), f"{form.fields_at}.")
    return flat_fields(value)


def _models_of(members: Sequence[Item]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for item in members:
        for holder in (item.value, item.fields):
            for path in _MODELS:
                for found in values_at(dict(holder), path):
                    if isinstance(found, str) and found != _SYNTHETIC:
                        names[found] = None
    return tuple(names)


def _text_at(value: JsonValue, paths: Sequence[str]) -> str:
    found = first_at(value, paths)
    return str(found)[:80] if isinstance(found, str | int) else ""


def _unread_kind(value: Mapping[str, JsonValue]) -> str:
    words = [str(value[key]) for key in ("type", "subtype") if isinstance(value.get(key), str)]
    return "/".join(words)[:40] or "of another kind"


# ---- where the user names the fields


def read_named(records: Sequence[LogRecord], named: Mapping[str, str]) -> LogReading:
    """Return each record as a decision, with the texts at the paths of `--messages`, `--prompt` and
    `--response`.
    """
    reading = LogReading()
    chat = form_named(CHAT)
    for record in records:
        for value, paths in _split(record.value, named):
            reader = TextReader(record.line)
            texts: list[LogText] = []
            for option, path in paths.items():
                role: Role = "reply" if option == "--response" else "prompt"
                for found in values_at(value, path):
                    texts += reader.whole(found, role, path)

            if texts and isinstance(value, Mapping):
                item = Item(value, record.line, {})
                key = str(len(reading.decisions))
                reading.decisions.append(
                    _as_decision(("record", key), [item], texts, chat, flat_fields(value))
                )
    return reading


def _split(
    value: JsonValue, named: Mapping[str, str]
) -> Iterator[tuple[JsonValue, dict[str, str]]]:
    """Yield each object that the paths are in, with the rest of the paths: the items of a list, also
    of one that all paths go through.
    """
    if isinstance(value, list):
        for item in value:
            yield from _split(item, named)
        return

    heads = {path.partition(".")[0] for path in named.values()}
    rests = {option: path.partition(".")[2] for option, path in named.items()}
    inner = first_at(value, tuple(heads)) if len(heads) == 1 and all(rests.values()) else None
    if isinstance(inner, list):
        yield from _split(inner, rests)
    else:
        yield value, dict(named)
