"""Requests and replies of rule-based models. They use the same tools and state as a real
model, in the form of values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from ktdeval.harness import (
    NO_TOOL,
    ModelRequest,
    Reply,
    ToolCall,
    as_object,
    json_object,
    table_rows,
)
from ktdeval.keyless.mask_invariant_order import Row, standing
from ktdeval.observation import NOTHING_SHOWN, ObservedState
from ktdeval.values.documents.strict_json import JsonValue

SUBMIT = "submit_action"

Call = tuple[str, Mapping[str, JsonValue]]  # tool name and arguments
_READABLE = frozenset({"account", "positions", "constraints"})
_STATE = "```json"  # marks the start of a state in a message
# a memory line, from an agent with memory
_MEMORY = re.compile(r"^- (M[0-9]+): (.*)$", re.MULTILINE)


# covers several steps, since every request in a step contains the results again
@lru_cache(maxsize=32)
def _read_result(text: str) -> Mapping[str, Any]:
    """Return a tool's result. Callers must not change it."""
    return json_object(text)


@lru_cache(maxsize=32)
def _read_rows(text: str, table: str) -> Sequence[Row]:
    """Return the rows of a table in a tool's result. Callers must not change them."""
    return tuple(table_rows(_read_result(text).get(table)))


class Conversation:
    """A request, split into the state shown, research results, and the question."""

    def __init__(self, request: ModelRequest) -> None:
        self.request = request
        tools = () if request.tool_choice == NO_TOOL else request.tools
        self.offered = frozenset(tool.name for tool in tools)
        self.is_submission = request.tool_choice == SUBMIT or self.offered == {SUBMIT}

    @cached_property
    def choices(self) -> Mapping[str, Sequence[str]]:
        """Options by field, if a forced tool requires choosing from a list; empty for other
        requests and for submissions.
        """
        if self.is_submission:
            return {}

        on_offer = {}
        for tool in self.request.tools:
            fields = as_object(tool.parameters.get("properties"))
            if tool.name != self.request.tool_choice:
                continue
            for name, schema in fields.items():
                words = as_object(as_object(schema).get("items")).get("enum")
                if isinstance(words, Sequence):
                    on_offer[name] = [str(word) for word in words]

        return on_offer

    def choose_all(self) -> Reply:
        """Return a call of the forced tool that selects every option, since a rule has no
        preference.
        """
        name = str(self.request.tool_choice)
        return self.call([(name, {**self.choices, "reason": "no preference by rule"})])

    @property
    def observed(self) -> ObservedState:
        """State of the day shown in the messages; empty if they show no state."""
        return self.request.state or NOTHING_SHOWN

    @property
    def state(self) -> Mapping[str, Any]:
        """Sections of `observed` as plain JSON values, keyed by name."""
        return self.observed.values

    @property
    def is_readable(self) -> bool:
        """True if the state has the sections that these models need: account, positions and
        constraints.
        """
        return self.observed.sections.keys() >= _READABLE

    @cached_property
    def calls_made(self) -> int:
        """Number of tool calls in the conversation so far."""
        return sum(len(message.tool_calls) for message in self.request.messages)

    @cached_property
    def turns(self) -> int:
        """Number of assistant turns with tool calls so far."""
        return sum(bool(message.tool_calls) for message in self.request.messages)

    def result(self, name: str) -> Mapping[str, Any]:
        """Return a tool's latest JSON result; empty if the tool was not called, or if its result is
        not a JSON object.
        """
        return _read_result(self.results.get(name, ""))

    def result_rows(self, name: str, table: str) -> Sequence[Row]:
        """Return the rows of a table in a tool's latest result; empty if the result has no such
        table.
        """
        return _read_rows(self.results.get(name, ""), table)

    @cached_property
    def results(self) -> Mapping[str, str]:
        """Text of each tool's latest result, keyed by tool name."""
        name_of: dict[str, str] = {}
        for message in self.request.messages:
            for call in message.tool_calls:
                name_of[call.id] = call.name

        latest: dict[str, str] = {}
        for message in self.request.messages:
            called = name_of.get(message.tool_call_id or "")
            if message.role == "tool" and called is not None:
                latest[called] = message.content

        return latest

    def rows(self, source: Any) -> list[Row]:
        """Return the rows of a table as mappings; empty if `source` is not a table."""
        return table_rows(source)

    @cached_property
    def holdings(self) -> list[Row]:
        """Rows of the positions. A position whose row does not show whether it trades or is in the
        index is assumed to do both.
        """
        assumed = {"status": "trading", "member": True}
        return [{**assumed, **row} for row in self.rows(self.state["positions"])]

    @cached_property
    def day_message(self) -> str:
        """Latest user message that shows a state; empty if no message does."""
        for message in reversed(self.request.messages):
            if message.role == "user" and _STATE in message.content:
                return message.content

        return ""

    @cached_property
    def documents(self) -> Sequence[Row]:
        """The day's documents whose text is shown, either in the table or, for an agent with
        memory, in the memory line to which the document's row refers.
        """
        remembered = dict(_MEMORY.findall(self.day_message))
        documents: list[Row] = []
        for row in self.rows(self.state.get("news")):
            line = remembered.get(str(row.get("memory")))
            if "text" in row:
                documents.append(row)
            elif line is not None:
                _, _, text = line.partition(": ")
                documents.append({**row, "title": "", "text": text})

        return documents

    def call(self, calls: Sequence[Call]) -> Reply:
        """Return a reply that calls tools."""
        tool_calls = []
        for number, (name, arguments) in enumerate(calls, start=self.calls_made + 1):
            # Keys keep the model's order; sorting would order stock keys by label.
            text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
            tool_calls.append(ToolCall(f"call_{number}", name, text))

        return Reply(tool_calls=tuple(tool_calls), finish_reason="tool_calls")

    def submit(self, orders: Sequence[Mapping[str, JsonValue]], overall_reason: str) -> Reply:
        """Return a reply that submits an action. For tasks that ask for BUY, SELL or HOLD, the
        action is submitted as one decision per asset.
        """
        action: dict[str, JsonValue]
        if self.observed.limits.asks_decisions:
            action = {"decisions": self._decisions(orders)}
        else:
            action = {"orders": list(orders)}

        return self.call([(SUBMIT, {**action, "overall_reason": overall_reason})])

    def _decisions(self, orders: Sequence[Mapping[str, Any]]) -> list[JsonValue]:
        """Return one decision per candidate: the side after its order, or the current side if it
        has no order. Candidates with orders come first, in the sequence of the orders; the others
        follow, sorted by their figures. Earlier decisions are traded first.
        """
        order_of = {order["stock_id"]: order for order in orders}
        stocks = dict.fromkeys(order_of)
        for group in standing(self.rows(self.state["candidates"])):
            stocks.update(dict.fromkeys(row["stock_id"] for row in group))

        decisions: list[JsonValue] = []
        for stock in stocks:
            order = order_of.get(stock)
            confidence = 0.5
            reason = self.reason("nothing to change by rule")
            if order is not None:
                confidence = order["confidence"]
                reason = order["reason"]

            decisions.append(
                {
                    "stock_id": stock,
                    "decision": self._decision(stock, order),
                    "confidence": confidence,
                    "reason": reason,
                }
            )

        return decisions

    def _decision(self, stock: str, order: Mapping[str, Any] | None) -> str:
        """Return BUY, SELL or HOLD. With an order, this is the side of the target weight; if that
        weight is 0, it is HOLD if HOLD closes positions, otherwise the order's own side. Without an
        order, it is the side of the current weight if HOLD closes positions, otherwise HOLD.
        """
        is_flat = self.observed.limits.hold == "flat"
        weight = 0.0
        if order is not None:
            weight = order["target_weight"]
        elif is_flat and stock in self.observed.positions:
            weight = self.observed.positions[stock].weight or 0.0

        if weight > 0:
            return "BUY"
        if weight < 0:
            return "SELL"
        if order is not None and not is_flat:
            return str(order["side"])
        return "HOLD"

    def reason(self, text: str) -> str:
        """Return `text`, repeated until it has the task's minimum reason length."""
        shortest = self.observed.limits.min_reason_chars
        if len(text) >= shortest:
            return text

        repeated = text + " " + text * (shortest // len(text))
        return repeated[:shortest]
