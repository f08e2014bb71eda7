"""Roll-outs that a second process runs, and that can be told to wait."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from ktdeval_gym.policies.rollouts import RolloutJob, roll_out_all

NAME = "ktdeval_gym.envs:ktdeval/Trading-v0"
WINDOW = "2020-10-02:2020-10-30"


def make_env() -> Any:
    """A short episode of the default task."""
    import gymnasium

    return gymnasium.make(NAME, windows=WINDOW)


class Drawing:
    """Policy of drawn actions."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, _observation: Any) -> Any:
        return self._rng.integers(3, size=1)


class Waiting(Drawing):
    """Policy that stops in the middle of the episode of seed 1 until it is killed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._waits_at = 5 if seed == 1 else -1
        self._step = 0

    def __call__(self, observation: Any) -> Any:
        while self._step == self._waits_at:
            time.sleep(0.05)

        self._step += 1
        return super().__call__(observation)


def jobs(policy: type[Drawing], number: int = 3) -> list[RolloutJob]:
    """Jobs that differ in their seeds."""
    return [RolloutJob(f"seed-{seed}", make_env, policy, seed) for seed in range(number)]


if __name__ == "__main__":
    from gym_processes import Waiting as Importable

    roll_out_all(jobs(Importable), Path(sys.argv[1]), processes=2)
