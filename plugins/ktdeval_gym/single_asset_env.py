"""Gymnasium environments for one asset: a single environment, and a vector of N."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from ktdeval.errors import DataError, UsageError
from ktdeval.market import FloatArray
from ktdeval.task_api import Window
from ktdeval.trading import open_account
from ktdeval_gym.action_submissions import Decision
from ktdeval_gym.fill_kernel import Kernel, KernelAccounts
from ktdeval_gym.policy import DECISIONS, LIMIT, Vector
from ktdeval_gym.recording import EpisodeWriter, no_writer
from ktdeval_gym.rewards import RewardConfig, Rewards, StepAmounts
from ktdeval_gym.single_asset_simulation import AssetMarket, IntArray, TradingSimulation
from ktdeval_gym.vector_base import StepwiseVectorEnv

BoolArray = npt.NDArray[np.bool_]
Info = dict[str, Any]
_PRIOR_RETURNS = 250
_MIN_RETURNS = 2


def prior_scale(market: AssetMarket, span: Window) -> float:
    """Return the standard deviation of the last log returns, at most 250, that are known when the
    first fill of a span is decided.

    Raises DataError if there are fewer than two returns, or if the price did not move.
    """
    first = int(np.searchsorted(market.snapshot.days, np.datetime64(span.first))) - 1
    last = int(market.known[first]) - 1 if first >= 0 else 0
    returns = market.returns[max(0, last - _PRIOR_RETURNS) : max(0, last)]
    scale = float(np.std(returns)) if len(returns) >= _MIN_RETURNS else 0.0
    if scale == 0.0:
        raise DataError(
            f"task {market.task.name}: the price does not move before {span.first}, so that returns"
            " have no scale; choose a later window"
        )
    return scale


class TradingEnv(gymnasium.Env[Vector, int]):  # type: ignore[misc]  # whose types are not read, so that it need not be installed
    """Environment for a `TradingSimulation`. Actions are indices into SELL, HOLD, BUY. An episode
    is truncated after the last day, and terminated if the account is ruined.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        simulation: TradingSimulation,
        reward: RewardConfig | None = None,
        render_mode: str | None = None,
        writer: EpisodeWriter = no_writer,
    ) -> None:
        """`writer`: called with the decisions of each finished episode."""
        self.simulation = simulation
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(
            -LIMIT, LIMIT, (simulation.lookback + 1,), np.float32
        )
        self.action_space = gymnasium.spaces.Discrete(len(DECISIONS))
        self._write = writer
        self._decisions: list[Decision] = []
        self._is_over = False
        self._rewards = Rewards(reward or RewardConfig(), np.array([simulation.scale]))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, Info]:
        """Restart with cash only. Nothing is random, so `seed` has no effect."""
        super().reset(seed=seed, options=options)
        self._decisions = []
        self._is_over = False
        self._rewards.reset(np.ones(1, dtype=np.bool_))
        return self.simulation.reset(), self.info()

    def step(self, action: int) -> tuple[Vector, float, bool, bool, Info]:
        """Settle one decision. Raises UsageError if the action is invalid, or if the episode is
        over.
        """
        if not self.action_space.contains(action):
            raise UsageError(f"action {action!r} is not 0 (SELL), 1 (HOLD) or 2 (BUY)")
        if self._is_over:
            raise UsageError("the episode is over; call reset()")

        self._decisions.append(DECISIONS[int(action)])
        facts, is_ruined, is_last = self.simulation.advance(int(action))
        reward = self._rewards.of_one(facts.nav_before, facts.nav, facts.traded, facts.asset_return)
        self._is_over = is_ruined or is_last
        if self._is_over:
            limit = None if is_last else len(self._decisions)
            self._write({step: (taken,) for step, taken in enumerate(self._decisions)}, limit)

        return self.simulation.observation(), reward, is_ruined, is_last, self.info()

    def info(self) -> Info:
        """Return what is known at this close, with true identities: asset, day, close, NAV,
        side.
        """
        market = self.simulation.market
        row = self.simulation.row
        last = int(market.known[row]) - 1
        minor = market.tape.rules.minor_per_unit
        return {
            "asset": market.snapshot.codes[market.asset],
            "day": str(market.snapshot.days[row]),
            "close": float(market.snapshot.close[market.traded[last], market.asset]),
            "nav": self.simulation.nav / minor,
            "side": self.simulation.side,
        }

    def render(self) -> str | None:
        """Return one line of text on the current close, or None without a render mode."""
        if self.render_mode is None:
            return None
        return render_info(self.info())


def render_info(info: Info) -> str:
    """Return one line of text on an environment's `info`."""
    held = {1: "long", 0: "flat", -1: "short"}[info["side"]]
    return (
        f"{info['day']}  {info['asset']}  close {info['close']:g}  NAV {info['nav']:,.2f}  {held}"
    )


@dataclass
class _EnvProgress:
    """State of each environment, [N]."""

    row: IntArray  #: row on which the next decision is made
    is_over: BoolArray  #: whether the next step restarts the environment


class TradingVectorEnv(StepwiseVectorEnv):
    """N environments for one asset that step together, each over its own span.

    Every step is bit-identical to N `TradingEnv` under `gymnasium.vector.SyncVectorEnv`: after an
    episode ends, the next step restarts it and ignores the action.
    """

    def __init__(
        self, simulations: Sequence[TradingSimulation], reward: RewardConfig | None = None
    ) -> None:
        """`simulations`: one for each environment, all on the same market and with the same
        lookback.

        Raises UsageError if there are no simulations, or if they differ in market or lookback.
        """
        if not simulations:
            raise UsageError("a vector environment needs at least one window")

        first = simulations[0]
        shared = {(id(each.market), each.lookback) for each in simulations}
        if len(shared) > 1:
            raise UsageError("the environments of a vector share one market and one lookback")

        self._set_spaces(
            len(simulations),
            gymnasium.spaces.Box(-LIMIT, LIMIT, (first.lookback + 1,), np.float32),
            gymnasium.spaces.Discrete(len(DECISIONS)),
        )
        self._market = first.market
        self._kernel = Kernel(first.market)
        self._lookback = first.lookback
        self._windows = sliding_window_view(first.market.returns, first.lookback)
        self._scales = np.array([each.scale for each in simulations])
        self._first = np.array([each.first for each in simulations])
        self._last = np.array([each.stop - 1 for each in simulations])
        self._rewards = Rewards(reward or RewardConfig(), self._scales)
        minor_per_unit = first.market.tape.rules.minor_per_unit
        self._cash = open_account(first.market.trading, minor_per_unit).cash_minor
        self.begin()

    def begin(self) -> None:
        """Start all environments with cash only."""
        size = self.num_envs
        self._progress = _EnvProgress(self._first.copy(), np.zeros(size, dtype=np.bool_))
        cash = np.full(size, self._cash, dtype=np.int64)
        self._accounts = KernelAccounts(cash, np.zeros(size, dtype=np.int64), cash.copy())
        self._rewards.reset(np.ones(size, dtype=np.bool_))

    def step(self, actions: npt.ArrayLike) -> tuple[Vector, FloatArray, BoolArray, BoolArray, Info]:
        """Settle a decision in each environment. Arrays are [N]. Raises UsageError if there are not
        N decisions.
        """
        chosen = np.asarray(actions)
        if chosen.shape != (self.num_envs,) or not np.isin(chosen, range(len(DECISIONS))).all():
            raise UsageError(f"actions must be {self.num_envs} of 0 (SELL), 1 (HOLD), 2 (BUY)")

        begins = self._progress.is_over
        active = ~begins
        before = self._accounts
        rows = self._progress.row
        orders = self._kernel.orders(chosen.astype(np.int64), before)
        # the row of an environment that will be restarted may be the market's last
        safe_rows = np.where(begins, self._first, rows)
        after, traded = self._kernel.settle(before, safe_rows, orders)
        safe_nav = np.where(begins, self._cash, before.nav)
        amounts = StepAmounts(safe_nav, after.nav, traded, self._asset_returns(safe_rows + 1))
        rewards = np.where(active, self._rewards.of(amounts, active), 0.0)

        self._accounts = KernelAccounts(
            np.where(begins, self._cash, after.cash),
            np.where(begins, 0, after.held),
            np.where(begins, self._cash, after.nav),
        )
        self._rewards.reset(begins)
        row = np.where(begins, self._first, rows + 1)
        is_ruined = active & (self._accounts.nav <= 0)
        is_last = active & (row == self._last)
        self._progress = _EnvProgress(row, is_ruined | is_last)
        return self.observations(), rewards, is_ruined, is_last, self.info()

    def _asset_returns(self, rows: IntArray) -> FloatArray:
        known = self._market.known
        now = known[rows]
        has_moved = (now > known[rows - 1]) & (now >= 2)
        return np.where(has_moved, self._market.returns[np.maximum(now - 2, 0)], 0.0)

    def observations(self) -> Vector:
        """Return the current observations, [N, lookback + 1]."""
        last = self._market.known[self._progress.row] - 1
        returns = self._windows[last - self._lookback] / self._scales[:, None]
        observed = np.empty((self.num_envs, self._lookback + 1), dtype=np.float32)
        observed[:, :-1] = np.clip(returns, -LIMIT, LIMIT)
        observed[:, -1] = np.sign(self._accounts.held)
        return observed

    def info(self) -> Info:
        """Return the NAV and side of each account, [N]."""
        minor = self._market.tape.rules.minor_per_unit
        return {"nav": self._accounts.nav / minor, "side": np.sign(self._accounts.held)}
