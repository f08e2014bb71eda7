"""What reinforcement learning finds in ktdeval's environments: a planted signal, a leaked future,
and nothing in a placebo.

    python benchmarks/gym_learning.py [SEEDS] [STEPS]

Each of A2C, PPO and DQN trains on the first 500 days of a market of 1,000, and is judged on the
later ones, as a share of the oracle's reward: that of the policy which is always right.

* planted: a price falls after a day that rose and rises after one that fell (planted_signal.py)
* leak: directions are drawn, and one more feature of the observation is the next day's return
* placebo: the same market without that feature; the share of a policy without skill has a standard
  deviation of about 1 / sqrt(days) of the oracle's, since each day adds its own size or takes it

Needs the extra `rl`.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any, get_args

import gymnasium
import numpy as np
from planted_signal import DAYS, TRAINED, share, simulation_of

from ktdeval_gym.policy import LIMIT, Algorithm
from ktdeval_gym.rl.train import learn_in
from ktdeval_gym.single_asset_env import TradingEnv
from ktdeval_gym.single_asset_simulation import TradingSimulation

DRAWN = 0.5  # share of days against the plant: directions are drawn
MIN_LEAKED = 0.9
LARGEST_T = 3.0
LATER = (TRAINED + 1, DAYS - 1)


class LeakedFuture(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Adds the next day's scaled return to the observation: a leak, made on purpose."""

    def __init__(self, env: TradingEnv) -> None:
        super().__init__(env)
        self.simulation = env.simulation
        size = env.observation_space.shape[0] + 1
        self.observation_space = gymnasium.spaces.Box(-LIMIT, LIMIT, (size,), np.float32)

    def observation(self, observation: Any) -> Any:
        """Return the features and the return to the next close."""
        ahead = next_return(self.simulation) / self.simulation.scale
        return np.append(observation, np.float32(np.clip(ahead, -LIMIT, LIMIT)))


def next_return(simulation: TradingSimulation) -> float:
    """Return the log return to the next close; 0 after the last."""
    last = int(simulation.market.known[simulation.row]) - 1
    returns = simulation.market.returns
    return float(returns[last]) if last < len(returns) else 0.0


def scaled(env: Any, scale: float) -> Any:
    """Return an environment with rewards in units of the returns' standard deviation."""
    return gymnasium.wrappers.TransformReward(env, lambda reward: reward / scale)


def total_reward(env: Any, act: Callable[[Any], int]) -> float:
    """Return the sum of an episode's rewards."""
    observation, _ = env.reset(seed=0)
    total = 0.0
    is_over = False
    while not is_over:
        observation, reward, is_ruined, is_last, _ = env.step(act(observation))
        total += reward
        is_over = is_ruined or is_last

    return total


def share_on_drawn(algorithm: Algorithm, seed: int, steps: int, *, leaks: bool) -> float:
    """Return the share of the oracle's reward on later days of a market of drawn directions."""
    trained = simulation_of(DRAWN, seed, (11, TRAINED))
    evaluated = simulation_of(DRAWN, seed, LATER, trained.scale)
    wrap: Callable[[TradingEnv], Any] = LeakedFuture if leaks else lambda env: env
    learner = learn_in(scaled(wrap(TradingEnv(trained)), trained.scale), algorithm, steps, seed)

    def decide(observation: Any) -> int:
        return int(learner.predict(observation, deterministic=True)[0])

    def foresee(_observation: Any) -> int:
        return 2 if next_return(evaluated) > 0 else 0

    got = total_reward(wrap(TradingEnv(evaluated)), decide)
    return got / total_reward(TradingEnv(evaluated), foresee)


def main(seeds: int = 3, steps: int = 10_000) -> int:
    """Print the shares of each algorithm. Return 1 if one misses its bar."""
    days = LATER[1] - LATER[0] + 1
    noise = 1 / math.sqrt(days)
    print(
        f"share of the oracle's reward on {days} later days, {steps:,} steps, seeds 0 to {seeds - 1}"
    )
    missed = []
    for algorithm in get_args(Algorithm):
        for name in ("planted", "leak", "placebo"):
            began = time.perf_counter()
            shares = []
            for seed in range(seeds):
                if name == "planted":
                    shares.append(share(algorithm, 0.0, seed, steps))
                else:
                    shares.append(share_on_drawn(algorithm, seed, steps, leaks=name == "leak"))

            mean = float(np.mean(shares))
            t = mean / (noise / math.sqrt(seeds))
            holds = abs(t) <= LARGEST_T if name == "placebo" else min(shares) >= MIN_LEAKED
            told = " ".join(f"{one:7.1%}" for one in shares)
            verdict = "holds" if holds else "MISSED"
            taken = time.perf_counter() - began
            print(
                f"{algorithm}  {name:8} {told}  t {t:6.1f}  {verdict}  {taken:5.1f} s", flush=True
            )
            if not holds:
                missed.append(f"{algorithm} {name}")

    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
