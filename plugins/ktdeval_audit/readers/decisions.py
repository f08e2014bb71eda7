"""Group the items in a log into decisions. The rules do not depend on the program that wrote the
log.

All spans in a trace, or all messages in a thread, form one decision. A record that contains a
conversation forms one decision, together with later requests that repeat and extend the
conversation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from ktdeval.cards import count
from ktdeval.values import JsonValue
from ktdeval_audit.decision_days import own_day
from ktdeval_audit.log_files import LogRecord
from ktdeval_audit.log_types import LogFill, LoggedDecision, LogText, Role
from ktdeval_audit.readers.fields import first_at, flat_fields, recorded_fills, values_at
from ktdeval_audit.readers.forms import LogForm
from ktdeval_audit.readers.records import LogItem, find_items, is_event
from ktdeval_audit.readers.spans import Span, read_span, trace_texts
from ktdeval_audit.readers.texts import REPEATS, TextReader, read_each_once
from ktdeval_audit.readers.words import (
    holds_messages,
    is_message,
    kind_of,
    other_kind_of,
    plain_word,
    without_instructions,
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
_MAX_INSTRUCTIONS = 3  # a conversation with more texts has others
NO_DECISION = "left out: no decision"
_SYNTHETIC = "<synthetic>"  # error messages from Claude Code, which are not from a model
_UNNAMED = "conversation "  # name prefix for a record without a name


@dataclass
class LogReading:
    """The decisions in a log, and notes on what was omitted."""

    decisions: list[LoggedDecision] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_decisions(records: Sequence[LogRecord], form: LogForm) -> LogReading:
    """Return the decisions in a log, in the order in which they begin."""
    reading = LogReading()
    items = list(_without_others(find_items(records, form), reading.notes))
    if form.has_spans:
        found = _read_traces(items, form)
    else:
        found = _read_conversations(items, form, reading.notes)

    for decision in found:
        if not decision.texts:
            continue
        if reading.decisions and _continues(decision, reading.decisions[-1]):
            reading.decisions[-1] = _join(reading.decisions[-1], decision)
        else:
            reading.decisions.append(decision)
    return reading


def _without_others(items: Iterable[LogItem], notes: list[str]) -> Iterator[LogItem]:
    """Yield the items that may belong to a decision. At the end, add a note that counts settings and
    preference pairs: nobody decided in them.
    """
    others: Counter[str] = Counter()
    for item in items:
        kind = other_kind_of(item.value)
        if kind:
            others[kind] += 1
        else:
            yield item

    for kind, number in others.items():
        notes.append(f"{count(number, 'record')} with {kind} {NO_DECISION}.")


def _read_traces(items: Sequence[LogItem], form: LogForm) -> Iterator[LoggedDecision]:
    """Yield one decision per trace. The spans in a trace are ordered by start time."""
    traces: dict[str, list[Span]] = {}
    wrappers: dict[str, dict[str, JsonValue]] = {}
    for item in items:
        span = read_span(item.value, item.line)
        traces.setdefault(span.trace, []).append(span)
        wrappers.setdefault(span.trace, {}).update(item.fields)

    for trace, spans in traces.items():
        spans.sort(key=lambda span: span.start)
        fields = wrappers[trace]
        for span in spans:
            fields |= span.fields()

        nested = [LogItem(span.value, span.line, {}) for span in spans]
        yield _as_decision(f"{form.title}{trace}", nested, list(trace_texts(spans)), fields)


def _read_conversations(
    items: Sequence[LogItem], form: LogForm, notes: list[str]
) -> Iterator[LoggedDecision]:
    """Yield one decision for each record that contains a conversation, and for each thread of
    messages. At the end, add notes on what could not be read.
    """
    threads: dict[str | int, list[LogItem]] = {}
    thread = ""
    for number, item in enumerate(items):
        if _is_fragment(item.value):
            thread = _text_at(item.value, _THREADS) or thread
            threads.setdefault(thread, []).append(item)
        else:
            threads[number] = [item]

    said: dict[str, None] = {}
    without_text: Counter[str] = Counter()
    instructions = 0
    for key, members in threads.items():
        texts: list[LogText] = []
        for number, item in enumerate(members):
            place = f"message {number}" if len(members) > 1 else ""
            reader = TextReader(item.line, item.value.get("attachments"))
            found = list(reader.texts(item.value, None, place))
            texts += found
            said |= dict.fromkeys(reader.notes)
            if not found and kind_of(item.value) not in REPEATS:
                without_text[_kind_without_text(item.value)] += 1

        if _only_instructs(members, texts):
            instructions += 1
            continue

        if isinstance(key, str):
            name = key or "conversation"
        else:
            name = _record_name(members[0], key)

        fields = {}
        if len(members) == 1:
            fields = _fields_of(members[0], form)
        yield _as_decision(f"{form.title}{name}", members, texts, fields)

    notes += said
    notes += _left_out(without_text, instructions)


def _left_out(without_text: Counter[str], instructions: int) -> Iterator[str]:
    if instructions:
        yield f"{count(instructions, 'session')} with instructions alone {NO_DECISION}."
    if without_text:
        counts = ", ".join(f"{number} {kind}" for kind, number in sorted(without_text.items()))
        yield f"Records without text were left out: {counts}."


def _only_instructs(members: Sequence[LogItem], texts: Sequence[LogText]) -> bool:
    """Return whether all texts of a conversation are instructions of its program: nobody asked,
    nothing was shown, and the model said nothing.
    """
    if not texts or len(texts) > _MAX_INSTRUCTIONS or any(text.role != "prompt" for text in texts):
        return False
    rest = [without_instructions(item.value) for item in members]
    return not any(True for value in rest for _ in TextReader(None).texts(value, None, ""))


def _is_fragment(value: Mapping[str, JsonValue]) -> bool:
    """Return whether a record is a part of a conversation: a message, an event, or a list of new
    messages.
    """
    if any(plain_word(key) == "newmessages" for key in value):
        return True
    if holds_messages(value):
        return False
    return is_message(value) or is_event(value) or isinstance(value.get("type"), str)


def _record_name(item: LogItem, number: int) -> str:
    return _text_at(item.value, _NAMES) or f"{_UNNAMED}{number}"


def _fields_of(item: LogItem, form: LogForm) -> dict[str, JsonValue]:
    own: JsonValue = dict(item.value)
    prefix = ""
    if form.fields_at:
        own = first_at(own, (form.fields_at,))
        prefix = f"{form.fields_at}."
    return {**item.fields, **flat_fields(own, prefix)}


def _continues(decision: LoggedDecision, before: LoggedDecision) -> bool:
    """Return whether a record is the next request in the previous conversation. Such a request
    repeats everything that was sent before, and adds to it.
    """
    if not (before.name.startswith(_UNNAMED) and decision.name.startswith(_UNNAMED)):
        return False

    sent = [text.text for text in decision.texts if text.role != "reply"]
    sent_before = [text.text for text in before.texts if text.role != "reply"]
    repeats = bool(sent_before) and sent[: len(sent_before)] == sent_before
    return repeats and len(sent) > len(sent_before) and own_day(decision) == own_day(before)


def _join(before: LoggedDecision, decision: LoggedDecision) -> LoggedDecision:
    return replace(
        before,
        texts=read_each_once((*before.texts, *decision.texts)),
        models=tuple(dict.fromkeys((*before.models, *decision.models))),
        fills=(*before.fills, *decision.fills),
    )


def _as_decision(
    name: str, members: Sequence[LogItem], texts: Sequence[LogText], fields: Mapping[str, JsonValue]
) -> LoggedDecision:
    fills: list[LogFill] = []
    for item in members:
        fills += recorded_fills(item.value, "record", item.line)
    return LoggedDecision(
        name=name,
        texts=read_each_once(texts),
        fields=fields,
        models=_models_of(members),
        fills=tuple(fills),
        line=members[0].line,
    )


def _models_of(members: Sequence[LogItem]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for item in members:
        for holder, path in product((item.value, item.fields), _MODELS):
            found = values_at(dict(holder), path)
            names |= dict.fromkeys(name for name in found if isinstance(name, str))

    names.pop(_SYNTHETIC, None)
    return tuple(names)


def _text_at(value: JsonValue, paths: Sequence[str]) -> str:
    found = first_at(value, paths)
    return str(found)[:80] if isinstance(found, str | int) else ""


def _kind_without_text(value: Mapping[str, JsonValue]) -> str:
    words = [str(value[key]) for key in ("type", "subtype") if isinstance(value.get(key), str)]
    return "/".join(words)[:40] or "a record of another kind"


# ---- fields named by the user


def read_named(records: Sequence[LogRecord], named: Mapping[str, str]) -> LogReading:
    """Return a reading in which each record is a decision, with the texts at the paths given by
    `--messages`, `--prompt` and `--response`.
    """
    reading = LogReading()
    for record in records:
        for value, paths in _split(record.value, named):
            reader = TextReader(record.line)
            texts: list[LogText] = []
            for option, path in paths.items():
                role: Role = "reply" if option == "--response" else "prompt"
                for found in values_at(value, path):
                    texts += reader.whole(found, role, path)

            if texts and isinstance(value, Mapping):
                item = LogItem(value, record.line, {})
                name = _record_name(item, len(reading.decisions))
                reading.decisions.append(_as_decision(name, [item], texts, flat_fields(value)))
    return reading


def _split(
    value: JsonValue, named: Mapping[str, str]
) -> Iterator[tuple[JsonValue, dict[str, str]]]:
    """Yield each object that contains the paths, with the paths relative to the object. If all
    paths share a list, the list is expanded into its items.
    """
    if isinstance(value, list):
        for item in value:
            yield from _split(item, named)
        return

    heads = {path.partition(".")[0] for path in named.values()}
    rests = {option: path.partition(".")[2] for option, path in named.items()}
    go_on = len(heads) == 1 and all(rests.values())
    inner = first_at(value, tuple(heads))
    if go_on and isinstance(inner, list):
        yield from _split(inner, rests)
    else:
        yield value, dict(named)
