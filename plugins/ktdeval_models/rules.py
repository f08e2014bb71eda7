"""Models that decide by a rule of technical analysis on the bars that a task shows, separately for each asset."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness import ModelRequest, Reply
from ktdeval.keyless import Conversation, Intent, Row
from ktdeval.market import sessions
from ktdeval.masking import render_json
from ktdeval_models.params import CalendarParams, rules
from ktdeval_models.technical import RULES, Bars, Signals

_DECISIONS: Mapping[int, Literal["BUY", "SELL", "HOLD"]] = {1: "BUY", -1: "SELL", 0: "HOLD"}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class RuleModel:
    """Submits the rule's BUY, SELL or HOLD of each asset after the last bar shown, and HOLD, with the reason, if there are too few
    bars. Raises ProviderError: the task asks for no such decisions, shows no `history`, or hides days that the rule needs;
    ModelError: the conversation shows no account.
    """

    is_free = True  # it calls no provider

    def __init__(self, name: str, params: CalendarParams | None = None) -> None:
        self.name, self._calendar = name, None if params is None else params.calendar
        self._numbers = rules()[name]["numbers"]
        if self._calendar is not None:
            sessions("2020-01-01", "2020-01-31", self._calendar)  # an unknown one is an error of the command line

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request."""
        conversation = Conversation(request)
        if not conversation.is_submission:
            return Reply("Research done.")
        if not conversation.is_readable:
            raise ModelError("bad_request", f"builtin/{self.name}: the conversation shows no account to decide on")
        if problem := self._problem(conversation):
            raise ProviderError(problem)
        orders, history = [], conversation.rows(conversation.state["history"])
        for row in conversation.rows(conversation.state["candidates"]):
            side, reason = self.decide([bar for bar in history if bar["stock_id"] == row["stock_id"]], row["kind"])
            orders.append(Intent(row["stock_id"], _DECISIONS[side], side, 0.5, reason).order(conversation))
        return conversation.submit(orders, conversation.reason(f"Decided by the rule {self.name}."))

    def request_problem(self, request: ModelRequest) -> str | None:
        """Return what the submission of a task would have to ask for or show, and does not; None where the rule can decide."""
        return self._problem(Conversation(request))

    def _problem(self, conversation: Conversation) -> str | None:
        state = conversation.state
        if not conversation.is_submission or not conversation.is_readable:
            return None
        if "hold" not in state["constraints"]:
            problem = "decides BUY, SELL or HOLD, and the task asks for orders; set its answers: stances"
        elif "history" not in state:
            problem = "needs bars, and the task shows none; set its history, or take one of investorbench_history"
        elif self.name == "turn_of_month" and not _DAY.fullmatch(str(state.get("day"))):
            problem = "needs days, and the task's mask hides them; take one that shows them: investorbench_msft_history_bright"
        else:
            return None
        return f"builtin/{self.name} {problem}"

    def decide(self, rows: Sequence[Row], kind: str) -> tuple[int, str]:
        """Return the side (+1, -1, 0) and the reason, from the bars of one asset of a kind (`stock`, `crypto`), oldest first."""
        sides, figures = self._signals(rows, kind) if rows else Signals(np.zeros(1, np.int64), {"bars": np.full(1, np.nan)})
        last = {name: float(values[-1]) for name, values in figures.items()}
        if not np.isfinite([*last.values()]).all():
            return 0, f"{self.name}: HOLD, {len(rows)} bars are too few"
        listed = ", ".join(f"{name} {render_json(value)}" for name, value in last.items())
        return int(sides[-1]), f"{self.name}: {_DECISIONS[int(sides[-1])]}, {listed}"

    def _signals(self, rows: Sequence[Row], kind: str) -> Signals:
        if self.name == "turn_of_month":
            days = np.array([row["day"] for row in rows], dtype="datetime64[D]")
            return RULES[self.name](days, self._calendar or ("24/7" if kind == "crypto" else "XNYS"), **self._numbers)
        prices = np.array([[row[name] for name in Bars._fields] for row in rows], np.float64).T  # null is NaN
        return RULES[self.name](Bars(*np.where(np.isnan(prices), prices[0], prices)), **self._numbers)
