"""Simulate trading of one asset by SELL, HOLD or BUY for reinforcement learning, with the same
executor as in tasks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ktdeval.errors import DataError, UsageError
from ktdeval.harness import StanceRule, Standing
from ktdeval.market import MarketSnapshot, window_rows
from ktdeval.tasks import Task, Window, market_problem
from ktdeval.trading import MarketTape, Order, open_account, settle
from ktdeval_models.rl.choice import form_problem, span_problem
from ktdeval_models.rl.policy import DECISIONS, Vector, features


class TradingSimulation:
    """Repeated runs of a task's asset over a span of days, each from an account of cash only.

    The reward of a decision is the log return of NAV to the next close. `row` is the market's row
    that is decided on next; `facts` are the fields of a policy's file about its training.
    """

    def __init__(
        self,
        task: Task,
        snapshot: MarketSnapshot,
        span: Window,
        lookback: int,
        scale: float | None = None,
    ) -> None:
        """Begin the first run.

        `span`: first and last day of a fill. `scale`: divides the features' returns (default: the
        standard deviation of the span's log returns). Raises UsageError if the task does not ask
        for decisions on one asset; DataError if the market lacks the asset, the span or `lookback`
        returns before it, or if the price does not move.
        """
        rules: dict[str, Any] = dict(task.describe())
        unfit = form_problem(rules)
        if unfit:
            advice = f"`ktdeval rl train --task {task.name} …` names tasks that do"
            raise UsageError(f"task {task.name} {unfit}; {advice}")

        absent = market_problem(task, snapshot)
        if absent:
            raise DataError(absent)

        (code,) = rules["assets"]
        self._trading = task.trading
        self._tape = MarketTape.from_snapshot(snapshot, task.trading)
        self._asset = snapshot.asset_index[code]
        self.lookback = lookback
        self._rule = StanceRule(
            task.trading.max_weight,
            rules["hold"],
            self._tape.rules.shorts,
            rules.get("sell") == "close",
        )
        start, self._stop = window_rows(snapshot.days, span.first, span.last)
        self._first = start - 1  # the first fill is decided on at the close before
        closes = snapshot.close[:, self._asset] * snapshot.factor[:, self._asset]
        self._traded = np.flatnonzero(np.isfinite(closes) & (snapshot.volume[:, self._asset] != 0))
        self._closes = closes[self._traded]
        within = self._closes[(self._traded >= self._first) & (self._traded < self._stop)]
        problem = span_problem(snapshot, self._asset, lookback, span, len(within))
        if problem:
            raise DataError(f"task {task.name}: {problem}")

        self.scale = scale or float(np.std(np.diff(np.log(within))))
        if self.scale == 0.0:
            raise DataError(
                f"task {task.name}: the price does not move from {span.first} to {span.last};"
                " choose other days"
            )

        self.facts: dict[str, Any] = {
            "task": task.name,
            "snapshot": snapshot.id,
            "first": span.first,
            "last": span.last,
            "hold": self._rule.hold,
            "lookback": lookback,
            "scale": self.scale,
        }
        self.reset()

    def reset(self) -> Vector:
        """Begin a run. Return the features of its first decision, [lookback + 1] float32."""
        self._account = open_account(self._trading, self._tape.rules.minor_per_unit)
        self._nav = self._account.cash_minor
        self.row = self._first
        return self.observation()

    def _side(self) -> int:
        """Return 1 for a long position, -1 for a short one, 0 for none."""
        held = self._account.positions.get(self._asset)
        if held is None:
            return 0
        return 1 if held.shares > 0 else -1

    def observation(self) -> Vector:
        """Return the features that are known at this row's close."""
        closes = self._closes[: np.searchsorted(self._traded, self.row, side="right")]
        return features(closes, self._side(), self.lookback, self.scale)

    def step(self, action: int) -> tuple[Vector, float, bool, bool]:
        """Settle a decision, given as its index in `DECISIONS`.

        Return the next features, the reward, whether the account is ruined, and whether this was
        the last day. An account is ruined if its NAV is not positive; the reward is then that of a
        loss down to one minor unit of the currency.
        """
        exposure = 0.0
        if self._nav > 0:
            exposure = abs(self._nav - self._account.cash_minor) / self._nav

        fees = self._tape.rules.venues[self._asset].fees
        standing = Standing(self._rule.invested(fees, exposure))
        side = self._side()
        wanted = self._rule.side(DECISIONS[action], side)
        change = self._rule.trade(wanted, side, standing)
        orders: tuple[Order, ...] = ()
        if change is not None:
            order_side, target = change
            orders = (Order(self._asset, order_side, 0.5, "", target),)

        settled = settle(self._account, self._tape.day(self.row + 1), orders, self.row)
        reward = math.log(max(settled.nav_minor, 1) / self._nav)
        self._account = settled.after
        self._nav = settled.nav_minor
        self.row += 1
        is_ruined = self._nav <= 0
        is_last = self.row == self._stop - 1

        return self.observation(), reward, is_ruined, is_last
