"""Events of Claude Code: the output of `claude -p --output-format stream-json --verbose` (or `json`), and
the transcripts in ~/.claude/projects. A session with its subagents is a decision.

https://code.claude.com/docs/en/headless, https://code.claude.com/docs/en/agent-sdk/typescript
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ktdeval.values import JsonValue
from ktdeval_audit.log_files import LogRecord, objects_in
from ktdeval_audit.log_types import AgentLog, LoggedDecision, LogText
from ktdeval_audit.readers.messages import message_texts

name = "claude-code"
_SESSIONS = ("session_id", "sessionId")
_TURNS = ("user", "assistant")
_REPEATS = ("stream_event",)  # parts of messages that follow whole


def recognises(records: Sequence[LogRecord]) -> bool:
    """Whether an event begins a session, or is a turn of one."""
    return any(is_event(event) for event, _ in _events(records))


def is_event(value: JsonValue) -> bool:
    """Whether a value is an event that only Claude Code writes: the begin of a session, or a turn
    with the session that it belongs to.
    """
    if not isinstance(value, Mapping):
        return False
    if value.get("type") == "system":
        return value.get("subtype") == "init"

    keys = {"parent_tool_use_id", "parentUuid", *_SESSIONS}
    is_turn = value.get("type") in _TURNS and isinstance(value.get("message"), Mapping)
    return is_turn and bool(keys & value.keys())


def read(records: Sequence[LogRecord], source: str) -> AgentLog:
    """Return each session as a decision."""
    sessions: dict[str, list[tuple[Mapping[str, JsonValue], int | None]]] = {}
    current = ""
    for event, line in _events(records):
        current = _session(event) or current
        sessions.setdefault(current, []).append((event, line))

    unread: Counter[str] = Counter()
    decisions = []
    for session, events in sessions.items():
        decision = _decision(session, events, unread)
        if decision.texts:
            decisions.append(decision)

    notes: tuple[str, ...] = ()
    if unread:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(unread.items()))
        notes = (f"Events without a turn were left out: {kinds}.",)

    return AgentLog(kind=name, source=source, decisions=tuple(decisions), notes=notes)


def _events(
    records: Sequence[LogRecord],
) -> Iterator[tuple[Mapping[str, JsonValue], int | None]]:
    for record in records:
        for item in objects_in(record.value):
            if isinstance(item.get("type"), str):
                yield item, record.line


def _session(event: Mapping[str, JsonValue]) -> str:
    for key in _SESSIONS:
        found = event.get(key)
        if isinstance(found, str):
            return found[:80]
    return ""


def _decision(
    session: str,
    events: Sequence[tuple[Mapping[str, JsonValue], int | None]],
    unread: Counter[str],
) -> LoggedDecision:
    texts: list[LogText] = []
    models: dict[str, None] = {}
    for number, (event, line) in enumerate(events):
        found = list(_event_texts(event, f"event {number}", line))
        if event.get("type") == "result":  # repeats the last reply, unless it is an error
            replies = {text.text for text in texts if text.role == "reply"}
            found = [text for text in found if text.text not in replies]
        elif not found and event.get("type") not in _REPEATS:
            unread[_kind(event)] += 1

        texts += found
        for holder in (event, event.get("message")):
            if isinstance(holder, Mapping) and isinstance(holder.get("model"), str):
                models[str(holder["model"])] = None

    models.pop("<synthetic>", None)  # its own words on an error, of no model
    return LoggedDecision(
        name=session or "session", texts=tuple(texts), models=tuple(models), line=events[0][1]
    )


def _event_texts(event: Mapping[str, JsonValue], place: str, line: int | None) -> Iterator[LogText]:
    """Yield the texts of an event. Only the message itself is read: what lies beside it repeats what
    a tool returned.
    """
    kind = event.get("type")
    message = event.get("message")
    if kind in _TURNS and isinstance(message, Mapping):
        yield from message_texts({"role": kind, "content": message.get("content")}, place, line)
    elif kind == "result":
        yield from message_texts({"role": "assistant", "content": event.get("result")}, place, line)
    elif kind == "system" and event.get("subtype") == "hook_response":
        # what a hook prints may be put before the model
        yield from message_texts({"role": "tool", "content": event.get("output")}, place, line)


def _kind(event: Mapping[str, JsonValue]) -> str:
    subtype = event.get("subtype")
    words = [str(event.get("type"))]
    if isinstance(subtype, str):
        words.append(subtype)
    return "/".join(words)[:40]
