"""Extract items from the wrappers around them in a log's records. Items are spans, messages, and
records with texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktdeval.values import JsonValue
from ktdeval_audit.log_files import LogRecord, objects_in
from ktdeval_audit.readers.fields import flat_fields
from ktdeval_audit.readers.forms import LogForm
from ktdeval_audit.readers.spans import is_span
from ktdeval_audit.readers.words import holds_messages, is_message, other_kind_of, part_of, role_of

_DEEPEST = 5  # maximum nesting depth of wrappers
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SAMPLES = "samples/"
_CHILDREN = ("observations", "child_runs", "children", "spans")

Fields = Mapping[str, JsonValue]
Found = tuple[Mapping[str, JsonValue], Fields]
"""An object, with the fields of its wrappers."""


@dataclass(frozen=True)
class LogItem:
    """A span, a message, or a record with texts."""

    value: Mapping[str, JsonValue]
    line: int | None
    fields: Fields  #: fields of the wrappers around the item


def find_items(records: Sequence[LogRecord], form: LogForm) -> Iterator[LogItem]:
    """Yield the items in a log, in the order of the file. In an archive, only the samples have
    items.
    """
    header: Fields = {}
    for record in records:
        if record.member == "header.json":
            header = flat_fields(record.value)

    for record in records:
        if record.member and not record.member.startswith(_SAMPLES):
            continue

        if form.items is not None:
            found = _find_named(record, header, form.items)
        elif form.has_spans:
            found = _find_spans(record.value, header)
        else:
            found = _find_texts(record.value, header)
        for value, fields in found:
            yield LogItem(value, record.line, fields)


def _find_named(record: LogRecord, header: Fields, key: str) -> Iterator[Found]:
    """Yield the objects at a key in a record. If the record is a member of an archive, yield the
    record itself.
    """
    for value in objects_in(record.value):
        inner = value.get(key) if key and not record.member else value
        fields = {**header, **flat_fields(value.get("eval"), "eval.")}
        for item in objects_in(inner):
            yield item, fields


def _find_spans(value: JsonValue, fields: Fields, level: int = 0) -> Iterator[Found]:
    """Yield the spans in a value, and the traces that contain a request or a reply of their own."""
    if isinstance(value, list):
        for item in value:
            yield from _find_spans(item, fields, level)
        return
    if not isinstance(value, Mapping) or level > _DEEPEST:
        return

    is_trace = "id" in value and ("input" in value or "output" in value)
    if is_span(value):
        yield value, fields
    elif is_trace:
        yield {**value, "trace_id": value["id"]}, fields
    else:
        below = {**fields, **flat_fields(value)}
        for inner in _rows_of_columns(value) or value.values():
            yield from _find_spans(inner, below, level + 1)
        return

    for key in _CHILDREN:
        yield from _find_spans(value.get(key), fields, level)


def _find_texts(value: JsonValue, fields: Fields, level: int = 0) -> Iterator[Found]:
    """Yield the messages in a value, and the records with texts."""
    if isinstance(value, list):
        is_conversation = bool(value) and is_message(value[0]) and not is_event(value[0])
        if is_conversation and level < 2:
            yield {"messages": value}, fields
            return
        for item in value:
            yield from _find_texts(item, fields, level)
        return
    if not isinstance(value, Mapping):
        return

    is_whole = any(map(part_of, value)) and not _wraps_records(value)
    if is_whole or other_kind_of(value):
        yield value, fields
        return
    if level >= _DEEPEST:
        return

    of_all_days = {key: inner for key, inner in value.items() if not _DAY.fullmatch(key)}
    below = {**fields, **flat_fields(of_all_days)}
    rows = _rows_of_columns(value)
    if rows:
        yield from _find_texts(rows, below, level + 1)
        return
    for key, inner in value.items():
        if not isinstance(inner, list | Mapping):  # a table may have very many columns
            continue

        # copied only for a day: copies for each of many keys take quadratic time
        its_fields = {**below, "day": key} if _DAY.fullmatch(key) else below
        yield from _find_texts(inner, its_fields, level + 1)


def is_event(value: JsonValue) -> bool:
    """Return whether a value is an event in a session, which names the session."""
    return isinstance(value, Mapping) and ("session_id" in value or "sessionId" in value)


def _wraps_records(value: Mapping[str, JsonValue]) -> bool:
    """Return whether an object has a list of records that contain messages but are not messages
    themselves.
    """
    for inner in value.values():
        first = inner[0] if isinstance(inner, list) and inner else None
        if isinstance(first, Mapping) and role_of(first) is None and holds_messages(first):
            return True
    return False


def _rows_of_columns(value: Mapping[str, JsonValue]) -> list[JsonValue]:
    """Return the rows of a table that is stored by column, or an empty list if the value is not
    such a table.
    """
    columns: dict[str, Mapping[str, JsonValue]] = {}
    for name, column in value.items():
        if isinstance(column, Mapping):
            columns[name] = column

    first = next(iter(columns.values()), {})
    has_other = any(column.keys() != first.keys() for column in columns.values())
    if len(columns) < max(2, len(value)) or has_other or any(map(part_of, first)):
        return []

    rows: list[JsonValue] = []
    for row in first:
        rows.append({name: column[row] for name, column in columns.items()})
    return rows
