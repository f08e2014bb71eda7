"""Reading of a request and writing of a reply by a built-in model: the same messages and tools that a real model gets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from ktdeval.harness import ModelRequest, Reply, ToolCall, json_object, shown_state, table_rows
from ktdeval.jsonio import JsonValue
from ktdeval.keyless.ordering import Row, standing

SUBMIT = "submit_action"

Call = tuple[str, Mapping[str, JsonValue]]  # a tool's name and its arguments


class Conversation:
    """Parsed request: what is shown, what was looked up, what is asked for now."""

    def __init__(self, request: ModelRequest) -> None:
        self.request = request
        self.offered = frozenset(tool.name for tool in request.tools)
        self.is_submission = request.tool_choice == SUBMIT or self.offered == {SUBMIT}

    @cached_property
    def state(self) -> Mapping[str, Any]:
        """JSON block of the latest user message that holds one; empty when there is none."""
        for message in reversed(self.request.messages):
            if message.role == "user" and (value := shown_state(message.content)):
                return value
        return {}

    @property
    def is_readable(self) -> bool:
        """True when the state is one that these models understand: account, positions and constraints are there."""
        return {"account", "positions", "constraints"} <= self.state.keys()

    @cached_property
    def calls_made(self) -> int:
        """Tool calls in the conversation so far."""
        return sum(len(message.tool_calls) for message in self.request.messages)

    @cached_property
    def turns(self) -> int:
        """Assistant turns with tool calls so far."""
        return sum(bool(message.tool_calls) for message in self.request.messages)

    def result(self, name: str) -> Mapping[str, Any]:
        """Return the latest JSON result of a tool; empty when it was not called, or answered with something else."""
        names = {call.id: call.name for message in self.request.messages for call in message.tool_calls}
        for message in reversed(self.request.messages):
            if message.role == "tool" and names.get(message.tool_call_id or "") == name:
                return json_object(message.content)
        return {}

    def rows(self, source: Any) -> list[Row]:
        """Return the rows of a table as mappings; empty when `source` is no table."""
        return table_rows(source)

    def call(self, calls: Sequence[Call]) -> Reply:
        """Return a reply that calls tools."""
        # Keys stay in the model's order: sorted, those that are stocks would be ordered by their labels.
        texts = [(name, json.dumps(arguments, ensure_ascii=False, allow_nan=False)) for name, arguments in calls]
        numbered = enumerate(texts, start=self.calls_made + 1)
        return Reply(tool_calls=tuple(ToolCall(f"call_{number}", *text) for number, text in numbered), finish_reason="tool_calls")

    def submit(self, orders: Sequence[Mapping[str, JsonValue]], overall_reason: str) -> Reply:
        """Return a reply that submits an action; as a decision on each asset in tasks that ask for BUY, SELL or HOLD."""
        if "hold" in self.state.get("constraints", {}):
            return self.call([(SUBMIT, {"decisions": self._stances(orders), "overall_reason": overall_reason})])
        return self.call([(SUBMIT, {"orders": list(orders), "overall_reason": overall_reason})])

    def _stances(self, orders: Sequence[Mapping[str, Any]]) -> list[JsonValue]:
        """One decision for each candidate: the side that its order ends on, or that it is on. Where HOLD keeps a position, nothing
        but the other side ends one. Candidates come in the order of the orders, then of their figures: what is decided first is
        traded first.
        """
        is_flat = self.state["constraints"]["hold"] == "flat"
        weights = {row["stock_id"]: row["weight"] for row in self.rows(self.state["positions"])}
        by_stock = {order["stock_id"]: order for order in orders}
        decisions: list[JsonValue] = []
        candidates = [row["stock_id"] for group in standing(self.rows(self.state["candidates"])) for row in group]
        for stock in dict.fromkeys([*by_stock, *candidates]):
            order = by_stock.get(stock)
            weight = order["target_weight"] if order else weights.get(stock, 0.0) if is_flat else 0.0
            decision = "BUY" if weight > 0 else "SELL" if weight < 0 else order["side"] if order and not is_flat else "HOLD"
            why = {"confidence": order["confidence"], "reason": order["reason"]} if order else None
            why = why or {"confidence": 0.5, "reason": self.reason("nothing to change by rule")}
            decisions.append({"stock_id": stock, "decision": decision, **why})
        return decisions

    def reason(self, text: str) -> str:
        """Return `text`, repeated up to the length of the task's shortest reason."""
        shortest = int(self.state.get("constraints", {}).get("min_reason_chars", 0))
        return text if len(text) >= shortest else (text + " " + text * (shortest // len(text)))[: max(shortest, len(text))]
