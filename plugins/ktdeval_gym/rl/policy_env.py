"""The environment in which a policy is trained: a task on one asset as `rl/policy` sees it."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np

from ktdeval_gym.policies.policy import DECISIONS, LIMIT, Vector, features, shown_asset, shown_side
from ktdeval_gym.policies.policy_training import PolicyTraining
from ktdeval_gym.portfolio_simulation import DecisionPortfolio, TaskWindow

Info = dict[str, Any]


class PolicyEnv(gymnasium.Env[Vector, int]):  # type: ignore[misc]  # whose types are not read, so that it need not be installed
    """Environment of a training. Observations are the features that `rl/policy` reads from a
    prompt, [lookback + 1] float32. Actions are indices into SELL, HOLD, BUY. The reward is the log
    return of NAV up to the next close.

    An episode is truncated after the last day, and terminated if the account is ruined: if its NAV
    is not positive. The reward then corresponds to a loss down to one minor unit of the currency.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, training: PolicyTraining) -> None:
        """Begin the first episode."""
        self.training = training
        self.account = DecisionPortfolio(TaskWindow(training.opened, training.span))
        size = training.lookback + 1
        self.observation_space = gymnasium.spaces.Box(-LIMIT, LIMIT, (size,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(len(DECISIONS))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, Info]:
        """Restart with cash only. Nothing is random, so `seed` has no effect."""
        super().reset(seed=seed, options=options)
        self.account.reset()
        return self._observation(), {}

    def step(self, action: int) -> tuple[Vector, float, bool, bool, Info]:
        """Settle one decision."""
        before = self.account.nav_minor
        is_ruined, is_last = self.account.settle([DECISIONS[int(action)]])
        reward = math.log(max(self.account.nav_minor, 1) / before)
        return self._observation(), reward, is_ruined, is_last, {}

    def _observation(self) -> Vector:
        state = self.account.state
        asset, closes = shown_asset(state)
        side = shown_side(state, asset)
        return features(closes, side, self.training.lookback, self.training.scale)
