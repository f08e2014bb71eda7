"""Logs of Inspect AI, as `.eval` (a zip archive) or `.json`. A sample is a decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktdeval.values import JsonValue
from ktdeval_audit.log_files import LogRecord
from ktdeval_audit.log_types import AgentLog, LoggedDecision, LogText
from ktdeval_audit.readers.messages import flat_fields, message_texts, recorded_fills

name = "inspect"
_ATTACHMENT = "attachment://"
_SAMPLES = "samples/"


def recognises(records: Sequence[LogRecord]) -> bool:
    """Whether records are the members of an `.eval` file, or one log with samples."""
    if any(record.member.startswith(_SAMPLES) for record in records):
        return True

    first = records[0].value if records else None
    return isinstance(first, Mapping) and {"eval", "samples"} <= first.keys()


def read(records: Sequence[LogRecord], source: str) -> AgentLog:
    """Return each sample as a decision, with the messages that it ended with."""
    model = ""
    samples: list[JsonValue] = []
    for record in records:
        if record.member.startswith(_SAMPLES):
            samples.append(record.value)
        elif record.member in ("", "header.json") and isinstance(record.value, Mapping):
            model = _model(record.value.get("eval")) or model
            listed = record.value.get("samples")
            if isinstance(listed, list):
                samples += listed

    decisions = []
    for sample in samples:
        if isinstance(sample, Mapping):
            decisions.append(_decision(sample, model))

    with_texts = tuple(decision for decision in decisions if decision.texts)
    return AgentLog(kind=name, source=source, decisions=with_texts)


def _model(facts: JsonValue) -> str:
    found = facts.get("model") if isinstance(facts, Mapping) else None
    return found if isinstance(found, str) else ""


def _decision(sample: Mapping[str, JsonValue], model: str) -> LoggedDecision:
    identity = str(sample.get("id", ""))[:80]
    attachments = sample.get("attachments")
    texts: list[LogText] = []
    messages = sample.get("messages")
    if isinstance(messages, list):
        for index, message in enumerate(messages):
            place = f"sample {identity}/message {index}"
            found = message_texts(message, place, None)
            texts += _with_attachments(found, attachments)

    fills = [*recorded_fills(sample.get("metadata"), f"sample {identity}/metadata", None)]
    fills += recorded_fills(sample.get("store"), f"sample {identity}/store", None)
    return LoggedDecision(
        name=f"sample {identity}",
        texts=tuple(texts),
        fields=flat_fields(sample.get("metadata"), "metadata."),
        models=(model,) if model else (),
        fills=tuple(fills),
    )


def _with_attachments(texts: Iterator[LogText], attachments: JsonValue) -> Iterator[LogText]:
    """Yield texts with the long ones that the log keeps elsewhere in a sample."""
    for text in texts:
        if text.text.startswith(_ATTACHMENT) and isinstance(attachments, Mapping):
            long_text = attachments.get(text.text.removeprefix(_ATTACHMENT))
            if isinstance(long_text, str):
                yield LogText(role=text.role, text=long_text, place=text.place, fields=text.fields)
                continue
        yield text
