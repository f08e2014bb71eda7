"""Plays a KTD-Fin task on a small market with the real harness and executor, without a store."""

from __future__ import annotations

from typing import Any

from ktdfin_market import spec_of

from ktdeval.errors import ModelError
from ktdeval.harness.action import ActionForm
from ktdeval.harness.agent import Decision, Observation
from ktdeval.harness.desk import DeskParts, StepDesk
from ktdeval.harness.messages import CallParams, Model, ModelRequest, Reply
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.masking.guard import LeakGuard
from ktdeval.registry import load_plugins
from ktdeval.runner.records import step_record
from ktdeval.trading.executor import settle
from ktdeval.trading.tape import Tape
from ktdeval.trading.types import Account
from ktdeval_agents.react import ReactAgent


class Scripted:
    """A model that gives prepared replies in turn and remembers what it was asked."""

    def __init__(self, *replies: Reply | ModelError) -> None:
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []

    def reply(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        answer = self.replies.pop(0)
        if isinstance(answer, ModelError):
            raise answer
        return answer


class Play:
    """An episode on a small market, step by step, without a store."""

    def __init__(self, task: Any, model: Model, market: MarketSnapshot, seed: int = 0) -> None:
        self.task, self.market, self.seed = task, market, seed
        self.scene = task.scene(spec_of(task.name, task.mask, task.mode, seed), market)
        lens = self.scene.lens
        form, guard = ActionForm(task.harness, lens), LeakGuard(lens, market)
        self.model = model
        tools, params = load_plugins().tools(task.tools), CallParams()
        self.parts = DeskParts(model, lens, guard, tools, form, task.harness, params, seed)
        self.tape = Tape.from_snapshot(market, task.trading)
        self.account = Account(task.trading.initial_cash_cny * 100, {})
        self.records: list[Any] = []

    def desk(self, step: int) -> tuple[Observation, StepDesk]:
        """Observation and desk of the present step."""
        view = self.market.as_of(self.scene.lens.base_row + step)
        last = self.records[-1] if self.records else None
        observation = self.scene.observe(step, view, self.account, last)
        return observation, StepDesk(self.parts, step, self.scene.tool_context(step, view, self.account))

    def run(self, steps: int) -> list[Any]:
        """Play some steps with the react agent; returns the step records."""
        for step in range(len(self.records), len(self.records) + steps):
            observation, desk = self.desk(step)
            try:
                decision = ReactAgent().decide(observation, desk, None)
            except ModelError:
                decision = Decision((), "error")
            row = self.scene.lens.base_row + step
            day = self.tape.day(row + 1)
            settlement = settle(self.account, day, decision.action, self.task.trading, row)
            self.account = settlement.after
            self.records.append(step_record(self.market, step, decision, desk.counts.to_json(), day, settlement))
        return self.records


def trades(records: list[Any]) -> list[Any]:
    """What was ordered and filled, in true identities."""
    keys = ("code", "side", "target_weight", "shares", "status", "rule", "filled_shares", "price_ticks", "fee_fen")
    return [[tuple(order[key] for key in keys) for order in record["orders"]] for record in records]
