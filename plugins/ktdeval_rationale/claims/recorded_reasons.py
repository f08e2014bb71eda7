"""Reasons in an episode, as recorded in its transcript, with what was shown and what was ordered.

Assets are named by the labels that the model saw, so the ledger is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktdeval.harness import TranscriptEntry, as_object, submission_object
from ktdeval.observation import table_rows
from ktdeval.runner import read_exchanges
from ktdeval.values import JsonValue, loads_strict
from ktdeval_rationale.claims.argued_direction import ArguedOrder

_SUBMIT = "submit_action"
_TESTED_PLAN = "risk_check"


@dataclass(frozen=True)
class RecordedReason:
    """A reason, with the orders that it argues for."""

    text: str
    orders: tuple[ArguedOrder, ...]


@dataclass(frozen=True)
class RecordedStep:
    """A step that was decided by the model."""

    step: int
    reasons: Sequence[RecordedReason]
    orders: Sequence[ArguedOrder]
    prompts: Sequence[str]  #: texts sent to the model, without its own turns and tool results
    results: Sequence[str]  #: results of research tools, in order, without error messages
    plans: Sequence[Mapping[str, Any]]  #: rows of tested plans
    submitted: Mapping[str, JsonValue]  #: the submission


def recorded_steps(entries: Sequence[TranscriptEntry]) -> Iterator[RecordedStep]:
    """Yield the steps with a submission."""
    for entry in entries:
        if entry.submission is not None:
            yield _step(entry, submission_object(entry.submission))


def _step(entry: TranscriptEntry, submitted: Mapping[str, JsonValue]) -> RecordedStep:
    names: dict[str, str] = {}
    prompts: list[str] = []
    results: list[str] = []
    plans: list[Mapping[str, Any]] = []
    for exchange in read_exchanges(entry, "transcript"):
        for message in exchange.sent:
            names.update({call.id: call.name for call in message.tool_calls})
            tool = names.get(message.tool_call_id or "", "")
            if message.role == "tool" and tool != _SUBMIT:
                value = tool_result(message.content)
                if value is None:
                    continue
                results.append(message.content)
                if tool == _TESTED_PLAN:
                    plans = list(table_rows(value.get("plan")))
            elif message.role in ("system", "user"):
                prompts.append(message.content)

    reasons, orders = _reasons(submitted)
    return RecordedStep(entry.step, reasons, orders, prompts, results, plans, submitted)


def tool_result(text: str) -> Mapping[str, Any] | None:
    """Return a tool's result; None for an error, or for a text that is not a JSON object."""
    try:
        value = as_object(loads_strict(text))
    except ValueError:
        return None

    if not value or "error" in value:
        return None
    return value


def _reasons(
    submitted: Mapping[str, JsonValue],
) -> tuple[list[RecordedReason], list[ArguedOrder]]:
    """Return the reasons in a submission, and its orders or decisions."""
    items = submitted.get("orders") or submitted.get("decisions") or []
    orders: list[ArguedOrder] = []
    reasons: list[RecordedReason] = []
    for item in items if isinstance(items, list) else []:
        fields = as_object(item)
        label = fields.get("stock_id")
        if not isinstance(label, str):
            continue

        order = _order(label, fields)
        orders.append(order)
        reason = fields.get("reason")
        if isinstance(reason, str) and reason.strip():
            reasons.append(RecordedReason(reason, (order,)))

    overall = submitted.get("overall_reason")
    if isinstance(overall, str) and overall.strip():
        reasons.append(RecordedReason(overall, tuple(orders)))
    return reasons, orders


def _order(label: str, fields: Mapping[str, JsonValue]) -> ArguedOrder:
    side = fields.get("side") or fields.get("decision")
    return ArguedOrder(
        label=label,
        side=str(side).upper(),
        target_weight=_number(fields.get("target_weight")),
        shares=_number(fields.get("shares")),
    )


def _number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)
