"""Trading of one asset by SELL, HOLD or BUY as an environment of reinforcement learning, on the tasks' own executor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ktdeval.contracts import Task, Window, market_problem
from ktdeval.errors import DataError, UsageError
from ktdeval.harness import StanceRule, Standing
from ktdeval.market import MarketSnapshot, window_rows
from ktdeval.trading import MarketTape, Order, open_account, settle
from ktdeval_models.rl.policy import DECISIONS, Vector, features


class TradingSimulation:
    """Runs of a task's asset over a span of days, each from an account of cash only. The reward is the log return of NAV to the
    next close. `row`: of the market, to decide on; `facts`: fields of a policy's file about its training.
    """

    def __init__(self, task: Task, snapshot: MarketSnapshot, span: Window, lookback: int, scale: float | None = None) -> None:
        """Begin the first run. `span`: first and last day of a fill; `scale`: as of `features`, None: the standard deviation of the
        span's log returns. Raises UsageError: the task is not about stances on one asset; DataError: the market lacks the
        asset, the span or `lookback` returns before it, or the price does not move.
        """
        rules: dict[str, Any] = dict(task.describe())
        assets: tuple[str, ...] = tuple(rules.get("assets") or ())
        if rules.get("answers") != "stances" or len(assets) != 1 or rules.get("weights") is not None or rules.get("exit"):
            form = "BUY, SELL or HOLD of one asset, each a whole position"
            raise UsageError(f"task {task.name} does not ask for {form}; choose one such as investorbench_msft")
        if problem := market_problem(task, snapshot):
            raise DataError(problem)
        self._trading, self.lookback = task.trading, lookback
        self._tape, self._asset = MarketTape.from_snapshot(snapshot, task.trading), snapshot.asset_index[assets[0]]
        self._rule = StanceRule(task.trading.max_weight, rules["hold"], self._tape.rules.shorts, rules.get("sell") == "close")
        start, self._stop = window_rows(snapshot.days, span.first, span.last)
        self._first = start - 1
        closes = snapshot.close[:, self._asset] * snapshot.factor[:, self._asset]
        self._traded = np.flatnonzero(np.isfinite(closes) & (snapshot.volume[:, self._asset] != 0))
        self._closes = closes[self._traded]
        within = self._closes[(self._traded >= self._first) & (self._traded < self._stop)]
        self.scale = scale or (float(np.std(np.diff(np.log(within)))) if len(within) > 2 else 0.0)
        if self.scale == 0.0:
            raise DataError(f"task {task.name}: the price does not move from {span.first} to {span.last}; choose other days")
        origin = {"task": task.name, "snapshot": snapshot.id, "first": span.first, "last": span.last}
        self.facts: dict[str, Any] = {**origin, "hold": self._rule.hold, "lookback": lookback, "scale": self.scale}
        self.reset()

    def reset(self) -> Vector:
        """Begin again; returns the features of the first decision, [lookback + 1] float32."""
        self._account = open_account(self._trading, self._tape.rules.minor_per_unit)
        self._nav, self.row = self._account.cash_minor, self._first
        return self.observation()

    def _side(self) -> int:
        held = self._account.positions.get(self._asset)
        return 0 if held is None else 1 if held.shares > 0 else -1

    def observation(self) -> Vector:
        """Return the features known at this close."""
        closes = self._closes[: np.searchsorted(self._traded, self.row, side="right")]
        return features(closes, self._side(), self.lookback, self.scale)

    def step(self, action: int) -> tuple[Vector, float, bool, bool]:
        """Settle a decision, by its number in `DECISIONS`. Returns the next features, the reward, whether the account is ruined
        (NAV not above 0: the reward is that of a loss to one minor unit), and whether the days are at an end.
        """
        exposure = abs(self._nav - self._account.cash_minor) / self._nav if self._nav > 0 else 0.0
        standing = Standing(self._rule.invested(self._tape.rules.venues[self._asset].fees, exposure))
        change = self._rule.trade(self._rule.side(DECISIONS[action], self._side()), self._side(), standing)
        orders = () if change is None else (Order(self._asset, change[0], 0.5, "", change[1]),)
        settled = settle(self._account, self._tape.day(self.row + 1), orders, self.row)
        reward = math.log(max(settled.nav_minor, 1) / self._nav)
        self._account, self._nav, self.row = settled.after, settled.nav_minor, self.row + 1
        return self.observation(), reward, self._nav <= 0, self.row == self._stop - 1
