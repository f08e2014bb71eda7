"""Formats of logs: the keys that identify each format, and the names of its decisions.

All other differences are described by the words in `words.py` and the paths in `spans.py`. The same
code reads the records of all formats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktdeval.values import JsonValue
from ktdeval_audit.readers.fields import first_at

CHAT = "chat"
_MAX_WRAPPERS = 4


@dataclass(frozen=True)
class LogForm:
    """One format of logs."""

    name: str
    #: sets of dotted keys, separated by spaces; a record must have all keys in one of the sets
    keys: tuple[str, ...]
    title: str = ""  #: prefix for the names of decisions
    has_spans: bool = False
    #: key of the items in a record; empty if the record itself is the item; None if items can be at
    #: any depth
    items: str | None = None
    #: path of the metadata that can contain the day; empty if the day can be anywhere
    fields_at: str = ""

    def matches(self, record: JsonValue) -> bool:
        """Return whether a record has the keys of this format."""
        return any(_has_keys(record, keys) for keys in self.keys)


def _has_keys(record: JsonValue, keys: str) -> bool:
    return all(first_at(record, (key,)) is not None for key in keys.split())


FORMS = (
    LogForm(
        "inspect", ("eval samples", "eval.model"), "sample ", items="samples", fields_at="metadata"
    ),
    LogForm("atif", ("schema_version steps",), items="", fields_at="extra"),
    LogForm(
        "claude-code",
        (
            "type message session_id",
            "type message sessionId",
            "type message parentUuid",
            "type message parent_tool_use_id",
            "type subtype session_id",
            "type subtype model",
        ),
        items="",
        fields_at="metadata",
    ),
    LogForm(
        "codex",
        ("type payload", "type thread_id", "type item"),
        items="",
        fields_at="metadata",
    ),
    LogForm("mlflow", ("info data.spans", "attributes.mlflow.spanType"), "trace ", True),
    LogForm("langsmith", ("run_type inputs",), "trace ", True),
    LogForm(
        "langfuse",
        ("traceId type", "traceId input"),
        "trace ",
        True,
    ),
    LogForm(
        "spans",
        (
            "resourceSpans",
            "resource_spans",
            "context.trace_id",
            "traceId attributes",
            "trace_id attributes",
            "trace_id inputs",
            "trace_id input",
            "root_span_id",
        ),
        "trace ",
        True,
    ),
    LogForm("tradingagents", ("company_of_interest", "trade_date market_report")),
    LogForm(CHAT, ()),
)
NAMES = (*(form.name for form in FORMS), "ktdeval")


def form_of(records: Sequence[JsonValue]) -> LogForm:
    """Return the format of the first record that has the keys of a format, possibly inside
    wrappers. Return `chat` if no record has such keys.
    """
    for record in records:
        for inner in _first_objects(record, 0):
            for form in FORMS:
                if form.matches(inner):
                    return form
    return form_named(CHAT)


def _first_objects(value: JsonValue, level: int) -> Iterator[JsonValue]:
    """Yield a value if it is an object and, recursively, the objects in it. For a list, only the
    first item is used.
    """
    if isinstance(value, list):
        yield from _first_objects(value[0] if value else None, level)
    elif isinstance(value, Mapping):
        yield value
        for inner in value.values():
            if level < _MAX_WRAPPERS:
                yield from _first_objects(inner, level + 1)


def form_named(name: str) -> LogForm:
    """Return the format with this name."""
    return next(form for form in FORMS if form.name == name)
