"""Forms of logs: the keys that identify each, and the names of its decisions.

All other differences are in the words of `words.py` and the paths of `spans.py`; the same code
reads the records of all forms.
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
    """One form of logs."""

    name: str
    keys: tuple[
        str, ...
    ]  #: sets of dotted keys, separated by spaces; a record needs one of the sets
    title: str = ""  #: prefix of decision names
    has_spans: bool = False
    items: str | None = (
        None  #: key of a record's items; empty: the record itself; None: at any depth
    )
    fields_at: str = ""  #: path of metadata that may contain the day; empty: anywhere

    def matches(self, record: JsonValue) -> bool:
        """Return whether a record has the keys of this form."""
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
    """Return the form of the first record that has a form's keys, also inside wrappers; `chat` if
    no record has them.
    """
    for record in records:
        for inner in _first_objects(record, 0):
            for form in FORMS:
                if form.matches(inner):
                    return form
    return form_named(CHAT)


def _first_objects(value: JsonValue, level: int) -> Iterator[JsonValue]:
    """Yield a value, and recursively the first items of its lists and objects."""
    if isinstance(value, list):
        yield from _first_objects(value[0] if value else None, level)
    elif isinstance(value, Mapping):
        yield value
        for inner in value.values():
            if level < _MAX_WRAPPERS:
                yield from _first_objects(inner, level + 1)


def form_named(name: str) -> LogForm:
    """Return the form with this name."""
    return next(form for form in FORMS if form.name == name)
