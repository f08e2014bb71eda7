"""Simulate trading one asset with SELL, HOLD or BUY for reinforcement learning, with the same
executor as in tasks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError, UsageError
from ktdeval.harness import StanceRule, Standing
from ktdeval.market import FloatArray, MarketSnapshot, window_rows
from ktdeval.task_api import Task, Window, market_problem
from ktdeval.trading import MarketTape, Order, TradingConfig, open_account, settle
from ktdeval_gym.policy import DECISIONS, Vector, scaled_features
from ktdeval_gym.training_checks import closes_and_trades, form_problem, span_problem

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AssetMarket:
    """One asset in a market under a task's rules, shared by environments with different spans."""

    task: Task
    snapshot: MarketSnapshot
    trading: TradingConfig
    tape: MarketTape
    asset: int  #: index of the asset in the market
    rule: StanceRule
    traded: IntArray  #: [K] rows of days on which the asset traded
    closes: FloatArray  #: [K] adjusted closes on these days
    returns: FloatArray  #: [K - 1] log returns between them
    known: IntArray  #: [T] number of closes known at each row's close

    @classmethod
    def of(cls, task: Task, snapshot: MarketSnapshot) -> AssetMarket:
        """Return the market for a task's asset. Raises UsageError if the task does not ask for
        decisions on one asset; DataError if the market lacks the asset.
        """
        rules: dict[str, Any] = dict(task.describe())
        unfit = form_problem(rules)
        if unfit:
            advice = f"`ktdeval train rl --task {task.name} …` names tasks that do"
            raise UsageError(f"task {task.name} {unfit}; {advice}")

        absent = market_problem(task, snapshot)
        if absent:
            raise DataError(absent)

        (code,) = rules["assets"]
        tape = MarketTape.from_snapshot(snapshot, task.trading)
        if tape.liquidity is not None:
            raise UsageError(
                f"task {task.name}: this simulation fills orders without size effects; leave out "
                "trading.execution, or use the environment of the task itself (docs/gym.md)"
            )

        asset = snapshot.asset_index[code]
        closes, traded = closes_and_trades(snapshot, asset)
        rule = StanceRule(
            task.trading.max_weight,
            rules["hold"],
            tape.rules.shorts,
            rules.get("sell") == "close",
        )

        return cls(
            task=task,
            snapshot=snapshot,
            trading=task.trading,
            tape=tape,
            asset=asset,
            rule=rule,
            traded=traded,
            closes=closes[traded],
            returns=np.diff(np.log(closes[traded])),
            known=np.searchsorted(traded, np.arange(len(closes)), side="right"),
        )


@dataclass(frozen=True)
class StepFacts:
    """Amounts of a settled step, from which rewards are computed."""

    nav_before: int  #: NAV at the close at which the decision was made, in minor units
    nav: int  #: NAV at the next close, in minor units
    traded: int  #: notional of the fills in the step, in minor units
    asset_return: float  #: log return of the asset itself over the step; 0 on a day without trading


class TradingSimulation:
    """Repeated runs of trading a task's asset over a range of days, each starting with cash only.

    The reward for a decision is the log return of NAV up to the next close. `row` is the market's
    row for the next decision. `facts` are the fields of a policy file that describe the training.
    """

    def __init__(
        self,
        task: Task,
        snapshot: MarketSnapshot,
        span: Window,
        lookback: int,
        scale: float | None = None,
        market: AssetMarket | None = None,
    ) -> None:
        """Begin the first run.

        `span`: first and last fill day. `scale`: divisor of the returns in the features (default:
        the standard deviation of the span's log returns). `market`: the task's asset market in the
        snapshot, if it already exists. Raises UsageError if the task does not ask for decisions on
        one asset; DataError if the market lacks the asset, the span, or `lookback` returns before
        the span, or if the price does not move.
        """
        market = market or AssetMarket.of(task, snapshot)
        self.market = market
        self.lookback = lookback
        start, self.stop = window_rows(snapshot.days, span.first, span.last)
        self.first = start - 1  # the first fill is decided at the previous close
        is_within = (market.traded >= self.first) & (market.traded < self.stop)
        within = market.closes[is_within]
        problem = span_problem(snapshot, market.asset, lookback, span, len(within))
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
            "hold": market.rule.hold,
            "lookback": lookback,
            "scale": self.scale,
        }
        self.reset()

    def reset(self) -> Vector:
        """Start a run. Return the features for its first decision, [lookback + 1] float32."""
        minor_per_unit = self.market.tape.rules.minor_per_unit
        self._account = open_account(self.market.trading, minor_per_unit)
        self.nav = self._account.cash_minor
        self.row = self.first
        return self.observation()

    @property
    def side(self) -> int:
        """1 for a long position, -1 for a short position, 0 for no position."""
        held = self._account.positions.get(self.market.asset)
        if held is None:
            return 0
        return 1 if held.shares > 0 else -1

    def observation(self) -> Vector:
        """Return the features known at this row's close."""
        last = int(self.market.known[self.row]) - 1
        returns = self.market.returns[last - self.lookback : last]
        return scaled_features(returns, self.side, self.scale)

    def step(self, action: int) -> tuple[Vector, float, bool, bool]:
        """Settle a decision, given as its index in `DECISIONS`.

        Return the next features, the reward, whether the account is ruined, and whether this was
        the last day. An account is ruined if its NAV is not positive. The reward then corresponds
        to a loss down to one minor unit of the currency.
        """
        facts, is_ruined, is_last = self.advance(action)
        reward = math.log(max(facts.nav, 1) / facts.nav_before)
        return self.observation(), reward, is_ruined, is_last

    def advance(self, action: int) -> tuple[StepFacts, bool, bool]:
        """Settle a decision. Return its amounts, whether the account is ruined, and whether this
        was the last day.
        """
        market = self.market
        before = self.nav
        order = self._order(action)
        orders = () if order is None else (order,)
        settled = settle(self._account, market.tape.day(self.row + 1), orders, self.row)
        self._account = settled.after
        self.nav = settled.nav_minor
        self.row += 1

        facts = StepFacts(
            nav_before=before,
            nav=self.nav,
            traded=sum(outcome.notional_minor for outcome in settled.outcomes),
            asset_return=self._asset_return(),
        )
        return facts, self.nav <= 0, self.row == self.stop - 1

    def _order(self, action: int) -> Order | None:
        """Return the order that a decision leads to; None if the position does not change."""
        market = self.market
        exposure = 0.0
        if self.nav > 0:
            exposure = abs(self.nav - self._account.cash_minor) / self.nav

        fees = market.tape.rules.venues[market.asset].fees
        standing = Standing(market.rule.compute_invested(fees, exposure))
        wanted = market.rule.side(DECISIONS[action], self.side)
        change = market.rule.trade(wanted, self.side, standing)
        if change is None:
            return None

        side, target = change
        return Order(market.asset, side, 0.5, "", target)

    def _asset_return(self) -> float:
        """Return the asset's log return from the previous row's close to this row's."""
        before, now = self.market.known[self.row - 1 : self.row + 1].tolist()
        if now == before or now < 2:
            return 0.0
        return float(self.market.returns[now - 2])
