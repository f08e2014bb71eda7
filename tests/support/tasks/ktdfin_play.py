"""Plays a KTD-Fin task on a small market with the real harness and executor, without a store."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Any

from ktdeval.harness.agent import Observation
from ktdeval.harness.chat_messages import CallParams, Model, ModelRequest, Reply
from ktdeval.harness.steps.session_parts import SessionParts
from ktdeval.harness.steps.step_session import GuardedSession
from ktdeval.harness.submissions.action import ActionForm
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.registry import load_plugins
from ktdeval.runner.episodes.bookkeeper import Bookkeeper
from ktdeval.runner.episodes.shown_account import shown_account
from ktdeval.task_api.traits import task_traits
from ktdeval.trading.ledger import StepRecord
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import Account
from ktdeval_builtin.react import ReactAgent
from support.tasks.ktdfin_market import spec_of

PLUGINS = load_plugins()


class Scripted:
    """A model that gives prepared replies in turn and remembers what it was asked."""

    def __init__(self, *replies: Reply | BaseException) -> None:
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []

    def reply(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        answer = self.replies.pop(0)
        if isinstance(answer, BaseException):
            raise answer

        return answer


class Play:
    """An episode on a small market, step by step, without a store."""

    def __init__(self, task: Any, model: Model, market: MarketSnapshot, seed: int = 0) -> None:
        self.task = task
        self.market = market
        self.seed = seed
        self.scene = task.scene(spec_of(task.name, task.mask, task.mode, seed), market)
        lens = self.scene.lens
        is_at_book = task_traits(task).account_at_book
        form = ActionForm(task.harness, lens, weights_only=is_at_book)
        guard = LeakGuard(lens, market)
        self.model = model
        tools = PLUGINS.tools(task.tools)
        params = CallParams()
        self.parts = SessionParts(model, lens, guard, tools, form, task.harness, params, seed)
        self.tape = MarketTape.from_snapshot(market, task.trading)
        self.books = Bookkeeper(market, self.tape, task.trading, lens.base_row)
        self.seen = shown_account(task, lens, market, self.tape)
        self.records: list[StepRecord] = []

    @property
    def account(self) -> Account:
        return self.books.account

    def session(self, step: int) -> tuple[Observation, GuardedSession]:
        """Observation and session of the present step."""
        view = self.market.as_of(self.scene.lens.base_row + step)
        observation = self.scene.observe(step, view, self.seen.account, self.seen.last)
        context = self.scene.tool_context(step, view, self.seen.account)

        return observation, GuardedSession(self.parts, step, context, self.seen.breaches)

    def run(self, steps: int) -> list[StepRecord]:
        """Play some steps with the react agent; returns the step records."""
        for step in range(len(self.records), len(self.records) + steps):
            observation, session = self.session(step)
            outcome = session.decide(ReactAgent(), observation, None)
            decision = replace(
                outcome.decision, action=self.seen.size_orders(outcome.decision.action)
            )
            self.records.append(self.books.book(step, decision, outcome.counts))
            self.seen.follow(self.books.account, self.records[-1])

        return self.records


def trades(records: list[StepRecord]) -> list[Any]:
    """Orders and fills in true identities."""
    identity = attrgetter(
        "code",
        "side",
        "target_weight",
        "shares",
        "status",
        "rule",
        "filled_shares",
        "price_ticks",
        "fee_minor",
    )
    return [list(map(identity, record.orders)) for record in records]
