"""N environments for a multi-asset task that step together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ktdeval.errors import UsageError
from ktdeval.market import FloatArray
from ktdeval.task_api import Window
from ktdeval_gym.action_submissions import Decision
from ktdeval_gym.arrays import Observed, TaskForm, spaces_of
from ktdeval_gym.open_task import OpenedTask
from ktdeval_gym.portfolio_simulation import SimulatedPortfolio, portfolios
from ktdeval_gym.rewards import RewardConfig, Rewards, StepAmounts
from ktdeval_gym.task_env import TaskEnv, benchmark_return, market_minor, market_scale

BoolArray = npt.NDArray[np.bool_]
Info = dict[str, Any]


def make_task_vector(
    opened: OpenedTask, windows: Sequence[Window], reward: RewardConfig | None = None
) -> VectorEnv:
    """Return one environment for each window.

    Under a mask that rounds figures or adds noise to them, each environment is a `TaskEnv`: the
    account then depends on the prices shown, and is kept by a run.
    """
    task = opened.task
    lens = task.scene(opened.spec(windows[0]), opened.snapshot).lens
    if not lens.mask.is_coarse:
        return PortfolioVectorEnv(opened, windows, reward)

    return gymnasium.vector.SyncVectorEnv(
        [partial(TaskEnv, opened, window, reward) for window in windows],
        autoreset_mode=AutoresetMode.NEXT_STEP,
    )


class PortfolioVectorEnv(VectorEnv):  # type: ignore[misc]  # whose types are not read, so that it need not be installed
    """N accounts for a multi-asset task, each in its own window.

    Every step is bit-identical to N `TaskEnv` under `gymnasium.vector.SyncVectorEnv`: after an
    episode ends, the next step restarts it and ignores the action.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium declares it
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self, opened: OpenedTask, windows: Sequence[Window], reward: RewardConfig | None = None
    ) -> None:
        """Raises UsageError if no window is given, or if the windows do not share one form."""
        if not windows:
            raise UsageError("a vector environment needs at least one window")

        self._opened = opened
        self._accounts = portfolios(opened, windows)
        self._form = _one_form(self._accounts)
        observation, action = spaces_of(self._form)
        self.num_envs = len(windows)
        self.render_mode = None
        self.single_observation_space = observation
        self.single_action_space = action
        self.observation_space = batch_space(observation, self.num_envs)
        self.action_space = batch_space(action, self.num_envs)
        scale_of: dict[Window, float] = {}
        for window in dict.fromkeys(windows):
            scale_of[window] = market_scale(opened, opened.spec(window))
        scales = np.array([scale_of[window] for window in windows])
        self._rewards = Rewards(reward or RewardConfig(), scales)
        self._minor_per_unit = market_minor(opened)
        self._is_over = np.zeros(self.num_envs, dtype=np.bool_)

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observed, Info]:
        """Restart all accounts with cash only. Nothing is random, so `seed` has no effect."""
        if not isinstance(seed, list):
            super().reset(seed=seed, options=options)
        for account in self._accounts:
            account.reset()
        everyone = np.ones(self.num_envs, dtype=np.bool_)
        self._is_over = ~everyone
        self._rewards.reset(everyone)
        return self._observations(), self._info()

    def step(
        self, actions: npt.ArrayLike
    ) -> tuple[Observed, FloatArray, BoolArray, BoolArray, Info]:
        """Settle an action in each environment. Arrays are [N]. Raises UsageError if there are not
        N actions.
        """
        given = np.asarray(actions)
        if given.shape[:1] != (self.num_envs,):
            raise UsageError(
                f"actions must be {self.num_envs} rows, one for each environment, not an array of"
                f" shape {given.shape}"
            )

        begins = self._is_over
        taken = [self._form.read_action(row) for row in given]
        amounts = [self._settle_action(index, chosen) for index, chosen in enumerate(taken)]
        nav_before, nav, traded, benchmark, is_ruined, is_last = map(
            np.array, zip(*amounts, strict=True)
        )
        rewards = self._rewards.of(StepAmounts(nav_before, nav, traded, benchmark), ~begins)
        rewards = np.where(begins, 0.0, rewards)
        self._rewards.reset(begins)
        self._is_over = is_ruined | is_last
        return self._observations(), rewards, is_ruined, is_last, self._info()

    def _settle_action(
        self, index: int, taken: Sequence[Decision | float]
    ) -> tuple[int, int, int, float, bool, bool]:
        """Settle one environment's action, or restart the environment.

        Return NAV before and after, the notional traded, the benchmark's log return, and whether
        the account is ruined or the episode has ended.
        """
        account = self._accounts[index]
        if self._is_over[index]:
            account.reset()
            return account.nav_minor, account.nav_minor, 0, 0.0, False, False

        before = account.nav_minor
        row = account.row
        is_ruined, is_last = account.settle(taken)
        benchmark = benchmark_return(self._opened.market_levels, row, account.row)
        return before, account.nav_minor, account.traded_minor, benchmark, is_ruined, is_last

    def _observations(self) -> Observed:
        """Return the current observations, arrays of [N, …]."""
        arrays = {
            name: np.zeros((self.num_envs, *values.shape), dtype=values.dtype)
            for name, values in self._form.empty().items()
        }
        for index, account in enumerate(self._accounts):
            account.write({name: values[index] for name, values in arrays.items()})
        return arrays

    def _info(self) -> Info:
        """Return the NAV of each account, [N]."""
        navs = np.array([account.nav_minor for account in self._accounts])
        return {"nav": navs / self._minor_per_unit}


def _one_form(accounts: Sequence[SimulatedPortfolio]) -> TaskForm:
    """Return the form that all accounts share. Raises UsageError if forms differ."""
    forms = {account.form for account in accounts}
    if len(forms) > 1:
        raise UsageError(
            "the windows show different figures; make a vector environment for each window"
        )
    return forms.pop()
