"""Logs of several formats, written from the steps of a run of the suite."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval_audit.log_types import Role
from ktdeval_audit.readers import run_folder

OPENAI_ROLES: Mapping[Role, str] = {"prompt": "user", "tool": "tool", "reply": "assistant"}


@dataclass(frozen=True, kw_only=True)
class LoggedDecision:
    """A decision before it is written: its day and its texts in order."""

    name: str
    day: str
    model: str
    texts: tuple[tuple[Role, str], ...]
    fills: tuple[Mapping[str, Any], ...] = ()
    names_day: bool = True  #: whether the prompt shows the day; a field names it otherwise


def decisions_of(run: Path) -> list[LoggedDecision]:
    """Return the steps of a run folder."""
    decisions = []
    for number, step in enumerate(run_folder.read(run).decisions):
        texts = tuple((text.role, text.text) for text in step.texts)
        day = str(step.fields["decided_on"])
        decisions.append(
            LoggedDecision(name=f"step-{number}", day=day, model=step.models[0], texts=texts)
        )
    return decisions


def _metadata(decision: LoggedDecision) -> dict[str, Any]:
    metadata: dict[str, Any] = {"decided_on": decision.day}
    if decision.fills:
        metadata["fills"] = list(decision.fills)
    return metadata


def _messages(decision: LoggedDecision) -> list[dict[str, Any]]:
    return [{"role": OPENAI_ROLES[role], "content": text} for role, text in decision.texts]


def openai_chat(decisions: Sequence[LoggedDecision]) -> str:
    """Return requests with messages in OpenAI's form; the prompt alone names the day, if it does."""
    lines = []
    for each in decisions:
        record: dict[str, Any] = {"id": each.name, "model": each.model, "messages": _messages(each)}
        if not each.names_day:
            record["metadata"] = {"decided_on": each.day}
        if each.fills:
            record["fills"] = list(each.fills)
        lines.append(json.dumps(record))
    return "\n".join(lines) + "\n"


def anthropic_chat(decisions: Sequence[LoggedDecision]) -> str:
    """Return requests in Anthropic's form: a system prompt apart, tool results in turns of the user."""
    lines = []
    for each in decisions:
        messages: list[dict[str, Any]] = []
        for role, text in each.texts[1:]:
            if role == "tool":
                part = {"type": "tool_result", "tool_use_id": "t", "content": text}
                messages.append({"role": "user", "content": [part]})
            else:
                part = {"type": "text", "text": text}
                messages.append({"role": OPENAI_ROLES[role], "content": [part]})

        request = {"model": each.model, "system": each.texts[0][1], "messages": messages}
        record = {"custom_id": each.name, "request": request, **_metadata(each)}
        lines.append(json.dumps(record))
    return "\n".join(lines) + "\n"


def _span_attributes(each: LoggedDecision) -> dict[str, str]:
    attributes = {"openinference.span.kind": "LLM", "llm.model_name": each.model}
    attributes["metadata"] = json.dumps(_metadata(each))
    for index, message in enumerate(_messages(each)[:-1]):
        attributes[f"llm.input_messages.{index}.message.role"] = message["role"]
        attributes[f"llm.input_messages.{index}.message.content"] = message["content"]

    last = _messages(each)[-1]
    attributes["llm.output_messages.0.message.role"] = last["role"]
    attributes["llm.output_messages.0.message.content"] = last["content"]
    return attributes


def span_lines(decisions: Sequence[LoggedDecision]) -> str:
    """Return a span a line, as the SDK's `to_json` writes it, with OpenInference's attributes."""
    lines = []
    for number, each in enumerate(decisions):
        context = {"trace_id": f"0x{number:032x}", "span_id": f"0x{number:016x}"}
        span = {"name": "decide", "context": context, "attributes": _span_attributes(each)}
        lines.append(json.dumps(span))
    return "\n".join(lines) + "\n"


def otlp(decisions: Sequence[LoggedDecision]) -> str:
    """Return one export of OTLP JSON with the messages of the GenAI semantic conventions."""
    spans = []
    for number, each in enumerate(decisions):
        parts = []
        for message in _messages(each)[:-1]:
            part = {"type": "text", "content": message["content"]}
            if message["role"] == "tool":
                part = {"type": "tool_call_response", "id": "1", "response": message["content"]}
            parts.append({"role": message["role"], "parts": [part]})

        last = {"role": "assistant", "parts": [{"type": "text", "content": each.texts[-1][1]}]}
        attributes = {
            "gen_ai.request.model": each.model,
            "gen_ai.input.messages": json.dumps(parts),
            "gen_ai.output.messages": json.dumps([last]),
            "metadata": json.dumps(_metadata(each)),
        }
        pairs = [{"key": key, "value": {"stringValue": text}} for key, text in attributes.items()]
        spans.append({"traceId": f"{number:032x}", "spanId": f"{number:016x}", "attributes": pairs})

    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


def langsmith(decisions: Sequence[LoggedDecision]) -> str:
    """Return the runs of LangSmith: a call with its messages, and each tool as a run."""
    lines = []
    for number, each in enumerate(decisions):
        trace = f"run-{number}"
        shown = [message for message in _messages(each)[:-1] if message["role"] != "tool"]
        call = {
            "id": f"{trace}-a",
            "trace_id": trace,
            "run_type": "llm",
            "dotted_order": f"{number:06}.0",
            "inputs": {"messages": shown},
            "outputs": {"generations": [[{"text": each.texts[-1][1]}]], **_metadata(each)},
            "extra": {"metadata": {"ls_model_name": each.model, **_metadata(each)}},
        }
        lines.append(json.dumps(call))
        for index, (role, text) in enumerate(each.texts):
            if role != "tool":
                continue

            tool = {
                "id": f"{trace}-{index}",
                "trace_id": trace,
                "run_type": "tool",
                "dotted_order": f"{number:06}.{index}",
                "inputs": {},
                "outputs": {"output": text},
            }
            lines.append(json.dumps(tool))
    return "\n".join(lines) + "\n"


def inspect_log(decisions: Sequence[LoggedDecision]) -> str:
    """Return a log of Inspect AI as JSON."""
    samples = []
    for each in decisions:
        samples.append({"id": each.name, "messages": _messages(each), "metadata": _metadata(each)})
    model = decisions[0].model
    return json.dumps({"version": 2, "eval": {"model": model}, "samples": samples})


FORMATS: Mapping[str, tuple[str, Callable[[Sequence[LoggedDecision]], str]]] = {
    "openai": ("jsonl", openai_chat),
    "anthropic": ("jsonl", anthropic_chat),
    "openinference": ("jsonl", span_lines),
    "genai otlp": ("json", otlp),
    "langsmith": ("jsonl", langsmith),
    "inspect": ("json", inspect_log),
}
"""Ending and writer of each format."""


def write_log(folder: Path, kind: str, decisions: Sequence[LoggedDecision]) -> Path:
    """Write decisions in a format, and return the path."""
    ending, writer = FORMATS[kind]
    path = folder / f"{kind.replace(' ', '-')}.{ending}"
    path.write_text(writer(decisions), encoding="utf-8")
    return path
